"""`no-keyword`: a JSON Schema, or a file in place of one, that says nothing about data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote

from loopkit.checks.subject import Subject
from loopkit.document import Document, read
from loopkit.document.document import DocPath
from loopkit.document.inclusion import Included
from loopkit.document.problems import Problem, ProblemsFound, closest
from loopkit.language.bundling import schemas_in
from loopkit.language.json_schema import Silence, keywords, silent_parts
from loopkit.language.json_schema.layout import DEFINITIONS

_DATA = "a file of data is the default of an input: `{type: {...: any}, default: {file: %s}}`"


def check_silent_schemas(subject: Subject) -> Iterator[Problem]:
    """A warning for each schema that has words but no keyword."""
    machine = json.loads(subject.loaded.resolved)["machine"]
    for path, schema in schemas_in(machine):
        for silence in silent_parts(schema):
            yield _problem(subject, path, silence)


def _problem(subject: Subject, path: DocPath, silence: Silence) -> Problem:
    here = (*path, *silence.steps)
    if here in subject.source.included:
        name = unquote(str(here[-1]))
        message = f"`{name}` has no keyword of JSON Schema, so it allows anything"
        return _place(subject, (*path, *silence.referred_from), message, _of_file(silence, name))
    message = "this JSON Schema has no keyword, so it allows anything"
    return _place(subject, here, message, _remedy(silence))


def _of_file(silence: Silence, name: str) -> str:
    if silence.words <= DEFINITIONS:
        return f"name one of its parts: `$ref: {name}#/$defs/NAME`"
    return _DATA % name


def _remedy(silence: Silence) -> str:
    if silence.words == {"file"}:
        return "in a JSON Schema another file is named by `$ref: PATH`"
    if silence.words <= DEFINITIONS:
        return "name the part that is meant: `$ref: '#/$defs/NAME'`"
    meant = next(filter(None, map(_keyword_like, sorted(silence.words))), None)
    return f"did you mean `{meant}`?" if meant else "add one, such as `type`; `{}` allows anything"


@lru_cache(maxsize=256)
def _keyword_like(word: str) -> str | None:
    return closest(word, sorted(keywords()), 0.75)


def _place(subject: Subject, path: DocPath, message: str, remedy: str) -> Problem:
    """A problem at its place, which may be in a file that became a part of the schema."""
    warning = subject.source.problem(path, "no-keyword", message, help=remedy, severity="warning")
    for length in range(len(path), 0, -1):
        file = subject.source.included.get(path[:length])
        if file is not None:
            return _inside(warning, file, path[length:])
    return warning


def _inside(problem: Problem, file: Included, path: DocPath) -> Problem:
    document = _document(file.text, file.file)
    return problem if document is None else problem.replace(span=document.span(path))


@lru_cache(maxsize=8)
def _document(text: str, file: str) -> Document | None:
    """A file with its places; None for JSON with tabs where YAML allows none."""
    with suppress(ProblemsFound):
        return read(text, file)
    return None
