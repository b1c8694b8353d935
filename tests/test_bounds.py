"""Bounds: numbers worked out by hand, and the extremes of every path of the real engine.

Each generated machine is made from a number, so that one that fails can be made again. The
ordinary run replays 20 of them, the long one (`-m long`) more than 1,000 others.
"""

from __future__ import annotations

import json
import operator
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from loopkit.checks import check
from loopkit.engine.events import Kept
from loopkit.language.guard.evaluate import Held
from loopkit.language.load import load, load_text
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.proof.bounds.configurations import Endless, NotDetermined
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds, Extreme, Taken
from loopkit.proof.outcomes.analysis import Analysis
from tests.generated import KINDS, features, generated
from tests.replay import Option, Paths, Replay, TooLong, plus, price, weigh

HERE = Path(__file__).parent
FILES = sorted(
    path
    for path in (*(HERE.parent / "machines").glob("*.yaml"), *(HERE / "cases/ok").glob("*.yaml"))
    if not path.name.endswith(".scenario.yaml")
)
MANY_PATHS = ("plan_review", "fields_of_any_name")
"""Machines whose paths all take many seconds: the ordinary run takes some of them."""
MANY_CONFIGURATIONS = ("phase_feedback", "task_validation")
EXPLORED = [
    pytest.param(path, marks=pytest.mark.long if path.stem in MANY_CONFIGURATIONS else ())
    for path in FILES
]
BATCHES = [1, *(pytest.param(number, marks=pytest.mark.long) for number in (2, 3))]
BATCH = 20
LONG_BATCHES = range(40)
LONG_BATCH = 25
MOST_CONFIGURATIONS = 50_000
"""Of a generated machine; of one with more only the bracket is compared."""
MOST = 700
"""Steps on the engine for a generated machine; in the long run up to 5,000."""


ENDS = "  done: {final: success}\n  failed: {final: failure}\n"


def machine(states: str, limits: str = "") -> Analysis:
    """A machine from the YAML of its states, to which its two ends are added."""
    text = f"""
loopkit: 1
input: {{n: {{type: int, minimum: 0, maximum: 3}}, flag: bool}}
limits: {{{limits}}}
agents:
  writer: {{model: a/writer, retry: {{attempts: 3}}}}
  critic: {{model: a/critic, retry: {{attempts: 2}}}}
states:
  {states.strip()}
{ENDS}"""
    return Analysis.of_machine(load_text(text, "m.yaml", HERE).machine)


def totals(bounds: Bounds) -> tuple[Any, Any]:
    """(best, worst), each as agent runs, calls and cost."""
    measures = (bounds.runs, bounds.calls, bounds.cost)
    best = tuple(float("inf") if m.best is None else m.best.total for m in measures)
    return best, tuple(measure.worst.total for measure in measures)


LOOP = """
  draft: {agent: writer, prompt: Write., next: check}
  check:
    validate: draft
    by: [{min_chars: 9}, {judge: critic, reask: 0}]
    transitions:
      - {guard: valid, target: done}
      - {revise: draft, max: 2}
      - {target: failed}
"""


# -- by hand -----------------------------------------------------------------------------------


def test_a_loop_takes_its_first_attempt_and_all_its_revisions() -> None:
    bounds = explore(machine(LOOP), price=lambda agent, *_: 5 if agent == "writer" else 1)
    # Worst: three attempts, each judged. The writer has 3 tries, the critic 2 for each of 1 + 1
    # questions: 3 · (3 + 4) = 21 calls; 3 · (3 · 5 + 4 · 1) = 57 USD. Best: one call each.
    assert totals(bounds) == ((2, 2, 6), (6, 21, 57))
    assert bounds.calls.worst.by_state == {"draft": 9, "check": 12}
    assert bounds.cost.worst.by_agent == {"writer": 45, "critic": 12}


def test_every_configuration_is_counted_once() -> None:
    bounds = explore(machine(LOOP))
    # draft and check with 0, 1 and 2 revisions spent, and two ends.
    assert bounds.configurations == 8


def test_the_worst_path_is_told_step_by_step_with_the_facts_of_each() -> None:
    way = explore(machine(LOOP)).runs.worst.way
    assert [step.edge for step in way[:4]] == ["draft[0]", "check[1]", "draft[0]", "check[1]"]
    assert way[1].facts == {"verdict": "fail"}
    assert [work.agent for work in way[1].asked] == ["critic"]


LOST, SCORED = ("guard: valid", "guard: incomplete"), "score: {min: 0, max: 10}"
SCORED_AND_LOST = ("guard: valid", 'guard: "incomplete and score != none"')
BLOCKED = (("guard: valid", "guard: error_count == 2"), ("{min_chars: 9}", "{not_matches: TODO}"))
"""Two findings can't be those of an empty answer, but those of a rule: no judge is asked."""


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        pytest.param(BLOCKED, 1, id="a rule blocks"),
        pytest.param((*BLOCKED, ("reask: 0", "always: true")), 2, id="asked although it blocks"),
        pytest.param((LOST,), 1, id="a rule comes to no verdict"),
        pytest.param((LOST, ("reask: 0", "always: true")), 2, id="asked without that verdict"),
        # Without a rule beside it the judge has been asked, whatever came of it.
        pytest.param((LOST, ("{min_chars: 9}, ", "")), 2, id="no rule beside it"),
        pytest.param((("reask: 0", SCORED), SCORED_AND_LOST), 2, id="a judge gave a score"),
        pytest.param((("reask: 0", SCORED), LOST), 1, id="none had to give one"),
    ],
)
def test_judges_cost_nothing_where_nothing_says_that_they_were_asked(
    changes: tuple[tuple[str, str], ...], least: int
) -> None:
    text = reduce(lambda text, change: text.replace(*change), changes, LOOP)
    assert totals(explore(machine(text), price=price))[0][0] == least


def test_a_judge_is_asked_as_often_as_it_has_samples_and_once_more_where_a_fail_is_confirmed() -> (
    None
):
    usd = {"writer": 5, "critic": 1}
    sampled = explore(machine(LOOP.replace("reask: 0", "reask: 0, samples: 3")), price=_of(usd))
    # In each of three rounds the writer once, the critic three times: 2 tries of 1 + 1 questions.
    assert totals(sampled) == ((4, 4, 8), (12, 45, 81))
    confirmed = LOOP.replace("reask: 0", "reask: 0, samples: 3, confirm: fail")
    # One that passes has three samples; one that fails is asked a fourth time.
    assert totals(explore(machine(confirmed), price=_of(usd))) == ((4, 4, 8), (15, 57, 93))
    # A way to the end on which it has to fail once.
    failing = confirmed.replace("guard: valid", 'guard: "error_count > 1"')
    failing = failing.replace("{min_chars: 9}, ", "")
    assert totals(explore(machine(failing), price=_of(usd)))[0] == (5, 5, 9)


def _of(usd: Mapping[str, int]) -> Callable[[str, str, int], int]:
    return lambda agent, *_: usd[agent]


def test_what_a_second_opinion_can_change_bounds_what_it_costs() -> None:
    advising = LOOP.replace("reask: 0", "confirm: fail, severity: warning")
    plain = LOOP.replace("reask: 0", "severity: warning")
    assert totals(explore(machine(advising))) == totals(explore(machine(plain)))
    # Two reviewers: one of them rejects, and the cheaper one is enough.
    two = LOOP.replace("{min_chars: 9}, {judge: critic, reask: 0}", "RULES").replace(
        "{guard: valid", "{guard: error_count > 1"
    )
    rules = "{judge: critic, confirm: fail}, {judge: writer, confirm: fail}"
    bounds = explore(machine(two.replace("RULES", rules)), price=_of({"writer": 5, "critic": 1}))
    assert totals(bounds)[0] == (4, 4, 5 + 5 + 1 + 1)


def test_a_judge_whose_guard_is_false_is_not_asked() -> None:
    guarded = LOOP.replace("reask: 0", 'reask: 0, guard: "attempt == 2"')
    # It judges the second of three attempts alone.
    assert explore(machine(guarded)).runs.worst.total == 4


def test_a_cap_of_zero_grants_nothing_and_a_bounded_input_each_of_its_values() -> None:
    assert explore(machine(LOOP.replace("max: 2", "max: 0"))).runs.worst.total == 2
    by_input = machine(LOOP.replace("max: 2", "max: input.n"))
    assert explore(by_input).runs.worst.total == 8
    assert explore(by_input).runs.worst.inputs == {"input.n": 3}
    assert explore(by_input, inputs={"n": 1}).runs.worst.total == 4


PLANNED = """
  plan: {agent: writer, prompt: Plan., next: code}
  code: {agent: writer, prompt: Code., next: check}
  check:
    validate: code
    by: [{not_matches: TODO}]
    transitions:
      - {guard: valid, target: done}
      - {guard: error_count > 3, revise: plan, OF_PLAN, resets: [code]}
      - {revise: code, OF_CODE}
      - {target: failed}
"""


def test_a_reset_grants_again_as_far_as_the_total_goes() -> None:
    states = PLANNED.replace("OF_PLAN", "max: 1").replace("OF_CODE", "max: 1")
    # Without a reset: plan, code; code again; plan, code: 5. With it, code once more: 6. A total
    # of 2 leaves two revisions, the dearest of which are one to the plan and one to the code.
    assert explore(machine(states, "total_revisions: 9")).runs.worst.total == 6
    assert explore(machine(states, "total_revisions: 2")).runs.worst.total == 5
    unreset = states.replace(", resets: [code]", "")
    assert explore(machine(unreset, "total_revisions: 9")).runs.worst.total == 5


def test_an_edge_that_grants_its_own_budget_again_has_spent_one_of_it() -> None:
    states = PLANNED.replace("OF_PLAN", "budget: b, max: 2").replace("OF_CODE", "budget: b, max: 3")
    analysis = machine(states, "total_revisions: 9, budgets: {b: 2}")
    # The plan three times and the code after each, and twice besides: before and after that.
    assert explore(analysis).runs.worst.total == 8
    assert replayed(analysis.machine, 100_000, 1) == "replayed"


def test_shared_budgets_are_spent_by_all_their_edges() -> None:
    states = LOOP.replace("{revise: draft, max: 2}", "{revise: draft, budget: b, max: 2}").replace(
        "{guard: valid, target: done}",
        "{guard: valid, target: done}\n      - {guard: error_count > 1, revise: draft, budget: b}",
    )
    assert explore(machine(states, "budgets: {b: 1}")).runs.worst.total == 4
    assert explore(machine(states, "budgets: {b: 3}")).runs.worst.total == 8


def test_a_limit_is_no_way_to_the_best_and_leads_on_once() -> None:
    states = LOOP + "  sorry: {human: Take it?, choices: [take], next: done}"
    bounds = explore(machine(states, "cost_usd: 1, then: sorry"), price=price)
    assert bounds.runs.best.total == 2
    assert bounds.runs.worst.total == 6


def test_an_unknown_price_makes_the_cost_unknown_and_never_nothing() -> None:
    bounds = explore(machine(LOOP), price=lambda agent, *_: None if agent == "critic" else 1)
    assert bounds.cost.worst.total is None
    assert bounds.cost.best.total is None
    assert bounds.unpriced == (("critic", "by[1]"),)
    assert explore(machine(LOOP), price=lambda *_: 0).cost.worst.total == 0


def test_without_a_way_to_a_success_there_is_no_best() -> None:
    bounds = explore(machine(LOOP.replace("target: done", "target: failed")))
    assert bounds.runs.best is None
    assert bounds.runs.worst.total == 6


def test_stalling_takes_an_earlier_attempt() -> None:
    stalling = LOOP.replace("- {revise", "- {guard: stalled, target: failed}\n      - {revise")
    bounds = explore(machine(stalling))
    # As without it: the first report is not stalled, and the others need not be.
    assert bounds.runs.worst.total == 6
    once = explore(machine(stalling.replace("max: 2", "max: 0")))
    assert "check[1]" in once.untaken


# -- what is odd -------------------------------------------------------------------------------


def test_a_stuck_configuration_is_shown_with_facts_counters_and_the_way_to_it() -> None:
    (stuck,) = explore(machine(LOOP.replace("      - {target: failed}\n", ""))).stuck
    assert (stuck.state, stuck.facts) == ("check", {"verdict": "fail"})
    assert stuck.counters == {"check[1]": 2}
    assert [step.edge for step in stuck.way[1::2]] == ["check[1]", "check[1]"]
    assert stuck.is_sure


def test_a_question_without_an_open_choice_is_stuck() -> None:
    states = """
  draft: {agent: writer, prompt: Write., next: ask}
  ask:
    human: Is it good?
    choices: [again]
    transitions: [{revise: draft, max: 1, feedback: Again.}]
"""
    (stuck,) = explore(machine(states)).stuck
    assert (stuck.state, stuck.counters) == ("ask", {"ask[0]": 1})


def test_edges_that_no_run_takes_are_named() -> None:
    swapped = LOOP.replace("max: 2}", "max: 2, guard: attempt > 3}")
    assert set(explore(machine(swapped)).untaken) == {"check[1]"}
    assert explore(machine(LOOP)).untaken == ()


def test_a_total_above_what_all_its_pairs_can_spend_never_binds() -> None:
    loose, tight = (explore(machine(LOOP, f"total_revisions: {n}")).unfilled for n in (10, 1))
    assert loose == {"total": 2}
    assert tight == {"check[1]": 1}


def test_what_is_spent_before_a_reset_fills_no_cap_after_it() -> None:
    again = "again: {transitions: [{revise: draft, max: 2, resets: [draft]}, {target: failed}]}"
    once = LOOP.replace("{revise: draft, max: 2}", "{guard: revisions < 1, revise: draft, max: 3}")
    states = once.replace("{target: failed}", "{target: again}") + f"  {again}\n"
    analysis = machine(states, "total_revisions: 9")
    # The draft is revised once in `check`, then once after each of two resets, which revise it too.
    assert explore(analysis).unfilled == {"check[1]": 1, "total": 5}
    assert replayed(analysis.machine, 100_000, 1) == "replayed"


def test_runs_that_need_not_end_are_refused() -> None:
    circling = LOOP.replace("{target: failed}", "{target: draft}")
    with pytest.raises(Endless, match=r"`(draft|check)`"):
        explore(machine(circling))
    with pytest.raises(Endless):
        explore(machine(circling), most=1)


def test_a_choice_is_closed_by_the_attempt_that_the_answer_will_be() -> None:
    states = """
  draft: {agent: writer, prompt: Write., next: ask}
  ask:
    human: Is it good?
    choices: [good, again]
    transitions:
      - {guard: choice == "good", target: done}
      - {guard: attempt < 3, revise: draft, max: 2, feedback: Again.}
      - {guard: attempt == 3, target: failed}
      - {target: done}
"""
    # Answer by answer: the first and the second can revise, the third can't and is the last.
    analysis = machine(states)
    assert "ask[2]" not in explore(analysis).untaken
    assert replayed(analysis.machine, 10_000, 1) == "replayed"


# -- too many ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXPLORED, ids=lambda path: path.stem)
def test_the_upper_bound_is_never_below_what_is_whole(path: Path) -> None:
    analysis = Analysis.of_machine(load(path).machine)
    exact, upper = explore(analysis, price=price), explore(analysis, price=price, most=1)
    assert not upper.is_whole
    assert all(a <= b for a, b in zip(totals(exact)[1], totals(upper)[1], strict=True))
    assert all(a >= b for a, b in zip(totals(exact)[0], totals(upper)[0], strict=True))


def test_the_upper_bound_is_the_first_path_and_the_heaviest_revisions() -> None:
    bounds = explore(machine(LOOP), most=5, price=price)
    # draft and check, and twice again.
    assert totals(bounds)[1][:2] == (6, 21)
    total = explore(machine(LOOP, "total_revisions: 1"), most=5)
    assert total.runs.worst.total == 4
    assert bounds.configurations is None


# -- means -------------------------------------------------------------------------------------


def test_means_are_exact_under_given_probabilities() -> None:
    chances = {"check.valid": Fraction("0.6"), "check.blocked": Fraction("0.1")}
    expected = explore(machine(LOOP), assume=chances, price=lambda *_: 1).expected
    assert expected is not None
    # Rounds: 1 + 0.4 + 0.4². In each a draft, and a judge but where a rule blocks.
    rounds = 1 + Fraction("0.4") + Fraction("0.16")
    assert expected.runs == expected.calls == expected.cost == rounds * (1 + Fraction("0.9"))
    assert expected.outcomes == {"done": 1 - Fraction("0.064"), "failed": Fraction("0.064")}


def test_what_a_configuration_decides_itself_needs_no_probability() -> None:
    states = LOOP.replace("{judge: critic, reask: 0}", "{max_chars: 99}")
    chances = {"check.valid": Fraction(1, 2), "check.stalled": Fraction(1, 4)}
    stalling = states.replace("- {revise", "- {guard: stalled, target: failed}\n      - {revise")
    expected = explore(machine(stalling), assume=chances).expected
    # The first report cannot be stalled: half of the runs are revised; of these a quarter is
    # stalled, a quarter revised again.
    assert expected.runs == 1 + Fraction(1, 2) + Fraction(1, 8)


def test_a_person_s_choice_and_an_error_have_probabilities_by_their_words() -> None:
    states = """
  ask:
    human: Which one?
    choices: [old, new, none_of_them]
    transitions:
      - {guard: choice == "new", target: draft}
      - {guard: choice == "old", target: done}
      - {target: failed}
  draft: {agent: writer, prompt: Write., on_error: failed, next: done}
"""
    chances = {"ask.new": Fraction(1, 2), "ask.old": Fraction(1, 3), "draft.fatal": Fraction(1, 10)}
    expected = explore(machine(states), assume=chances).expected
    assert expected.runs == Fraction(1, 2)
    assert expected.outcomes["failed"] == Fraction(1, 6) + Fraction(1, 20)


def test_a_field_called_valid_has_its_own_probability() -> None:
    states = """
  ask:
    human: Is it right?
    choices: [go]
    form: {valid: bool, verdict: pass|fail}
    transitions:
      - {guard: verdict == "pass", target: done}
      - {guard: valid, target: done}
      - {target: failed}
"""
    passes, is_valid = 'ask.verdict == "pass"', 'ask.verdict == "fail" and valid'
    chances = {passes: Fraction(1, 4), is_valid: Fraction(1, 2)}
    expected = explore(machine(states), assume=chances).expected
    assert expected.outcomes == {"done": Fraction(3, 4), "failed": Fraction(1, 4)}


@pytest.mark.parametrize(
    ("chances", "message"),
    [
        ({"check.valid": "0.6"}, "`check.blocked`"),
        ({"check.stalled": "0.6"}, "`check.valid`"),
        ({"check.valdi": "0.6"}, "did you mean `valid`"),
        ({"chekc.valid": "0.6"}, "did you mean `check`"),
        ({"check.valid": "1.6"}, "not between 0 and 1"),
        (
            {"check.valid": "0.8", "check.fail": "0.7", "check.blocked": "0"},
            "contradict|more than 1",
        ),
    ],
)
def test_what_is_missing_or_wrong_among_probabilities_is_named(
    chances: dict[str, str], message: str
) -> None:
    given = {name: Fraction(chance) for name, chance in chances.items()}
    with pytest.raises(NotDetermined, match=message):
        explore(machine(LOOP), assume=given)


def test_means_need_an_input_that_the_runs_depend_on() -> None:
    by_input = LOOP.replace("max: 2", "max: input.n")
    analysis = machine(by_input.replace("{judge: critic, reask: 0}", "{max_chars: 9}"))
    with pytest.raises(NotDetermined, match="input"):
        explore(analysis, assume={"check.valid": Fraction(1, 2)})
    expected = explore(analysis, inputs={"n": 1}, assume={"check.valid": Fraction(1, 2)}).expected
    assert expected.runs == Fraction(3, 2)


# -- replayed ----------------------------------------------------------------------------------


def explored(raw: Machine) -> Bounds:
    return explore(Analysis.of_machine(raw), price=price, most=MOST_CONFIGURATIONS)


def replayed(raw: Machine, most: int, number: int, known: Bounds | None = None) -> str:
    """Compare a machine's bounds with its paths on the engine; how that was done.

    All paths of each input take what the bounds with that input say, and together what those of
    the machine say. Where they have more than `most` steps, those that are told and some others
    are taken instead of the rest.
    """
    analysis, bounds = Analysis.of_machine(raw), known or explored(raw)
    assert bounds.stuck == ()
    replay = Replay(raw, most)
    if not any(replay.starts()):
        # It needs a list that is not empty: test_children_proof.py has those.
        return "not replayed"
    if bounds.is_whole and _is_reached_by_all_paths(analysis, replay, bounds, number):
        return "replayed"
    for worst in (bounds.runs.worst, bounds.calls.worst, bounds.cost.worst):
        assert not worst.is_exact or witnessed(replay, worst), number
    chance = random.Random(number)
    for _ in range(3):
        taken = replay.sampled(chance)
        assert all(a <= b for a, b in zip(taken, totals(bounds)[1], strict=True)), number
    return "sampled" if bounds.is_whole else "bounded"


def _is_reached_by_all_paths(
    analysis: Analysis, replay: Replay, bounds: Bounds, number: int
) -> bool:
    """Whether the paths of all inputs were replayed; they take what the bounds say."""
    starts = list(replay.starts())
    random.Random(number).shuffle(starts)
    found: list[Paths] = []
    for run in starts:
        if replay.left <= 0:
            break
        given = explore(analysis, price=price, inputs=run.input)
        assert _is_within(given, bounds), (number, run.input)
        if given.configurations is None or given.configurations > replay.left:
            continue
        with suppress(TooLong):
            paths = replay.all_paths(run)
            assert (paths.best, paths.worst) == totals(given), (number, run.input)
            assert replay.graph.by_id.keys() - paths.taken == {*given.untaken}, (number, run.input)
            found.append(paths)
    total = reduce(Paths.beside, found, Paths())
    assert total.taken.isdisjoint(bounds.untaken), number
    if len(found) < len(starts):
        return False
    assert (total.best, total.worst) == totals(bounds), number
    assert replay.graph.by_id.keys() - total.taken == {*bounds.untaken}, number
    assert {counter: replay.spent[counter] for counter in bounds.unfilled} == bounds.unfilled, (
        number
    )
    back = {edge.id for edge in replay.graph.edges if edge.back}
    assert set(bounds.unclosed) == back - replay.closed, number
    return True


def _is_within(given: Bounds, bounds: Bounds) -> bool:
    """Whether what is said with an input lies between what is said without it."""
    (best, worst), (least, most) = totals(given), totals(bounds)
    return all(map(operator.ge, best, least)) and all(map(operator.le, worst, most))


def witnessed(replay: Replay, worst: Extreme) -> bool:
    """Whether the engine takes the worst path as it is told, and it takes what is told."""
    inputs = {name.removeprefix("input."): value for name, value in worst.inputs.items()}
    run, total = replay.begun({**next(replay.starts()).input, **inputs}), (0, 0, 0)
    for step in worst.way:
        assert run.state == step.state
        for option in replay.options(run):
            after, _ = replay.taken(run, option)
            if _is_told(
                replay, step, option, after.route[-1] if after.status != "suspended" else None
            ):
                run, total = after, plus(total, weigh(option.most, most=True))
                break
        else:
            return False
    assert run.status in ("finished", "suspended")
    return worst.total in total


def _is_told(replay: Replay, step: Taken, option: Option, edge: str | None) -> bool:
    if (option.outcome, edge) != (step.event, step.edge):
        return False
    if isinstance(option.work, Kept) or step.is_spared:
        return isinstance(option.work, Kept) and step.is_spared
    about = option.work.considered
    left = {**option.work.facts, **({"origin": about.origin} if about else {})}
    alike = (
        value <= {*left[fact]} and value.absent.isdisjoint(left[fact])
        if isinstance(value, Held)
        else replay.is_alike(step.state, fact, left[fact], value)
        for fact, value in step.facts.items()
    )
    asked = sorted((work.agent, work.place) for work in step.asked)
    return all(alike) and asked == sorted((agent, place) for agent, place, _ in option.most)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_bounds_of_machine_files_are_those_of_all_paths_of_the_engine(path: Path) -> None:
    machine = load(path).machine
    if machine.states_of(ChildrenState):
        pytest.skip("what children come to is compared in test_children_proof.py")
    # Seven phases have more paths than anybody could take.
    is_whole = path.stem not in ("phase_feedback", *MANY_PATHS)
    ways = ("replayed",) if is_whole else ("sampled", "bounded")
    assert replayed(machine, 1_000_000 if is_whole else MOST, 1) in ways


@pytest.mark.long
@pytest.mark.parametrize("name", MANY_PATHS)
def test_the_bounds_of_machines_with_many_paths_are_those_of_all_of_them(name: str) -> None:
    [path] = (path for path in FILES if path.stem == name)
    assert replayed(load(path).machine, 1_000_000, 1) == "replayed"


def assert_bounded_by_the_picture(raw: Machine, whole: Bounds, number: int) -> None:
    """Compare what all configurations say with what is found without a look at each."""
    searched = explore(Analysis.of_machine(raw), price=price, most=1)
    (best, worst), (least, most) = totals(whole), totals(searched)
    assert least == best, number
    assert all(map(operator.ge, most, worst)), number
    assert {*searched.untaken} <= {*whole.untaken}, number


def of_batch(start: int, count: int, most: int) -> tuple[Counter[str], Counter[str]]:
    """Replay some machines; what occurred in them, and how they were compared."""
    found: Counter[str] = Counter()
    how: Counter[str] = Counter()
    for number in range(start, start + count):
        raw = generated(number)
        loaded = load_text(json.dumps(raw), "m.yaml", HERE)
        assert [p for p in check(loaded) if p.severity == "error"] == [], number
        found += features(raw)
        bounds = explored(loaded.machine)
        way = replayed(loaded.machine, most, number, bounds)
        how[way] += 1
        how["with caps that no run fills"] += way == "replayed" and bool(bounds.unclosed)
        if bounds.is_whole:
            assert_bounded_by_the_picture(loaded.machine, bounds, number)
    return found, how


@pytest.mark.parametrize("batch", BATCHES)
def test_the_bounds_of_generated_machines_are_those_of_all_paths_of_the_engine(batch: int) -> None:
    found, how = of_batch(batch * BATCH, BATCH, MOST)
    assert how["replayed"] > BATCH / 2, how
    assert how["bounded"] <= 1, how
    assert how["with caps that no run fills"] > 0, how
    print(dict(found), dict(how))


def test_the_generator_draws_every_part_of_the_language() -> None:
    found: Counter[str] = Counter()
    for number in range(160):
        found += features(generated(number))
    print(dict(found))
    wanted = [
        *(f"kind {kind}" for kind in KINDS), "error edge", "error edge that revises", "then",
        "shared budget", "total", "resets", "from the best version", "nested revise edges",
        "bounded input as a cap",
        "two authors", "to origins", "rule with origin",
        "judge", "judge always", "judge with samples", "judge that confirms",
        "needs", "judge with score", "guard with score", "score behind a guard", "quorum",
        "rule with code", "guard with codes", "judge with codes of its own", "form with bounds",
        "a dozen booleans", "many exit codes", "a thousand values",
        "rule with guard", "guard with stalled", "guard with regressed",
        "guard with attempt", "guard with cap_reached",
        "guard with revisions >=", "guard with reports.", "cap 0", "cap 1", "cap 2", "cap 3",
        "cap input.n", "cap default",
    ]  # fmt: skip
    assert {part: found[part] for part in wanted if found[part] < 5} == {}


@pytest.mark.long
@pytest.mark.parametrize("batch", LONG_BATCHES)
def test_the_bounds_of_many_more_machines_are_those_of_all_paths(batch: int) -> None:
    found, how = of_batch(100_000 + batch * LONG_BATCH, LONG_BATCH, 5_000)
    print(dict(found), dict(how))


@pytest.mark.long
def test_a_thousand_revisions_take_on_the_engine_what_the_bounds_say() -> None:
    wide = "input: {n: {type: int, minimum: 0, maximum: 1000}}"
    agents = "agents: {writer: {model: a/w}, critic: {model: a/c}}"
    states = LOOP.replace("max: 2", "max: input.n")
    raw = load_text(f"loopkit: 1\n{wide}\n{agents}\nstates:{states}{ENDS}", "m.yaml", HERE).machine
    bounds, replay = explore(Analysis.of_machine(raw), price=price), Replay(raw)
    paths = replay.all_paths(replay.begun({"n": 1000}))
    assert bounds.runs.worst.inputs == {"input.n": 1000}
    assert paths.worst == totals(bounds)[1]
    # Each attempt ends the run in six ways and goes on in one; the last one also fails.
    assert paths.count == 6 * 1001 + 1
