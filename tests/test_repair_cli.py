"""`resume --machine`, `--model`, `--price`, `--param`: what is told, taken and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit import load
from loopkit import resume as resume_in_python
from loopkit.agents.players import AgentChanges
from loopkit.cli import invoke as run
from loopkit.cli.machine import options_by_agent
from loopkit.language.agents.model import ModelAgent
from tests.machines import loop
from tests.test_cli import only_run

MACHINE = loop(
    "[{min_chars: 9}]",
    {"valid": "done"},
    "{revise: draft, max: 1}",
    "{target: failed}",
    top="agents: {writer: {model: openai/gpt-5-mini, retry: {attempts: 1}}}",
    draft="draft: {agent: writer, prompt: Write., output: plan}",
    result="plan",
)
SCRIPT = """
scenario: 1
agents:
  writer: [short, [{fault: bad_request, message: no such model}, long enough]]
"""


@pytest.fixture(autouse=True)
def suspended(own_folder: Path, capsys: Any) -> str:
    """A run that stopped at a call that failed for good."""
    Path("plan.yaml").write_text(MACHINE, encoding="utf-8")
    Path("script.yaml").write_text(SCRIPT, encoding="utf-8")
    assert run(["run", "plan.yaml", "--script", "script.yaml"]) == 4
    capsys.readouterr()
    return only_run()


def edit(old: str, new: str) -> None:
    text = Path("plan.yaml").read_text(encoding="utf-8")
    assert old in text
    Path("plan.yaml").write_text(text.replace(old, new), encoding="utf-8")


def events(capsys: pytest.CaptureFixture[str], name: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(["runs", "logs", name, "--jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_changed_is_shown_and_stored(
    suspended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit("Write.", "Write more.")
    assert run(["resume", suspended, "--machine", "plan.yaml"]) == 0
    told = capsys.readouterr()
    assert "continues with a changed machine (1 change):\n" in told.err
    assert "  states.draft.prompt: Write. → Write more.\n" in told.err
    assert told.out == "long enough\n"
    stored = events(capsys, suspended)
    assert [e["type"] for e in stored].count("repaired") == 1
    assert run(["runs", "logs", suspended]) == 0
    assert "states.draft.prompt: Write. → Write more." in capsys.readouterr().out


def test_a_resume_says_that_the_file_has_changed_and_how_to_use_it(
    suspended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit("Write.", "Write more.")
    assert run(["resume", suspended]) == 0
    told = capsys.readouterr().err
    assert "note: plan.yaml has changed since this run read it" in told
    assert f"loopkit resume {suspended} --machine plan.yaml" in told


def test_python_warns_of_it_too(suspended: str) -> None:
    edit("Write.", "Write more.")
    with pytest.warns(RuntimeWarning, match=r"plan\.yaml has changed .* give it as `machine`"):
        assert resume_in_python(suspended).outcome


@pytest.mark.parametrize("text", ["# A comment, and nothing else.\n", ""])
def test_a_file_that_says_the_same_is_no_news(
    suspended: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.yaml").write_text(text + MACHINE, encoding="utf-8")
    assert run(["resume", suspended]) == 0
    assert "has changed" not in capsys.readouterr().err


def test_what_was_changed_for_the_run_alone_is_no_news(
    suspended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--script", "script.yaml", "--model", "writer=openai/gpt-5", "--output", "quiet"]
    assert run(["run", "plan.yaml", *argv]) == 4
    name = only_run()
    assert name != suspended
    capsys.readouterr()
    assert run(["resume", name]) == 0
    assert "has changed" not in capsys.readouterr().err
    edit("Write.", "Write more.")
    assert run(["run", "plan.yaml", *argv]) == 4
    name = only_run()
    edit("Write more.", "Write much more.")
    capsys.readouterr()
    assert run(["resume", name]) == 0
    assert "has changed" in capsys.readouterr().err


def test_a_file_that_is_gone_is_no_news(suspended: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.yaml").unlink()
    assert run(["resume", suspended]) == 0
    assert "plan.yaml" not in capsys.readouterr().err


def test_what_does_not_fit_is_refused_at_its_place(
    suspended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit("{revise: draft, max: 1}", "{guard: attempt < 2, revise: draft, max: 1}")
    assert run(["resume", suspended, "--machine", "plan.yaml"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error[does-not-fit]: the run took `- {revise: draft}` out of")
    assert "(states.judge.transitions)" in told
    assert "help: keep its guard and its target" in told
    # Another process can still go on with it as it was.
    Path("plan.yaml").write_text(MACHINE, encoding="utf-8")
    assert run(["resume", suspended]) == 0


def test_a_machine_with_errors_is_refused_before_the_run_is_touched(
    suspended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit("guard: valid", "guard: vlid")
    before = len(events(capsys, suspended))
    assert run(["resume", suspended, "--machine", "plan.yaml"]) == 2
    assert "did you mean `valid`?" in capsys.readouterr().err
    assert len(events(capsys, suspended)) == before


def test_model_price_and_param_change_the_stored_definition(
    suspended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.yaml").unlink()
    options = ["--model", "writer=ollama/llama3", "--price", "writer=0"]
    params = ["--param", "writer.max_tokens=4000", "--param", "writer.thinking.type=on"]
    assert run(["resume", suspended, *options, *params]) == 0
    told = capsys.readouterr().err
    assert "  agents.writer.model.0: openai/gpt-5-mini → ollama/llama3\n" in told
    assert "  agents.writer.price: nothing → 0.0\n" in told
    assert "  agents.writer.params.max_tokens: nothing → 4000\n" in told
    assert '  agents.writer.params.thinking: nothing → {"type": "on"}\n' in told
    asked = [e["model"] for e in events(capsys, suspended) if e["type"] == "intended"]
    assert asked == ["openai/gpt-5-mini", "openai/gpt-5-mini", "ollama/llama3"]


def test_options_are_set_by_their_dotted_names_and_null_takes_one_away() -> None:
    edit("retry:", "params: {temperature: 0.2, thinking: {type: on, budget: 9}}, retry:")
    params = options_by_agent(
        ["writer.temperature=null", "writer.thinking.budget=20", "writer.effort=low"]
    )
    agent = AgentChanges(params=params).apply_to(load("plan.yaml").machine).agents["writer"]
    assert isinstance(agent, ModelAgent)
    assert agent.params == {"thinking": {"type": "on", "budget": 20}, "effort": "low"}


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--model", "witer=openai/gpt-5"], "did you mean `writer`?"),
        (["--param", "witer.max_tokens=1"], "did you mean `writer`?"),
        (["--param", "writer=1"], "is not of the form `agent.key=value`"),
        (["--param", "writer..x=1"], "is not of the form `agent.key=value`"),
        (["--param", "writer.max_tokens"], "is not of the form `agent.key=value`"),
        (["--param", "writer.api_key=sk-1"], "keys come from the environment"),
        (["--param", "writer.model=x"], "`model` is not an option that can be passed on"),
        (["--param", "writer.max_tokens=many"], "`max_tokens` is not a number of tokens"),
        (["--price", "writer=cheap"], "is not a number"),
        (["--base-url", "writer=127.0.0.1:8000"], "begins with http:// or https://"),
        (["--base-url", "draft/writer=http://127.0.0.1"], "did you mean `writer`?"),
        (["--set", "limits.agent_calls=1"], "`limits.agent_calls` can't be 1 in this run"),
        (["--machine", "gone.yaml"], "gone.yaml"),
    ],
)
def test_what_can_not_be_taken_is_refused_and_nothing_is_stored(
    suspended: str, argv: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["resume", suspended, *argv]) == 2
    assert told in capsys.readouterr().err
    assert "resumed" not in [event["type"] for event in events(capsys, suspended)]


def test_a_repaired_run_is_a_case_of_the_machine_as_it_is_now(
    suspended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["resume", suspended, "--param", "writer.max_tokens=4000"]) == 0
    assert run(["runs", "record", suspended, "plan.scenario.yaml"]) == 0
    assert "; it passes" in capsys.readouterr().err
    assert run(["test", "plan.scenario.yaml"]) == 0


def test_the_same_from_python(suspended: str) -> None:
    edit("Write.", "Write more.")
    done = resume_in_python(
        suspended, machine="plan.yaml", models={"writer": "ollama/llama3"}, prices={"writer": 0},
        params={"writer": {"max_tokens": 9}}, base_urls={"writer": "http://127.0.0.1:9"},
    )  # fmt: skip
    assert done.result == {"plan": "long enough"}
