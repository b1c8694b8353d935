"""Several opinions of one judge: samples that vote, and a second opinion on a fail."""

from __future__ import annotations

import asyncio
import json
import random
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from loopkit.app import App, Script
from loopkit.engine.events import Failed, Intended, Replied, Suspended
from loopkit.engine.findings import Answer
from loopkit.journal.journal import open_journal
from loopkit.language.inclusion import digest_of
from loopkit.language.load import Loaded, load_text
from loopkit.scenario.cases import read_resolved
from loopkit.testing import load_suite, run_case
from loopkit.views.console import lines
from tests.support import PASS, Desk, Played, QuickClock, fails, progress_of, scenario, warns

DOWN = {"fault": "authentication"}
BUSY = {"fault": "server_error"}
MUMBLE = "no verdict at all"


def machine(rule: str, *, critic: str = "", state: str = "", limits: str = "") -> str:
    """One text, judged by one judge with these keys; each verdict has its own end."""
    return f"""
loopkit: 1
limits: {{{limits}}}
agents:
  writer: {{model: openai/gpt-5-mini}}
  critic: {{model: openai/gpt-5, retry: {{attempts: 1}}, {critic}}}
validators:
  quality: {{judge: critic, reask: 0, {rule}}}
states:
  draft: {{agent: writer, prompt: Write., output: plan, next: check}}
  check:
    validate: plan
    by: [quality]
    {state}
    transitions:
      - {{guard: incomplete, target: unjudged}}
      - {{guard: 'verdict == "pass"', target: passed}}
      - {{guard: valid, target: warned}}
      - {{target: failed}}
  passed: {{final: success}}
  warned: {{final: success}}
  failed: {{final: failure}}
  unjudged: {{final: failure}}
"""


def said(*opinions: Any, **more: Any) -> str:
    """A scenario in which the judge gives these opinions, one after the other."""
    agents = {"writer": ["A plan."], "critic": list(opinions)}
    return scenario(agents=agents, **more)


def answer(played: Played) -> Answer:
    (report,) = played.reports
    (given,) = report.answers
    return given


def messages(played: Played) -> list[str]:
    return [finding.message for finding in answer(played).findings]


# -- the vote ----------------------------------------------------------------------------------

BAD = fails("Too vague.")


@pytest.mark.parametrize(
    ("rule", "opinions", "outcome", "reason"),
    [
        ("samples: 3", [PASS, PASS, PASS], "passed", "0 of 3 samples fail"),
        ("samples: 3", [BAD, PASS, PASS], "passed", "1 of 3 samples fails"),
        ("samples: 3", [BAD, PASS, BAD], "failed", "2 of 3 samples fail"),
        ("samples: 4", [BAD, PASS, PASS, BAD], "failed", "2 of 4 samples fail"),
        ("samples: 4", [PASS, PASS, PASS, BAD], "passed", "1 of 4 samples fails"),
        ("samples: 3, combine: strictest", [PASS, PASS, BAD], "failed", "1 of 3 samples fails"),
        ("samples: 3, combine: strictest", [PASS, PASS, PASS], "passed", "0 of 3 samples fail"),
    ],
)
def test_samples_vote_and_a_tie_fails(
    desk: Desk, rule: str, opinions: list[Any], outcome: str, reason: str
) -> None:
    played = desk.play(machine(rule), said(*opinions))
    assert played.outcome == outcome
    assert answer(played).reason == reason


@pytest.mark.parametrize(
    ("opinions", "outcome", "reason"),
    [
        # Two of three would be a majority, and an approval needs all three nevertheless.
        ([PASS, PASS, DOWN], "unjudged", "0 of 3 samples fail, 1 gave no verdict"),
        ([PASS, BAD, DOWN], "unjudged", "1 of 3 samples fails, 1 gave no verdict"),
        ([BAD, DOWN, DOWN], "unjudged", "1 of 3 samples fails, 2 gave no verdict"),
        # Whatever the third would say, two reject it.
        ([BAD, BAD, DOWN], "failed", "2 of 3 samples fail, 1 gave no verdict"),
        ([BAD, MUMBLE, BAD], "failed", "2 of 3 samples fail, 1 gave no verdict"),
        ([MUMBLE, PASS, PASS], "unjudged", "0 of 3 samples fail, 1 gave no verdict"),
    ],
)
def test_a_missing_sample_never_approves(
    desk: Desk, opinions: list[Any], outcome: str, reason: str
) -> None:
    played = desk.play(machine("samples: 3"), said(*opinions))
    assert played.outcome == outcome
    assert answer(played).reason.startswith(reason)


def test_where_the_strictest_counts_one_fail_is_enough_even_if_the_others_are_missing(
    desk: Desk,
) -> None:
    played = desk.play(machine("samples: 3, combine: strictest"), said(DOWN, DOWN, BAD))
    assert played.outcome == "failed"


def test_the_worst_class_of_what_is_missing_decides_what_becomes_of_the_run(desk: Desk) -> None:
    played = desk.play(machine("samples: 3"), said(MUMBLE, DOWN, PASS))
    assert (answer(played).verdict, answer(played).error_class) == ("error", "fatal")
    assert "401" in answer(played).reason
    played = desk.play(machine("samples: 3"), said(PASS, MUMBLE, BUSY))
    assert (answer(played).verdict, answer(played).error_class) == ("unparsed", "content")


def test_the_findings_are_those_of_the_winning_side_each_once(desk: Desk) -> None:
    both = fails("Too vague.", "No tests.")
    played = desk.play(machine("samples: 3"), said(BAD, warns("A typo."), both))
    assert messages(played) == ["Too vague.", "No tests."]
    opinions = [warns("A typo."), BAD, warns("A typo.", "A long line.")]
    played = desk.play(machine("samples: 3"), said(*opinions))
    assert (played.outcome, messages(played)) == ("warned", ["A typo.", "A long line."])


def test_what_a_sample_fails_with_counts_as_the_state_counts_it(desk: Desk) -> None:
    advising = machine("samples: 3, severity: warning")
    played = desk.play(advising, said(BAD, BAD, PASS))
    assert (played.outcome, answer(played).reason) == ("warned", "0 of 3 samples fail")
    blocking = machine("samples: 3", state="block: warning")
    played = desk.play(blocking, said(warns("A typo."), PASS, warns("A typo.")))
    assert (played.outcome, messages(played)) == ("failed", ["A typo."])
    played = desk.play(blocking, said(warns("A typo."), PASS, PASS))
    assert (played.outcome, messages(played)) == ("passed", [])


def test_the_score_is_the_median_of_the_samples_the_lower_one_of_two(desk: Desk) -> None:
    def scored(*scores: float) -> list[Any]:
        return [{"data": {"verdict": "pass", "score": s, "findings": []}} for s in scores]

    played = desk.play(machine("samples: 3, score: {}"), said(*scored(9, 2, 7)))
    assert played.reports[0].score == 7
    played = desk.play(machine("samples: 4, score: {}"), said(*scored(9, 2, 7, 4)))
    assert played.reports[0].score == 4


# -- a second opinion --------------------------------------------------------------------------


def test_a_fail_that_fails_again_counts_with_the_findings_of_both(desk: Desk) -> None:
    played = desk.play(machine("confirm: fail"), said(BAD, fails("Too vague.", "No tests.")))
    assert (played.outcome, messages(played)) == ("failed", ["Too vague.", "No tests."])
    assert answer(played).reason == "it fails, and a second opinion confirms it"


def test_a_fail_that_does_not_fail_again_only_warns(desk: Desk) -> None:
    played = desk.play(machine("confirm: fail"), said(BAD, warns("A typo.")))
    assert (played.outcome, messages(played)) == ("warned", ["Too vague.", "A typo."])
    assert [finding.severity for finding in answer(played).findings] == ["warning"] * 2
    assert answer(played).reason == "it fails, and a second opinion does not confirm it"


@pytest.mark.parametrize("second", [DOWN, MUMBLE])
def test_a_fail_without_a_second_opinion_is_neither_a_fail_nor_a_pass(
    desk: Desk, second: Any
) -> None:
    played = desk.play(machine("confirm: fail"), said(BAD, second))
    assert played.outcome == "unjudged"
    assert answer(played).reason.startswith("it fails, and the second opinion is missing: ")


@pytest.mark.parametrize("first", [PASS, warns("A typo."), DOWN, MUMBLE])
def test_only_a_fail_is_asked_again(desk: Desk, first: Any) -> None:
    played = desk.play(machine("confirm: fail"), said(first))
    assert len(played.of(Intended)) == 2
    advised = desk.play(machine("confirm: fail, severity: warning"), said(BAD))
    assert (advised.outcome, len(advised.of(Intended))) == ("warned", 2)


def test_a_fail_that_is_not_confirmed_warns_even_where_every_severity_blocks(desk: Desk) -> None:
    text = machine("confirm: fail").replace(
        "agents:", "severities: [defect]\nblocking: defect\nagents:", 1
    )
    assert {problem.code for problem in desk.problems(text)} <= {"no-criteria", "no-result"}
    rejects = fails("Too vague.")
    rejects["data"]["findings"][0]["severity"] = "defect"
    played = desk.play(text, said(rejects, PASS))
    assert (played.outcome, played.reports[0].verdict) == ("warned", "warn")


def test_a_vote_that_fails_is_confirmed_once(desk: Desk) -> None:
    rule = machine("samples: 3, confirm: fail")
    played = desk.play(rule, said(BAD, PASS, BAD, PASS))
    assert (played.outcome, len(played.prompts("critic"))) == ("warned", 4)
    told = "2 of 3 samples fail; a second opinion does not confirm it"
    assert answer(played).reason == told
    played = desk.play(rule, said(BAD, PASS, BAD, BAD))
    assert played.outcome == "failed"
    played = desk.play(rule, said(BAD, PASS, PASS))
    assert (played.outcome, len(played.prompts("critic"))) == ("passed", 3)


# -- how they are asked ------------------------------------------------------------------------


def test_every_opinion_is_a_conversation_of_its_own_with_its_own_re_asks(desk: Desk) -> None:
    rule = machine("samples: 2, confirm: fail").replace("reask: 0", "reask: 1")
    played = desk.play(rule, said(BAD, [MUMBLE, BAD], [MUMBLE, BAD]))
    assert played.outcome == "failed"
    asked = played.asked("critic")
    first = [request.prompt for request in asked if len(request.messages) == 1]
    again = [request for request in asked if len(request.messages) == 3]
    assert len(first) == 3
    assert len(set(first)) == 1
    assert [request.messages[1].content for request in again] == [MUMBLE, MUMBLE]
    assert len(asked) == 5


def test_every_opinion_has_its_own_retries(desk: Desk) -> None:
    patient = machine("samples: 3").replace("attempts: 1", "attempts: 2, backoff: 10ms")
    desk.clock = QuickClock()
    played = desk.play(patient, said([BUSY, PASS], PASS, [BUSY, PASS]))
    assert played.outcome == "passed"
    played = desk.play(patient, said([BUSY, PASS], PASS, [BUSY, BUSY]))
    assert played.outcome == "unjudged"


def test_opinions_are_told_apart_where_they_are_shown(desk: Desk) -> None:
    played = desk.play(machine("samples: 2, confirm: fail"), said(BAD, BAD, BAD))
    asked = [event.asked_at for event in played.of(Intended)][1:]
    assert asked == [
        "quality, sample 1 of 2",
        "quality, sample 2 of 2",
        "quality, second opinion",
    ]
    shown = "\n".join(
        line.text
        for index, stored in enumerate(played.stored)
        for line in lines(progress_of(played.stored[:index]), stored)
    )
    assert all(f"to judge ({place})" in shown for place in asked)


def test_samples_are_asked_at_the_same_time_and_never_over_a_limit(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_memory=False)
    limited = machine("samples: 3", limits="agent_calls: 3")
    played = desk.play(limited, said(PASS, PASS, PASS))
    assert played.state.status == "suspended"
    assert len(played.of(Replied)) == 3
    resumed = desk.resume(played.state.run, {"agent_calls": 4})
    assert resumed.outcome == "passed"
    # Those that were there are used: one more call was made.
    assert len(resumed.of(Replied)) == 4


def test_only_the_missing_samples_are_asked_after_a_suspension(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_memory=False)
    uncaught, rest = machine("samples: 3").split("    transitions:\n")
    ends = "\n".join(line for line in rest.splitlines() if "final" in line and "un" not in line)
    ways = "transitions: [{guard: valid, target: passed}, {target: failed}]"
    ends = ends.replace("  warned: {final: success}\n", "")
    played = desk.play(f"{uncaught}    {ways}\n{ends}\n", said(PASS, [BUSY, PASS], PASS))
    assert [event.reason for event in played.of(Suspended)] == ["transient"]
    resumed = desk.resume(played.state.run)
    assert resumed.outcome == "passed"
    assert (len(resumed.of(Replied)), len(resumed.of(Failed))) == (4, 1)


@pytest.mark.parametrize("in_call", [2, 3, 4, 5])
def test_a_run_that_was_aborted_among_its_opinions_asks_for_the_rest(
    tmp_path: Path, in_call: int
) -> None:
    desk = Desk(tmp_path, in_memory=False)
    text = machine("samples: 3, confirm: fail", critic="on_in_doubt: retry")
    text = text.replace("attempts: 1", "attempts: 2")
    aborted = desk.abort(text, said(BAD, BAD, PASS, BAD), in_call=in_call)
    assert aborted.outcome is None
    resumed = desk.resume(aborted.state.run)
    assert resumed.outcome == "failed"
    assert answer(resumed).reason == "2 of 3 samples fail; a second opinion confirms it"
    assert len(resumed.of(Replied)) == 5


def test_two_judges_with_samples_are_played_each_in_its_own_place(desk: Desk) -> None:
    text = machine("samples: 2").replace("by: [quality]", "by: [quality, style]")
    text = text.replace(
        "states:\n", "  style: {judge: critic, reask: 0, samples: 2, confirm: fail}\nstates:\n", 1
    )
    parts = {"quality": [PASS, PASS], "style": [BAD, BAD, PASS]}
    script = scenario(agents={"writer": ["A plan."], "critic": parts})
    played = desk.play(text, script)
    assert played.outcome == "warned"
    assert [a.reason for a in played.reports[0].answers] == [
        "0 of 2 samples fail",
        "2 of 2 samples fail; a second opinion does not confirm it",
    ]
    # In one list: the samples in the order of the judges, then the second opinion.
    listed = scenario(agents={"writer": ["A plan."], "critic": [PASS, PASS, BAD, BAD, PASS]})
    assert desk.play(text, listed).outcome == "warned"


def test_a_case_that_prepares_an_opinion_too_many_or_too_few_fails(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(machine("samples: 2, confirm: fail"), encoding="utf-8")
    opinions = {"enough": [BAD, BAD, PASS], "one more": [PASS, PASS, PASS], "one less": [BAD, BAD]}
    cases = {
        name: {
            "agents": {"writer": ["A plan."], "critic": said},
            "expect": {
                "outcome": {"enough": "warned", "one more": "passed", "one less": "unjudged"}[name],
                "calls": {"critic": {"enough": 3, "one more": 2, "one less": 2}[name]},
            },
        }
        for name, said in opinions.items()
    }
    path = tmp_path / "m.scenario.yaml"
    path.write_text(json.dumps({"scenario": 1, "machine": "m.yaml", "cases": cases}), "utf-8")
    suite = load_suite(path)
    failed = {name: run_case(suite, name).failures for name in suite.names}
    assert {name: [f.problem.code for f in found] for name, found in failed.items()} == {
        "enough": [],
        "one more": ["unused"],
        "one less": ["unprepared"],
    }
    assert "attempt 3 is never asked for" in failed["one more"][0].problem.message


# -- what it is good for -----------------------------------------------------------------------

RELIABILITY = 0.8


@pytest.mark.parametrize("judged", [400, pytest.param(2_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("rule", "rejects_good", "accepts_bad"),
    [
        # One opinion errs in a fifth of all cases, either way.
        ("samples: 1", 0.2, 0.2),
        # To reject what is good it has to err twice; what is bad passes unless it is right twice.
        ("confirm: fail", 0.2**2, 1 - 0.8**2),
        # Two of three, or all three, have to err.
        ("samples: 3", 3 * 0.2**2 * 0.8 + 0.2**3, 3 * 0.2**2 * 0.8 + 0.2**3),
    ],
)
def test_the_error_rates_are_those_that_are_calculated(
    rule: str, rejects_good: float, accepts_bad: float, judged: int
) -> None:
    """Half of the texts are good, half are bad; a judge is right about each with 80 %.

    Each rate may be off by four standard deviations of the texts that it is counted over,
    which happens by chance once in 16,000 times; and the seed is fixed.
    """
    good, bad = asyncio.run(error_rates(rule, random.Random(6), judged // 2))
    print(f"{rule}: {good:.1%} of the good ones rejected, {bad:.1%} of the bad ones accepted")
    for measured, calculated in ((good, rejects_good), (bad, accepts_bad)):
        deviation = sqrt(calculated * (1 - calculated) / (judged // 2))
        assert abs(measured - calculated) < 4 * deviation


async def error_rates(rule: str, chance: random.Random, count: int) -> tuple[float, float]:
    """The share of `count` good texts that are rejected, and of as many bad ones that are not."""
    judging = load_text(machine(rule), "machine.yaml", Path())
    async with App(open_journal(None, clock=QuickClock().now), folder=Path()) as app:
        good = [await is_accepted(app, judging, chance, is_good=True) for _ in range(count)]
        bad = [await is_accepted(app, judging, chance, is_good=False) for _ in range(count)]
    return 1 - sum(good) / count, sum(bad) / count


async def is_accepted(app: App, judging: Loaded, chance: random.Random, *, is_good: bool) -> bool:
    """Whether a run accepts one text whose judge errs by chance."""
    opinions = [PASS if (chance.random() < RELIABILITY) == is_good else BAD for _ in range(4)]
    played = said(*opinions)
    script = Script(read_resolved(played), played, digest_of(played))
    state = await app.drive(await app.start(judging, {}, script))
    assert state.finished is not None
    assert state.finished.outcome != "unjudged"
    return state.finished.success
