"""Checks of the ways out of states: that each run can go on, and comes to an end.

`stuck`, `no-open-choice`, `dead-transition`: rows of facts without an edge, and vice versa; then
shown by exploring all runs, which also tells `never-binds`.
`unreachable-state`, `no-way-to-the-end`, `no-final-state`: states off every complete path.
`forward-cycle`, `revise-ahead`, `resets-without-total`, `no-effect`: a run might not end.
`stuck_ahead` asks the same of a run that goes on under another total or another machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from loopkit.checks.references import revise_edges
from loopkit.checks.subject import Subject, arrows, forward_path, leading_to, target_path
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language.facts import VERDICT
from loopkit.language.machine import Machine
from loopkit.machine.edges import TOTAL, Edge, budget_key
from loopkit.proof.bounds.configurations import Endless, present_of
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds, Stuck, values_in_words
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import table_of
from loopkit.proof.outcomes.table import OTHER_TEXT, ROOM, Exit, Row, Table
from loopkit.text import plural

if TYPE_CHECKING:
    from loopkit.engine.state import RunState

MAY_BE_STUCK = "may be stuck: its guards leave more cases open than can be enumerated"
MOVE_UP = "delete it, or move it up"


def check_exits(subject: Subject) -> Iterator[Problem]:
    for name in subject.states:
        table = table_of(subject, name)
        if table is not None and table.exits:
            taken = [(row, *table.exits_of(row)) for row in table.rows()]
            held = next((row for row, _, is_left in taken if not is_left), None)
            yield from _stuck(subject, name, table, held)
            yield from _dead(subject, table, {e.edge.id for _, exits, _ in taken for e in exits})


def _stuck(subject: Subject, name: str, table: Table, row: Row | None) -> Iterator[Problem]:
    """`row` is one that may have no transition, if there is such a row."""
    if row is not None:
        path = ("states", name, "transitions")
        message = f"`{name}` {_how_stuck(table, row)}"
        remedy = "add `- {target: STATE}` as the last one"
        yield subject.problem(path, "stuck", message, remedy, key=True)
        return
    shut = table.without_choice() if table.is_human else None
    if shut is not None:
        path = ("states", name, "choices")
        message = f"no choice is open when {_facts_in_words(table, shut) or 'it is asked'}"
        remedy = "offer a choice that leads forward"
        yield subject.problem(path, "no-open-choice", message, remedy)


def _how_stuck(table: Table, row: Row) -> str:
    if not table.is_stuck(row):
        return MAY_BE_STUCK
    reason = _facts_in_words(table, _reduce(table, row))
    return f"is stuck: no transition is open{f' when {reason}' if reason else ''}"


def _reduce(table: Table, row: Row) -> Row:
    """Remove the facts that do not matter for being stuck."""
    named = {name for exit_ in table.exits if exit_.guard for name in exit_.guard.names}
    facts = sorted(row, key=lambda fact: (fact in named, fact in (VERDICT, "choice")))
    kept = dict(row)
    for fact in facts:
        fewer = {other: value for other, value in kept.items() if other != fact}
        if table.is_stuck(table.with_derived_facts(fewer)):
            kept = fewer
    return kept


def _facts_in_words(table: Table, row: Row) -> str:
    shown = (name for name in row if not name.startswith(ROOM) and name != "cap_reached")
    parts = [fact_in_words(name, row[name]) for name in shown]
    return " and ".join([*parts, *_rooms(table, row)])


def fact_in_words(name: str, value: object) -> str:
    match value:
        case None:
            return f"`{name}` is none"
        case frozenset():
            held = ", ".join(
                json.dumps(text, ensure_ascii=False) for text in sorted(map(str, value))
            )
            return f"`{name}` holds {held}" if held else f"`{name}` holds none of those"
        case str() if value == OTHER_TEXT:
            return f"`{name}` is a text that no guard names"
        case _:
            return f"`{name}` is {json.dumps(value, ensure_ascii=False)}"


def _rooms(table: Table, row: Row) -> Iterator[str]:
    row = table.with_derived_facts(row)
    back = [exit_ for exit_ in table.exits if exit_.edge.back]
    if row.get("cap_reached") is True:
        yield "no revisions are left"
        return
    for exit_ in back:
        if exit_.is_open(row) is False:
            yield f"no revision of `{exit_.edge.target}` is left"
    if row.get("cap_reached") is False:
        yield "revisions are left"


def _dead(subject: Subject, table: Table, taken: Collection[str]) -> Iterator[Problem]:
    for exit_ in table.exits:
        if exit_.edge.id in taken or _is_harmless(subject, exit_.edge):
            continue
        reason, remedy = _why_dead(table, exit_)
        message = f"this transition is never taken: {reason}"
        yield subject.warning(exit_.edge.path, "dead-transition", message, remedy)


def _is_harmless(subject: Subject, edge: Edge) -> bool:
    """Whether an edge is a default at the end, or is switched off by a cap of 0."""
    is_last = edge is subject.graph.on(edge.source, "done")[-1]
    is_off = any(subject.graph.caps.get(counter) == 0 for counter in edge.counters)
    return is_off or (is_last and edge.guard is None and not edge.back)


def _why_dead(table: Table, exit_: Exit) -> tuple[str, str]:
    before = table.exits[: table.exits.index(exit_)]
    if any(other.edge.guard is None and not other.edge.back for other in before):
        return "one before it has no guard", MOVE_UP
    if exit_.edge.origin is not None and not table.has_origin(exit_.edge.origin):
        reason = f"nothing that is found here can have the origin `{exit_.edge.origin}`"
        return reason, "leave the origin out, or delete the transition"
    if not table.may_hold(exit_.wanted):
        return "its guard is never true here", "correct the guard, or delete the transition"
    if not table.may_hold(exit_.wanted, exit_.allowed):
        return 'only a report with the verdict "fail" is sent back', "write `target:`, or delete it"
    return "the ones before it cover every case", MOVE_UP


STUCK, SHUT = "stuck", "no-open-choice"
CONFIRMED = frozenset({STUCK, SHUT})
"""Problems found in the rows of a state, which hold only if a run produces such a row."""
DEAD = "dead-transition"
LONGEST_WAY = 12
"""The most steps of a path that are shown; of a longer path, the last ones."""


def confirm_by_exploring(subject: Subject, problems: Sequence[Problem]) -> list[Problem]:
    """The problems of a machine after exploring all its runs.

    Where a run really is stuck, or a person has no open choice, the message names the path. A
    problem that no run reaches is dropped; if this cannot be decided, it becomes a warning.
    Transitions that no run takes and budgets that no run uses up are added. A machine with other
    errors is not explored.
    """
    if any(p.severity == "error" and p.code not in CONFIRMED for p in problems):
        return list(problems)
    try:
        bounds = explore(subject, measures=())
    except Endless:
        return list(problems)
    known = {(problem.code, problem.span) for problem in problems}
    confirmed = list(_confirm(bounds, problems))
    more = [*_further_stuck(subject, bounds, confirmed), *_untaken(subject, bounds)]
    if not any(problem.code in (DEAD, *CONFIRMED) for problem in (*confirmed, *more)):
        # Otherwise consequences of these problems would be reported again.
        more += _check_caps(subject, bounds)
    return [*confirmed, *(problem for problem in more if (problem.code, problem.span) not in known)]


def _confirm(bounds: Bounds, problems: Sequence[Problem]) -> Iterator[Problem]:
    stuck = {found.state: found for found in bounds.stuck}
    for problem in problems:
        if problem.code not in CONFIRMED:
            yield problem
            continue
        found = stuck.get(problem.path.split(".")[1])
        if found is not None and found.is_reached:
            message = problem.message if found.is_sure else _as_a_doubt(problem.message)
            yield problem.replace(message=f"{message} ({how_reached(found)})")
        elif found is not None:
            # The machine has too many configurations to explore all.
            message = f"could not be decided: {_as_a_doubt(problem.message)}"
            remedy = "add `- {target: STATE}` as the last transition, or lower the caps"
            yield problem.replace(message=message, severity="warning", help=remedy)


def _as_a_doubt(message: str) -> str:
    return message.replace("` is stuck: no transition is open", "` may be stuck")


def _further_stuck(
    subject: Subject, bounds: Bounds, confirmed: Sequence[Problem]
) -> Iterator[Problem]:
    """States in which runs are stuck although their own rows do not show it."""
    states = {problem.path.split(".")[1] for problem in confirmed if problem.code in CONFIRMED}
    for found in bounds.stuck:
        if found.state not in states and found.is_reached:
            how = "is stuck: no transition is open" if found.is_sure else MAY_BE_STUCK
            message = f"`{found.state}` {how} ({how_reached(found)})"
            remedy = "add `- {target: STATE}` as the last one"
            path = ("states", found.state, "transitions")
            yield subject.problem(path, STUCK, message, remedy, key=True)


def how_reached(found: Stuck) -> str:
    """The path to a stuck state, with the inputs and counters that lead there."""
    spent = {
        f"revisions by {name}" if "[" in name else name: number
        for name, number in found.counters.items()
        if number
    }
    held = values_in_words({**found.inputs, **spent})
    steps = [*(step.state for step in found.way), found.state]
    shown = ["…", *steps[-LONGEST_WAY:]] if len(steps) > LONGEST_WAY else steps
    return f"a run gets there by {' → '.join(shown)}" + (f", with {held}" if held else "")


def _untaken(subject: Subject, bounds: Bounds) -> Iterator[Problem]:
    for edge_id in bounds.untaken:
        edge = subject.graph.by_id[edge_id]
        if edge.event == "done" and not _is_harmless(subject, edge):
            message = "no run takes this transition: it is closed, or another one comes first, "
            message += f"whenever a run is in `{edge.source}`"
            remedy = "correct the guard or the order, or delete the transition"
            yield subject.warning(edge.path, DEAD, message, remedy)


def _check_caps(subject: Subject, bounds: Bounds) -> Iterator[Problem]:
    for path, counter in _places_of_caps(subject):
        if counter in bounds.unfilled:
            most = bounds.unfilled[counter]
            message = "no run uses it up"
            if most is not None:
                message += f": a run makes at most {plural(most, 'revision')}"
            yield subject.warning(path, "never-binds", message, "lower it, or delete it")


def _places_of_caps(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    """The place of each cap that is not the default, with its counter."""
    limits = subject.machine.limits
    written: Mapping[str, DocPath] = {
        **{budget_key(name): ("limits", "budgets", name) for name in limits.budgets},
        TOTAL: ("limits", "total_revisions"),
        **{edge.id: (*edge.path, "max") for edge in subject.graph.edges if edge.back},
    }
    for counter, path in written.items():
        if counter in subject.graph.caps and subject.source.document.node(path) is not None:
            yield path, counter


def check_reachability(subject: Subject) -> Iterator[Problem]:
    if not subject.machine.finals:
        message = "the machine has no final state, so no run could end"
        remedy = "add one: `done: {final: success}`"
        yield subject.problem(("states",), "no-final-state", message, remedy, key=True)
        return
    reachable = subject.graph.reachable(subject.machine.start)
    for name in subject.states:
        if name not in reachable:
            message = f"no path leads to the state `{name}`"
            remedy = "name it as the `target:` or `next:` of another state, or delete it"
            path = ("states", name)
            yield subject.problem(path, "unreachable-state", message, remedy, key=True)
    ending = leading_to(subject.graph, set(subject.machine.finals))
    lost = reachable - ending
    stranded = [name for name in subject.states if name in lost]
    if not stranded:
        return
    first, *others = stranded
    names = "".join(f", nor from `{name}`" for name in others[:3]) + (", …" if others[3:] else "")
    message = f"no final state can be reached from `{first}`{names}"
    remedy = "add a transition that leads forward, to a final state in the end"
    path = ("states", first)
    yield subject.problem(path, "no-way-to-the-end", message, remedy, key=True)


def stuck_ahead(machine: Machine, run: RunState, total: int | None) -> Stuck | None:
    """The first state in which a run would be stuck with a machine and a total of revisions.

    Everything ahead of the run is gone through, from the configuration in which it stands.
    """
    if machine.limits.total_revisions is not None:
        # Without a total, no edge would spend one.
        limits = machine.limits.model_copy(update={"total_revisions": total})
        machine = machine.model_copy(update={"limits": limits})
    analysis = Analysis.of_machine(machine)
    bounds = explore(analysis, present=present_of(analysis, run), measures=())
    return next((stuck for stuck in bounds.stuck if stuck.is_reached), None)


def stuck_under_total(machine: Machine, run: RunState, total: int) -> str:
    """The message where a run could get stuck with another total of revisions; else empty."""
    if machine.limits.total_revisions is None:
        return ""
    found = stuck_ahead(machine, run, total)
    if found is None:
        return ""
    return (
        f"`{found.state}` would have no transition left{stuck_in_words(found)}; "
        f"choose another number, or add `- {{target: STATE}}` as the last transition of "
        f"`{found.state}` (`--machine FILE`)"
    )


def stuck_in_words(found: Stuck) -> str:
    facts = " and ".join(fact_in_words(name, value) for name, value in found.facts.items())
    return (f" when {facts}" if facts else "") + f" ({how_reached(found)})"


def check_cycles(subject: Subject) -> Iterator[Problem]:
    """Each cycle of forward edges, whole, at the edge that closes it.

    An edge that is taken at a limit closes none, because it is taken once.
    """
    done, told = set[str](), set[str]()
    for start in (subject.machine.start, *subject.states):
        for edge, trail in _cycles_from(subject, start, done):
            # Several nodes of a junction may close the same cycle.
            if edge.id not in told:
                told.add(edge.id)
                yield _cycle(subject, edge, trail)


def _cycles_from(subject: Subject, start: str, done: set[str]) -> Iterator[tuple[Edge, list[str]]]:
    """The edges that close cycles, with the states on the way there, depth first.

    `done` are the nodes from which all cycles have been told.
    """
    junctions = subject.graph.junctions
    if start in done or start not in subject.states:
        return
    trail = {start: iter(_forward(subject, start))}
    while trail:
        waiting = next(reversed(trail.values()))
        edge = next(waiting, None)
        if edge is None:
            done.add(trail.popitem()[0])
        elif (node := junctions.to(edge)) in trail:
            yield edge, [junctions.state_of(each) for each in trail]
        elif node not in done:
            trail[node] = iter(_forward(subject, node))


def _forward(subject: Subject, node: str) -> list[Edge]:
    ways_out = subject.graph.junctions.ways.get(node, ())
    return [e for e in ways_out if e.forward and e.target in subject.states]


def _cycle(subject: Subject, edge: Edge, trail: list[str]) -> Problem:
    cycle = [*trail[trail.index(edge.target) :], edge.target]
    message = f"the forward transitions form a cycle: {arrows(cycle)}"
    if edge.event == "done":
        remedy = f"going back is counted: write `revise: {edge.target}` instead"
    else:
        remedy = f"going back is counted: write `{{revise: {edge.target}, max: 2, feedback: …}}`"
    return subject.problem(target_path(edge), "forward-cycle", message, remedy)


def check_revise_targets(subject: Subject) -> Iterator[Problem]:
    for edge in subject.graph.edges:
        if not edge.back or edge.target not in subject.states:
            continue
        path = target_path(edge)
        if subject.states[edge.target].ends:
            message = f"`{edge.target}` is a final state: nothing can be revised there"
            yield subject.problem(path, "revise-ahead", message, "write `target:`")
        elif forward_path(subject.graph, edge.target, edge.source) is None:
            message = f"no forward path leads from `{edge.target}` back to `{edge.source}`"
            remedy = f"revise a state that comes before `{edge.source}`, or write `target:`"
            yield subject.problem(path, "revise-ahead", message, remedy)


def check_resets(subject: Subject) -> Iterator[Problem]:
    for edge, written in revise_edges(subject):
        path = (*edge.path, "resets")
        resets = getattr(written, "resets", ())
        if not resets:
            continue
        if subject.machine.limits.total_revisions is None:
            message = "counters are reset without a total limit, so a run need not end"
            remedy = "add `limits: {total_revisions: 10}`"
            yield subject.problem(path, "resets-without-total", message, remedy, key=True)
        elif not edge.resets and set(resets) <= subject.states.keys():
            names = " or ".join(f"`{name}`" for name in resets)
            message = f"no other edge revises {names}, so there is nothing to reset"
            yield subject.no_effect(path, message)
