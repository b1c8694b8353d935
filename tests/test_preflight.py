"""Preflight: what runs need of this computer is missed before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopkit.agents.model.keys import ALL_VARIABLES
from loopkit.cli import invoke
from loopkit.document.reading import read_file
from loopkit.drive.preflight import Need, needs_of
from loopkit.language.load import load_text
from tests.support import ROOT

MACHINES = sorted((ROOT / "machines").glob("*.yaml"))
MACHINES = [path for path in MACHINES if not path.name.endswith(".scenario.yaml")]
SECRET = "tea-key-that-nobody-sees"


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without keys and programs; the folder of its PATH."""
    for name in ALL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.chdir(tmp_path)
    return programs


def machine(by: str, agents: str = "", top: str = "") -> str:
    return f"""
loopkit: 1
{top}
agents: {{w: {{command: [none]}}, {agents}}}
states:
  draft: {{agent: w, prompt: Write., output: plan, next: check}}
  check:
    validate: plan
    by: {by}
    transitions: [{{guard: valid, target: done}}, {{revise: draft, max: 2}}, {{target: failed}}]
  done: {{final: success, result: plan}}
  failed: {{final: failure}}
"""


def given(text: str, **inputs: object) -> list[Need]:
    return needs_of(load_text(text, "m.yaml", Path()).machine, inputs=inputs)


JUDGE = "[{judge: j, rubric: [It is good.]}]"


@pytest.mark.parametrize(
    ("text", "missing", "noted"),
    [
        (machine("[{command: [pytset]}]"), {"none", "pytset"}, set()),
        (machine("[{command: [./pytset]}]"), {"none"}, set()),
        (machine("[{command: [/no/pytset]}]"), {"none"}, {"/no/pytset"}),
        (machine("[{command: [pytset], guard: attempt > 1}]"), {"none"}, {"pytset"}),
        (machine("[{command: [pytset], guard: input.x}]", top="input: {x: bool}"),
         {"none"}, set()),
        (machine("[{command: ['{{ input.p }}']}]", top="input: {p: str}"),
         {"none", "pytset"}, set()),
        (machine("[{command: ['{{ plan }}']}]"), {"none"}, set()),
        (machine(JUDGE, "j: {model: openai/m}"), {"none", "OPENAI_API_KEY"}, set()),
        (machine(JUDGE, "j: {model: openai/m, api_key_env: OURS}"), {"none", "OURS"}, set()),
        (machine(JUDGE, "j: {model: ollama/m}"), {"none"}, set()),
        (machine(JUDGE, "j: {model: groq/m, base_url: 'http://x'}"), {"none"}, {"GROQ_API_KEY"}),
        (machine(JUDGE, "j: {model: [groq/m, xai/m]}"), {"none", "GROQ_API_KEY"}, {"XAI_API_KEY"}),
        (machine(JUDGE, "j: {model: groq/m, fallbacks: [xai/m]}"),
         {"none", "GROQ_API_KEY"}, {"XAI_API_KEY"}),
        (machine(JUDGE, "j: {model: azure/m}"), {"none"}, {"AZURE_API_KEY"}),
        (machine(JUDGE, "j: {model: ollama/m, tools: {t: {mcp: s.t}, f: {command: [find]}}}",
                 "mcp: {s: {command: [serverd]}}"), {"none", "serverd", "find"}, set()),
        (machine(JUDGE, "j: {model: ollama/m, tools: {t: {mcp: s.t}}}",
                 "mcp: {s: {url: 'http://x', headers: {a: '${SIGN_IN}'}}}"),
         {"none", "SIGN_IN"}, set()),
        (machine("[{min_chars: 3}]", "unused: {model: openai/m}"), {"none"}, set()),
    ],
)  # fmt: skip
def test_what_a_run_surely_needs_is_told_from_what_it_may_need(
    text: str, missing: set[str], noted: set[str]
) -> None:
    needs = given(text, x=False, p="pytset")
    assert {need.name.split()[1] for need in needs if need.is_missing} == missing
    assert {n.name.split()[1] for n in needs if n.lack and not n.is_sure} == noted


def test_one_of_the_variables_of_a_provider_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    text = machine(JUDGE, "j: {model: openrouter/m}")
    assert [need.is_missing for need in given(text)] == [True, True]
    monkeypatch.setenv("OR_API_KEY", SECRET)
    assert [need.name for need in given(text) if need.is_missing] == ["program none"]


def listed(said: str) -> list[str]:
    """The names in a list of what is missing."""
    _, _, said = said.partition("issing here")
    lines = [line for line in said.splitlines() if line.startswith("- ")]
    return [line.split(" is not ")[0].split(" ", 2)[2] for line in lines]


def inputs_of(path: Path) -> list[str]:
    """Options that set the inputs without a default to something."""
    declared = read_file(path, str(path)).plain().get("input") or {}
    needed = [k for k, v in declared.items() if not (isinstance(v, dict) and "default" in v)]
    first = read_file(path.with_suffix(".scenario.yaml"), "").plain()
    case = next(iter(first["cases"].values())) if "cases" in first else first
    values = {**(first.get("input") or {}), **(case.get("input") or {})}
    values = {k: v for k, v in values.items() if not (isinstance(v, dict) and "file" in v)}
    Path("in.json").write_text(json.dumps({k: values.get(k, "Tea.") for k in needed}))
    return ["-i", "in.json"]


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_a_shipped_machine_lists_in_an_empty_environment_what_its_run_lacks(
    path: Path, every: int, empty: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """No less: with all of it nothing is missing. No more: without any one of it that is."""
    run = ["run", str(path), *inputs_of(path)]
    code, names = invoke(run), listed(capsys.readouterr().err)
    assert (code, bool(names)) == (2, True)
    assert (invoke(["runs", "ls"]), capsys.readouterr().out) == (0, "")

    def give(name: str) -> None:
        if name.isupper() or " or " in name:
            monkeypatch.setenv(name.split(" or ", maxsplit=1)[0], SECRET)
        else:
            (empty / name).symlink_to("/bin/true")

    def take(name: str) -> None:
        if name.isupper() or " or " in name:
            monkeypatch.delenv(name.split(" or ", maxsplit=1)[0])
        else:
            (empty / name).unlink()

    for name in names:
        give(name)
    assert invoke(["doctor", str(path)]) == 0
    assert SECRET not in "".join(capsys.readouterr())
    for name in names[::every]:
        take(name)
        assert (invoke(run), listed(capsys.readouterr().err)) == (2, [name])
        give(name)


def test_plan_and_doctor_mark_what_is_missing_and_serve_does_not_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("m.yaml").write_text(machine(JUDGE, "j: {model: openai/m}"))
    assert invoke(["plan", "m.yaml"]) == 0
    assert listed(capsys.readouterr().out) == ["none", "OPENAI_API_KEY"]
    assert invoke(["doctor", "m.yaml"]) == 2
    assert "missing: key OPENAI_API_KEY is not set" in capsys.readouterr().out
    assert invoke(["serve", "m.yaml", "--answer", "--port", "0"]) == 2
    assert listed(capsys.readouterr().err) == ["none", "OPENAI_API_KEY"]
    assert invoke(["check", "m.yaml"]) == 0


def test_what_a_scenario_plays_is_not_needed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.yaml").write_text(machine("[{command: [pytset]}]"))
    Path("s.yaml").write_text(
        "scenario: 1\nagents: {w: [Tea.]}\ncommands: {'by[0]': [{exit_code: 0}]}\n"
    )
    assert invoke(["run", "m.yaml", "--script", "s.yaml"]) == 0


def test_a_run_goes_on_without_what_only_earlier_states_needed(
    capsys: pytest.CaptureFixture[str], empty: Path
) -> None:
    Path("m.yaml").write_text(
        "loopkit: 1\nstates:\n"
        "  first: {run: [once], next: ask}\n"
        "  ask: {human: Go on?, choices: [yes_], transitions: [{target: done}]}\n"
        "  done: {final: success, result: first}\n"
    )
    (empty / "once").symlink_to("/bin/true")
    assert invoke(["run", "m.yaml"]) == 5
    (empty / "once").unlink()
    said = capsys.readouterr().err
    run = next(word for word in said.split() if word.startswith("m-")).strip(":")
    assert invoke(["answer", run, "yes_"]) == 0
