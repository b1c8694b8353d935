"""`stuck`, `no-open-choice`, `dead-transition`, `never-binds`: shown by exploring all runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopkit.checks.exits import MAY_BE_STUCK
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.machine.edges import TOTAL, Edge, budget_key
from loopkit.proof.bounds import Bounds, Endless, Stuck, Taken, explore
from loopkit.proof.bounds.result import values_in_words
from loopkit.text import plural

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
    more = [*_further_stuck(subject, bounds, confirmed), *_dead(subject, bounds)]
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
            yield _as_undecided(problem)


def _as_undecided(problem: Problem) -> Problem:
    """The problem as a warning: the machine has too many configurations to explore all."""
    message = _as_a_doubt(problem.message)
    remedy = "add `- {target: STATE}` as the last transition, or lower the caps"
    return problem.replace(
        message=f"could not be decided: {message}", severity="warning", help=remedy
    )


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
            yield subject.source.problem(path, STUCK, message, help=remedy, key=True)


def how_reached(found: Stuck) -> str:
    """The path to a stuck state, with the inputs and counters that lead there."""
    spent = {
        f"revisions by {name}" if "[" in name else name: number
        for name, number in found.counters.items()
        if number
    }
    held = values_in_words({**found.inputs, **spent})
    return f"a run gets there by {_way(found.way, found.state)}" + (
        f", with {held}" if held else ""
    )


def _way(way: Sequence[Taken], end: str) -> str:
    steps = [*(step.state for step in way), end]
    shown = steps[-LONGEST_WAY:]
    return " → ".join(["…", *shown] if len(shown) < len(steps) else shown)


def _dead(subject: Subject, bounds: Bounds) -> Iterator[Problem]:
    for edge_id in bounds.untaken:
        edge = subject.graph.by_id[edge_id]
        if edge.event == "done" and not _is_harmless(subject, edge):
            yield subject.source.problem(
                edge.path,
                DEAD,
                "no run takes this transition: it is closed, or another one comes first, whenever "
                f"a run is in `{edge.source}`",
                help="correct the guard or the order, or delete the transition",
                severity="warning",
            )


def _check_caps(subject: Subject, bounds: Bounds) -> Iterator[Problem]:
    for path, counter in _places_of_caps(subject):
        if counter in bounds.unfilled:
            most = bounds.unfilled[counter]
            yield subject.source.problem(
                path,
                "never-binds",
                "no run uses it up"
                + (f": a run makes at most {plural(most, 'revision')}" if most is not None else ""),
                help="lower it, or delete it",
                severity="warning",
            )


def _is_harmless(subject: Subject, edge: Edge) -> bool:
    """Whether an edge is a default at the end, or is switched off by a cap of 0."""
    is_last = edge is subject.graph.on(edge.source, "done")[-1]
    is_off = any(subject.graph.caps.get(counter) == 0 for counter in edge.counters)
    return is_off or (is_last and edge.guard is None and not edge.back)


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
