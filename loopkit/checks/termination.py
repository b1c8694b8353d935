"""`forward-cycle`, `revise-ahead`, `resets-without-total`, `no-effect`: a run might not end."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks import state_paths
from loopkit.checks.subject import Subject, target_path
from loopkit.document.problems import Problem
from loopkit.machine.edges import Edge


def check_cycles(subject: Subject) -> Iterator[Problem]:
    """Each cycle of forward edges, whole, at the edge that closes it.

    An edge that is taken at a limit closes none, because it is taken once.
    """
    done: set[str] = set()
    told: set[str] = set()
    for start in (subject.machine.start, *subject.machine.states):
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
    if start in done or start not in subject.machine.states:
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
    return [e for e in ways_out if e.forward and e.target in subject.machine.states]


def _cycle(subject: Subject, edge: Edge, trail: list[str]) -> Problem:
    cycle = [*trail[trail.index(edge.target) :], edge.target]
    message = f"the forward transitions form a cycle: {state_paths.arrows(cycle)}"
    if edge.event == "done":
        remedy = f"going back is counted: write `revise: {edge.target}` instead"
    else:
        remedy = f"going back is counted: write `{{revise: {edge.target}, max: 2, feedback: …}}`"
    return subject.source.problem(target_path(edge), "forward-cycle", message, help=remedy)


def check_revise_targets(subject: Subject) -> Iterator[Problem]:
    """A revise target reaches its source by forward edges, or is it."""
    for edge in subject.graph.edges:
        if not edge.back or edge.target not in subject.machine.states:
            continue
        path = target_path(edge)
        if subject.machine.states[edge.target].ends:
            message = f"`{edge.target}` is a final state: nothing can be revised there"
            yield subject.source.problem(path, "revise-ahead", message, help="write `target:`")
        elif not _leads_to(subject, edge.target, edge.source):
            message = f"no forward path leads from `{edge.target}` back to `{edge.source}`"
            remedy = f"revise a state that comes before `{edge.source}`, or write `target:`"
            yield subject.source.problem(path, "revise-ahead", message, help=remedy)


def _leads_to(subject: Subject, start: str, goal: str) -> bool:
    way = state_paths.shortest_path(
        subject.graph, start, lambda name: name == goal, lambda edge: edge.forward
    )
    return way is not None


def check_resets(subject: Subject) -> Iterator[Problem]:
    """`resets` needs a total that is never reset, and edges that it can reset."""
    for edge in subject.graph.edges:
        resets = _resets(subject, edge)
        if not resets:
            continue
        path = (*edge.path, "resets")
        if subject.machine.limits.total_revisions is None:
            message = "counters are reset without a total limit, so a run need not end"
            remedy = "add `limits: {total_revisions: 10}`"
            yield subject.source.problem(
                path, "resets-without-total", message, help=remedy, key=True
            )
        elif not edge.resets and set(resets) <= subject.machine.states.keys():
            names = " or ".join(f"`{name}`" for name in resets)
            message = f"no other edge revises {names}, so there is nothing to reset"
            yield subject.no_effect(path, message)


def _resets(subject: Subject, edge: Edge) -> tuple[str, ...]:
    """The states that an edge resets, as they are written."""
    transitions = getattr(subject.machine.states[edge.source], "transitions", None)
    if edge.event != "done" or not transitions or not isinstance(edge.path[-1], int):
        return ()
    return tuple(transitions[edge.path[-1]].resets)
