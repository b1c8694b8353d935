"""Panels: several reviewers of one text, and what a missing or a wrong one of them can do."""

from __future__ import annotations

import json
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from loopkit.engine.events import Intended, Replied
from tests.support import PASS, Desk, Played, fails, scenario, warns

DOWN = {"fault": "authentication"}
MUMBLE = "I would rather not say."
BAD = fails("Too vague.")


def panel(*reviewers: str, rules: str = "", state: str = "", each: str = "reask: 0") -> str:
    """One text before these reviewers; what is no verdict has an end of its own."""
    named = "\n".join(f"  {name}: {{model: openai/gpt-5}}" for name in reviewers)
    by = ", ".join(f"{{judge: {name}, {each}}}" for name in reviewers)
    return f"""
loopkit: 1
agents:
  writer: {{model: openai/gpt-5-mini}}
{named}
states:
  draft: {{agent: writer, prompt: Write., output: plan, next: check}}
  check:
    validate: plan
    by: [{rules}{by}]
    {state}
    transitions:
      - {{guard: incomplete, target: unjudged}}
      - {{guard: valid, target: done}}
      - {{target: failed}}
  done: {{final: success}}
  failed: {{final: failure}}
  unjudged: {{final: failure}}
"""


THREE = ("security", "performance", "style")


def said(*replies: Any, names: tuple[str, ...] = THREE, text: str = "A plan.") -> str:
    """A scenario in which each reviewer gives one reply."""
    agents = {name: [reply] for name, reply in zip(names, replies, strict=True)}
    return scenario(agents={"writer": [text], **agents})


def verdicts(played: Played) -> list[str]:
    return [answer.verdict for answer in played.reports[-1].answers]


def test_a_panel_approves_only_if_all_approve_and_every_verdict_is_kept(desk: Desk) -> None:
    """S0.50, S1.26, over every panel of three: the strictest verdict counts, in any order."""
    for replies in product([PASS, BAD, warns("A typo.")], repeat=3):
        played = desk.play(panel(*THREE), said(*replies))
        assert played.outcome == ("failed" if BAD in replies else "done")
        told = [reply["data"]["verdict"] for reply in replies]
        assert verdicts(played) == told
        assert played.reports[-1].verdict == max(told, key=["pass", "warn", "fail"].index)
        assert [json.loads(reply.text) for reply in played.of(Replied)[1:]] == [
            reply["data"] for reply in replies
        ]


def test_the_reviewers_of_a_panel_are_asked_before_any_of_them_has_answered(desk: Desk) -> None:
    """S0.50: in parallel."""
    slow = {**PASS, "delay": "50ms"}
    played = desk.play(panel(*THREE), said(slow, slow, slow))
    order = [type(event) for event in played.events if isinstance(event, Intended | Replied)]
    assert order[2:] == [Intended] * 3 + [Replied] * 3


@pytest.mark.parametrize("missing", [DOWN, MUMBLE])
def test_a_panel_with_a_crashed_reviewer_never_passes(desk: Desk, missing: Any) -> None:
    """S2.27, over every panel of three with one, two or three that give no verdict."""
    for replies in product([PASS, BAD, missing], repeat=3):
        if missing not in replies:
            continue
        for state in ("", "combine: majority"):
            played = desk.play(panel(*THREE, state=state), said(*replies))
            assert played.outcome in ("unjudged", "failed")
            lost = verdicts(played).count("error") + verdicts(played).count("unparsed")
            assert lost == replies.count(missing)
            if BAD not in replies:
                assert played.reports[-1].verdict == "incomplete"


def test_a_quorum_says_how_many_have_to_answer_and_all_silent_is_never_a_pass(desk: Desk) -> None:
    """S2.27: the quorum decides."""
    enough = panel(*THREE, state="quorum: 2")
    assert desk.play(enough, said(PASS, DOWN, PASS)).outcome == "done"
    assert desk.play(enough, said(DOWN, DOWN, PASS)).outcome == "unjudged"
    one = panel(*THREE, state="quorum: 1")
    assert desk.play(one, said(MUMBLE, DOWN, MUMBLE)).outcome == "unjudged"


@pytest.mark.parametrize("state", ["combine: majority", "combine: majority\n    quorum: 1"])
@pytest.mark.parametrize("each", ["always: true", "always: true, samples: 3, confirm: fail"])
def test_no_vote_of_judges_overrides_a_rule_that_blocks(desk: Desk, state: str, each: str) -> None:
    """X.12, for every vote of three judges that are asked nevertheless."""
    text = panel(*THREE, rules="{section: Goal}, ", state=state, each=f"reask: 0, {each}")
    for votes in combinations_with_replacement([PASS, BAD, DOWN], 3):
        opinions = {name: [vote] * 4 for name, vote in zip(THREE, votes, strict=True)}
        played = desk.play(text, scenario(agents={"writer": ["A plan."], **opinions}))
        assert played.outcome == "failed"
        assert len(verdicts(played)) == 4
        blocking = [finding.rule for finding in played.reports[-1].blocking]
        assert any("section" in rule for rule in blocking), blocking
