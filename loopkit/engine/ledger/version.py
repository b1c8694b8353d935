"""The version of an attempt: one digest of its content, to tell whether two are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from loopkit.engine.events import Artifact
from loopkit.engine.state import RunState
from loopkit.machine.program import Program
from loopkit.text import as_nfc
from loopkit.values import Value


class Version(Value, frozen=True):
    """The identity of an attempt's work."""

    digest: str
    """The digest of the artifact and of the agents' artifacts that it was made from.

    Empty if the files that a program left are not known."""
    is_whole: bool
    """Whether the artifact is all of the work. The text of a program is not: it works on files."""


def version_of(program: Program, run: RunState, artifact: Artifact) -> Version:
    """The version of an artifact and of what its author made it from."""
    whole = program.whole_authors
    is_whole = bool(artifact.tree) or artifact.author in whole
    if not (artifact.workspace or is_whole):
        return Version("", is_whole)
    sources = sources_of(program, run, artifact)
    if not all(part.workspace or part.tree or part.author in whole for part in sources):
        return Version("", is_whole)
    fingerprints = [_fingerprint(part) for part in (artifact, *sources)]
    return Version(_digest(json.dumps(fingerprints)), is_whole)


def _fingerprint(part: Artifact) -> list[str]:
    """A value that is equal for equal versions of one artifact. A folder is its files."""
    if part.tree:
        return [part.name, part.tree]
    return [part.name, _digest(normalise(part)), part.workspace]


def normalise(artifact: Artifact) -> str:
    """The text that equal versions have in common: see "The findings ledger" of the language."""
    if artifact.is_data:
        return json.dumps(artifact.data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = as_nfc(artifact.text).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join([_squeeze(line) for line in text.split("\n") if line.strip()])


def _squeeze(line: str) -> str:
    """A line with its indentation, and one blank for all other white space."""
    indentation = line[: len(line) - len(line.lstrip())]
    return indentation + " ".join(line.split())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sources_of(program: Program, run: RunState, artifact: Artifact) -> list[Artifact]:
    """The artifacts of agents that an artifact was made from, step by step back."""
    if not program.names_behind.get(artifact.author):
        return []
    return sorted(_sources(program, run, artifact), key=lambda part: part.name)


def _sources(program: Program, run: RunState, artifact: Artifact) -> Iterator[Artifact]:
    seen, authors = {artifact.name}, [artifact.author]
    for author in authors:
        named = program.names_behind.get(author, frozenset()) & run.artifacts.keys()
        for name in sorted(named - seen):
            seen.add(name)
            source = run.artifacts[name]
            authors.append(source.author)
            if program.machine.states[source.author].asks:
                yield source
