"""What the proof knows of `each` and `machine` states: rows of facts, and how their work fails."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from loopkit.checks import check
from loopkit.engine.events import Decided
from loopkit.language.guard.evaluate import truth
from loopkit.language.guard.grammar import parse
from loopkit.language.load import load
from loopkit.language.states.each import EachState
from loopkit.machine.item_list import item_counts
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import Endings, faults_of, rows_of_items, table_of
from tests import test_children as children
from tests.support import Desk, scenario

CHILD = """
loopkit: 1
input: {text: {type: str, default: tea}}
states:
  copy: {render: "{{ input.text }}", next: good}
  good: {final: success}
  bad: {final: failure}
"""
INPUT = "input: {parts: [str], allowed: {type: int, minimum: 0, maximum: 4, default: 0}}"


def parent(
    *transitions: str, more: str = "max_items: 6", of: str = "input.parts", head: str = INPUT
) -> str:
    """A machine whose state `tasks` runs another one for each item of a list."""
    listed = "\n".join(f"      - {one}" for one in transitions or ("{target: done}",))
    return f"""
loopkit: 1
{head}
states:
  tasks:
    each: {of}
    as: part
    key: part
    machine: child.yaml
    {more}
    transitions:
{listed}
  done: {{final: success}}
  other: {{final: success}}
  failed: {{final: failure}}
"""


PLAN = "plan: {agent: lead, prompt: So?, on_error: failed, next: done}"


def working(*transitions: str, more: str = "") -> str:
    """A machine whose state `work` runs another one."""
    return f"""
loopkit: 1
agents: {{lead: {{model: a/lead, retry: {{attempts: 1}}}}}}
states:
  work: {{machine: child.yaml, transitions: [{", ".join(transitions)}]}}
  {more}
  done: {{final: success}}
  failed: {{final: failure}}
"""


def analysis_of(desk: Desk, text: str, child: str = CHILD) -> Analysis:
    desk.write("child.yaml", child)
    return Analysis.of_machine(load(desk.write("machine.yaml", text)).machine)


def tasks(analysis: Analysis) -> EachState:
    state = analysis.machine.states["tasks"]
    assert isinstance(state, EachState)
    return state


# -- rows --------------------------------------------------------------------------------------

BITS = [
    "failed == 0", "succeeded == total", "failed > 2", "succeeded < failed", "deadlocked",
    "total == 4", "failed <= input.allowed", "succeeded in [1, 3]", "failed == succeeded",
    "not deadlocked", "succeeded > 1.5", "total > failed", "5 <= total", "failed >= succeeded",
]  # fmt: skip
SETTINGS = [
    "max_items: 6", "max_items: 5, min_items: 3", "max_items: 4, min_items: 0",
    "max_items: 6, after: part", "max_items: 5, stop_on: [bad]", "max_items: 5, stop_on: [good]",
    "max_items: 5, after: {of: part, when: [bad]}", "max_items: 1, after: part",
    "max_items: 4, after: {of: part, when: [good, bad]}",
]  # fmt: skip
CHILDREN = [
    CHILD,
    CHILD.replace("  bad: {final: failure}\n", ""),
    CHILD.replace("good: {final: success}", "good: {final: failure}"),
]


def every(state: EachState, low: int, high: int) -> Iterator[Mapping[str, Any]]:
    """All ways in which items can end: brute force over the end of each."""
    ends = Endings(state)
    for good, bad in product(range(high + 1), repeat=2):
        if low <= good + bad <= high and ends.may_be(good, bad):
            for blocked in (False, True) if ends.may_block(good, bad) else (False,):
                total = good + bad
                yield {"succeeded": good, "failed": bad, "total": total, "deadlocked": blocked}


@pytest.mark.parametrize("more", SETTINGS)
@pytest.mark.parametrize("child", CHILDREN)
def test_rows_of_items_stand_for_every_way_in_which_guards_tell_them_apart(
    more: str, child: str, desk: Desk
) -> None:
    lines = (
        more.replace(", ", "\n    ") if "{" not in more else more.replace(", after", "\n    after")
    )
    if any(f"[{name}]" in more and f"{name}: {{final" not in child for name in ("good", "bad")):
        return
    analysis = analysis_of(desk, parent(more=lines), child)
    state = tasks(analysis)
    low, high = item_counts(analysis.graph, state)
    assert high is not None
    chance = random.Random(more)
    for _ in range(20):
        guards = [parse(bit) for bit in chance.sample(BITS, chance.randint(0, 4))]
        rows = rows_of_items(analysis, state, guards)
        real = list(every(state, low, high))
        assert all(row in real for row in rows)
        for allowed in range(5):
            told = {_told(guards, {**row, "input.allowed": allowed}) for row in rows}
            assert told == {_told(guards, {**row, "input.allowed": allowed}) for row in real}


def _told(guards: list[Any], row: Mapping[str, Any]) -> tuple[bool | None, ...]:
    return tuple(truth(guard.tree, row) for guard in guards)


def test_rows_with_facts_that_are_compared_with_what_is_not_known_leave_them_open(
    desk: Desk,
) -> None:
    head = INPUT.replace("allowed: {type: int, minimum: 0, maximum: 4, default: 0}", "allowed: int")
    analysis = analysis_of(desk, parent(head=head))
    rows = rows_of_items(analysis, tasks(analysis), [parse("failed <= input.allowed")])
    assert rows == ({"deadlocked": False},)


@pytest.mark.parametrize(
    ("more", "of", "head", "counts"),
    [
        ("max_items: 6", "input.parts", "input: {parts: [str]}", (1, 6)),
        ("min_items: 0", "input.parts", "input: {parts: [str]}", (0, None)),
        (
            "max_items: 6",
            "input.parts",
            "input: {parts: {type: array, minItems: 2, maxItems: 3}}",
            (2, 3),
        ),
        (
            "group: part",
            "input.a[].b[]",
            "input: {a: {type: array, maxItems: 3, items: {type: object, properties: "
            "{b: {type: array, maxItems: 4}}}}}",
            (1, 12),
        ),
    ],
)
def test_a_list_has_the_bounds_of_its_type_and_of_its_state(
    more: str, of: str, head: str, counts: tuple[int, int | None], desk: Desk
) -> None:
    analysis = analysis_of(desk, parent(more=more, of=of, head=head))
    assert item_counts(analysis.graph, tasks(analysis)) == counts


# -- what checks learn of it -------------------------------------------------------------------


def dead(
    desk: Desk, *transitions: str, more: str = "max_items: 6", head: str = INPUT
) -> tuple[str, ...]:
    analysis = analysis_of(desk, parent(*transitions, more=more, head=head))
    return tuple(edge for edge in explore(analysis, measures=()).untaken if ".limit" not in edge)


def test_a_transition_on_what_items_never_come_to_is_not_taken(desk: Desk) -> None:
    ok = ("{guard: succeeded == total, target: done}", "{guard: failed > 0, target: failed}")
    assert dead(desk, *ok, "{target: other}") == ("tasks[2]",)
    assert dead(desk, "{guard: failed == 0 and succeeded < total, target: done}", ok[1], ok[0]) == (
        "tasks[0]",
    )
    assert dead(desk, "{guard: deadlocked, target: other}", *ok) == ("tasks[0]",)
    after = "max_items: 6\n    after: part"
    assert dead(desk, "{guard: deadlocked, target: other}", *ok, more=after) == ()
    blocked = "{guard: deadlocked and failed < 2, target: other}"
    assert dead(desk, blocked, *ok, more=after) == ("tasks[0]",)
    assert dead(desk, "{guard: total > 6, target: other}", *ok) == ("tasks[0]",)
    assert dead(desk, "{guard: total > 5, target: other}", *ok) == ()


@pytest.mark.parametrize("name", ["total", "failed", "succeeded"])
def test_an_input_called_like_a_fact_of_items_is_no_fact_of_them(name: str, desk: Desk) -> None:
    head = f"input: {{parts: [str], {name}: {{type: int, minimum: 20, maximum: 30}}}}"
    guard = f"{{guard: succeeded == input.{name} and failed == 0, target: done}}"
    text = parent(guard, "{target: failed}", more="max_items: 40", head=head)
    assert dead(desk, guard, "{target: failed}", more="max_items: 40", head=head) == ()
    assert explore(analysis_of(desk, text)).runs.best is not None
    few = dead(desk, guard, "{target: failed}", more="max_items: 19", head=head)
    assert few == ("tasks[0]",)


def test_facts_of_other_items_are_compared_with_as_what_is_not_known(desk: Desk) -> None:
    analysis = analysis_of(desk, parent())
    rows = rows_of_items(analysis, tasks(analysis), [parse("failed == first.failed")])
    assert rows == ({"deadlocked": False},)
    alone = rows_of_items(analysis, tasks(analysis), [parse("first.failed == 3")])
    assert alone == rows_of_items(analysis, tasks(analysis), [])


def test_a_state_may_name_facts_of_its_own_items_as_other_states_do(desk: Desk) -> None:
    guard = "{guard: succeeded == 17 and tasks.failed == 3, target: done}"
    table = table_of(analysis_of(desk, parent(guard, more="max_items: 40")), "tasks")
    assert table is not None
    assert any((row["succeeded"], row["failed"]) == (17, 3) for row in table.rows())


def test_a_state_that_forgets_a_row_of_its_items_is_stuck(desk: Desk) -> None:
    guards = ("{guard: failed == 0, target: done}", "{guard: failed > 1, target: failed}")
    [stuck] = explore(analysis_of(desk, parent(*guards)), measures=()).stuck
    assert (stuck.state, stuck.is_sure, stuck.facts["failed"]) == ("tasks", True, 1)
    table = table_of(analysis_of(desk, parent(*guards)), "tasks")
    assert table is not None
    assert any(table.is_stuck(row) for row in table.rows())


def test_facts_of_items_are_known_in_later_states(desk: Desk) -> None:
    text = parent("{target: choose}").replace(
        "  done:",
        """\
  choose:
    transitions:
      - {guard: tasks.failed == 0, target: done}
      - {guard: tasks.succeeded < tasks.total, target: failed}
      - {target: other}
  done:""",
    )
    assert explore(analysis_of(desk, text), measures=()).untaken == ("choose[2]",)


def test_an_outcome_is_one_of_the_final_states_of_the_machine_that_is_run(desk: Desk) -> None:
    bad = '{guard: outcome == "bad", target: failed}'
    text = working('{guard: outcome == "good", target: done}', bad)
    bounds = explore(analysis_of(desk, text), measures=())
    assert (bounds.untaken, bounds.stuck) == ((), ())


@pytest.mark.parametrize(
    ("work", "faults"),
    [
        ("each: input.parts, as: part, key: part, max_items: 2", ()),
        ("each: input.parts, as: part, key: part, max_items: 2, input: {text: '{{ part }}'}", ()),
        ("each: plan.parts, as: part, key: part, max_items: 2", ("content",)),
        (
            "each: input.parts, as: part, key: part, max_items: 2, input: {text: '{{ plan }}'}",
            ("content",),
        ),
        ("input: {text: '{{ input.parts }}'}", ()),
        ("input: {text: 'For {{ plan }}'}", ("content",)),
    ],
)
def test_what_a_run_makes_may_be_no_input_of_a_child(
    work: str, faults: tuple[str, ...], desk: Desk
) -> None:
    text = f"""
loopkit: 1
{INPUT}
states:
  plan: {{render: Tea., next: work}}
  work: {{machine: child.yaml, {work}, next: done}}
  done: {{final: success}}
"""
    assert faults_of(analysis_of(desk, text), "work") == faults


# -- bounds ------------------------------------------------------------------------------------

WRITING = """
loopkit: 1
input: {text: {type: str, default: tea}, tries: {type: int, minimum: 0, maximum: 3, default: 1}}
agents:
  writer: {model: a/writer, retry: {attempts: 3}}
  critic: {model: a/critic, retry: {attempts: 1}}
states:
  draft: {agent: writer, prompt: "{{ input.text }}", next: check}
  check:
    validate: draft
    by: [{judge: critic, reask: 0}]
    transitions:
      - {guard: valid, target: good}
      - {revise: draft, max: input.tries}
      - {target: bad}
  good: {final: success, result: draft}
  bad: {final: failure}
"""
USD = {"writer": 5, "critic": 1, "lead": 2}


def bounds_of(desk: Desk, text: str, **known: Any) -> Bounds:
    return explore(analysis_of(desk, text, WRITING), price=lambda agent, *_: USD[agent], **known)


def totals(bounds: Bounds) -> tuple[Any, Any]:
    """(best, worst), each as agent runs, calls and cost."""
    measures = (bounds.runs, bounds.calls, bounds.cost)
    return tuple(m.best and m.best.total for m in measures), tuple(m.worst.total for m in measures)


ALL_GOOD = ("{guard: failed == 0, target: done}", "{target: failed}")


def test_items_take_as_much_as_their_machine_does_for_each(desk: Desk) -> None:
    # The worst item: written and judged twice, 2 · (3 + 2) = 10 calls, 2 · (3 · 5 + 2) = 34 USD.
    bounds = bounds_of(desk, parent(*ALL_GOOD))
    assert totals(bounds) == ((2, 2, 6), (6 * 4, 6 * 10, 6 * 34))
    assert bounds.calls.worst.by_agent == {"tasks · writer": 36, "tasks · critic": 24}
    assert bounds.calls.worst.by_state == {"tasks": 60}
    assert bounds.calls.worst.is_exact
    three = bounds_of(desk, parent(*ALL_GOOD, more="max_items: 6\n    min_items: 3"))
    assert totals(three) == ((6, 6, 18), (24, 60, 204))


def test_a_list_that_is_known_has_its_own_bounds(desk: Desk) -> None:
    known = bounds_of(desk, parent(*ALL_GOOD), inputs={"parts": ["a", "b", "c"]})
    assert totals(known) == ((6, 6, 18), (12, 30, 102))


def test_what_a_child_is_given_counts_in_its_bounds(desk: Desk) -> None:
    def worst(given: str, **inputs: Any) -> Any:
        text = parent(*ALL_GOOD, more=f"max_items: 1\n    input: {given}")
        return bounds_of(desk, text, inputs=inputs or None).runs.worst

    assert worst("{tries: 0}").total == 2
    assert worst('{tries: "{{ input.allowed }}"}', allowed=2).total == 6
    # Not known: any number may be given, and whether 3 is, nobody knows.
    some = worst('{tries: "{{ input.allowed }}"}')
    assert (some.total, some.is_exact) == (8, False)


def test_items_that_may_be_cancelled_or_blocked_take_less(desk: Desk) -> None:
    few = ("{guard: succeeded > 0, target: done}", "{target: failed}")
    for more in ("stop_on: [bad]", "after: part"):
        waiting = parent(*few, more=f"max_items: 6\n    min_items: 4\n    {more}")
        # One has to succeed, and another one to fail, so that the others are left out: at least
        # with two empty answers, which nobody judges.
        assert totals(bounds_of(desk, waiting))[0] == (2 + 2, 4, 6 + 10)
        assert totals(bounds_of(desk, waiting))[1] == (24, 60, 204)
    none = parent("{target: done}", more="max_items: 6\n    min_items: 0")
    assert totals(bounds_of(desk, none))[0] == (0, 0, 0)


@pytest.mark.parametrize(
    "again",
    [
        "{human: So?, choices: [yes, no], transitions: "
        '[{guard: choice == "no", revise: tasks, max: 1}, {target: done}]}',
        # Here a second visit has to follow.
        "{transitions: [{revise: tasks, max: 1, feedback: Again.}, {target: done}]}",
    ],
)
def test_what_has_succeeded_before_may_cost_nothing_the_second_time(again: str, desk: Desk) -> None:
    text = parent("{target: again}").replace("  done:", f"  again: {again}\n  done:")
    assert totals(bounds_of(desk, text)) == ((2, 2, 6), (48, 120, 408))


def test_a_machine_takes_what_its_run_to_an_outcome_takes(desk: Desk) -> None:
    text = working('{guard: outcome == "bad", target: plan}', "{target: failed}", more=PLAN)
    # To `bad` a run comes only after its revision, with two empty answers at least.
    assert totals(bounds_of(desk, text)) == ((2 + 1, 3, 10 + 2), (4 + 1, 10 + 1, 34 + 2))


def test_of_a_large_machine_the_most_to_one_outcome_is_no_exact_figure(desk: Desk) -> None:
    """Its dearest path leads to another outcome, so no run takes as much and comes to this one."""
    child = """
loopkit: 1
agents: {writer: {model: a/writer}, critic: {model: a/critic}}
states:
  draft: {agent: writer, prompt: Go., next: which}
  which:
    human: So?
    choices: [yes, no]
    transitions: [{guard: choice == "yes", target: good}, {target: again}]
  again: {agent: critic, prompt: Go., next: bad}
  good: {final: success}
  bad: {final: failure}
"""
    text = working('{guard: outcome == "OUTCOME", target: plan}', "{target: failed}", more=PLAN)

    def worst(outcome: str, **known: Any) -> Any:
        analysis = analysis_of(desk, text.replace("OUTCOME", outcome), child)
        return explore(analysis, price=lambda *_: 1, **known).runs.worst

    assert [worst(end).total for end in ("good", "bad")] == [2, 3]
    good, bad = (worst(end, most=1) for end in ("good", "bad"))
    assert (good.total, good.is_exact) == (3, False)
    assert (bad.total, bad.is_exact) == (3, False)


def test_a_machine_is_explored_once_for_all_states_that_run_it(desk: Desk) -> None:
    deep = 3
    desk.write("m0.yaml", WRITING)
    for level in range(1, deep + 1):
        states = "".join(
            f"  s{n}: {{machine: m{level - 1}.yaml, next: {f's{n + 1}' if n < 2 else 'good'}}}\n"
            for n in range(3)
        )
        text = f"loopkit: 1\nstates:\n{states}  good: {{final: success}}\n"
        path = desk.write(f"m{level}.yaml", text)
    # 3 to the power of 3 runs, of 3 + 1 machines.
    bounds = explore(Analysis.of_machine(load(path).machine), price=lambda *_: 1)
    assert totals(bounds)[0] == (2 * 3**deep,) * 3


def test_calls_of_children_without_a_price_leave_the_cost_unknown(desk: Desk) -> None:
    analysis = analysis_of(desk, parent(*ALL_GOOD), WRITING)
    bounds = explore(analysis, price=lambda agent, *_: None if agent == "critic" else 1)
    assert bounds.cost.worst.total is None
    assert bounds.unpriced == (("tasks · critic", "tasks · by[0]"),)
    assert bounds.calls.worst.total == 60


def test_items_that_all_fail_take_as_much_as_their_machine_does(desk: Desk) -> None:
    failing = WRITING.replace("good: {final: success", "good: {final: failure")
    # Nor is one of them suspended.
    failing = failing.replace("next: check", "on_error: bad, next: check")
    failing = failing.replace("    validate: draft\n", "    validate: draft\n    on_error: bad\n")
    analysis = analysis_of(desk, parent("{target: done}"), failing)
    bounds = explore(analysis, price=lambda agent, *_: USD[agent])
    assert totals(bounds)[1] == (24, 60, 204)


@pytest.mark.parametrize(("named", "row"), [("succeeded", (7, 33)), ("failed", (33, 7))])
def test_a_long_list_has_a_row_for_a_number_of_its_whole(
    named: str, row: tuple[int, int], desk: Desk
) -> None:
    analysis = analysis_of(desk, parent(more="max_items: 90"))
    guards = [parse(f"{named} == 7"), parse("total == 40")]
    rows = rows_of_items(analysis, tasks(analysis), guards)
    assert row in {(one["succeeded"], one["failed"]) for one in rows}


# -- limits of a family --------------------------------------------------------------------------


def told_of(desk: Desk, limits: str) -> list[tuple[str, str]]:
    text = parent(*ALL_GOOD).replace("states:", f"limits: {{{limits}}}\nstates:", 1)
    desk.write("child.yaml", WRITING.replace("model: a/writer", "command: [tea], price_per_run: 3"))
    found = check(load(desk.write("machine.yaml", text)))
    return [(p.code, p.message) for p in found if p.path.startswith("limits")]


def test_a_limit_of_a_run_that_asks_nobody_counts_its_children(desk: Desk) -> None:
    assert told_of(desk, "agent_calls: 7, cost_usd: 5000") == []
    assert ("never-binds", "no state asks an agent or a judge") not in told_of(desk, "tokens: 9")


def test_a_limit_into_which_no_call_of_a_child_fits_is_told(desk: Desk) -> None:
    [(code, message)] = told_of(desk, "cost_usd: 0.5")
    assert code == "no-call-fits"
    assert message.startswith("no call of `tasks · writer` fits into this limit")


# -- what runs really take ---------------------------------------------------------------------

TASK = children.TASK.replace("done", "good").replace("failed", "bad")
TASKS = """
loopkit: 1
input: {tasks: [{id: str, needs: {type: [str], default: []}}]}
states:
  tasks:
    each: input.tasks
    as: task
    key: task.id
    max_items: 4
    machine: task.yaml
    input: {text: "{{ task.id }}"}
    MORE
    transitions:
      - {guard: deadlocked, target: blocked}
      - {guard: failed == 0, target: done}
      - {guard: succeeded > failed, target: most}
      - {target: few}
  done: {final: success}
  most: {final: success}
  few: {final: failure}
  blocked: {final: failure}
"""
SAID = (["good"], ["bad", "good"], ["bad", "bad"])


def spoken(words: Mapping[str, list[str]]) -> str:
    """A script in which the writers of the children say this, by the keys of these."""
    parts = {name: {"agents": {"writer": said}} for name, said in {"*": [], **words}.items()}
    return scenario(children={"tasks": parts})


@pytest.mark.parametrize(
    "more",
    [
        ["parallel: 2"],
        ["after: task.needs"],
        ["parallel: 3", "after: {of: task.needs, when: [bad]}"],
        ["stop_on: [bad]"],
        ["parallel: 2", "stop_on: [good]"],
        ["parallel: 2", "after: task.needs", "stop_on: [bad]"],
    ],
)
def test_runs_come_to_rows_that_are_known_and_stay_within_the_bounds(
    more: list[str], desk: Desk
) -> None:
    desk.write("task.yaml", TASK)
    text = TASKS.replace("MORE", "\n    ".join(more))
    analysis = Analysis.of_machine(load(desk.write("machine.yaml", text)).machine)
    state, chance = tasks(analysis), random.Random(str(more))
    ending = Endings(state)
    anything = explore(analysis)
    for _ in range(5):
        ids = "abcd"[: chance.randint(1, 4)]
        items = [
            {"id": name, "needs": [other for other in ids[:at] if chance.random() < 0.4]}
            for at, name in enumerate(ids)
        ]
        words = {name: chance.choice(SAID) for name in ids}
        run = desk.play(text, spoken(words), {"tasks": items})
        row = run.state.facts["tasks"]
        assert ending.may_be(row["succeeded"], row["failed"]), row
        assert not row["deadlocked"] or ending.may_block(row["succeeded"], row["failed"]), row
        for bounds in (anything, explore(analysis, inputs={"tasks": items})):
            assert not {event.edge for event in run.of(Decided)} & {*bounds.untaken}
            calls = run.state.usage.agent_calls
            assert calls <= (bounds.calls.worst.total or 0)
            if run.outcome in ("done", "most") and bounds.calls.best is not None:
                assert calls >= (bounds.calls.best.total or 0)


def test_the_most_that_items_can_take_is_what_a_run_takes(desk: Desk) -> None:
    desk.write("task.yaml", TASK)
    text = (
        TASKS.replace("MORE", "parallel: 2")
        .replace("      - {guard: deadlocked, target: blocked}\n", "")
        .replace("  blocked: {final: failure}\n", "")
    )
    bounds = explore(Analysis.of_machine(load(desk.write("machine.yaml", text)).machine))
    items = [{"id": name} for name in "abcd"]
    run = desk.play(text, spoken({key: ["bad", "bad"] for key in "abcd"}), {"tasks": items})
    assert run.state.usage.agent_calls == bounds.calls.worst.known == bounds.calls.worst.total == 8
