"""The base of each kind of path: a run works in the same folder wherever it is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopkit.cli import invoke

WHERE = """
loopkit: 1
input: {name: {type: str, default: x}}
WORKSPACE
states:
  where: {run: [pwd], transitions: [{guard: exit_code == 0, target: done}, {target: failed}]}
  done: {final: success, result: where}
  failed: {final: failure}
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with its state folder above, and machines in a folder of it."""
    for name in (".loopkit", "app/proj", "proj"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, workspace: str) -> None:
    Path(path).write_text(WHERE.replace("WORKSPACE", workspace and f"workspace: {workspace}"))


@pytest.mark.parametrize(
    ("workspace", "place"),
    [
        ("", "app"),
        ("{path: .}", "app"),
        ("{path: proj}", "app/proj"),
        ("{path: ..}", "."),
        ("{path: ../proj}", "proj"),
        ("{path: 'made/{{ input.name }}', create: true}", "app/made/x"),
    ],
)
def test_a_workspace_starts_at_the_machine_file_from_wherever_it_is_started(
    workspace: str, place: str, project: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    write("app/m.yaml", workspace)
    wanted = f"{(project / place).resolve()}\n"
    for folder, file in ((".", "app/m.yaml"), ("app", "m.yaml"), ("proj", "../app/m.yaml")):
        monkeypatch.chdir(project / folder)
        assert invoke(["run", file]) == 0
        said = capsys.readouterr()
        assert (said.out, said.err.partition("\n")[0]) == (wanted, f"workspace: {wanted.strip()}")
    monkeypatch.setenv("LOOPKIT_STATE", str(project / "elsewhere/state"))
    assert (invoke(["run", "../app/m.yaml"]), capsys.readouterr().out) == (0, wanted)
    assert invoke(["plan", "../app/m.yaml"]) == 0
    assert f"\nworkspace: {wanted}" in capsys.readouterr().out


def test_the_remedy_for_a_missing_workspace_works(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "app/proj").rmdir()
    write("app/m.yaml", "{path: proj}")
    assert invoke(["run", "app/m.yaml"]) == 2
    said = capsys.readouterr().err
    assert f"workspace {project}/app/proj does not exist: paths start at the machine file" in said
    [remedy] = re.findall("add `(.*?)`", said)
    write("app/m.yaml", f"{{path: proj, {remedy}}}")
    assert (invoke(["run", "app/m.yaml"]), capsys.readouterr().out) == (0, f"{project}/app/proj\n")


@pytest.mark.parametrize("workspace", ["", "{path: missing}", "{path: .., create: true}"])
def test_another_workspace_can_be_given_for_a_run(
    workspace: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("app/m.yaml", workspace)
    assert invoke(["run", "app/m.yaml", "--workspace", "proj"]) == 0
    assert capsys.readouterr().out == f"{project}/proj\n"
    assert invoke(["run", "app/m.yaml", "--workspace", "no"]) == 2


def test_only_what_is_written_leads_up(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("app/m.yaml", "{path: '{{ input.name }}'}")
    assert invoke(["run", "app/m.yaml", "--set", "name=../proj"]) != 0
    assert "contains '..'" in capsys.readouterr().err


def test_the_workspace_of_a_machine_that_a_state_runs_starts_at_its_own_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "app/parts/own").mkdir(parents=True)
    Path("app/m.yaml").write_text(
        "loopkit: 1\nstates:\n"
        "  run_it: {machine: parts/part.yaml, transitions: [{target: done}]}\n"
        "  done: {final: success, result: run_it}\n"
    )
    for path, place in (("own", "app/parts/own"), ("../proj", "app/proj"), ("../..", ".")):
        write("app/parts/part.yaml", f"{{path: {path}}}")
        invoke(["run", "app/m.yaml"])
        assert str((project / place).resolve()) in "".join(capsys.readouterr())
