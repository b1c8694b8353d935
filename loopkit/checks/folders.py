"""`folder-as-text`: a folder is the artifact where only a text or data can be."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import RenderState
from loopkit.machine.graph import DocPath

MEANINGS = {
    "folder-as-text": "A folder is the artifact where only a text or data can be.",
}


def check_folders(subject: Subject) -> Iterator[Problem]:
    """Folders that nobody can write, that should be data, or that a person should edit."""
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


def is_folder(subject: Subject, artifact: str) -> bool:
    """Whether an artifact is a folder, as some author writes it."""
    states = subject.machine.states
    written = (states[name].output_at(name) for name in subject.graph.artifacts.get(artifact, ()))
    return any(output is not None and output.folder is not None for output in written)


def _problem(subject: Subject, path: DocPath, message: str, remedy: str) -> Problem:
    return subject.source.problem(path, "folder-as-text", message, help=remedy)
