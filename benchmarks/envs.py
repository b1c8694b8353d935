"""One virtual environment a peer, made where it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES: dict[str, tuple[str, ...]] = {
    "raw": (),
    "loopkit": (str(ROOT),),
    "burr": ("apache-burr==0.43.0",),
    "langgraph": ("langgraph", "langgraph-checkpoint-sqlite"),
}
DISTRIBUTIONS = {"loopkit": "loopkit", "burr": "apache-burr", "langgraph": "langgraph"}
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")


@dataclass(frozen=True)
class Environment:
    """A peer's Python and the version of what it measures."""

    python: Path
    version: str


def environments(folder: Path, peers: Iterable[str] = PACKAGES) -> dict[str, Environment]:
    """The environment of each peer; loopkit is installed anew from this checkout."""
    return {peer: _environment(folder.absolute() / peer, peer) for peer in peers}


def child_variables() -> dict[str, str]:
    """What the measured processes see: no `PYTHON*`, so that byte code is cached and read."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def _environment(folder: Path, peer: str) -> Environment:
    python = folder / "bin" / "python"
    made = folder / "made"
    if not made.exists():
        print(f"making the environment of {peer}", file=sys.stderr)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _install(python, *PACKAGES[peer])
        made.touch()
    elif peer == "loopkit":
        _install(python, "--force-reinstall", "--no-deps", *PACKAGES[peer])
    return Environment(python, _version(python, peer))


def _install(python: Path, *packages: str) -> None:
    if packages:
        quiet = ("--quiet", "--quiet", "--disable-pip-version-check")
        _run([str(python), "-m", "pip", "install", *quiet, *packages])


def _version(python: Path, peer: str) -> str:
    if peer not in DISTRIBUTIONS:
        return _run([str(python), "-c", "import sqlite3; print(sqlite3.sqlite_version)"])
    code = f"from importlib.metadata import version; print(version({DISTRIBUTIONS[peer]!r}))"
    return _run([str(python), "-c", code])


def _run(argv: list[str]) -> str:
    """What a command prints; raises SystemExit with its last words where it fails."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} failed:\n{done.stderr[-2000:]}")
    return done.stdout.strip()
