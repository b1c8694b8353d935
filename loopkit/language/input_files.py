"""Files as inputs: a path is given, and the data in the file is read when the run is started."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loopkit.document.problems import Problem, ProblemsFound
from loopkit.document.reading import decode, read_bytes
from loopkit.language.datatypes.datatype import DataType, conform, fault_texts
from loopkit.language.inclusion import data_of
from loopkit.language.input_faults import InvalidInput
from loopkit.text import shorten


def with_files(
    given: Mapping[str, Any],
    datatype: DataType,
    inside: Path | None = None,
    read_inside: Path | None = None,
) -> dict[str, Any]:
    """An input with the `path`, `data` and `digest` of each file in place of its path.

    Files have to be `inside` of a folder, where their paths start; without one they may be
    anywhere, and paths start where the process is. `read_inside` is the same for those that have
    been read before. Raises InvalidInput.
    """
    read, faults = dict(given), list[Problem]()
    for name, field in (datatype.fields or {}).items():
        value = given.get(name) if field.is_file else None
        path = value.get("path") if isinstance(value, Mapping) else value
        if isinstance(path, str):
            try:
                wrong = _outside(path, inside if isinstance(value, str) else read_inside)
                if isinstance(value, str) and not wrong:
                    read[name], wrong = _read(value, field, inside)
            except (OSError, RuntimeError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                wrong = [f"`{shorten(path, 200)}` is no path of a file: {reason}"]
            messages = (f"input `{name}`: {text}" for text in wrong)
            faults += (Problem("wrong-kind", message, path=name) for message in messages)
    if faults:
        raise InvalidInput(faults)
    return read


def _outside(given: str, inside: Path | None) -> list[str]:
    if inside is None or (inside / given).resolve().is_relative_to(inside.resolve()):
        return []
    return [f"`{given}` lies outside of `{inside}`; move it there"]


def _read(given: str, field: DataType, inside: Path | None) -> tuple[dict[str, Any], list[str]]:
    """What is known of a file, and what is wrong with it."""
    path = (inside or Path.cwd()) / given
    path = path.parent.resolve() / path.name
    if path.exists() and not path.is_file() and not path.is_dir():
        return {}, [f"`{given}` is no file, and nobody waits for a pipe; save it as a file"]
    try:
        content = read_bytes(path, given)
        data = data_of(decode(content, given), given)
    except ProblemsFound as found:
        return {}, [_with_lines(given, problem) for problem in found.problems]
    filled, faults = conform(data, (field.fields or {})["data"])
    digest = hashlib.sha256(content).hexdigest()
    told = [f"{given}: {text}" for text in fault_texts(faults)]
    return {"path": str(path), "data": filled, "digest": digest}, told


def _with_lines(given: str, problem: Problem) -> str:
    spans = [problem.span, *(span for _, span in problem.also)]
    lines = ", ".join(str(span.line) for span in spans if span is not None)
    hint = f"; {problem.help}" if problem.help else ""
    return f"{given}:{lines}: {problem.message}{hint}"
