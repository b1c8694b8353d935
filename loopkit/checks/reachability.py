"""`unreachable-state`, `no-way-to-the-end`, `no-final-state`: states off every complete path."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.state_paths import leading_to
from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem


def check_reachability(subject: Subject) -> Iterator[Problem]:
    """States that no path enters, and those from which no final state can be reached."""
    if not subject.machine.finals:
        message = "the machine has no final state, so no run could end"
        remedy = "add one: `done: {final: success}`"
        yield subject.source.problem(("states",), "no-final-state", message, help=remedy, key=True)
    else:
        yield from _unreachable(subject)
        yield from _without_end(subject)


def _unreachable(subject: Subject) -> Iterator[Problem]:
    reachable = subject.graph.reachable(subject.machine.start)
    for name in subject.machine.states:
        if name not in reachable:
            message = f"no path leads to the state `{name}`"
            remedy = "name it as the `target:` or `next:` of another state, or delete it"
            path = ("states", name)
            yield subject.source.problem(path, "unreachable-state", message, help=remedy, key=True)


def _without_end(subject: Subject) -> Iterator[Problem]:
    ending = leading_to(subject.graph, set(subject.machine.finals))
    lost = subject.graph.reachable(subject.machine.start) - ending
    stranded = [name for name in subject.machine.states if name in lost]
    if not ending or not stranded:
        return
    first, *others = stranded
    names = "".join(f", nor from `{name}`" for name in others[:3]) + (", …" if others[3:] else "")
    message = f"no final state can be reached from `{first}`{names}"
    remedy = "add a transition that leads forward, to a final state in the end"
    path = ("states", first)
    yield subject.source.problem(path, "no-way-to-the-end", message, help=remedy, key=True)
