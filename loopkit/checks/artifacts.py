"""`unknown-artifact`, `may-be-missing`: an artifact is used that not every path has written."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks import state_paths
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.machine.edges import Edge
from loopkit.machine.flow import ANY_REPORT, Token

REPORT = "report"
"""In `show:`, the last report instead of an artifact."""


def check_judged(subject: Subject) -> Iterator[Problem]:
    """The artifact of a validate state is written on every path, errors and limits included."""
    for name, state in subject.judges.items():
        path = ("states", name, "validate")
        yield from _check_artifact(subject, path, state.validate_, name, on_errors=True)


def check_shown(subject: Subject) -> Iterator[Problem]:
    """The artifacts that a person sees or edits and that a run ends with are written before.

    After an error or a limit an artifact may be absent, and is marked as absent. So may it be in a
    machine with origins, where one state serves several phases.
    """
    for path, artifact in _places_for_people(subject):
        if subject.graph.origins and path[-1] != "edit" and _may_exist(subject, artifact, path):
            continue
        yield from _check_artifact(subject, path, artifact, str(path[1]), on_errors=False)


def _may_exist(subject: Subject, artifact: str, path: DocPath) -> bool:
    token = ANY_REPORT if artifact == REPORT else ("artifact", artifact)
    return token in subject.scope.flow.entering[str(path[1])].possibly


def _places_for_people(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    for name, state in subject.machine.states.items():
        yield from ((("states", name, *at), shown) for at, shown in state.shown)
        if state.edits is not None:
            yield ("states", name, "edit"), state.edits


def _check_artifact(
    subject: Subject, path: DocPath, artifact: str, state: str, *, on_errors: bool
) -> Iterator[Problem]:
    is_report = artifact == REPORT and path[2] == "show"
    if not is_report and artifact not in subject.graph.artifacts:
        yield _unknown(subject, path, artifact)
        return
    token = ANY_REPORT if is_report else ("artifact", artifact)
    way = way_without(subject, token, state, on_errors=on_errors)
    if way is not None:
        verb = "judges anything" if is_report else "writes it"
        message = f"`{artifact}` may be missing in `{state}`"
        remedy = f"nothing {verb} {state_paths.on_path(way)}"
        yield subject.source.problem(path, "may-be-missing", message, help=remedy)


def way_without(
    subject: Subject, token: Token, state: str, *, on_errors: bool = True
) -> state_paths.StatePath | None:
    """A path from the start to a state that does not bring a token into being, if there is one."""
    flow = subject.scope.flow
    if token in (flow.entering if on_errors else flow.entering_as_done)[state].surely:
        # Searching a path for each name would take time quadratic in the states.
        return None

    def follows(edge: Edge) -> bool:
        counts = on_errors or edge.event == "done"
        return counts and not flow.brings(edge, token)

    start = subject.machine.start
    return state_paths.shortest_path(subject.graph, start, lambda name: name == state, follows)


def _unknown(subject: Subject, path: DocPath, artifact: str) -> Problem:
    written = subject.graph.artifacts
    if artifact in subject.machine.states:
        message = f"`{artifact}` is a state that writes no artifact of this name"
        remedy = did_you_mean("", written) or "no state writes an artifact"
    else:
        message = f"no state writes an artifact `{artifact}`"
        remedy = did_you_mean(artifact, written)
    return subject.source.problem(path, "unknown-artifact", message, help=remedy)
