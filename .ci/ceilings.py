"""Print the size of the code, and fail where it is above a ceiling of `pyproject.toml`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
CEILINGS = "[tool.loopkit.ceilings] of pyproject.toml"


def tracked(*patterns: str) -> list[Path]:
    """The files that git tracks, by patterns of their paths; one that is deleted counts as gone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file()]


def lines_in(paths: Iterable[Path]) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in paths)


def measured() -> dict[str, float]:
    """Each size by the name of its ceiling."""
    code, text = tracked("loopkit/*.py"), tracked("loopkit")
    size, text_lines = sum(path.stat().st_size for path in text), lines_in(text)
    return {
        "modules": len(code),
        "lines": lines_in(code),
        "longest-module": max(lines_in([path]) for path in code),
        "text-bytes": size,
        "bytes-per-line": round(size / text_lines, 2),
        "test-lines": lines_in(tracked("tests/*.py")),
        "golden-lines": lines_in(tracked("tests/cases")),
    }


def main() -> int:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ceilings, sizes = settings["tool"]["loopkit"]["ceilings"], measured()
    if ceilings.keys() != sizes.keys():
        print(f"{CEILINGS} has to name: {', '.join(sizes)}", file=sys.stderr)
        return 1
    above = [name for name, size in sizes.items() if size > ceilings[name]]
    for name, size in sizes.items():
        mark = "  ABOVE THE CEILING" if name in above else ""
        print(f"{name:<15} {size:>12,} of {ceilings[name]:>12,}{mark}")
    if above:
        print(f"make it smaller; raising a number in {CEILINGS} takes a reason beside it")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
