"""`content-unhandled`: an empty or unreadable answer of an agent goes on without being judged."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks import state_paths
from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language.guard import Guard
from loopkit.machine.graph import artifact_of
from loopkit.machine.guard_names import own_names

CODE = "content-unhandled"


def check_content(subject: Subject) -> Iterator[Problem]:
    """A missing, empty, cut or unreadable answer is judged on every path, or caught."""
    if not all(judge.validate_ in subject.graph.artifacts for judge in subject.judges.values()):
        # An unknown artifact may be a misspelt one that is judged; it is reported first.
        return
    for name, state in subject.machine.states.items():
        if state.may_leave_none and not subject.graph.on(name, "content"):
            yield from _check_author(subject, name)


def _check_author(subject: Subject, name: str) -> Iterator[Problem]:
    artifact = artifact_of(subject.machine, name)
    remedy = "add `on_error: {content: STATE}`"
    path = ("states", name)
    if not subject.graph.judging_follows(name):
        message = f"an empty or unusable answer of `{name}` would be treated like a good one"
        message += _path_without_judge(subject, name, artifact)
        yield subject.source.problem(path, CODE, message, help=remedy, key=True)
    elif read := sorted(_own_names_read(subject, name)):
        fields = " and ".join(f"`{field}`" for field in read)
        message = f"the guards read {fields}, and an answer that violates its schema has no fields"
        yield subject.source.problem(path, CODE, message, help=remedy, key=True)


def _path_without_judge(subject: Subject, name: str, artifact: str | None) -> str:
    """The path on which nothing judges an answer, for the end of a message."""
    judges = subject.graph.judged.get(artifact or "", ())
    way = state_paths.shortest_path(
        subject.graph,
        name,
        lambda state: subject.machine.states[state].ends,
        lambda edge: edge.event == "done" and not edge.back and edge.target not in judges,
    )
    return f": nothing judges `{artifact}` on the path {state_paths.arrows(way)}" if way else ""


def _own_names_read(subject: Subject, name: str) -> set[str]:
    own = own_names(subject.graph, name).keys()
    texts = (edge.guard for edge in subject.graph.on(name, "done") if edge.guard is not None)
    guards = (subject.guards.whole(text) for text in texts)
    return {read for guard in guards if isinstance(guard, Guard) for read in guard.names & own}
