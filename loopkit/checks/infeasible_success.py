"""`infeasible-success`: an artifact that its author declares impossible ends as a success."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks import state_paths
from loopkit.checks.subject import Subject, target_path
from loopkit.document.problems import Problem
from loopkit.language.facts import VERDICT
from loopkit.machine.edges import Edge
from loopkit.machine.graph import artifact_of
from loopkit.proof.outcomes import table_of
from loopkit.proof.outcomes.unjudged import may_be_infeasible


def check_infeasible_success(subject: Subject) -> Iterator[Problem]:
    """A warning for each edge of such a report that leads to a success without another judgement.

    A validate state, a person, and another writing of the artifact count as judging again.
    """
    for name, state in subject.judges.items():
        if may_be_infeasible(subject, name):
            for edge in _edges_of_infeasible(subject, name):
                yield from _check_path(subject, edge, state.validate_)


def _edges_of_infeasible(subject: Subject, name: str) -> list[Edge]:
    """The edges out of a validate state that a report `infeasible` may take."""
    table = table_of(subject, name)
    if table is None:
        return []
    rows = [row for row in table.rows() if row.get(VERDICT) == "infeasible"]
    taken = {exit_.edge.id: exit_.edge for row in rows for exit_ in table.exits_of(row)[0]}
    # If no guard names it, such a report is an error of the class content.
    return list(taken.values()) if rows else list(subject.graph.on(name, "content"))


def _check_path(subject: Subject, edge: Edge, artifact: str) -> Iterator[Problem]:
    def follows(onward: Edge) -> bool:
        state = subject.machine.states[onward.source]
        is_judge = state.waits or state.judges is not None
        rewrites = artifact_of(subject.machine, onward.source) == artifact
        return onward.event != "limit" and not is_judge and not rewrites

    way = state_paths.shortest_path(
        subject.graph, edge.target, lambda name: subject.machine.states[name].succeeds, follows
    )
    if way is not None:
        message = f"`{artifact}` may be infeasible here, and the run succeeds without judging it"
        path = state_paths.arrows((edge.source, *way))
        remedy = f"on the path {path}; let `infeasible` lead elsewhere"
        yield subject.source.problem(
            target_path(edge), "infeasible-success", message, help=remedy, severity="warning"
        )
