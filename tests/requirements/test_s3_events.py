"""S3, events: what a planner's loop tells of each attempt, in which order, and of its fallback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.engine.events import Decided, Emitted, Intended, Worked
from loopkit.views.console import lines
from loopkit.views.run_text import diff_lines, result_lines
from loopkit.views.steps import Steps
from tests.support import Desk, Played, scenario

MACHINE = """
loopkit: 1
input:
  retries: {type: int, default: 2, minimum: 0, maximum: 5}
  phase: {type: initial|replan, default: initial}
  offline: {type: bool, default: false}
agents:
  planner:
    command: [none]
    schema: {nodes: [{id: str, capability: str}], impossible: {type: bool, default: false}}
    infeasible: impossible
validators:
  graph:
    - {require: nodes.count > 0, code: EMPTY, message: There are no nodes.}
    - require: 'capability != "search"'
      each: "nodes[]"
      code: UNKNOWN
      message: "No {{ item.capability }}."
    - {require: nodes.count < 2, code: LONG, severity: warning, message: That is much.}
states:
  start:
    transitions:
      - {guard: input.offline, target: stock}
      - {target: plan, emit: {name: run_began, phase: "{{ input.phase }}"}}
  plan:
    agent: planner
    prompt: Plan. {{ feedback }}
    emit: plan_requested
    on_error: {fatal: {target: stock, emit: plan_failed}, transient: stock}
    next: check
  check:
    validate: plan
    by: [graph]
    emit: {pass: plan_generated, fail: plan_rejected, infeasible: never}
    transitions:
      - {guard: valid, target: done}
      - {guard: infeasible, target: stock, emit: {name: plan_rejected, source: planner}}
      - {guard: stalled, target: stock}
      - {revise: plan, max: input.retries}
      - {target: stock, emit: plan_rejected}
  stock:
    render: "{{ input.stock }}"
    output: plan
    fallback: true
    emit: fallback_used
    next: check_stock
  check_stock:
    validate: plan
    by: [graph]
    transitions:
      - {guard: valid, target: fallen_back, emit: {name: plan_generated, source: stock plan}}
      - {target: failed, emit: plan_rejected}
  done: {final: success, result: plan}
  fallen_back: {final: success, result: plan}
  failed: {final: failure, result: plan}
""".replace(
    "  offline:",
    "  stock: {type: any, default: {nodes: [{id: a, capability: answer}]}}\n  offline:",
)


def nodes(*capabilities: str) -> dict[str, Any]:
    return {"nodes": [{"id": f"n{i}", "capability": c} for i, c in enumerate(capabilities)]}


def play(desk: Desk, *answers: Any, **inputs: Any) -> Played:
    said = [a if "fault" in a else {"data": a} for a in answers]
    return desk.play(MACHINE, scenario(agents={"planner": said or []}), inputs)


def told(played: Played) -> list[tuple[str, int, int, list[str]]]:
    """Of each event its name, the attempt, the version, and the codes of its findings."""
    return [
        (e.name, e.attempt, e.artifact_version, [finding.code for finding in e.findings])
        for e in played.of(Emitted)
    ]


def test_an_accepted_plan_has_its_events_in_order_and_its_warnings_with_it(desk: Desk) -> None:
    """S3.21, S3.22 and S3.31: requested, then generated, after a clean check alone."""
    played = play(desk, nodes("answer", "compare"))
    assert played.outcome == "done"
    assert told(played) == [
        ("run_began", 0, 0, []),
        ("plan_requested", 1, 1, []),
        ("plan_generated", 1, 1, ["LONG"]),
    ]
    [warning] = played.of(Emitted)[-1].findings
    assert (warning.severity, warning.message, warning.blocking) == (
        "warning",
        "That is much.",
        False,
    )
    generated = played.events.index(played.of(Emitted)[-1])
    judged = [i for i, e in enumerate(played.events) if isinstance(e, Worked) and e.report]
    assert max(judged) < generated


def test_a_rejected_plan_has_an_event_with_all_that_was_found_in_it(desk: Desk) -> None:
    """S3.2, S3.8, S3.10 and S3.21: attempts from 1, each rejection with its diagnostics."""
    played = play(desk, nodes("search", "answer"), nodes("answer"), phase="replan")
    assert played.outcome == "done"
    assert told(played) == [
        ("run_began", 0, 0, []),
        ("plan_requested", 1, 1, []),
        ("plan_rejected", 1, 1, ["UNKNOWN", "LONG"]),
        ("plan_requested", 2, 2, ["UNKNOWN", "LONG"]),
        ("plan_generated", 2, 2, []),
    ]
    rejected = played.of(Emitted)[2]
    assert rejected.findings == played.reports[0].findings
    assert (rejected.findings[0].location, rejected.findings[0].message) == (
        "nodes[0]",
        "No search.",
    )
    assert {e.phase for e in played.of(Emitted)} == {"replan"}
    assert [e.source for e in played.of(Emitted)] == ["start", *["plan"] * 4]


def test_an_exhausted_planner_falls_back_with_the_next_version(desk: Desk) -> None:
    """S3.11, S3.12 and S3.21: a version after the attempts, labelled, judged, no attempt itself."""
    played = play(desk, nodes(), nodes("search"), nodes("search", "search"), retries=2)
    assert played.outcome == "fallen_back"
    assert told(played)[-4:] == [
        ("plan_requested", 3, 3, ["UNKNOWN"]),
        ("plan_rejected", 3, 3, ["UNKNOWN", "UNKNOWN", "LONG"]),
        ("fallback_used", 3, 4, ["UNKNOWN", "UNKNOWN", "LONG"]),
        ("plan_generated", 3, 4, []),
    ]
    *before, used, generated = played.of(Emitted)
    assert {event.fallback for event in before} == {""}
    assert (used.fallback, used.source) == ("exhausted", "stock")
    assert (generated.fallback, generated.source) == ("exhausted", "stock plan")
    assert played.state.finished is not None
    version = played.state.finished.picked["plan"]
    assert (version.version, version.previous, version.attempts) == (4, 3, 3)
    assert (version.fallback, version.fallback_reason) == (True, "exhausted")


@pytest.mark.parametrize(
    ("form", "answer", "because"),
    [
        ("bool", {"nodes": [], "impossible": True}, ""),
        ("optional str", {"impossible": " No\n voice.", "missing": ["audio"]}, ": No voice."),
        ("'optional [str]'", {"impossible": ["No voice."]}, ': ["No voice."]'),
        (
            "{type: {missing: {type: [str], default: []}, ...: any}, default: {}}",
            {"impossible": {"missing": ["audio"], "diagnosis": "No voice."}},
            ": No voice.",
        ),
        (
            "{type: object, default: {}}",
            {"impossible": {"missing": ["audio"]}},
            ': {"missing": ["audio"]}',
        ),
    ],
)
def test_what_cannot_be_done_stops_at_once(
    desk: Desk, form: str, answer: dict[str, Any], because: str
) -> None:
    """S3.14: no revision is spent, and the event says why there is no verdict."""
    machine = MACHINE.replace("impossible: {type: bool, default: false}", f"impossible: {form}")
    played = desk.play(machine, scenario(agents={"planner": [{"data": answer}]}))
    assert played.outcome == "fallen_back"
    assert told(played)[1:] == [
        ("plan_requested", 1, 1, []),
        ("plan_rejected", 1, 1, []),
        ("fallback_used", 1, 2, []),
        ("plan_generated", 1, 2, []),
    ]
    rejected, used = played.of(Emitted)[2:4]
    reason = f"infeasible: `plan` declared that it can't be done{because}"
    assert (rejected.reason, rejected.source) == (reason, "planner")
    assert (used.fallback, used.reason) == ("infeasible", reason)
    assert not any(decided.spends for decided in played.of(Decided))


def test_an_answer_that_is_no_plan_is_a_rejected_attempt(desk: Desk) -> None:
    """S3.13 and S3.35: also of a scripted author, whose drafts go through the same schema."""
    machine = MACHINE.replace("command: [none]", "command: [none]\n    description: p")
    script = scenario(
        agents={"planner": ["no JSON", {"data": {"nodes": [{"id": 1}]}}, {"data": nodes("a")}]}
    )
    played = desk.play(machine, script)
    assert played.outcome == "done"
    assert told(played)[1:] == [
        ("plan_requested", 1, 1, []),
        ("plan_rejected", 1, 1, ["not-json"]),
        ("plan_requested", 2, 2, ["not-json"]),
        ("plan_rejected", 2, 2, ["schema", "schema"]),
        ("plan_requested", 3, 3, ["schema", "schema"]),
        ("plan_generated", 3, 3, []),
    ]
    assert "nodes[0].id" in [found.location for found in played.of(Emitted)[4].findings]


def test_an_attempt_that_fails_counts_and_its_event_says_why(desk: Desk) -> None:
    """S3.15 and S3.21: an `on_error` edge has its event, too; its attempt is not lost."""
    played = play(desk, {"fault": "quota", "message": "pinned capability is gone"})
    assert played.outcome == "fallen_back"
    assert told(played)[1:] == [
        ("plan_requested", 1, 1, []),
        ("plan_failed", 1, 1, []),
        ("fallback_used", 1, 1, []),
        ("plan_generated", 1, 1, []),
    ]
    failed, used = played.of(Emitted)[2:4]
    assert "pinned capability is gone" in failed.reason
    assert (used.fallback, used.reason) == ("fatal", "")


@pytest.mark.parametrize(
    ("answers", "inputs", "reason"),
    [
        ([nodes("search"), nodes("search")], {}, "stalled"),
        # No revision is left either, but the edge asks for the other reason.
        ([nodes("search"), nodes("search")], {"retries": 1}, "stalled"),
        ([nodes("search")], {"retries": 0}, "exhausted"),
        ([{"fault": "connection"}], {}, "transient"),
        ([], {"offline": True}, "start[0]"),
    ],
)
def test_a_fallback_says_why_the_run_came_to_it(
    desk: Desk, answers: list[Any], inputs: dict[str, Any], reason: str
) -> None:
    """S3.9 and S3.11: why a run fell back is written beside what it fell back to."""
    machine = MACHINE.replace("command: [none]", "command: [none]\n    retry: {attempts: 1}")
    said = [a if "fault" in a else {"data": a} for a in answers]
    played = desk.play(machine, scenario(agents={"planner": said}), inputs)
    assert played.outcome == "fallen_back"
    assert played.state.artifacts["plan"].fallback_reason == reason
    assert any(event.stalled for event in played.of(Emitted)) == (reason == "stalled")


def test_a_fallback_that_is_not_valid_fails_the_run(desk: Desk) -> None:
    """S3.12: it is judged like any other, and escalates."""
    played = play(desk, nodes(), retries=0, stock=nodes("search"))
    assert played.outcome == "failed"
    assert told(played)[-1] == ("plan_rejected", 1, 2, ["UNKNOWN"])
    assert played.of(Emitted)[-1].fallback == "exhausted"


REPLAN = """
loopkit: 1
limits: {revisions: 1}
agents: {first: {command: [none]}, second: {command: [none]}}
validators: {form: [{matches: good, code: FORM}]}
states:
  draft:
    agent: first
    prompt: Plan.
    output: plan
    emit: {name: plan_requested, phase: initial}
    next: check
  check:
    validate: plan
    by: [form]
    transitions:
      - {guard: valid, target: execute}
      - {revise: draft, emit: plan_rejected}
      - {target: replan}
  execute: {run: ["false"], transitions: [{guard: exit_code == 0, target: done}, {target: replan}]}
  replan:
    agent: second
    prompt: "Plan anew, version {{ report.version }} ({{ report.phase }}) does not work."
    output: plan
    emit: {name: plan_requested, phase: "{{ 're' }}plan"}
    next: recheck
  recheck:
    validate: plan
    by: [form]
    transitions:
      - {guard: valid, target: approval, emit: plan_generated}
      - {revise: replan, emit: plan_rejected}
      - {target: failed}
  approval:
    human: "Version {{ report.version }} after {{ report.attempts }} attempts ({{ report.phase }})?"
    choices: [accept, again, stop]
    show: plan
    edit: plan
    transitions:
      - guard: choice == "accept"
        target: done
        emit: {name: plan_accepted, source: "{{ comment }}"}
      - {guard: choice == "again", revise: replan, feedback: Again.}
      - {target: failed}
  done: {final: success, result: plan}
  failed: {final: failure}
"""


def test_attempts_count_on_over_the_whole_run_and_budgets_are_of_a_phase(desk: Desk) -> None:
    """S3.7, S3.8 and S3.25: one revision each for two phases, and attempts 1 to 4."""
    drafts = {"first": ["bad", "good 1"], "second": ["worse", "good 2"]}
    played = desk.play(REPLAN, scenario(agents=drafts))
    assert [(e.name, e.attempt, e.artifact_version, e.phase) for e in played.of(Emitted)] == [
        ("plan_requested", 1, 1, "initial"),
        ("plan_rejected", 1, 1, "initial"),
        ("plan_requested", 2, 2, "initial"),
        ("plan_requested", 3, 3, "replan"),
        ("plan_rejected", 3, 3, "replan"),
        ("plan_requested", 4, 4, "replan"),
        ("plan_generated", 4, 4, "replan"),
    ]
    assert played.prompts("second")[0] == "Plan anew, version 2 (initial) does not work."
    assert played.questions[0].text == "Version 4 after 4 attempts (replan)?"


def test_a_person_who_edits_a_plan_makes_a_version_and_no_attempt(durable: Desk) -> None:
    """S3.25: what is accepted has its version, the one before it, and the attempts it took."""
    drafts = {"first": ["bad", "bad 2"], "second": ["good"]}
    played = durable.play(REPLAN, scenario(agents=drafts))
    ended = durable.answer(played.state.run, "accept", edit="good, but mine", comment="Ada")
    assert ended.outcome == "done"
    accepted = ended.of(Emitted)[-1]
    assert (accepted.name, accepted.attempt, accepted.artifact_version) == ("plan_accepted", 3, 4)
    assert (accepted.source, accepted.findings) == ("Ada", ())
    assert ended.state.finished is not None
    version = ended.state.finished.picked["plan"]
    assert (version.version, version.previous, version.attempts) == (4, 3, 3)
    assert (version.phase, version.author) == ("replan", "replan")


def test_a_run_that_waited_counts_on_in_another_process(durable: Desk) -> None:
    """S3.26: attempts, versions and the last diagnostics are stored with the run."""
    drafts = {"first": ["bad", "bad 2"], "second": ["good", "good, too"]}
    played = durable.play(REPLAN, scenario(agents=drafts))
    ended = durable.answer(played.state.run, "again")
    assert told(ended)[-2:] == [("plan_requested", 4, 4, []), ("plan_generated", 4, 4, [])]
    assert ended.reports[-1].version == ended.reports[-1].attempts == 4
    assert ended.folded == ended.state


def test_an_event_is_plain_data_with_its_run_and_its_time(desk: Desk) -> None:
    """S3.21 and S3.24: what a line of the event stream says, with a version of the format."""
    played = play(desk, nodes("search"), nodes("answer"))
    stored = next(s for s in played.stored if isinstance(s.event, Emitted) and s.event.findings)
    assert stored.at > 0
    plain = json.loads(stored.event.to_json())
    assert plain["version"] == 2
    assert plain["findings"][0]["code"] == "UNKNOWN"
    assert {"name", "attempt", "artifact", "artifact_version", "phase", "source"} <= plain.keys()


def test_events_and_fallbacks_are_shown_to_whoever_looks(desk: Desk) -> None:
    """S3.11, S3.21 and S3.25: in `runs logs` and `runs show`."""
    played = play(desk, nodes("search", "search"), retries=0, phase="replan")
    shown = [line.text.strip() for s in played.stored for line in lines(Steps(), s)]
    assert [line for line in shown if line.startswith("event ")] == [
        "event run_began · phase replan",
        "event plan_requested · plan version 1, attempt 1, phase replan",
        "event plan_rejected · plan version 1, attempt 1, phase replan · 2 findings · 1 warning",
        "event fallback_used · plan version 2, attempt 1, phase replan, fallback: exhausted"
        " · 2 findings · 1 warning",
        "event plan_generated · plan version 2, attempt 1, phase replan, fallback: exhausted",
    ]
    told_of = "\n".join(result_lines(played.state))
    assert "result plan (version 2, phase replan, fallback: exhausted):" in told_of


TOOL = """
loopkit: 1
agents:
  planner:
    model: openai/gpt-5-mini
    tools: {validate: {by: [form], emit: {name: draft_checked, source: "{{ input.who }}"}}}
    require_tool: validate
validators:
  form:
    - {matches: good, code: FORM}
    - {min_chars: 9, code: SHORT, severity: warning}
input: {who: {type: str, default: planner}}
states:
  plan:
    agent: planner
    prompt: Plan.
    emit: {name: plan_requested, phase: initial}
    next: check
  check:
    validate: plan
    by: [form]
    emit: {name: plan_checked, source: check, pass: plan_generated, fail: {name: plan_rejected}}
    transitions:
      - {guard: valid, target: done}
      - {revise: plan}
      - {target: failed}
  done: {final: success, result: plan}
  failed: {final: failure}
"""


def validating(draft: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "validate", "input": {"draft": draft}}]}


def test_a_draft_that_is_rejected_inside_the_conversation_has_its_event(desk: Desk) -> None:
    """S3.2 and S3.21: of the attempt and version in hand, with what the tool found."""
    asked = [validating("bad"), validating("good"), {"reply": "good"}]
    played = desk.play(TOOL, scenario(agents={"planner": [asked]}))
    assert told(played) == [
        ("plan_requested", 1, 1, []),
        ("draft_checked", 1, 1, ["FORM", "SHORT"]),
        ("plan_checked", 1, 1, []),
        ("plan_generated", 1, 1, ["SHORT"]),
    ]
    assert {event.phase for event in played.of(Emitted)} == {"initial"}
    assert [event.source for event in played.of(Emitted)] == ["plan", "planner", "check", "plan"]
    problems = desk.problems(TOOL.replace("input.who", "input.whom"))
    assert [p.path for p in problems if p.severity == "error"] == [
        "agents.planner.tools.validate.emit.source"
    ]


@pytest.mark.parametrize("tool_use", ["native", "runner"])
def test_drafts_that_are_attempts_are_told_one_by_one(desk: Desk, tool_use: str) -> None:
    """S3.2, S3.7, S3.8 and S3.21: by the tool or as the answer, with the same numbers."""
    machine = (
        TOOL.replace('emit: {name: draft_checked, source: "{{ input.who }}"}', "attempt: true")
        .replace("name: plan_checked, source: check, ", "")
        .replace(
            "model: openai/gpt-5-mini",
            f"tool_use: {tool_use}\n    session: keep\n    model: openai/gpt-5-mini",
        )
    )
    asked: list[Any] = [[validating("bad")], {"reply": "worse"}, [validating("good"), "good"]]
    if tool_use == "runner":
        asked = [{"reply": draft, "tools": False} for draft in ("bad", "worse", "good")]
    else:
        machine = machine.replace("    require_tool: validate\n", "")
    played = desk.play(machine, scenario(agents={"planner": asked}))
    assert told(played) == [
        ("plan_requested", 1, 1, []),
        ("plan_rejected", 1, 1, ["FORM", "SHORT"]),
        ("plan_requested", 2, 2, ["FORM", "SHORT"]),
        ("plan_rejected", 2, 2, ["FORM", "SHORT"]),
        ("plan_requested", 3, 3, ["FORM", "SHORT"]),
        ("plan_generated", 3, 3, ["SHORT"]),
    ]
    assert played.state.artifacts["plan"].text == "good"
    # The conversation goes on behind the call that was answered.
    last = played.asked("planner")[-1].messages
    assert [one.role for one in last].count("tool") == {"native": 2, "runner": 0}[tool_use]


def test_versions_are_kept_with_their_diagnostics_and_can_be_compared(
    desk: Desk,
) -> None:
    """S3.30: any two of them, over authors and fallbacks."""
    played = play(desk, nodes("search"), nodes("answer", "search"), retries=1)
    versions = Steps().after(played.stored).versions["plan"]
    assert [version.title for version in versions] == [
        "plan 1, attempt 1 by plan (phase initial): fail, 1 blocking finding",
        "plan 2, attempt 2 by plan (phase initial): fail, 1 blocking finding, 1 warning",
        "plan 3, attempt 1 by stock (phase initial, fallback: exhausted): pass",
    ]
    compared = list(diff_lines(versions[1], versions[2]))
    assert compared[:2] == [f"--- {versions[1].title}", f"+++ {versions[2].title}"]
    assert '-      "capability": "search",' in compared
    assert compared[-3:] == ["Found only in plan 2:", "  - No search.", "  - That is much."]


def test_the_size_of_each_prompt_is_recorded(desk: Desk) -> None:
    """S3.33: part by part for each call, and told of each attempt."""
    drafts = {"planner": [[validating("bad"), validating("good"), {"reply": "good"}]]}
    machine = TOOL.replace(
        "model: openai/gpt-5-mini", "model: openai/gpt-5-mini\n    system: Be brief."
    )
    played = desk.play(machine, scenario(agents=drafts))
    sizes = [event.size for event in played.of(Intended) if event.role == "author"]
    assert [(size.system, size.prompt) for size in sizes] == [(9, 5), (9, 0), (9, 0)]
    assert sizes[0].turns == 0 < sizes[0].schemas
    assert sizes[0].total < sizes[1].total < sizes[2].total
    texts = [next(call.texts) for _, call in Steps().after(played.stored).every_call()]
    about = [text.about for text in texts if text.title == "Prompt"]
    assert about[0].startswith(f"{sizes[0].total} characters in all that was sent; system 9; sch")
    assert about[2].startswith(f"{sizes[2].total} characters in all that was sent; system 9; ear")
