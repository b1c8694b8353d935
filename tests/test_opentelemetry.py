"""Traces, as a real collector receives them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

import loopkit
from loopkit.app import App
from loopkit.cli import invoke
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import Replied
from loopkit.observability import observers, observers_within
from loopkit.observability.otel.conventions import model_name, provider_of
from loopkit.observability.otel.library import Emitter, Span, Trace
from loopkit.observability.otel.observer import RunSpans, TelemetryObserver
from loopkit.testing import load_suite, play
from tests.collector import CLIENT, INTERNAL, Collector, Received, collector
from tests.machines import loop
from tests.support import ROOT, Desk, sound
from tests.test_event_lines import PARENT, TASK, runs_of
from tests.waiting import until
from tests.warm import Process, ran_loopkit

REQUIRED = {
    "invoke_workflow": {"gen_ai.operation.name", "gen_ai.workflow.name", "gen_ai.agent.name"},
    "invoke_agent": {
        "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.agent.name",
        "gen_ai.conversation.id", "gen_ai.request.model",
    },
    "chat": {
        "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.conversation.id",
        "gen_ai.request.model", "gen_ai.response.finish_reasons",
    },
    "execute_tool": {
        "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type",
    },
}  # fmt: skip
"""By operation: what the conventions require of a span, or recommend, and is known here."""
NAMED_BY = {
    "invoke_workflow": "gen_ai.workflow.name",
    "invoke_agent": "gen_ai.agent.name",
    "chat": "gen_ai.request.model",
    "execute_tool": "gen_ai.tool.name",
}
"""By operation: what its name ends with."""
KINDS = {
    "invoke_workflow": INTERNAL, "invoke_agent": INTERNAL, "chat": CLIENT, "execute_tool": INTERNAL,
}  # fmt: skip
TYPES: dict[str, type] = {
    "gen_ai.usage.input_tokens": int, "gen_ai.usage.output_tokens": int,
    "gen_ai.usage.cache_read.input_tokens": int, "gen_ai.response.finish_reasons": list,
    "loopkit.cost_usd": float, "loopkit.success": bool, "loopkit.findings": int,
}  # fmt: skip
MACHINE = """
loopkit: 1
name: tea
input: {topic: {type: str, default: herons}}
agents:
  writer: {model: openai/gpt-5-mini, retry: {attempts: 2, backoff: 0.01s}}
  critic: {model: anthropic/claude-sonnet-4-5, system: Be strict.}
states:
  write:
    agent: writer
    prompt: "Write of {{ input.topic }}. {{ feedback }}"
    output: note
    next: check
  check:
    validate: note
    by: [{judge: critic, prompt: Judge the heron.}, {max_chars: 40}]
    transitions:
      - {guard: valid, target: ask}
      - {revise: write, max: 2, emit: note_rejected}
      - {target: failed}
  ask:
    human: Good?
    choices: [yes, no]
    transitions: [{guard: choice == "yes", target: done}, {target: failed}]
  done: {final: success, result: note}
  failed: {final: failure}
"""
SCENARIO = """
scenario: 1
agents:
  writer:
    - - {fault: server_error}
      - {reply: A heron., usage: {input: 100, output: 20}, cost_usd: 0.5}
    - {reply: A grey heron., usage: {input: 200, output: 30}, cost_usd: 0.25}
  critic:
    - {data: {verdict: fail, findings: [{message: Which heron?, severity: error}]}, cost_usd: 0.125}
    - {data: {verdict: pass, findings: []}}
answers: {ask: [yes]}
"""


@pytest.fixture(autouse=True)
def _here(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    Path("machine.yaml").write_text(MACHINE, encoding="utf-8")
    Path("scenario.yaml").write_text(SCENARIO, encoding="utf-8")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, in_memory=False)


@pytest.fixture
def collected() -> Iterator[Collector]:
    with collector() as received:
        yield received


RUN = ("run", "machine.yaml", "--script", "scenario.yaml", "--output", "quiet")


def sent(to: Collector, *argv: str, code: int = 0, **env: str) -> list[Received]:
    """The spans that a command sends."""
    before = len(to.spans)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**to.environment, **env}.items():
            patch.setenv(name, value)
        assert invoke(list(argv)) == code
    return to.spans[before:]


def tree(spans: list[Received]) -> list[tuple[str, str]]:
    """Each span with the one around it, in the order in which they ended."""
    names = {span.own: span.name for span in spans}
    assert len(names) == len(spans)
    return [(span.name, names[span.parent] if span.parent else "") for span in spans]


def test_a_run_is_one_trace_of_its_agents_calls_and_validate_states(collected: Collector) -> None:
    spans = sent(collected, *RUN)
    assert tree(spans) == [
        ("chat gpt-5-mini", "invoke_agent writer"),
        ("chat gpt-5-mini", "invoke_agent writer"),
        ("invoke_agent writer", "invoke_workflow tea"),
        ("chat claude-sonnet-4-5", "invoke_agent critic"),
        ("invoke_agent critic", "validate check"),
        ("validate check", "invoke_workflow tea"),
        ("chat gpt-5-mini", "invoke_agent writer"),
        ("invoke_agent writer", "invoke_workflow tea"),
        ("chat claude-sonnet-4-5", "invoke_agent critic"),
        ("invoke_agent critic", "validate check"),
        ("validate check", "invoke_workflow tea"),
        ("invoke_workflow tea", ""),
    ]
    assert len({span.trace for span in spans}) == 1
    by_id = {span.own: span for span in spans}
    for span in spans:
        assert span.start <= span.end
        around = by_id.get(span.parent, span)
        assert around.start <= span.start
        assert span.end <= around.end


def assert_conventional(span: Received) -> None:
    if span.operation:
        assert REQUIRED[span.operation] <= span.attributes.keys()
        assert span.name == f"{span.operation} {span.attributes[NAMED_BY[span.operation]]}"
        assert span.kind == KINDS[span.operation]
    assert span.is_error == ("error.type" in span.attributes)
    for name, kind in TYPES.items():
        assert isinstance(span.attributes.get(name, kind()), kind), name


def test_every_span_has_what_the_conventions_ask_of_its_operation(collected: Collector) -> None:
    failed, *spans = sent(collected, *RUN)
    assert failed.attributes["error.type"] == "transient"
    assert failed.is_error
    assert {span.operation for span in spans} == {"invoke_workflow", "invoke_agent", "chat", ""}
    for span in spans:
        assert_conventional(span)
    answered = spans[0]
    run = answered.attributes["gen_ai.conversation.id"]
    assert run.startswith("tea-")
    assert answered.attributes == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini", "gen_ai.agent.name": "writer",
        "gen_ai.response.finish_reasons": ["stop"], "gen_ai.conversation.id": run,
        "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20,
        "loopkit.run": run, "loopkit.machine": "tea", "loopkit.state": "write",
        "loopkit.visit": 1, "loopkit.role": "author", "loopkit.played": True,
        "loopkit.cost_usd": 0.5,
    }  # fmt: skip


def test_findings_revisions_and_costs_are_attributes_of_our_own(collected: Collector) -> None:
    spans = sent(collected, *RUN)
    first, second = (span for span in spans if span.name == "validate check")
    told = ("loopkit.verdict", "loopkit.findings", "loopkit.blocking", "loopkit.artifact_version")
    assert [first.attributes[name] for name in told] == ["fail", 1, 1, 1]
    assert [second.attributes[name] for name in told] == ["pass", 0, 0, 2]
    assert [name for name, _ in first.events] == ["gen_ai.evaluation.result"] * 2
    evaluations = [e["gen_ai.evaluation.score.label"] for _, e in first.events]
    assert sorted(evaluations) == ["fail", "pass"]
    once, again = (span for span in spans if span.name == "invoke_agent writer")
    assert (once.attributes["loopkit.attempt"], once.attributes.get("loopkit.revision")) == (
        1,
        None,
    )
    assert (again.attributes["loopkit.attempt"], again.attributes["loopkit.revision"]) == (2, 1)
    assert not once.is_error
    assert once.attributes["loopkit.calls"] == 2
    whole = spans[-1].attributes
    assert (whole["loopkit.cost_usd"], whole["loopkit.calls"], whole["loopkit.tokens"]) == (
        0.875,
        5,
        350,
    )
    assert (whole["loopkit.outcome"], whole["loopkit.success"]) == ("done", True)


def test_the_way_of_a_run_and_its_waiting_are_events_of_its_span(collected: Collector) -> None:
    whole = sent(collected, *RUN)[-1]
    decided = "loopkit.decided"
    names = [name for name, _ in whole.events]
    assert names == [
        decided, decided, "loopkit.emitted", decided, decided, "loopkit.waiting",
        "loopkit.answered", decided,
    ]  # fmt: skip
    told = dict(whole.events[-2:])
    assert told["loopkit.answered"] == {"loopkit.state": "ask", "loopkit.choice": "yes"}
    assert told[decided]["loopkit.target"] == "done"


def test_a_run_that_fails_has_an_error(collected: Collector) -> None:
    path = Path("scenario.yaml")
    path.write_text(SCENARIO.replace("ask: [yes]", "ask: [no]"), encoding="utf-8")
    whole = sent(collected, *RUN, code=1)[-1]
    assert whole.is_error
    assert whole.attributes["error.type"] == "failed"


def test_the_resource_names_loopkit_unless_a_variable_names_something_else(
    collected: Collector,
) -> None:
    sent(collected, *RUN)
    own = collected.resources[-1]
    assert (own["service.name"], own["service.version"]) == ("loopkit", loopkit.__version__)
    sent(collected, *RUN, OTEL_SERVICE_NAME="kettle")
    assert collected.resources[-1]["service.name"] == "kettle"
    assert collected.resources[-1]["service.instance.id"] != own["service.instance.id"]


def test_no_text_of_a_prompt_a_reply_or_a_finding_is_sent(collected: Collector) -> None:
    spans = sent(collected, *RUN)
    assert spans
    assert "heron" not in repr(spans)


# -- tools and children ------------------------------------------------------------------------

PLANNER = loop(
    "[graph]",
    {"valid": "done"},
    "{target: failed}",
    top="""
name: planner
agents:
  planner:
    model: openai/gpt-5-mini
    schema: {nodes: [{id: str, needs: int}]}
    tools:
      validate_plan: {by: [graph]}
      search: {command: [echo, "{{ word }}"], input: {word: str}}
    require_tool: validate_plan
validators:
  graph: [{each: "nodes[]", require: needs < 10, message: Too much of a heron.}]
""",
    draft="plan: {agent: planner, prompt: Plan it.}",
    judge="check",
    result="plan",
)
TALK = """
scenario: 1
agents:
  planner:
    - - tool_calls:
          - {name: validate_plan, input: {draft: {nodes: [{id: heron, needs: 20}]}}}
          - {name: search, input: {word: heron}}
      - tool_calls: [{name: validate_plan, input: {draft: {nodes: [{id: heron, needs: 2}]}}}]
      - data: {nodes: [{id: heron, needs: 2}]}
"""


def test_the_tools_that_an_agent_calls_belong_to_its_work(collected: Collector) -> None:
    Path("machine.yaml").write_text(PLANNER, encoding="utf-8")
    Path("scenario.yaml").write_text(TALK, encoding="utf-8")
    spans = sent(collected, *RUN)
    assert "heron" not in repr(spans)
    assert tree(spans) == [
        ("chat gpt-5-mini", "invoke_agent planner"),
        ("execute_tool validate_plan", "invoke_agent planner"),
        ("execute_tool search", "invoke_agent planner"),
        ("chat gpt-5-mini", "invoke_agent planner"),
        ("execute_tool validate_plan", "invoke_agent planner"),
        ("chat gpt-5-mini", "invoke_agent planner"),
        ("invoke_agent planner", "invoke_workflow planner"),
        ("validate check", "invoke_workflow planner"),
        ("invoke_workflow planner", ""),
    ]
    for span in spans:
        assert_conventional(span)
    assert spans[0].attributes["gen_ai.response.finish_reasons"] == ["tool_call"]
    assert spans[5].attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert {span.attributes["gen_ai.tool.type"] for span in spans[1:3]} == {"function"}


def test_a_tool_has_the_id_of_the_call_in_the_answer_of_its_model(collected: Collector) -> None:
    Path("machine.yaml").write_text(PLANNER, encoding="utf-8")
    Path("scenario.yaml").write_text(TALK, encoding="utf-8")
    spans = sent(collected, *RUN)

    async def stored() -> list[Stored]:
        async with App.open(Path(".loopkit")) as app:
            return list(await app.events(loopkit_runs()[0]))

    replies = [one.event for one in asyncio.run(stored()) if isinstance(one.event, Replied)]
    calls = [(called.name, called.id) for reply in replies for called in reply.tool_calls]
    tools = [span.attributes for span in spans if span.operation == "execute_tool"]
    assert [(t["gen_ai.tool.name"], t["gen_ai.tool.call.id"]) for t in tools] == calls
    assert [name for name, _ in calls] == ["validate_plan", "search", "validate_plan"]


def test_a_family_whose_child_is_answered_by_another_process_is_one_trace(
    collected: Collector,
) -> None:
    Path("task.yaml").write_text(TASK, encoding="utf-8")
    Path("parent.yaml").write_text(PARENT, encoding="utf-8")
    before = sent(collected, "run", "parent.yaml", "--output", "quiet", code=5)
    run = loopkit_runs()[0]
    after = sent(collected, "answer", run, "approve", "--output", "quiet")
    assert "invoke_workflow parent" not in [span.name for span in before]
    assert len({span.trace for span in before + after}) == 1
    ended = [pair for pair in tree(before + after) if pair[0].startswith("invoke_workflow")]
    assert ended == [("invoke_workflow task", "invoke_workflow parent")] * 3 + [
        ("invoke_workflow parent", "")
    ]
    whole = after[-1]
    assert [n for n, _ in whole.events if n in ("loopkit.suspended", "loopkit.resumed")] == [
        "loopkit.suspended",
        "loopkit.resumed",
    ]


def loopkit_runs() -> list[str]:
    listed = ran_loopkit("runs", "ls").stdout.splitlines()[1:]
    return [line.split()[0] for line in listed]


OUTSIDE = loop(
    "[{section: Goal}]",
    {"valid": "done"},
    "{target: failed}",
    top="""
name: outside
agents:
  writer: {outside: true}
""",
    draft="draft: {agent: writer, prompt: Write., output: plan}",
    judge="check",
    result="plan",
)


def test_the_work_of_an_agent_outside_is_a_span_and_no_call(collected: Collector) -> None:
    Path("machine.yaml").write_text(OUTSIDE, encoding="utf-8")
    Path("plan.md").write_text("## Goal\n\nTea.\n", encoding="utf-8")
    before = sent(collected, "run", "machine.yaml", "--output", "quiet", code=5)
    after = sent(collected, "reply", loopkit_runs()[0], "plan.md", "--output", "quiet")
    assert tree(before + after) == [
        ("invoke_agent writer", "invoke_workflow outside"),
        ("validate check", "invoke_workflow outside"),
        ("invoke_workflow outside", ""),
    ]
    assert after[0].attributes["loopkit.role"] == "outside"
    assert after[-1].attributes["loopkit.calls"] == 0


def test_each_line_of_a_batch_is_a_trace_of_its_own(collected: Collector) -> None:
    Path("lines.jsonl").write_text('{"topic": "tea"}\n{"topic": "milk"}\n', encoding="utf-8")
    told = SCENARIO.replace("ask: [yes]", "ask: [no]")
    Path("scenario.yaml").write_text(told, encoding="utf-8")
    spans = sent(collected, *RUN, "--batch", "lines.jsonl", "-o", "out.jsonl", code=1)
    assert [span.name for span in spans].count("invoke_workflow tea") == 2
    assert len({span.trace for span in spans}) == 2
    assert len({span.own for span in spans}) == len(spans)


# -- processes that die ------------------------------------------------------------------------

KILLED = """
loopkit: 1
name: killed
agents:
  first: {command: [sh, -c, "echo One."]}
  second:
    command: [sh, -c, "if test -e begun; then echo Two.; else touch begun; sleep 600; fi"]
    on_in_doubt: retry
states:
  one: {agent: first, prompt: Write., output: a, on_error: {content: failed}, next: two}
  two: {agent: second, prompt: Write., output: b, on_error: {content: failed}, next: done}
  done: {final: success, result: [a, b]}
  failed: {final: failure}
"""


def test_a_run_whose_process_is_killed_goes_on_in_its_trace_without_a_span_twice(
    collected: Collector, tmp_path: Path
) -> None:
    Path("killed.yaml").write_text(KILLED, encoding="utf-8")
    # What the first state did is sent before anybody kills the process in the second.
    env = {**os.environ, **collected.environment, "OTEL_BSP_SCHEDULE_DELAY": "10"}
    process = Process(["-m", "loopkit", "run", "killed.yaml"], cwd=tmp_path, env=env)
    try:
        collected.wait_for("invoke_agent first")
        until((tmp_path / "begun").exists)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = list(collected.spans)
    assert [span.name for span in before] == ["run first", "invoke_agent first"]
    after = sent(collected, "resume", loopkit_runs()[0], "--output", "quiet")
    assert tree(before + after) == [
        ("run first", "invoke_agent first"),
        ("invoke_agent first", "invoke_workflow killed"),
        ("run second", "invoke_agent second"),
        ("run second", "invoke_agent second"),
        ("invoke_agent second", "invoke_workflow killed"),
        ("invoke_workflow killed", ""),
    ]
    assert len({span.trace for span in before + after}) == 1
    lost, again = (span for span in after if span.name == "run second")
    assert lost.attributes["error.type"] == "in_doubt"
    assert not again.is_error
    whole = after[-1]
    assert whole.start <= before[0].start


SCENARIOS = ("plan_review", "task_validation", "planner_autocorrect", "code_fix")


@pytest.mark.parametrize("name", SCENARIOS)
def test_wherever_a_run_is_taken_over_its_spans_are_those_of_one_process(name: str) -> None:
    suite = load_suite(ROOT / f"machines/{name}.scenario.yaml")
    for case in suite.names[:4]:
        for run in runs_of(play(suite, case)):
            whole = spans_of(run.state.run, run.events, 0)
            ids = [span.own for span in whole]
            assert len(set(ids)) == len(ids), case
            assert {span.within for span in whole} <= {*ids, ""} or not run.state.is_over
            for cut in range(0, len(run.events), 21):
                ended = spans_of(run.state.run, run.events[:cut], 0)
                assert ended + spans_of(run.state.run, run.events, cut) == whole


def spans_of(run: str, events: Any, after: int) -> list[Span]:
    """The spans that a process sends that takes a run over behind so many events."""
    fold = RunSpans(run)
    made = [fold.after(stored) for stored in events]
    return [span for ended in made[after:] for span in ended]


FALTERING = """
scenario: 1
agents:
  writer: [A heron.]
  critic:
    - - {fault: authentication}
      - {data: {verdict: pass, findings: []}}
answers: {ask: [yes]}
"""


def test_what_is_worked_on_before_and_after_a_suspension_are_spans_of_their_own(
    desk: Desk,
) -> None:
    stopped = desk.play(MACHINE, FALTERING)
    assert stopped.state.status == "suspended"
    run = stopped.state.run
    spans = spans_of(run, desk.resume(run).stored, 0)
    judged = [span for span in spans if span.name in ("validate check", "invoke_agent critic")]
    assert [(span.name, span.error) for span in judged] == [
        ("invoke_agent critic", "fatal"),
        ("validate check", ""),
        ("invoke_agent critic", ""),
        ("validate check", ""),
    ]
    assert len({span.own for span in judged}) == 4
    assert [judged[0].within, judged[2].within] == [judged[1].own, judged[3].own]


async def test_a_call_that_was_open_when_its_run_was_cancelled_ends_with_it(desk: Desk) -> None:
    aborted = await asyncio.to_thread(desk.abort, MACHINE, SCENARIO, {})
    run = aborted.state.run
    async with App.open(desk.state_folder) as app:
        await app.cancel(run, "enough")
        spans = spans_of(run, await app.events(run), 0)
    assert [(span.name, span.error) for span in spans] == [
        ("chat gpt-5-mini", "in_doubt"),
        ("invoke_agent writer", "in_doubt"),
        ("invoke_workflow tea", "cancelled"),
    ]


class Broken(SpanProcessor):
    """What an application may have put in, and does not work."""

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("the heron has flown")


async def test_a_provider_that_fails_is_logged_and_the_run_goes_on(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Broken())
    watching = TelemetryObserver(Emitter(provider))
    loaded = sound(desk.write("machine.yaml", MACHINE))
    async with App.open(desk.state_folder, observe=lambda: [watching]) as app:
        active = await app.start(loaded, {"topic": "herons"}, desk.script(SCENARIO))
        state = await app.drive(active)
    assert state.finished is not None
    assert state.finished.success
    told = [record for record in caplog.records if record.name == "loopkit.telemetry"]
    assert {record.levelname for record in told} == {"WARNING"}
    assert "the heron has flown" in told[0].getMessage()


def test_runs_of_the_same_id_in_two_projects_have_traces_of_their_own() -> None:
    one, other = Trace("tea-1f09ab", 1.5), Trace("tea-1f09ab", 1.75)
    assert one.trace_id != other.trace_id
    assert one.span_id("tea-1f09ab", "run") != other.span_id("tea-1f09ab", "run")
    assert 0 < one.trace_id < 2**128
    assert 0 < one.span_id("tea-1f09ab", "run") < 2**64


# -- collectors that are no help ---------------------------------------------------------------


def run_with(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    ran = ran_loopkit(*RUN, env={**os.environ, **env})
    assert ran.returncode == 0
    assert ran.stdout.strip() == "A grey heron."
    return ran


def test_a_dead_collector_costs_a_line_and_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    ran = run_with({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"})
    [line] = ran.stderr.splitlines()
    assert line.startswith("traces were not sent completely: ")


def test_a_collector_that_hangs_is_asked_once_and_left_behind() -> None:
    with collector(is_hanging=True) as received:
        # All that there is, is sent at the end, however slow the run may be.
        ran = run_with({**received.environment, "OTEL_BSP_SCHEDULE_DELAY": "600000"})
        [line] = ran.stderr.splitlines()
        assert line.startswith("traces were not sent completely: ")
        # Whoever waited for an answer would still wait here: none has come.
        assert received.requests == ["/v1/traces"]


def test_a_collector_that_refuses_is_told_once() -> None:
    with collector(status=401) as received:
        ran = run_with(received.environment)
    [line] = ran.stderr.splitlines()
    assert line.startswith("traces were not sent completely: ")
    assert "401" in line
    assert received.requests == ["/v1/traces"]


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "could not convert string to float: 'soon'"),
    ],
)
def test_a_variable_that_makes_no_sense_is_told_and_the_run_goes_on(
    collected: Collector, env: dict[str, str], told: str
) -> None:
    ran = run_with({**collected.environment, **env})
    [line] = ran.stderr.splitlines()
    assert line.startswith("no traces are sent: ")
    assert told in line
    assert collected.requests == []


def test_without_the_libraries_a_line_names_what_to_install(
    collected: Collector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As where the package is not installed. Another thread may import something meanwhile.
    for name in [name for name in [*sys.modules] if name.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("library", "observer", "sdk"):
        monkeypatch.delitem(sys.modules, f"loopkit.observability.otel.{name}", raising=False)
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.environment[ENDPOINT])
    assert invoke(list(RUN)) == 0
    assert capsys.readouterr().err == (
        "no traces are sent: traces need libraries that are not installed: "
        "pip install 'loopkit-runner[otel]'\n"
    )


# -- who asks ----------------------------------------------------------------------------------

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("env", "paths"),
    [
        ({}, {"/v1/traces"}),
        ({"OTEL_TRACES_EXPORTER": "none"}, set()),
        ({"OTEL_SDK_DISABLED": "true"}, set()),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, set()),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, set()),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.0"},
         {"/v1/traces"}),
        ({ENDPOINT: ""}, set()),
    ],
)  # fmt: skip
def test_the_standard_variables_say_what_is_sent(
    collected: Collector, env: dict[str, str], paths: set[str]
) -> None:
    sent(collected, *RUN, **env)
    assert set(collected.requests) == paths


def test_the_address_of_one_signal_is_enough_for_it(collected: Collector) -> None:
    traces = f"{collected.environment[ENDPOINT]}/v1/traces"
    sent(collected, *RUN, **{ENDPOINT: "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": traces})
    assert set(collected.requests) == {"/v1/traces"}


def test_a_command_that_nobody_asked_for_traces_imports_nothing_of_them() -> None:
    told = "import sys; from loopkit.cli import invoke; invoke(sys.argv[1:]); "
    told += "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", told, *RUN], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_in_another_program_the_variables_alone_send_nothing(
    collected: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, collected.environment[ENDPOINT])
    judged = {"verdict": "pass", "findings": []}
    agents = {
        "writer": lambda prompt, messages: "A heron.",
        "critic": lambda prompt, messages: judged,
    }
    assert loopkit.run("machine.yaml", agents=agents).status == "waiting"
    assert collected.requests == []
    assert [type(one).__name__ for one in observers_within()] in ([], ["LogObserver"])
    found = observers()
    assert "TelemetryObserver" in [type(one).__name__ for one in found]


APPLICATION = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)

import loopkit
told = iter(["A heron.", "A grey heron."])
judged = iter([{"verdict": "pass", "findings": []}])
agents = {"writer": lambda prompt, messages: next(told), "critic": lambda p, m: next(judged)}
with trace.get_tracer("app").start_as_current_span("request") as request:
    result = loopkit.run("machine.yaml", agents=agents)
    waiting = len(kept.get_finished_spans())
    result = loopkit.answer(result.run, "yes", agents=agents)
spans = kept.get_finished_spans()
print(json.dumps({
    "names": [span.name for span in spans],
    "waiting": waiting,
    "traces": [format(span.context.trace_id, "x") for span in spans],
    "links": [format(link.context.trace_id, "x") for span in spans for link in span.links],
    "ids": len({span.context.span_id for span in spans}),
}))
"""


def test_an_application_with_a_provider_of_its_own_finds_the_spans_there() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", APPLICATION],
        capture_output=True, check=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    told = json.loads(ran.stdout)
    *of_run, of_application = told["names"]
    assert of_run == [
        "chat gpt-5-mini", "invoke_agent writer", "chat claude-sonnet-4-5", "invoke_agent critic",
        "validate check", "invoke_workflow tea",
    ]  # fmt: skip
    assert (of_application, told["waiting"], told["ids"]) == ("request", 5, 7)
    *traces, application = told["traces"]
    assert len(set(traces)) == 1
    assert application not in traces
    assert told["links"] == [application]


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("openai/gpt-5-mini", "openai", "gpt-5-mini"),
        ("gpt-5-mini", "", "gpt-5-mini"),
        ("bedrock/anthropic.claude-sonnet", "aws.bedrock", "anthropic.claude-sonnet"),
        ("vertex_ai/gemini-3-pro", "gcp.vertex_ai", "gemini-3-pro"),
        ("openrouter/openai/gpt-5", "openrouter", "openai/gpt-5"),
        ("xai/grok-5", "x_ai", "grok-5"),
    ],
)
def test_providers_have_the_names_of_the_conventions(model: str, provider: str, name: str) -> None:
    assert (provider_of(model), model_name(model)) == (provider, name)
