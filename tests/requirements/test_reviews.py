"""What a person sees at an approval or an escalation, besides the artifact and the question."""

from __future__ import annotations

from typing import Any

from loopkit.engine.macrostep import Engine
from loopkit.language.load import load
from loopkit.machine.program import Program
from loopkit.views.review import review
from tests.support import PASS, Desk, Played, fails, scenario, warns

MACHINE = """
loopkit: 1
limits: {revisions: 3, stall: 2}
agents:
  author: {command: [none]}
  critic: {model: some/model}
  other: {model: some/model}
  third: {model: some/model}
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [{judge: critic}, {judge: other}, {judge: third}]
    combine: majority
    quorum: 2
    transitions:
      - {guard: valid, target: approval}
      - {guard: cap_reached or stalled, target: escalated}
      - {revise: draft}
  approval:
    human: Accept it?
    show: [plan, report]
    choices: [yes, no]
    transitions: [{guard: choice == "yes", target: done}, {target: dropped}]
  escalated:
    human: Accept it as it is?
    show: [plan, report]
    PICK
    choices: [yes, no]
    transitions: [{guard: choice == "yes", target: done}, {target: dropped}]
  done: {final: success, result: plan}
  dropped: {final: failure}
"""
PLANS = ["goal\nfirst\nend", "goal\nsecond\nend", "goal\nthird\nend", "goal\nfourth\nend"]


def page(
    desk: Desk, *, pick: str = "pick: last", machine: str = MACHINE, **agents: list[Any]
) -> str:
    """What is seen at the open question."""
    machine = machine.replace("PICK", pick)
    played: Played = desk.play(machine, scenario(agents={"author": PLANS, **agents}))
    assert played.state.status == "waiting"
    program = Program(load(desk.folder / "machine.yaml").machine, "digest")
    return review(Engine(program), played.state)


def both(*calls: Any) -> dict[str, list[Any]]:
    """Two reviewers who say the same, and a third one who is content."""
    return {"critic": list(calls), "other": list(calls), "third": [PASS] * len(calls)}


FOUR = both(fails("A", "B"), fails("B"), fails("A", "B"), fails("B", "C"))


def test_each_finding_has_its_history(desk: Desk) -> None:
    shown = page(desk, **FOUR)
    assert "  - B (found by by[0], by[1]) (recurring since attempt 1)" in shown
    assert "  - C (found by by[0], by[1])\n" in shown
    resolved = shown.partition("Resolved by this attempt:\n")[2]
    assert resolved.startswith("  - A\n")


def test_what_came_back_says_where_it_was(desk: Desk) -> None:
    back = both(fails("A", "B"), fails("B"), fails("A"), fails("A"))
    shown = page(desk, **back)
    assert "  - A (found by by[0], by[1]) (recurring since attempt 3)" in shown
    assert "the last revisions made no progress" in shown
    gone = both(fails("A"), fails("B"), fails("C"), fails("A"))
    told = "  - A (found by by[0], by[1]) (regressed: it was in attempt 1, then not)"
    assert told in page(desk, **gone)


def test_every_attempt_is_listed_with_its_verdict(desk: Desk) -> None:
    shown = page(desk, pick="pick: best", **FOUR)
    lines = shown.splitlines()
    start = lines.index("Attempts judged:")
    assert lines[start + 1 : start + 5] == [
        "  1: fail, 2 blocking findings",
        "  2: fail, 1 blocking finding (shown here)",
        "  3: fail, 2 blocking findings",
        "  4: fail, 2 blocking findings",
    ]


def test_the_last_revision_is_shown_as_a_diff(desk: Desk) -> None:
    shown = page(desk, **FOUR)
    assert "Changed since attempt 3:\n" in shown
    diff = shown.partition("Changed since attempt 3:\n")[2].splitlines()[:5]
    assert diff == ["  @@ -1,3 +1,3 @@", "   goal", "  -third", "  +fourth", "   end"]


def test_the_diff_is_that_of_the_version_that_is_shown(desk: Desk) -> None:
    shown = page(desk, pick="pick: best", **FOUR)
    assert "plan, attempt 2 by draft" in shown
    assert "Changed since attempt 1:\n" in shown


def test_the_route_and_the_revisions_used_are_shown(desk: Desk) -> None:
    shown = page(desk, **FOUR)
    route = " → ".join(["draft", "judge"] * 4)
    assert f"Route: {route} → escalated" in shown
    assert "Came here from judge, because `cap_reached or stalled`" in shown
    assert "Revisions: draft 3 of 3" in shown
    assert "Attempts: draft 4" in shown


def test_revisions_are_counted_against_what_a_total_leaves(desk: Desk) -> None:
    machine = MACHINE.replace("revisions: 3", "revisions: 3, total_revisions: 1")
    shown = page(desk, machine=machine, **FOUR)
    assert "Revisions: draft 1 of 1, total 1 of 1" in shown


def test_an_approval_names_reviewers_who_were_outvoted_or_silent(desk: Desk) -> None:
    """Each verdict is kept: who approves sees that one reviewer would not have."""
    shown = page(desk, critic=[PASS], other=[fails("A")], third=[warns("B")])
    assert "Verdict of judge: warn, 2 warnings" in shown
    assert "by[1] (warn): it fails, and is outvoted" in shown
    silent = page(desk, critic=[PASS], other=[{"fault": "quota"}], third=[PASS])
    assert "Verdict of judge: pass" in silent
    assert "by[1] (error): " in silent


def test_a_first_attempt_has_no_history(desk: Desk) -> None:
    shown = page(desk, **both(PASS))
    assert "Changed since" not in shown
    assert "Attempts judged" not in shown
    assert "Resolved" not in shown


def test_a_long_way_is_shortened_at_its_start(desk: Desk) -> None:
    long = MACHINE.replace("revisions: 3", "revisions: 20").replace("PICK", "pick: last")
    calls = [fails(f"A{number}") for number in range(21)]
    texts = [f"plan {number}" for number in range(21)]
    agents = {"author": texts, **both(*calls)}
    played = desk.play(long, scenario(agents=agents))
    program = Program(load(desk.folder / "machine.yaml").machine, "digest")
    shown = review(Engine(program), played.state)
    route = next(line for line in shown.splitlines() if line.startswith("Route: "))
    assert route.startswith("Route: … → ")
    assert route.endswith("judge → escalated")
    assert len(route.split(" → ")) == 25


def test_a_long_diff_is_cut_and_says_by_how_much(desk: Desk) -> None:
    plans = ["\n".join(f"{word} {n}" for n in range(40)) for word in ("old", "new")]
    shown = page(desk, **{"author": plans, **both(fails("A"), PASS)})
    told = shown.partition("Changed since attempt 1:\n")[2].splitlines()
    # A line for the place, 40 that are gone, and 40 that came.
    assert told[0] == "  @@ -1,40 +1,40 @@"
    assert told[60] == "  … and 21 more lines"


def test_a_state_that_is_entered_again_and_again_is_one_step_of_the_route(desk: Desk) -> None:
    again = "output: plan, next: judge, on_error: {fatal: {revise: draft, feedback: Again.}}}"
    machine = MACHINE.replace("output: plan, next: judge}", again)
    texts = [{"fault": "quota"}, {"fault": "quota"}, "goal"]
    shown = page(desk, machine=machine, **{"author": texts, **both(PASS)})
    assert "Route: draft ×3 → judge → approval\n" in shown


def test_an_error_that_does_not_block_says_so(desk: Desk) -> None:
    machine = f"{MACHINE}\nseverities: [error]\nblocking: error\n"
    shown = page(desk, machine=machine, critic=[PASS], other=[fails("A")], third=[PASS])
    assert "  - not blocking: A\n" in shown


def test_a_version_is_held_against_the_one_before_of_its_own_author(desk: Desk) -> None:
    backup = "  backup: {agent: second, prompt: Write., output: plan, next: judge}\n  judge:\n"
    machine = MACHINE.replace("  judge:\n", backup, 1).replace(
        "output: plan, next: judge}", "output: plan, next: judge, on_error: {fatal: backup}}", 1
    )
    machine = machine.replace("agents:\n", "agents:\n  second: {command: [none]}\n")
    fault = {"fault": "quota"}
    shown = page(
        desk,
        machine=machine,
        author=["of the first", fault, fault],
        second=["one", "two"],
        **both(fails("A"), fails("B"), PASS),
    )
    assert "plan, attempt 2 by backup" in shown
    assert shown.partition("Changed since attempt 1:\n")[2].splitlines()[1:3] == [
        "  -one",
        "  +two",
    ]
