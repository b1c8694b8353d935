"""What is published: its name, what a wheel holds, the hooks of pre-commit and the action."""

from __future__ import annotations

import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from ruamel.yaml import YAML

import loopkit
from tests.support import ROOT, CommandLine, copied

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
    named = re.findall(r"\bv\d+\.[\d.]*", TEXTS["docs/how-to/ci.md"])
    assert {*named} == {f"v{loopkit.__version__}"}


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
    assert {"mcp", "otel", "postgres", "serve"} <= extras <= PROJECT["optional-dependencies"].keys()
    named = [name for name, text in TEXTS.items() if loopkit.DISTRIBUTION in text]
    assert [name for name in named if name.startswith("loopkit/")] == ["loopkit/__init__.py"]


HOOKS = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ACTION = YAML(typ="safe").load((ROOT / ".ci/action.yml").read_text(encoding="utf-8"))
FAULTS = {
    "check": ("notes.yaml", "guard: valid", "guard: vald", "unknown-name"),
    "test": ("notes.scenario.yaml", "writer: 3", "writer: 4", "1 failed"),
    "diagram": ("notes.mmd", "draft", "drift", "out of date"),
}
"""What each command finds: the file, its text, what stands there instead, and what is said."""


@pytest.fixture
def project(own_folder: Path) -> Path:
    """Somebody's project, with a machine, its cases and its picture."""
    (own_folder / "machines").mkdir()
    for path in (ROOT / "machines").glob("release_notes.*"):
        text = path.read_text(encoding="utf-8").replace("release_notes", "notes")
        (own_folder / "machines" / path.name.replace("release_notes", "notes")).write_text(text)
    return own_folder


def spoil(project: Path, command: str) -> str:
    """What `command` says of the project, after one of its files was changed."""
    name, before, after, said = FAULTS[command]
    path = project / "machines" / name
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    return said


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_a_hook_passes_a_project_and_finds_its_fault(
    hook: dict[str, str], project: Path, cli: CommandLine
) -> None:
    program, *argv = shlex.split(hook["entry"])
    assert program == "loopkit"
    cli(0, *argv, *hook["args"])
    said = spoil(project, argv[0])
    assert said in "".join(cli(1, *argv, *hook["args"]))


def act(project: Path, place: Path, commands: str = "") -> subprocess.CompletedProcess[str]:
    """What the action does, as the runner of GitHub would call it; `place` is its own folder."""
    (step,) = ACTION["runs"]["steps"]
    given = {"inputs.commands": commands or ACTION["inputs"]["commands"]["default"]}
    given["inputs.folders"] = ACTION["inputs"]["folders"]["default"]
    env = {name: given[value.strip("${ }")] for name, value in step["env"].items()}
    runner = {"GITHUB_ACTION_PATH": str(ROOT / ".ci"), "RUNNER_TEMP": str(place)}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=project, env={**os.environ, **runner, **env},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a runner in which the action has been before, with this loopkit."""
    folder = tmp_path_factory.mktemp("runner")
    program = folder / "loopkit/bin/loopkit"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m loopkit "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return folder


def test_the_action_runs_every_command_and_shows_a_problem_at_its_line(
    project: Path, place: Path
) -> None:
    out_of_date = spoil(project, "diagram")
    done = act(project, place, "diagram run test")
    assert done.returncode == 1
    for told in (out_of_date, "::error::loopkit has no command `run`", "2 cases passed"):
        assert told in done.stdout + done.stderr
    spoil(project, "check")
    assert "::error file=machines/notes.yaml,line=11" in act(project, place).stdout


# What follows builds and installs, which takes a minute, and needs an index of packages.


def did(*argv: str | Path, cwd: Path, code: int = 0, **more: str) -> str:
    """What a program says that has to end with this code, in an environment of no one's."""
    others = ("PYTHON", "VIRTUAL_ENV", "LOOPKIT")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    done = subprocess.run(
        [*map(str, argv)], cwd=cwd, env={**kept, **more},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


UV = (sys.executable, "-m", "uv")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files of this one, and a commit."""
    folder = copied(tmp_path_factory.mktemp("release") / "clone")
    as_somebody = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    for words in (("init", "-q"), ("add", "."), (*as_somebody, "commit", "-qm", "All")):
        did("git", *words, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def built(clone: Path) -> Path:
    """The folder with the source distribution, and with the wheel that was built of it."""
    did(*UV, "build", "-q", "--out-dir", clone.parent / "built", clone, cwd=clone.parent)
    return clone.parent / "built"


@pytest.fixture(scope="module")
def installed(built: Path) -> Path:
    """The programs of an environment with nothing but the wheel and what it names."""
    environment, (wheel,) = built.parent / "environment", built.glob("*.whl")
    did(*UV, "venv", "-q", "--python", sys.executable, environment, cwd=built)
    python = environment / "bin/python"
    did(*UV, "pip", "install", "-q", "--python", python, wheel, cwd=built)
    return python.parent


def metadata(built: Path) -> Message:
    (wheel,) = built.glob("*.whl")
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return email.message_from_string(archive.read(name).decode())


@pytest.mark.long
def test_a_release_holds_its_machines_and_says_whose_it_is(built: Path) -> None:
    said = metadata(built)
    assert (said["Name"], said["Author"]) == (loopkit.DISTRIBUTION, "loopkit contributors")
    assert (said["License-Expression"], said["License-File"]) == ("Apache-2.0", "LICENSE")
    assert "Project-URL" not in said
    assert said.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    inside = set(ZipFile(wheel).namelist())
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert "loopkit/py.typed" in inside
    for folder in ("machines", "schemas"):
        listed = did("git", "ls-files", folder, cwd=ROOT).split()
        assert packed.issuperset(listed)
        assert {name for name in inside if name.startswith(f"loopkit/{folder}/")} == {
            f"loopkit/{name}" for name in listed
        }


@pytest.mark.long
def test_every_address_of_a_release_is_made_of_one_value(clone: Path, tmp_path: Path) -> None:
    address, moved = "https://example.org/us/loopkit", tmp_path / "moved"
    shutil.copytree(clone, moved)
    project = moved / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    assert text.count('repository = ""') == 1
    project.write_text(text.replace('repository = ""', f'repository = "{address}"'), "utf-8")
    did(*UV, "build", "-q", "--wheel", "--out-dir", tmp_path, moved, cwd=tmp_path)
    said = metadata(tmp_path)
    urls = dict(line.split(", ") for line in said.get_all("Project-URL", []))
    assert {*urls} == {"Source", "Documentation", "Changelog", "Issues"}
    links = re.findall(r"\]\(([^)]*)\)", str(said.get_payload()))
    assert f"{address}/blob/v{loopkit.__version__}/docs/reference/index.md" in links
    assert [link for link in (*urls.values(), *links) if not link.startswith(address)] == []


@pytest.mark.long
def test_a_first_machine_comes_from_a_wheel_in_under_a_minute(
    installed: Path, tmp_path: Path
) -> None:
    def loopkit_says(command: str) -> str:
        return did(installed / "loopkit", *shlex.split(command), cwd=tmp_path)

    start = time.monotonic()
    assert "code_fix" in loopkit_says("ls")
    told = loopkit_says("new tea")
    commands = re.findall(r"^  loopkit (.*(?:tea|'))$", told, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["check", "test", "plan", "run"]
    assert "Exports of empty tables no longer fail." in [*map(loopkit_says, commands)][-1]
    assert time.monotonic() - start < 60
    shutil.copytree(installed.parent, tmp_path / "venv", symlinks=True)
    assert "1 file: no errors" in loopkit_says("check")
    assert "typically" in loopkit_says("plan release_notes --set commits=x")
    assert "machines" in {path.name for path in tmp_path.iterdir()}
    assert not [*installed.parent.glob("lib/*/site-packages/loopkit/machines/**/.loopkit")]


@pytest.mark.long
def test_pre_commit_runs_the_hooks_of_a_clone(
    clone: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Where it installs; and of what it installs, only what is imported is compiled.
    own = {"PRE_COMMIT_HOME": str(tmp_path_factory.mktemp("hooks")), "PIP_NO_COMPILE": "0"}
    rev = did("git", "rev-parse", "HEAD", cwd=clone).strip()
    named = [{"id": hook["id"], "args": ["machines"]} for hook in HOOKS]
    with (project / ".pre-commit-config.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump({"repos": [{"repo": str(clone), "rev": rev, "hooks": named}]}, file)
    did("git", "init", "-q", cwd=project)
    did("git", "add", ".", cwd=project)
    pre_commit = (*UV, "tool", "run", "-q", "pre-commit")
    did(*pre_commit, "validate-manifest", clone / ".pre-commit-hooks.yaml", cwd=project)
    assert did(*pre_commit, "run", cwd=project, **own).count("Passed") == len(HOOKS)
    said = [spoil(project, command) for command in ("diagram", "test", "check")]
    did("git", "add", ".", cwd=project)
    told = did(*pre_commit, "run", cwd=project, code=1, **own)
    assert told.count("Failed") == len(HOOKS)
    assert said[-1] in told


@pytest.mark.long
def test_the_action_installs_loopkit_where_it_is_not_there(project: Path, tmp_path: Path) -> None:
    done = act(project, tmp_path, "check test diagram")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "loopkit/bin/loopkit").exists()
