"""Faults of the input of a run, by its type and the choices of agents, and the files it names.

Of a file the path is given, and its data is read when the run is started.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopkit.document.problems import Problem, ProblemsFound, did_you_mean, short
from loopkit.document.reading import decode, read_bytes
from loopkit.language.datatypes.datatype import DataType, conform, fault_texts, misfit, value_at
from loopkit.language.inclusion import data_of
from loopkit.language.json_schema import MAX_FAULTS
from loopkit.language.machine import Machine
from loopkit.text import shorten

MISSING = "missing-field"
"""The code of the problem of an input that was not given and has no default."""


class InvalidInput(Exception):
    """An input that a machine does not take; `faults` are all that is wrong with it.

    The path of each leads into the input; "" is the whole of it.
    """

    def __init__(self, faults: Sequence[Problem]) -> None:
        super().__init__("\n".join(fault.message for fault in faults))
        self.faults = tuple(faults)


def json_data(what: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Data of a program as a resumed run reads it; raises InvalidInput for what is not JSON."""
    if given is not None and not isinstance(given, Mapping):
        message = f"{what} has to be a mapping, not {type(given).__name__}"
        raise InvalidInput([Problem("wrong-kind", message)])
    try:
        data: dict[str, Any] = json.loads(
            json.dumps(dict(given or {}), ensure_ascii=False).encode()
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput([Problem("wrong-kind", f"{what} is not JSON data: {error}")]) from error
    return data


def without_agent(machine: Machine, filled: object) -> Iterator[Problem]:
    """The inputs that should choose an agent but are missing or name an unknown one."""
    for state, choice in machine.choices.items():
        if not choice.is_of_input or choice.else_ is not None:
            continue
        steps = choice.steps[1:]
        word = value_at(filled, steps)
        where = choice.from_.removeprefix("input.")
        if word is None:
            message = f"input `{where}` is missing: it chooses the agent of `{state}`"
            yield Problem(MISSING, message, path=steps[0])
        elif word not in choice.of:
            hint = did_you_mean(str(word), choice.of)
            message = f"input `{where}`: `{state}` has no agent for `{word}`; {hint}"
            yield Problem("unknown-value", message, path=where)


def input_faults(
    faults: Sequence[tuple[str, str]],
    given: Mapping[str, Any],
    datatype: DataType,
    noun: str = "input",
) -> Iterator[Problem]:
    """The faults that `conform` found, in words, and the missing and unknown inputs.

    Of very many missing or unknown ones, the first, and how many more there are.
    """
    fields = datatype.fields or {}
    missing = [name for name, field in fields.items() if field.required and name not in given]
    unknown = [name for name in given if datatype.field(name) is None]
    for name in missing[:MAX_FAULTS]:
        yield Problem(MISSING, f"{noun} `{name}` is missing", path=name)
    for name in unknown[:MAX_FAULTS]:
        hint = did_you_mean(name, fields)
        told = f"unknown {noun} `{short(name)}`"
        yield Problem("unknown-input", told + (f"; {hint}" if hint else ""), path=name)
    for where, what in faults:
        if where:
            # What the value there should be, if it is a single one.
            steps = where.split(".")
            known = datatype.at(steps)
            plain = misfit(value_at(given, steps), known) if known is not None else ""
            message = f"{noun} `{where}` {plain}" if plain else f"{noun} `{where}`: {what}"
            yield Problem("wrong-kind", message, path=where)
    if more := len(missing[MAX_FAULTS:]) + len(unknown[MAX_FAULTS:]):
        yield Problem("unknown-input", f"{more:,} more {noun}s are missing or unknown")


def with_files(
    given: Mapping[str, Any],
    datatype: DataType,
    inside: Path | None,
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
