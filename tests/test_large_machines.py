"""Machines with more configurations than one would like to look at, each with its exact figures.

They are made here from a few numbers; smaller ones of the same make are replayed on the engine.
"""

from __future__ import annotations

import cProfile
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from loopkit.checks import check
from loopkit.language.load import Loaded, load_text
from loopkit.machine.flow import Flow
from loopkit.machine.graph import Graph
from loopkit.proof.bounds.agent_calls import Asking
from loopkit.proof.bounds.configurations import Explorer
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.moves import Moves
from loopkit.proof.bounds.plans import Plans
from loopkit.proof.bounds.result import Bounds, Stuck
from loopkit.proof.bounds.variables import Variables
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import plan_of
from tests.replay import Paths, Replay

HERE = Path(__file__).parent
FORWARD = "{target: failed}"


def loaded(states: Sequence[str], inputs: str = "{}", limits: str = "{}") -> Loaded:
    lines = [
        "loopkit: 1",
        f"input: {inputs}",
        f"limits: {limits}",
        "agents: {writer: {model: openai/writer, retry: {attempts: 1}}}",
        "states:",
        *(f"  {state}" for state in states),
        f"  done: {{final: success, result: {states[0].partition(':')[0]}}}",
    ]
    ends = ["  failed: {final: failure}"] if "failed" in "".join(states) else []
    return load_text("\n".join([*lines, *ends]) + "\n", "m.yaml", HERE)


def loop(number: int, onward: str, *edges: str) -> list[str]:
    """A draft and its check, whose transitions after `valid` are these."""
    return [
        f"d{number}: {{agent: writer, prompt: Write., next: c{number}}}",
        f"c{number}: {{validate: d{number}, by: [{{not_matches: TODO}}], transitions: ["
        f"{', '.join([f'{{guard: valid, target: {onward}}}', *edges])}]}}",
    ]


def loops(count: int, cap: int, *, last: str = FORWARD, limits: str = "{}") -> Loaded:
    """Loops in a row; each check revises its own draft first, then the one before."""
    states: list[str] = []
    for number in range(count):
        onward = f"d{number + 1}" if number + 1 < count else "done"
        own = f"{{revise: d{number}, max: {cap}}}"
        before = f"{{revise: d{max(number - 1, 0)}, max: {cap}, feedback: Again.}}"
        states += loop(number, onward, own, before, last)
    return loaded(states, limits=limits)


def analysis(machine: Loaded) -> Analysis:
    return Analysis.of_machine(machine.machine)


def bounds_of(machine: Loaded, **how: Any) -> Bounds:
    return explore(analysis(machine), measures=("runs",), **how)


def replayed(machine: Loaded, **inputs: object) -> Paths:
    replay = Replay(machine.machine)
    if inputs:
        return replay.all_paths(replay.begun(inputs))
    total = Paths()
    for run in replay.starts():
        total = total.beside(replay.all_paths(run))
    return total


# -- the least and the most --------------------------------------------------------------------


@pytest.mark.parametrize(("count", "cap", "worst"), [(2, 1, 7), (2, 2, 12), (3, 1, 11)])
def test_small_rows_of_loops_take_what_all_their_paths_take(
    count: int, cap: int, worst: int
) -> None:
    machine = loops(count, cap)
    assert replayed(machine).worst[0] == worst
    whole, searched = bounds_of(machine), bounds_of(machine, most=1)
    assert (whole.is_whole, searched.is_whole) == (True, False)
    assert (whole.runs.worst.total, whole.runs.worst.is_exact) == (worst, True)
    assert (searched.runs.worst.total, searched.runs.worst.is_exact) == (worst, False)
    assert whole.runs.best.total == searched.runs.best.total == count


def test_the_most_of_eleven_to_the_tenth_configurations_is_told_as_at_most() -> None:
    # Each pass takes a run a loop; a revision of its own takes one more, one of that before two.
    count, cap = 10, 5
    bounds = bounds_of(loops(count, cap), most=1_000)
    assert bounds.runs.worst.total == count + cap * (3 * count - 1)
    assert (bounds.runs.best.total, bounds.runs.best.known) == (10, 10)
    assert (bounds.stuck, bounds.untaken) == ((), ())
    limited = loops(10, 3, limits="{total_revisions: 15}")
    assert "agent runs 10 at most 40 " in " ".join(
        plan_text(plan_of(limited.machine, {}), {}).split()
    )
    smaller = loops(3, 1, limits="{total_revisions: 3}")
    assert bounds_of(smaller, most=1).runs.worst.total >= replayed(smaller).worst[0]


@pytest.mark.parametrize(
    ("last", "limits"),
    [
        (FORWARD, "{}"),
        ("{guard: valid, target: failed}, {target: failed}", "{}"),
        (FORWARD, "{total_revisions: 99}"),
    ],
    ids=["nothing is odd", "a guard never holds", "a limit never binds"],
)
def test_what_check_asks_is_answered_as_by_a_look_at_everything(last: str, limits: str) -> None:
    machine = loops(4, 4, last=last, limits=limits)
    known, everything = explore(analysis(machine), measures=()), bounds_of(machine)
    assert (everything.configurations or 0) > 10_000
    assert (known.untaken, known.stuck) == (everything.untaken, everything.stuck)
    assert known.unfilled == everything.unfilled


def test_of_too_many_configurations_check_says_nothing_that_may_be_wrong() -> None:
    known = explore(analysis(loops(10, 5)), measures=())
    assert (known.configurations, known.untaken, known.unfilled) == (None, (), {})


def test_thirty_booleans_in_guards_are_told_apart_in_turn() -> None:
    names = [f"b{number}" for number in range(30)]
    edges = [f"{{guard: input.{name}, target: failed}}" for name in names]
    states = loop(0, "done", *edges, "{revise: d0, max: 2}", FORWARD)
    machine = loaded(states, inputs="{" + ", ".join(f"{name}: bool" for name in names) + "}")
    bounds = bounds_of(machine)
    assert (bounds.configurations or 0) < 200
    assert bounds.runs.worst.total == 3
    assert bounds.runs.worst.inputs == dict.fromkeys((f"input.{name}" for name in names), False)


def calls_to_explore(machine: Loaded, configurations: int) -> int:
    """How many functions are called for the bounds of a machine, once all is imported."""
    bounds_of(machine)
    with cProfile.Profile() as profile:
        assert bounds_of(machine).configurations == configurations
    return sum(entry.callcount for entry in profile.getstats())


def test_a_switch_of_many_values_is_walked_once() -> None:
    def calls(values: int) -> int:
        edges = (f"{{guard: input.k == {at}, target: failed}}" for at in range(values))
        states = [f"switch: {{transitions: [{', '.join(edges)}, {{target: done}}]}}"]
        # Each value, all others, and two ends.
        return calls_to_explore(loaded(states, inputs="{k: int}"), values + 3)

    assert calls(120) < 2.4 * calls(60)


@pytest.mark.parametrize(
    "asks",
    [
        "human: Which?, choices: [{values}]",
        "human: Which?, choices: [go], form: {{k: {{enum: [{values}]}}}}",
    ],
    ids=["choices", "form"],
)
def test_twice_as_many_answers_of_a_person_take_about_twice_the_work(asks: str) -> None:
    fact = "k" if "form" in asks else "choice"

    def calls(count: int) -> int:
        values = [f"v{number}" for number in range(count)]
        edges = [f"{{guard: {fact} == '{value}', target: failed}}" for value in values[1:]]
        states = [
            f"ask: {{{asks.format(values=', '.join(values))}, "
            f"transitions: [{', '.join(edges)}, {{target: done}}]}}"
        ]
        return calls_to_explore(loaded(states), 3)

    assert calls(120) < 2.6 * calls(60)


# -- inputs of many values ---------------------------------------------------------------------


def test_caps_of_three_loops_by_inputs_of_a_thousand_values_are_exact() -> None:
    states = [
        state
        for number, onward in enumerate(("d1", "d2", "done"))
        for state in loop(number, onward, f"{{revise: d{number}, max: input.n{number}}}", FORWARD)
    ]
    inputs = ", ".join(f"n{n}: {{type: int, minimum: 0, maximum: 1000}}" for n in range(3))
    machine = loaded(states, inputs=f"{{{inputs}}}")
    bounds = bounds_of(machine)
    assert bounds.runs.worst.total == 3 * 1001
    assert bounds.runs.worst.inputs == {f"input.n{n}": 1000 for n in range(3)}
    assert bounds_of(machine, inputs={"n0": 2, "n1": 0, "n2": 7}).runs.worst.total == 3 + 9
    assert replayed(machine, n0=2, n1=0, n2=7).worst[0] == 3 + 9


BY_INPUT = "{n: {type: int, minimum: 0, maximum: 100}}"


def test_a_cap_by_an_input_that_a_guard_names_grants_all_its_values() -> None:
    guarded = "{guard: input.n > 3, revise: d0}"
    machine = loaded(loop(0, "done", guarded, FORWARD), BY_INPUT, "{revisions: input.n}")
    bounds = bounds_of(machine)
    assert (bounds.runs.worst.total, bounds.runs.worst.inputs) == (101, {"input.n": 100})
    for given in (0, 3, 4, 5, 100):
        paths = replayed(machine, n=given)
        assert bounds_of(machine, inputs={"n": given}).runs.worst.total == paths.worst[0]
    assert replayed(machine, n=100).worst[0] == 101


def test_attempts_are_counted_as_far_as_an_input_they_are_compared_with() -> None:
    edges = ["{guard: attempt < input.n, revise: d0, max: 200}", FORWARD]
    machine = loaded(loop(0, "done", *edges), BY_INPUT)
    assert bounds_of(machine).runs.worst.total == 100
    for given in (0, 1, 2, 4, 100):
        paths = replayed(machine, n=given)
        assert bounds_of(machine, inputs={"n": given}).runs.worst.total == paths.worst[0]


@pytest.mark.parametrize(
    "guard",
    [
        "attempt < 3 or input.m != 2 and attempt <= input.m",
        "revisions < 3 or input.m != 2 and revisions < input.m",
        "attempt != 70",
    ],
)
def test_what_comes_of_a_state_is_worked_out_once_for_all_that_its_guards_do_not_tell_apart(
    guard: str,
) -> None:
    inputs = "{n: {type: int, minimum: 0, maximum: 90}, m: {type: int, minimum: 0, maximum: 90}}"
    edges = [f"{{guard: {guard}, revise: d0, max: input.n}}", "{target: failed}"]
    machine = analysis(loaded(loop(0, "done", *edges), inputs))
    plans = Plans(Moves(Variables(machine, {}), Asking(machine, lambda *_: None)))
    found = [at for at in Explorer(plans, 50_000).explore_all().found if at[0] == "c0"]
    assert len(found) > 90
    assert len({id(plans.of(*at).ways) for at in found}) < 20


def test_how_much_of_a_counter_is_left_does_not_make_its_state_another() -> None:
    edges = [f"{{guard: error_count == {at}, revise: d0, max: 3}}" for at in range(1, 7)]
    machine = analysis(loaded(loop(0, "done", *edges, FORWARD)))
    plans = Plans(Moves(Variables(machine, {}), Asking(machine, lambda *_: None)))
    found = [at for at in Explorer(plans, 100_000).explore_all().found if at[0] == "c0"]
    # Of each counter nothing, one, two or all is spent; there is room or none.
    assert (len(found), len({id(plans.of(*at)) for at in found})) == (4**6, 2**6)


def test_an_input_that_is_compared_with_what_a_state_brings_is_told_apart_by_value() -> None:
    form = "{rating: {type: int, minimum: 0, maximum: 3}}"
    edges = "[{guard: rating < input.n, target: w}, {target: done}]"
    states = [
        f"look: {{human: How is it?, choices: [read], form: {form}, transitions: {edges}}}",
        "w: {agent: writer, prompt: Write., next: done, on_error: failed}",
    ]
    machine = loaded(states, "{n: {type: int, minimum: 0, maximum: 3}}")
    bounds = bounds_of(machine)
    assert (bounds.runs.worst.total, bounds.untaken) == (1, ())
    # No rating is less than 0.
    assert bounds_of(machine, inputs={"n": 0}).untaken[0] == "look[0]"


def test_a_machine_that_is_stuck_for_large_inputs_only_is_refused() -> None:
    edges = [
        "{guard: attempt < 50 and input.n > 3, revise: d0, max: input.n}",
        "{guard: attempt < 50, target: failed}",
    ]
    machine = loaded(loop(0, "done", *edges), BY_INPUT)
    (problem,) = [p for p in check(machine) if p.severity == "error"]
    assert problem.code == "stuck"
    assert "with input.n = 49" in problem.message


def test_two_inputs_of_many_values_that_are_compared_are_at_most() -> None:
    inputs = (
        "{a: {type: int, minimum: 0, maximum: 9000}, b: {type: int, minimum: 0, maximum: 9000}}"
    )
    edges = ["{guard: input.a < input.b, revise: d0, max: 2}", FORWARD]
    worst = bounds_of(loaded(loop(0, "done", *edges), inputs)).runs.worst
    assert (worst.total, worst.known) == (3, None)


def asked(count: int) -> Loaded:
    """A check that revises once for each input that holds."""
    edges = [f"{{guard: input.b{n}, revise: d0, max: 1}}" for n in range(count)]
    inputs = ", ".join(f"b{n}: bool" for n in range(count))
    return loaded(loop(0, "done", *edges, FORWARD), inputs=f"{{{inputs}}}")


@pytest.mark.parametrize("count", [10, pytest.param(14, marks=pytest.mark.long)])
def test_inputs_with_too_many_combinations_are_left_open_and_none_is_taken_for_known(
    count: int,
) -> None:
    few, many = bounds_of(asked(6)), bounds_of(asked(count), most=100, most_parts=100)
    assert (few.runs.worst.total, few.runs.worst.known) == (7, 7)
    # 2^count combinations: no figure is too small, and nothing is called dead or stuck.
    assert (many.untaken, many.stuck) == ((), ())
    assert many.runs.worst.total is not None
    assert many.runs.worst.total >= count + 1
    assert many.runs.worst.known is None or many.runs.worst.known <= count + 1
    assert many.runs.best.total == 1


def test_codes_with_too_many_combinations_are_left_open_and_none_is_taken_for_absent() -> None:
    rules = ", ".join(f"{{code: r{number}, not_matches: X{number}}}" for number in range(14))
    others = " or ".join(f"'r{number}' in c.codes" for number in range(2, 14))
    states = [
        "d: {agent: writer, prompt: Write., next: c}",
        f"c: {{validate: d, by: [{rules}], next: s}}",
        "s: {transitions: [{guard: \"'r0' not in c.codes and 'r1' in c.codes\", target: failed}, "
        f'{{guard: "{others}", target: failed}}, {{target: done}}]}}',
    ]
    assert bounds_of(loaded(states)).untaken == ()


@pytest.mark.parametrize("most_parts", [1, 2, 5])
def test_caps_with_too_many_combinations_are_left_open_and_no_figure_is_too_small(
    most_parts: int,
) -> None:
    edges = [f"{{guard: error_count == {n + 1}, revise: d0, max: input.n{n}}}" for n in range(3)]
    inputs = ", ".join(f"n{n}: {{type: int, minimum: 0, maximum: 2}}" for n in range(3))
    machine = loaded(loop(0, "done", *edges, FORWARD), inputs=f"{{{inputs}}}")
    exact, bounds = bounds_of(machine), bounds_of(machine, most_parts=most_parts)
    assert (exact.runs.worst.total, exact.runs.worst.known) == (7, 7)
    assert bounds.runs.worst.total == 7
    assert (bounds.stuck, bounds.untaken, bounds.unfilled) == ((), (), exact.unfilled)


def test_a_cap_that_was_left_open_is_known_to_grant_what_was_spent() -> None:
    edges = ["max: input.p", "max: input.q", "budget: shared"]
    first = [f"{{guard: error_count == {n}, revise: d0, {e}}}" for n, e in enumerate(edges, 1)]
    second = [
        "{revise: d1, budget: shared}",
        # Whatever was spent, the input has granted it.
        "{guard: revisions == 0, target: failed}",
        "{guard: input.n > 0, target: failed}",
    ]
    machine = loaded(
        [*loop(0, "d1", *first, FORWARD), *loop(1, "done", *second)],
        "{" + ", ".join(f"{name}: {{type: int, minimum: 0, maximum: 2}}" for name in "npq") + "}",
        "{budgets: {shared: input.n}}",
    )
    assert bounds_of(machine).stuck == ()
    assert not any(found.is_sure for found in bounds_of(machine, most_parts=2).stuck)


def test_a_state_whose_guards_cover_all_cases_together_is_not_called_stuck_when_parts_run_out() -> (
    None
):
    rules = ", ".join(f"{{max_chars: {n + 3}, guard: input.b{n}}}" for n in range(13))
    inputs = ", ".join(f"b{n}: bool" for n in range(13))
    draft, check_ = loop(0, "done", "{guard: input.x, target: failed}")
    covered = check_.replace("]}", ", {guard: not input.x, target: failed}]}")
    few, many = "by: [", f"by: [{rules}, "
    (told,) = check(loaded([draft, covered.replace(few, many)], f"{{x: bool, {inputs}}}"))
    assert told.message.startswith("`c0` may be stuck: its guards leave more cases open than can")
    (known,) = check(loaded([draft, check_.replace(few, many)], f"{{x: bool, {inputs}}}"))
    assert known.message.startswith("`c0` is stuck: no transition is open when `input.x` is false")


# -- what is said of them ----------------------------------------------------------------------


def test_a_machine_that_is_never_stuck_is_accepted_above_the_count_too() -> None:
    machine = loops(5, 3, last="{guard: cap_reached, target: failed}")
    assert check(machine) == []
    searched = bounds_of(machine, most=100)
    assert (searched.is_whole, searched.stuck) == (False, ())


def undecided(count: int, cap: int) -> Loaded:
    """The last check is stuck if its budget is used up before it, and the others never do that."""
    row = [
        state
        for n in range(count)
        for state in loop(
            n, f"d{n + 1}",
            f"{{revise: d{n}, max: {cap}}}",
            f"{{revise: d{max(n - 1, 0)}, max: {cap}, feedback: Again., budget: all}}",
            FORWARD,
        )
    ]  # fmt: skip
    last = loop(
        count, "done",
        f"{{guard: attempt < 2, revise: d{count}, budget: all}}",
        "{guard: attempt >= 2, target: failed}",
    )  # fmt: skip
    return loaded([*row, *last], limits=f"{{budgets: {{all: {count * cap + 1}}}}}")


def test_what_cannot_be_decided_is_said_to_be_undecided() -> None:
    assert bounds_of(undecided(2, 1)).stuck == ()
    (stuck,) = bounds_of(undecided(2, 1), most=10).stuck
    assert isinstance(stuck, Stuck)
    assert (stuck.state, stuck.is_reached, stuck.way) == ("c2", False, ())


def test_a_check_warns_of_what_it_cannot_decide_and_says_no_more_than_it_knows() -> None:
    problems = check(undecided(9, 4))
    assert [(p.code, p.severity) for p in problems] == [("stuck", "warning")]
    assert problems[0].message.startswith("could not be decided: `c9` may be stuck when ")


def test_a_transition_that_the_picture_without_counters_never_takes_is_dead() -> None:
    states = loop(
        0, "done", "{revise: d0, max: 3}", "{guard: attempt > 9, target: failed}", FORWARD
    )
    whole, searched = bounds_of(loaded(states)), bounds_of(loaded(states), most=1)
    # Only counters show that the tenth attempt is never made.
    assert whole.untaken == ("c0[2]",)
    assert searched.untaken == ()
    never = loop(0, "done", "{revise: d0, max: 3}", "{guard: valid, target: failed}", FORWARD)
    assert bounds_of(loaded(never), most=1).untaken == ("c0[2]",)


def test_means_say_which_part_of_the_runs_was_left_out() -> None:
    chances = {f"c{number}.valid": Fraction(1, 2) for number in range(4)}
    machine = analysis(loops(4, 4))
    whole, cut = (explore(machine, assume=chances, most=most).expected for most in (500_000, 90))
    assert whole.left_out == 0
    assert sum(whole.outcomes.values()) == 1
    assert 0 < cut.left_out < 1
    assert sum(cut.outcomes.values()) + cut.left_out == 1
    assert cut.runs < whole.runs
    assert all(cut.outcomes[name] <= whole.outcomes[name] for name in cut.outcomes)


def test_a_chain_of_a_thousand_states_is_explored_at_once() -> None:
    states: list[str] = []
    for number in range(500):
        onward = f"d{number + 1}" if number < 499 else "done"
        states += loop(number, onward, f"{{revise: d{number}, max: 1}}", f"{{target: {onward}}}")
    machine = analysis(loaded(states))
    began = time.process_time()
    bounds = explore(machine)
    assert (bounds.configurations, bounds.runs.worst.total) == (2001, 1000)
    assert time.process_time() - began < 10


# -- how `check` grows -------------------------------------------------------------------------


def chain(states: int, *, back: int = 0) -> str:
    """Drafts and checks in a row: each reads the draft before, and revises one so many before."""
    lines = ["loopkit: 1", "input: {issue: str}", "agents: {writer: {model: a/writer}}", "states:"]
    count = states // 2
    for n in range(count):
        onward, before = (
            f"d{n + 1}" if n + 1 < count else "done",
            f" {{{{ d{n - 1} }}}}" if n else "",
        )
        prompt = f"'Write {{{{ input.issue }}}}.{before}'"
        revised = f"d{max(n - back, 0)}"
        lines += [
            f"  d{n}: {{agent: writer, prompt: {prompt}, next: c{n}}}",
            f"  c{n}: {{validate: d{n}, by: [{{min_chars: 9}}], transitions: "
            f"[{{guard: valid, target: {onward}}}, "
            f"{{revise: {revised}, max: 1, feedback: 'See {{{{ report.verdict }}}}.'}}, "
            "{target: failed}]}",
        ]
    lines += ["  done: {final: success, result: d0}", "  failed: {final: failure}"]
    return "\n".join(lines) + "\n"


def checked(text: str) -> tuple[int, int]:
    """What a check of a machine calls, and the most memory that it takes at a time."""
    machine = load_text(text, "m.yaml", HERE)
    tracemalloc.start()
    problems = check(machine)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with cProfile.Profile() as profile:
        assert check(machine) == problems
    assert [problem.code for problem in problems if problem.severity == "error"] == []
    return sum(entry.callcount for entry in profile.getstats()), memory


def unjudged(states: int) -> str:
    """Agents in a row, whose unusable answers end the run."""
    lines = ["loopkit: 1", "agents: {writer: {model: openai/writer}}", "states:"]
    for n in range(states):
        onward = f"d{n + 1}" if n + 1 < states else "done"
        caught = "on_error: {content: failed}"
        lines += [f"  d{n}: {{agent: writer, prompt: Write., next: {onward}, {caught}}}"]
    lines += ["  done: {final: success, result: d0}", "  failed: {final: failure}"]
    return "\n".join(lines) + "\n"


SHAPES: dict[str, Callable[[int], str]] = {
    "a chain": chain,
    "nothing is judged": unjudged,
}


@pytest.mark.parametrize("states", [30, pytest.param(80, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_check_of_twice_as_many_states_takes_twice_the_work_and_memory(
    shape: str, states: int
) -> None:
    checked(SHAPES[shape](2 * states))  # what is made once, some of it for each name
    (few, small), (many, large) = (checked(SHAPES[shape](n)) for n in (states, 2 * states))
    assert many < 2.05 * few, (few, many)
    assert large < 2.2 * small, (small, large)


def dead(transitions: int) -> str:
    """A score that the first of so many transitions covers for all others."""
    guards = (f"score != none and score > {n}" for n in range(transitions))
    edges = "".join(f"      - {{guard: {guard}, target: failed}}\n" for guard in guards)
    judge = "{judge: writer, rubric: [Good.], score: {min: 0, max: 999}}"
    return (
        "loopkit: 1\nagents: {writer: {model: a/writer}}\nstates:\n"
        "  draft: {agent: writer, prompt: Write., next: check}\n"
        f"  check:\n    validate: draft\n    by: [{judge}]\n    transitions:\n{edges}"
        "      - {guard: valid, target: done}\n      - {target: failed}\n"
        "  done: {final: success}\n  failed: {final: failure}\n"
    )


def coded(codes: int) -> str:
    """A transition back for each code that a rule gives; all share a budget."""
    rules = "".join(f"      - {{not_matches: T{n}, code: k{n}}}\n" for n in range(codes))
    edges = "".join(
        f"      - {{guard: '\"k{n}\" in codes', revise: draft, budget: all}}\n"
        for n in range(codes)
    )
    return (
        "loopkit: 1\nlimits: {budgets: {all: 3}}\nagents: {writer: {model: a/writer}}\nstates:\n"
        "  draft: {agent: writer, prompt: Write., next: check}\n"
        f"  check:\n    validate: draft\n    by:\n{rules}    transitions:\n"
        f"      - {{guard: valid, target: done}}\n{edges}      - {{target: failed}}\n"
        "  done: {final: success}\n  failed: {final: failure}\n"
    )


@pytest.mark.parametrize(
    ("made", "number", "most"),
    [(dead, 20, 3.1), (coded, 20, 3.6), pytest.param(coded, 40, 3.6, marks=pytest.mark.long)],
)
def test_why_a_transition_is_dead_and_which_codes_decide_is_asked_of_each_guard_once(
    made: Callable[[int], str], number: int, most: float
) -> None:
    checked(made(10))
    (few, _), (many, _) = checked(made(number)), checked(made(2 * number))
    assert many < most * few, (few, many)


def test_what_surely_exists_is_settled_at_once_where_revisions_lead_back_step_by_step() -> None:
    flows = [Graph(load_text(chain(n, back=1), "m.yaml", HERE).machine) for n in (200, 400)]
    calls = []
    for graph in flows:
        flow = Flow(graph)
        counted = 0

        def count(_frame: object, event: str, _what: object) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count)
        entering = flow.entering
        sys.setprofile(None)
        calls.append(counted)
        # A later draft has possibly been written before an earlier one is revised.
        assert ("artifact", "d5") in entering["d1"].possibly
        assert ("artifact", "d1") not in entering["d1"].surely
        assert ("artifact", "d0") in entering["d1"].surely
    assert calls[1] < 2.2 * calls[0], calls
