"""Files as inputs: a path is given, and the data in the file is read when the run is started."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from loopkit.document.problems import Problem, ProblemsFound
from loopkit.document.reading import decode, read_bytes
from loopkit.language.datatypes.datatype import DataType, conform, fault_texts
from loopkit.language.inclusion import data_of
from loopkit.language.input_faults import InvalidInput


def with_files(
    given: Mapping[str, Any], datatype: DataType, inside: Path | None = None
) -> dict[str, Any]:
    """An input with the `path`, `data` and `digest` of each file in place of its path.

    Files have to be `inside` of a folder, where their paths start; without one they may be
    anywhere, and paths start where the process is. Raises InvalidInput.
    """
    read, faults = dict(given), list[Problem]()
    for name, field in (datatype.fields or {}).items():
        if field.is_file and isinstance(value := given.get(name), str):
            try:
                read[name] = _read(name, value, field, inside)
            except InvalidInput as error:
                faults += error.faults
    if faults:
        raise InvalidInput(faults)
    return read


def _read(name: str, given: str, field: DataType, inside: Path | None) -> dict[str, Any]:
    path = (inside or Path.cwd()) / given
    path = path.parent.resolve() / path.name
    if inside is not None and not path.resolve().is_relative_to(inside.resolve()):
        message = f"input `{name}`: `{given}` lies outside of `{inside}`; move it there"
        raise InvalidInput([Problem("wrong-kind", message, path=name)])
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            message = f"input `{name}`: `{given}` is no file"
            raise InvalidInput([Problem("wrong-kind", message, path=name)])
        content = read_bytes(path, given)
        data = data_of(decode(content, given), given)
    except ProblemsFound as found:
        raise InvalidInput(list(_faults(name, given, found.problems))) from found
    known = (field.fields or {})["data"]
    filled, faults = conform(data, known)
    if faults:
        messages = (f"input `{name}`: {given}: {text}" for text in fault_texts(faults))
        raise InvalidInput([Problem("wrong-kind", message, path=name) for message in messages])
    return {"path": str(path), "data": filled, "digest": hashlib.sha256(content).hexdigest()}


def _faults(name: str, given: str, problems: tuple[Problem, ...]) -> Iterator[Problem]:
    for problem in problems:
        hint = f"; {problem.help}" if problem.help else ""
        spans = [problem.span, *(span for _, span in problem.also)]
        lines = ", ".join(str(span.line) for span in spans if span is not None)
        place = f"{given}:{lines}: " if lines else ""
        message = f"input `{name}`: {place}{problem.message}{hint}"
        yield Problem("wrong-kind", message, path=name)
