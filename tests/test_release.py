"""What is published: its name, what a wheel holds, the hooks of pre-commit and the action."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

import loopkit
from loopkit.shipped import shipped, shipped_machines
from tests.support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for folder in ("loopkit", "docs", "deploy", "benchmarks", "tests", ".")
    for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
    if path.suffix in {".py", ".md", ".html", ".yaml", ".toml"} and path.is_file()
}


def test_what_is_installed_has_the_name_of_the_distribution() -> None:
    assert PROJECT["name"] == loopkit.DISTRIBUTION
    assert version(loopkit.DISTRIBUTION) == loopkit.__version__
    assert PROJECT["scripts"] == {"loopkit": "loopkit.cli:main"}


def test_every_line_that_says_what_to_install_names_the_distribution_and_an_extra_that_is() -> None:
    # `loopkit` of the index is somebody else's package.
    of_another = re.compile(r"\binstall\b[^`\n]* '?loopkit(?![-\w/.])|\bloopkit\[\w+\]")
    ours = re.compile(r"(?:loopkit-runner|\{DISTRIBUTION\})\[([\w,]+)\]")
    extras: set[str] = set()
    for name, text in TEXTS.items():
        for line in text.splitlines():
            if name not in {"CHANGELOG.md", "tests/test_release.py"}:
                assert not of_another.search(line), f"{name}: {line}"
            extras.update(extra for match in ours.finditer(line) for extra in match[1].split(","))
    assert {"mcp", "otel", "postgres", "serve"} <= extras
    assert extras <= PROJECT["optional-dependencies"].keys()


def test_the_name_of_the_distribution_stands_once_in_the_code() -> None:
    named = [name for name, text in TEXTS.items() if loopkit.DISTRIBUTION in text]
    assert [name for name in named if name.startswith("loopkit/")] == ["loopkit/__init__.py"]


def test_the_shipped_files_of_a_clone_are_its_own() -> None:
    machines = shipped_machines()
    assert machines["release_notes"] == ROOT / "machines/release_notes.yaml"
    assert {path.parent for path in machines.values()} == {ROOT / "machines"}
    assert len(machines) >= 10
    assert not any("scenario" in name for name in machines)
    assert (shipped("schemas") / "machine.schema.json").is_file()
