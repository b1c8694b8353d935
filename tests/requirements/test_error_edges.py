"""`on_error`: what catches an error that is left after the retries."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.engine.events import Decided
from tests.machines import loop
from tests.support import PASS, Desk, Played, fails, scenario

AUTHOR = """
loopkit: 1
agents: {author: {command: [none], retry: {attempts: 2, backoff: 1ms}}}
states:
  draft:
    agent: author
    prompt: Write.
    output: plan
    ON_ERROR
    next: NEXT
"""
ENDINGS = """
  accepted: {final: success}
  caught: {final: failure, result: plan}
"""
JUDGED = """
  judge:
    validate: plan
    by: [{min_chars: 3}]
    transitions:
      - {guard: valid, target: accepted}
      - {guard: cap_reached, target: caught}
      - {revise: draft}
"""


def author(on_error: str, *, judged: bool = False) -> str:
    machine = AUTHOR + (JUDGED if judged else "") + ENDINGS
    return machine.replace("ON_ERROR", on_error).replace("NEXT", "judge" if judged else "accepted")


FAULTS: dict[str, Any] = {
    "transient": [{"fault": "connection"}] * 2,
    "content": "",
    "fatal": {"fault": "authentication"},
}


@pytest.mark.parametrize("error_class", ["transient", "content", "fatal"])
def test_the_shorthand_catches_every_class(desk: Desk, error_class: str) -> None:
    script = scenario(agents={"author": [FAULTS[error_class]]})
    played = desk.play(author("on_error: caught"), script)
    assert played.outcome == "caught"
    assert played.of(Decided)[0].edge == f"draft.on_error.{error_class}"


def test_the_shorthand_leaves_content_to_the_judging_state(desk: Desk) -> None:
    script = scenario(agents={"author": ["", "plan"]})
    played = desk.play(author("on_error: caught", judged=True), script)
    assert played.outcome == "accepted"
    assert played.route == ["draft", "judge", "draft", "judge", "accepted"]


def test_the_key_content_catches_it_before_the_judging_state(desk: Desk) -> None:
    script = scenario(agents={"author": [{"reply": "half", "cut_off": True}]})
    played = desk.play(author("on_error: {content: caught}", judged=True), script)
    assert played.route == ["draft", "caught"]
    assert played.result == {"plan": "half"}


@pytest.mark.parametrize("error_class", ["transient", "fatal"])
def test_a_class_that_the_table_does_not_name_suspends(desk: Desk, error_class: str) -> None:
    script = scenario(agents={"author": [FAULTS[error_class]]})
    played = desk.play(author("on_error: {content: caught}"), script)
    assert played.state.suspended is not None
    assert played.state.suspended.reason == error_class
    assert played.state.suspended.state == "draft"


def test_a_back_edge_tries_again_as_often_as_it_grants(desk: Desk) -> None:
    edge = "{revise: draft, max: 2, feedback: 'Attempt {{ revision }} of {{ max_revisions }}.'}"
    machine = author(f"on_error: {{content: {edge}}}", judged=False).replace(
        "  caught: {final: failure, result: plan}\n", ""
    )
    script = scenario(agents={"author": ["", "", "", "plan"]})
    played = desk.play(machine, script)
    assert [prompt.splitlines()[-1] for prompt in played.prompts("author")] == [
        "Write.",
        "Attempt 1 of 2.",
        "Attempt 2 of 2.",
    ]
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "content"


def test_a_back_edge_that_helps_goes_on(desk: Desk) -> None:
    edge = "{revise: draft, max: 2, feedback: Again.}"
    machine = author(f"on_error: {{content: {edge}, fatal: caught}}")
    played = desk.play(machine, scenario(agents={"author": ["", "plan"]}))
    assert played.outcome == "accepted"
    assert played.state.counters == {"draft.on_error.content": 1}


CAUGHT = """
transient: {final: failure}
content: {final: failure}
fatal: {final: failure}
"""
TABLE = "on_error: {transient: transient, content: content, fatal: fatal}"


def panel(on_error: str = "", *incomplete: str) -> str:
    """A loop with two judges."""
    return loop(
        "[{judge: first, reask: 0}, {judge: second, reask: 0}]",
        {"valid": "accepted", "cap_reached": "refused"},
        *incomplete,
        "{revise: draft}",
        top="""
agents:
  author: {command: [none]}
  first: {command: [none], retry: {attempts: 1}}
  second: {command: [none], retry: {attempts: 1}}
""",
        state=on_error,
        ends=CAUGHT if on_error else "",
    )


def judged(desk: Desk, first: Any, second: Any, *incomplete: str) -> Played:
    script = scenario(agents={"author": ["plan"], "first": [first], "second": [second]})
    return desk.play(panel(TABLE, *incomplete), script)


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (PASS, {"fault": "connection"}, "transient"),
        ("What?", {"fault": "connection"}, "content"),
        ({"fault": "quota"}, "What?", "fatal"),
        ({"fault": "connection"}, PASS, "transient"),
    ],
)
def test_an_incomplete_report_goes_to_the_edge_of_its_worst_missing_answer(
    desk: Desk, first: Any, second: Any, outcome: str
) -> None:
    played = judged(desk, first, second)
    assert played.outcome == outcome
    assert played.reports[0].verdict == "incomplete"


def test_a_fail_counts_although_another_answer_is_missing(desk: Desk) -> None:
    """`fail` is stricter than `incomplete`: the author can work already."""
    script = scenario(
        agents={
            "author": ["plan", "better"],
            "first": [fails("Vague."), PASS],
            "second": [{"fault": "connection"}, PASS],
        }
    )
    played = desk.play(panel(TABLE), script)
    assert played.outcome == "accepted"
    assert [report.verdict for report in played.reports] == ["fail", "pass"]


def test_an_incomplete_report_that_nothing_catches_suspends_and_says_who_is_missing(
    durable: Desk,
) -> None:
    """And only the judge that is missing is asked again."""
    calls = [{"fault": "connection"}, PASS]
    script = scenario(agents={"author": ["plan"], "first": [PASS], "second": [calls]})
    stopped = durable.play(panel(), script)
    assert stopped.state.suspended is not None
    assert stopped.state.suspended.reason == "transient"
    assert "by[1]" in stopped.state.suspended.message
    played = durable.resume(stopped.state.run)
    assert played.outcome == "accepted"
    assert [request.agent for request in played.requests] == ["second"]
