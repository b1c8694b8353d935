"""The README's commands, run as a new user would: in an empty environment, in a fresh copy."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from tests.providers.openai_mock import OpenAIMock
from tests.support import ROOT, copied
from tests.test_tutorial import TUTORIAL, assert_shows

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    command
    for block in re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for command in block.strip().splitlines()
]
TEST_COMMAND = COMMANDS[-1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's files in a folder of their own, as a clone has them."""
    return copied(tmp_path_factory.mktemp("readme") / "loopkit")


def ran(command: str, copy: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the README with nothing but a path and a home."""
    python = copy.parent / "bin"
    python.mkdir(exist_ok=True)
    if not (python / "python3").exists():
        (python / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    kept = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    proxies = {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
    environment = {"PATH": f"{python}:/usr/bin:/bin", "HOME": str(copy.parent), "LANG": "C.UTF-8"}
    # Each module that is used is compiled when it is imported; all others need not be. (pip reads
    # this variable as the value of `compile`.)
    environment["PIP_NO_COMPILE"] = "0"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=copy, env={**kept, **proxies, **environment, **more},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip


def test_the_readme_has_one_command_for_the_main_job_and_one_for_the_tests() -> None:
    assert len(COMMANDS) == 2
    assert "loopkit run machines/plan_review.yaml" in COMMANDS[0]
    assert "pytest" in TEST_COMMAND


def assert_accepted(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    plan = (ROOT / "machines/plan_review/plans/3_good.md").read_text(encoding="utf-8")
    assert json.loads(done.stdout)["plan"] == plan
    assert "accepted (success)" in done.stderr


def test_the_line_for_a_local_model_can_be_planned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    [line] = [line for line in README.splitlines() if "ollama" in line and "loopkit run" in line]
    _, *words = shlex.split(line)
    assert words[0] == "run"
    assert run(["plan", *words[1:]]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^  calls +1 +125 +\$0\.00$", told, re.MULTILINE)


def test_the_first_command_prints_the_plan(copy: Path) -> None:
    # In the environment of these tests; `-m long`, which CI runs, sets up the one that it names.
    *set_up, command = COMMANDS[0].split(" && ")
    assert set_up == ["python3 -m venv .venv", ".venv/bin/pip install -q ."]
    program = copy / ".venv/bin/loopkit"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m loopkit "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    assert_accepted(ran(command, copy))
    shutil.rmtree(copy / ".venv")


@pytest.mark.long
def test_the_first_command_sets_up_what_models_and_cases_need(copy: Path) -> None:
    assert_accepted(ran(COMMANDS[0], copy))
    # In this environment is nothing but what loopkit names: does it suffice to call a model?
    server = OpenAIMock()
    try:
        done = ran(f".venv/bin/python tests/canary.py {server.base_url}", copy)
    finally:
        server.stop()
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
    # And do scenario files become tests, in a project with nothing but a machine and its cases?
    shutil.copytree(copy / "machines", copy.parent / "project")
    install, collect = ".venv/bin/pip install -q pytest pytest-xdist", "pytest -q -n 2 ../project"
    done = ran(f"{install} && .venv/bin/{collect} -c /dev/null --rootdir ../project", copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d{2,} passed", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.long
def test_the_second_command_sets_up_and_finds_every_test(copy: Path) -> None:
    # CI runs this same command and shows that they pass; here they are collected only.
    done = ran(TEST_COMMAND, copy, PYTEST_ADDOPTS="--collect-only")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert re.search(r"\d{3,} tests collected", done.stdout), done.stdout[-500:]


def test_the_first_machine_of_the_readme_is_short() -> None:
    machine = README.split("```yaml\n", 1)[1].split("```", 1)[0]
    assert machine == (ROOT / "machines/release_notes.yaml").read_text(encoding="utf-8")
    assert len(machine.splitlines()) <= 15


@pytest.mark.parametrize(
    ("command", "shown"),
    re.findall(
        r"^\.venv/bin/loopkit (.*)\n```\n\n```\n([^`]+(?:`[^`]+)*?)^```$", README, re.MULTILINE
    ),
)
def test_a_command_of_the_readme_prints_what_stands_below_it(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LOOPKIT_STATE", str(tmp_path))
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        assert run(shlex.split(command)) == 0
    assert_shows(shown, printed.getvalue())


def test_what_the_readme_shows_of_a_kill_stands_in_the_tutorial() -> None:
    _, *parts = README.split("```text\n")
    commands = [line for part in parts for line in part.partition("```")[0].splitlines()]
    assert len(commands) == 3
    assert [text for text in (*commands, parts[0].split("```\n")[2]) if text not in TUTORIAL] == []


def test_the_broken_machine_of_the_readme_gives_the_message_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (fragment,) = re.findall(r"^```yaml\n(  .*?)^```$", README, re.MULTILINE | re.DOTALL)
    (message,) = re.findall(r"^```\n(error.*?)^```$", README, re.MULTILINE | re.DOTALL)
    whole = (ROOT / "machines/plan_review.yaml").read_text(encoding="utf-8")
    begin, end = whole.index("  validate:\n"), whole.index("  approved:")
    broken = whole[:begin] + fragment + "\n" + whole[end:]
    Path("plan_review.yaml").write_text(broken, encoding="utf-8")
    assert run(["check", "plan_review.yaml"]) == 1
    assert message.strip() in capsys.readouterr().out
