"""What a person is shown of the tools that agents call: lines, status, questions, diagrams."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from loopkit.app import App
from loopkit.cli import invoke
from loopkit.engine.events import Intended, Replied
from loopkit.engine.telemetry import Figures
from loopkit.language.load import load
from loopkit.machine.graph import Graph
from loopkit.views.amounts import usage_text
from loopkit.views.diagram.mermaid import mermaid
from loopkit.views.diagram.model import drawing
from tests.support import Desk, Played, console_lines, progress_of, scenario, sound
from tests.test_progress import shown, until

MACHINE = """
loopkit: 1
limits: {feedback_items: 1}
agents:
  planner:
    model: openai/gpt-5-mini
    retry: {attempts: 2, backoff: 1ms}
    schema: {nodes: [str]}
    tools:
      validate_plan: {by: [graph]}
      search: {command: [grep, "{{ word }}", words.txt], input: {word: str}}
    require_tool: validate_plan
validators:
  graph:
    - {require: nodes.count > 0, message: There is no node.}
    - {require: nodes.count > 1, severity: warning, message: There is no second node.}
states:
  plan: {agent: planner, prompt: Plan it., next: check}
  check:
    validate: plan
    by: [graph]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""
COST = {"cost_usd": 0.01, "usage": {"output": 100}}
GOOD = {"nodes": ["a"]}


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "input": arguments}], **COST}


ATTEMPT = [
    calling("validate_plan", draft={"nodes": []}),
    {"fault": "rate_limit"},
    calling("search", word="plan"),
    calling("delete", everything=True),
    {"data": GOOD, **COST},
    calling("validate_plan", draft=GOOD),
    {"data": GOOD, **COST},
]


def played(desk: Desk) -> Played:
    results = [{"exit_code": 1}]
    script = scenario(agents={"planner": [ATTEMPT]}, commands={"planner.search": results})
    return desk.play(MACHINE, script)


def test_each_call_of_a_tool_is_a_line_with_what_it_gave(desk: Desk) -> None:
    """S3.21: who watches a run sees each draft that was rejected."""
    run = played(desk)
    assert run.outcome == "done"
    lines = [" ".join(line.split()).partition(" · again")[0] for line in console_lines(run)[1:]]
    asks = "plan asks `planner` (openai/gpt-5-mini)"
    assert lines == [
        asks,
        'plan calls `planner.validate_plan`: {"draft": {"nodes": []}}',
        "1 finding, 1 warning",
        f"{asks} again",
        "failed (transient): 429: rate limit reached",
        asks,
        'plan calls `planner.search`: {"word": "plan"}',
        "exit 1",
        f"{asks} again",
        'plan calls `planner.delete`: {"everything": true}',
        "Error: there is no tool `delete`; there are `validate_plan`…",
        f"{asks} again",
        f"{asks} again: Call the tool `validate_plan` with your whole answer as its…",
        'plan calls `planner.validate_plan`: {"draft": {"nodes": ["a"]}}',
        "valid, 1 warning",
        f"{asks} again",
        "plan plan, attempt 1: 16 characters · 600 tokens · $0.0600",
        "→ check",
        "check warn · 1 warning",
        "- warning: There is no second node.",
        "→ done",
        "done (success)",
    ]


def test_the_status_names_the_tool_and_counts_the_calls_of_agents(desk: Desk) -> None:
    run = played(desk)
    progress, at = until(run, Intended, 2)
    assert "calls planner.validate_plan 4 s · $0.0100 · attempt 1 · 1 call" in shown(
        progress, at + 4
    )
    ended = progress_of(run.stored)
    assert ended.calls == 7
    usage = run.state.usage
    assert (usage.agent_calls, usage.tool_calls) == (7, 4)
    assert usage_text(usage) == "7 calls · 4 tool calls · 600 tokens · $0.0600"


def test_a_tool_that_cannot_be_started_is_told_by_its_name(desk: Desk) -> None:
    script = scenario(
        agents={"planner": [[calling("search", word="plan")]]},
        commands={"planner.search": [{"fault": "not_found"}]},
    )
    lines = console_lines(desk.play(MACHINE, script))
    assert any("`planner.search` failed (fatal)" in line for line in lines)


def test_what_a_tool_takes_is_counted_with_its_author(desk: Desk) -> None:
    run = played(desk)
    figures = Figures()
    for event in run.events:
        figures.take(event)
    (phase, _) = figures.phases
    assert (phase.state, phase.works, phase.corrections) == ("plan", 1, 0)
    calls = [event.usage for event in run.of(Replied)]
    assert sum(usage.time_s for usage in calls) <= run.state.usage.time_s


def test_a_diagram_names_the_tools_of_a_state(desk: Desk) -> None:
    graph = Graph(load(desk.write("machine.yaml", MACHINE)).machine)
    assert "s_plan : may call validate_plan, search\n" in mermaid(drawing(graph))


SLOW = """
loopkit: 1
agents:
  planner:
    model: openai/gpt-5-mini
    tools:
      deploy:
        command: [sh, -c, "echo begun > begun; test -e stop || exec sleep 60"]
        input: {to: str}
        stdin: "{{ to }}"
states:
  plan: {agent: planner, prompt: Plan it., on_error: failed, next: done}
  done: {final: success, result: plan}
  failed: {final: failure}
"""


async def killed(desk: Desk, machine: Path) -> str:
    """A run whose process ends while it calls its tool."""
    app = App.open(desk.state_folder)
    app.folder = desk.folder
    script = scenario(agents={"planner": [[calling("deploy", to="production"), "Deployed."]]})
    active = await app.start(sound(machine), {}, desk.script(script))
    driving = asyncio.create_task(app.drive(active))
    while not (desk.folder / "begun").exists():  # noqa: ASYNC110 - a program makes it
        await asyncio.sleep(0.01)
    driving.cancel()
    with suppress(asyncio.CancelledError):
        await driving
    await app.close()
    return active.state.run


def test_a_person_decides_about_a_tool_whose_call_is_in_doubt(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_memory=False)
    run = asyncio.run(killed(desk, desk.write("machine.yaml", SLOW)))
    waiting = desk.resume(run)
    (question,) = waiting.questions
    assert question.text == (
        'The process ended while `planner.deploy` with {"to": "production"} was being called, so '
        "the call may have been made, and a program may still be at work. Make it again, or let it "
        "count as failed?"
    )
    desk.write("stop", "")
    again = desk.answer(run, "retry")
    assert again.outcome == "done"
    assert [event.agent for event in again.of(Intended)].count("planner.deploy") == 2


def test_whoever_removes_a_run_is_told_of_the_tool_that_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Desk(tmp_path, in_memory=False)
    run = asyncio.run(killed(desk, desk.write("machine.yaml", SLOW)))
    monkeypatch.chdir(tmp_path)
    assert invoke(["runs", "rm", run]) == 0
    told = capsys.readouterr().err
    assert f"run {run} is removed; it had called `planner.deploy`" in told
    assert "without an answer" not in told
