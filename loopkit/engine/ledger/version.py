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
    """What an attempt brought."""

    digest: str
    """Of the artifact and of those of agents that it was made from; empty where what a program
    left behind is not known."""
    is_whole: bool
    """Whether the artifact is all of it. What a program says is not: it works on files."""


def version_of(program: Program, run: RunState, artifact: Artifact) -> Version:
    """What is judged with an artifact: that, and what its author made it from."""
    whole = program.whole_authors
    is_whole = bool(artifact.tree) or artifact.author in whole
    if not (artifact.workspace or is_whole):
        return Version("", is_whole)
    sources = sources_of(program, run, artifact)
    if not all(part.workspace or part.tree or part.author in whole for part in sources):
        return Version("", is_whole)
    told = [_told(part) for part in (artifact, *sources)]
    return Version(_digest(json.dumps(told)), is_whole)


def _told(part: Artifact) -> list[str]:
    """What is equal for two versions of one artifact that are the same. A folder is its files."""
    if part.tree:
        return [part.name, part.tree]
    return [part.name, _digest(normalised(part)), part.workspace]


def normalised(artifact: Artifact) -> str:
    """What two versions must share to be the same: see "The findings ledger" of the language."""
    if artifact.is_data:
        return json.dumps(artifact.data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = as_nfc(artifact.text).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join([_squeezed(line) for line in text.split("\n") if line.strip()])


def _squeezed(line: str) -> str:
    """A line with its indentation, and one blank wherever else there is white space."""
    indentation = line[: len(line) - len(line.lstrip())]
    return indentation + " ".join(line.split())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


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
