"""`missing-feedback`, `undelivered-feedback`: a revise edge does not tell the author why."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks import state_paths
from loopkit.checks.subject import Subject, target_path
from loopkit.document.problems import Problem
from loopkit.language.states.children import ChildrenState
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph


def check_feedback(subject: Subject) -> Iterator[Problem]:
    """A revise edge without a report has feedback, and somebody receives the feedback."""
    for edge in subject.graph.edges:
        if edge.back:
            if edge.judges_again(subject.machine.states):
                continue
            yield from _check_presence(subject, edge)
            yield from _check_delivery(subject, edge)


def _check_presence(subject: Subject, edge: Edge) -> Iterator[Problem]:
    source = subject.machine.states[edge.source]
    if edge.feedback is not None or source.judges is not None or edge.origin is not None:
        # Findings that go to an origin were made before.
        return
    example = '"{{ comment }}"' if source.waits else '"What has to change: …"'
    message = f"`{edge.source}` judges nothing, so it has no findings to send back"
    remedy = f"say what has to change: `feedback: {example}`"
    path = target_path(edge)
    yield subject.source.problem(path, "missing-feedback", message, help=remedy, key=True)


def _check_delivery(subject: Subject, edge: Edge) -> Iterator[Problem]:
    """Only agents and templates read feedback; else it waits for the artifact's author."""
    target = subject.machine.states.get(edge.target)
    if isinstance(target, ChildrenState) and Graph(target.child).first_author is None:
        message = f"no state of `{target.machine.file}` that reads feedback is on all of its paths"
        yield subject.source.problem(
            target_path(edge),
            "undelivered-feedback",
            message,
            help="a child that runs again is not told why",
            severity="warning",
        )
    if target is None or target.reads_feedback or target.ends:
        return
    judged = subject.machine.states[edge.source].judges
    path = target_path(edge)
    if judged is None:
        message = f"`{edge.target}` reads no feedback: it is neither an agent nor a template"
        readers = _readers(subject, edge)
        remedy = f"revise the state that has to change something{readers}"
        yield subject.source.problem(path, "undelivered-feedback", message, help=remedy)
        return
    for author in subject.graph.artifacts.get(judged, ()):
        way = _way_around(subject, edge, author)
        if way is not None:
            message = (
                f"the feedback is for `{author}`, which does not work on every path from there"
            )
            remedy = f"not on {state_paths.arrows(way)}; revise `{author}` itself"
            yield subject.source.problem(path, "undelivered-feedback", message, help=remedy)
            return


def _readers(subject: Subject, edge: Edge) -> str:
    """The states before an edge that read feedback, for a remedy."""
    states = [
        name
        for name, state in subject.machine.states.items()
        if state.reads_feedback and edge.source in subject.graph.reachable(name, back=False)
    ]
    return ": " + ", ".join(f"`{name}`" for name in states[:5]) if states else ""


def _way_around(subject: Subject, edge: Edge, author: str) -> state_paths.StatePath | None:
    """A forward path from the target of a revise edge to its source without the author."""
    if author == edge.target:
        return None
    return state_paths.shortest_path(
        subject.graph,
        edge.target,
        lambda name: name == edge.source,
        lambda way: way.forward and way.target != author,
    )
