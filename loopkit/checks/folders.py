"""`folder-as-text`, `not-isolated`: folders as artifacts where they can't be, or can't go back."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.best_version import from_path, rewriting_authors
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import RenderState


def check_folders(subject: Subject) -> Iterator[Problem]:
    """Folders that nothing can write, that should be data, or that a person should edit."""
    machine = subject.machine
    for name, state in machine.states.items():
        output = state.output_at(name)
        at: DocPath = ("states", name, "output", "folder")
        if output is not None and output.folder is not None:
            if isinstance(state, RenderState):
                message = "a `render` state changes no folder"
                yield _problem(subject, at, message, "write `output: NAME` alone")
            elif any(agent.schema_ is not None for agent in machine.agents_at(name)):
                asked = " or ".join(map("`{}`".format, state.asks))
                message = f"the answer of {asked} is data, by its `schema`, and a folder is none"
                yield _problem(subject, at, message, "delete `schema`, or `folder`")
        if state.edits is not None and is_folder(subject, state.edits):
            message = f"`{state.edits}` is a folder, which a person can't edit as a text"
            remedy = "let the person comment, and revise with that"
            yield _problem(subject, ("states", name, "edit"), message, remedy)


def check_best_folders(subject: Subject) -> Iterator[Problem]:
    """Folders that have to go back to an earlier version in a workspace that others see."""
    for path, authors in _going_back(subject):
        exposed = next((author for author in authors if _is_exposed(subject, author)), None)
        if exposed is not None:
            message = f"the best version of the folder that `{exposed}` writes can't be restored"
            remedy = "let it work in a tree of its own: `workspace: {path: ., isolate: copy}`"
            yield subject.source.problem(path, "not-isolated", message, help=remedy)


def _going_back(subject: Subject) -> Iterator[tuple[DocPath, Iterator[str]]]:
    """Every `pick: best` and `from: best`, with the authors of the artifacts that go back."""
    artifacts = subject.graph.artifacts
    for name, state in subject.machine.states.items():
        if state.picks_best:
            # A person's pick makes the whole round the current one, also what is not shown.
            picked = (shown for _, shown in state.shown) if state.ends else artifacts
            path: DocPath = ("states", name, "pick")
            yield path, (a for artifact in picked for a in artifacts.get(artifact, ()))
    for edge in subject.graph.edges:
        if edge.from_best and edge.target in subject.machine.states:
            yield from_path(edge), rewriting_authors(subject, edge)


def _is_exposed(subject: Subject, author: str) -> bool:
    """Whether a state writes a folder in a workspace where others see it at once."""
    output = subject.machine.states[author].output_at(author)
    return (
        output is not None and output.folder is not None and subject.machine.works_in_sight(author)
    )


def is_folder(subject: Subject, artifact: str) -> bool:
    """Whether some author writes an artifact as a folder."""
    states = subject.machine.states
    written = (states[name].output_at(name) for name in subject.graph.artifacts.get(artifact, ()))
    return any(output is not None and output.folder is not None for output in written)


def _problem(subject: Subject, path: DocPath, message: str, remedy: str) -> Problem:
    return subject.source.problem(path, "folder-as-text", message, help=remedy)
