"""When revising makes no progress: the same text, the same findings, or turns between a few."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.engine.ledger import normalise
from loopkit.engine.payloads import Artifact
from tests.machines import loop
from tests.support import PASS, Desk, Played, fails, scenario

MACHINE = loop(
    "[{judge: critic, reask: 0}]",
    {"valid": "accepted", "stalled": "stuck"},
    "{revise: draft}",
    "{target: exhausted}",
    top="""
limits: {revisions: 12, stall: STALL}
agents:
  author: {model: some/model, retry: {attempts: 1}}
  critic: {model: some/model, retry: {attempts: 1}}
""",
    ends="stuck: {final: failure, result: plan, pick: best}",
    result="plan",
)
SIX = [fails("A", "B", "C", "D", "E", "F"), fails("A", "B", "C"), fails("C", "B", "A")]


def play(
    desk: Desk, critic: list[Any], *, stall: int = 2, plans: list[Any] | None = None
) -> Played:
    """The whole run; wherever it is suspended, it is resumed."""
    texts = plans or [f"plan {number}" for number in range(1, 12)]
    script = scenario(agents={"author": texts, "critic": critic})
    played = desk.play(MACHINE.replace("STALL", str(stall)), script)
    while played.outcome is None:
        played = desk.resume(played.state.run)
    return played


def stalls(played: Played) -> list[bool]:
    return [report.stalled for report in played.reports if report.verdict == "fail"]


def test_fewer_findings_are_progress_and_the_same_again_are_none(desk: Desk) -> None:
    """X.2, X.5: six findings, three of them, the same three; of equal versions the earliest."""
    played = play(desk, SIX)
    assert played.outcome == "stuck"
    assert stalls(played) == [False, False, True]
    assert played.result == {"plan": "plan 2"}


@pytest.mark.parametrize("stall", [2, 3, 9])
def test_a_text_that_comes_back_is_no_progress_whatever_stall_says(desk: Desk, stall: int) -> None:
    """X.1: an earlier version again, with other findings each time."""
    critic = [fails("A"), fails("B"), fails("C")]
    played = play(desk, critic, stall=stall, plans=["one two", "two", "one  two  \n\n"])
    assert played.outcome == "stuck"
    assert stalls(played) == [False, False, True]


def test_data_that_breaks_its_schema_each_time_elsewhere_is_not_the_same(desk: Desk) -> None:
    """One id stands for whatever a schema refuses; only the same data again is a standstill."""
    machine = MACHINE.replace("author: {", "author: {schema: {a: int, b: str}, ")
    answers = [{"data": data} for data in ({}, {"a": "x"}, {"a": 1}, {"b": "x"}, {"a": "x"})]
    script = scenario(agents={"author": answers, "critic": []})
    played = desk.play(machine.replace("STALL", "2"), script)
    assert played.outcome == "stuck"
    assert stalls(played) == [False] * 4 + [True]


LOST = {"fault": "server_error"}


def test_errors_of_infrastructure_are_no_repetition_however_many_there_are(durable: Desk) -> None:
    """X.4: the same version is judged again and again, each time without a verdict."""
    critic = [[LOST, LOST, "What?", LOST, fails("A")], [LOST, LOST, fails("B")], PASS]
    played = play(durable, critic)
    assert [event.type for event in played.events].count("suspended") == 6
    assert stalls(played) == [False, False]
    assert [len(played.prompts("author")), played.outcome] == [3, "accepted"]


def test_an_author_that_gets_lost_makes_no_round(durable: Desk) -> None:
    """X.4: what never came is no version that came back."""
    plans = [[LOST, LOST, LOST, "one"], [LOST, LOST, "two"], "three"]
    played = play(durable, [fails("A"), fails("B"), PASS], plans=plans)
    assert [event.type for event in played.events].count("suspended") == 5
    assert [report.attempt for report in played.reports] == [1, 2, 3]
    assert [stalls(played), played.outcome] == [[False, False], "accepted"]


UNJUDGED = MACHINE.replace(
    "    transitions:\n      - {guard: valid",
    "    on_error: {transient: {revise: draft, max: 5, feedback: Once more.}}\n"
    "    transitions:\n      - {guard: valid",
).replace("STALL", "2")


def test_a_version_that_nobody_judged_may_come_again(desk: Desk) -> None:
    """X.4: the attempt whose judge was lost for good is no round that could repeat."""
    agents = {
        "author": ["one", "two", "two", "three"],
        "critic": [fails("A"), LOST, fails("B"), PASS],
    }
    played = desk.play(UNJUDGED, scenario(agents=agents))
    assert [report.attempt for report in played.reports] == [1, 2, 3, 4]
    assert stalls(played) == [False, False]
    assert played.outcome == "accepted"


def test_errors_between_rounds_hide_no_repetition(desk: Desk) -> None:
    """X.4: nor do they keep what repeats from being seen."""
    lost = [fails("A"), LOST, fails("B"), LOST, LOST, fails("A"), LOST, fails("B")]
    plans = [f"plan {number}" for number in range(1, 10)]
    played = desk.play(UNJUDGED, scenario(agents={"author": plans, "critic": lost}))
    assert played.outcome == "stuck"
    assert stalls(played) == [False, False, False, True]


DATED = loop(
    "[{matches: 'due .', message: It lacks the date on which it is due.}, {max_chars: 99}]",
    {"valid": "accepted", "cap_reached": "stuck"},
    "{revise: draft, previous: show}",
    top="agents: {author: {model: some/model}}\nlimits: {revisions: 2}",
    ends="stuck: {final: failure, result: plan}",
    result="plan",
)
NO_DATE = "It lacks the date on which it is due."
FIRST_WORDS = "Earlier answers to this task were wrong:"


@pytest.mark.parametrize(
    ("answer", "codes", "is_shown"),
    [
        pytest.param(" no\n\ndate  ", ["", "repeated"], False, id="the same but for blanks"),
        pytest.param("No date.", [""], True, id="another"),
        pytest.param(
            f"Revision 1 of 2. Fix this problem:\n\n{NO_DATE}", ["echo"], False, id="echo"
        ),
        pytest.param(f"- {NO_DATE.lower()}", ["echo"], False, id="a finding alone"),
        pytest.param(f"Reviews said: {NO_DATE}", [""], True, id="a line that quotes one"),
        pytest.param(f"Log\n- {NO_DATE}\n- It is\n- red", [""], True, id="among other lines"),
        pytest.param(f"It says '{FIRST_WORDS}'", [""], True, id="first words that are quoted"),
    ],
)
def test_what_repeats_the_version_before_or_the_feedback_is_never_shown(
    desk: Desk, answer: str, codes: list[str], is_shown: bool
) -> None:
    """Beside what rules say, and whatever the edge says; what an echo had before is told again."""
    played = desk.play(DATED, scenario(agents={"author": ["no\ndate", answer, "due 4"]}))
    assert [found.code for found in played.reports[1].findings] == codes
    # Guards and stalls count what is wrong with the version, not that it is the one before.
    assert played.reports[1].facts["error_count"] == 1
    third = played.prompts("author")[2]
    assert (f"```\n{answer}\n```" in third) == is_shown
    assert third.endswith("Write.") != is_shown
    assert f"- {NO_DATE}" in third
    assert played.outcome == "accepted"


@pytest.mark.parametrize("prompt", [f"List: {NO_DATE}", f"'{NO_DATE}\n\n{FIRST_WORDS}'"])
def test_what_the_prompt_asks_for_is_no_echo(desk: Desk, prompt: str) -> None:
    machine = DATED.replace("prompt: Write.", f"prompt: {json.dumps(prompt)}")
    answer = "\n".join(prompt.split("\n\n"))
    played = desk.play(machine, scenario(agents={"author": ["no", answer, "due 4"]}))
    assert [found.code for found in played.reports[1].findings] == [""]


def text_of(text: str) -> str:
    return normalise(Artifact(name="plan", author="draft", attempt=1, text=text))


def substance(text: str) -> list[tuple[str, list[str]]]:
    """A text as it counts, by another way: of each line its indentation and its words."""
    text = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
    parts = (re.fullmatch(r"(\s*)(.*)", line) for line in text.split("\n"))
    return [(part[1], re.findall(r"\S+", part[2])) for part in parts if part and part[2]]


TEXTS = st.text(alphabet="ab \t\n\r\u0301\u00e1-.é", max_size=12)


@given(TEXTS, TEXTS)
def test_texts_that_differ_in_substance_are_never_called_the_same(one: str, other: str) -> None:
    assert (text_of(one) == text_of(other)) == (substance(one) == substance(other))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "1", "true", "a", "á"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


def data_of(value: Any) -> str:
    return normalise(Artifact(name="d", author="s", attempt=1, text="", data=value, is_data=True))


def same(one: Any, other: Any) -> bool:
    """Equality of JSON: unlike Python's, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool) or type(one) is not type(other):
        return one is other
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(VALUES, VALUES)
def test_data_that_differs_is_never_called_the_same(one: Any, other: Any) -> None:
    assert (data_of(one) == data_of(other)) == same(one, other)
