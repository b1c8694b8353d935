"""The lines of a batch: each a JSON object with the inputs of one run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopkit.document.problems import did_you_mean
from loopkit.language import Machine
from loopkit.language.datatypes import DataType, parse_record
from loopkit.language.inclusion import digest_of
from loopkit.language.input_faults import InvalidInput
from loopkit.machine.inputs import complete_input
from loopkit.text.json_text import NoJson, parse_json
from loopkit.text.run_ids import BATCH_CHARS

READABLE = re.compile(r"[A-Za-z0-9_]{1,40}")
"""Keys that may be a part of a run's id as they are."""
DIGEST_CHARS = 16


@dataclass(frozen=True, slots=True)
class Line:
    """A line that can be run."""

    number: int
    """The first one is 1; empty lines count."""
    key: str
    """The value of `--key` in it, or else its number."""
    run: str
    """The id of its run."""
    input: dict[str, Any]
    """The complete input, defaults included."""
    digest: str
    """The digest of that input."""


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that can't be run, with the reason."""

    number: int
    reason: str


@dataclass(frozen=True)
class Batch:
    """The identity of a batch: the same files with the same key are the same batch at any time."""

    machine: Machine
    inputs: Path
    results: Path | None
    """None for standard output."""
    shared: Mapping[str, Any]
    """The inputs of all lines; those in a line take precedence."""
    key: str = ""
    """The dotted path of the input by which lines are known, instead of by their numbers."""

    @property
    def name(self) -> str:
        """The prefix of the ids of all its runs."""
        places = (str(self.inputs.resolve()), str(self.results and self.results.resolve()))
        # Escaped, because the name of a file need not be UTF-8.
        digest = digest_of(ascii((*places, self.key)))
        return f"{self.machine.label}-{digest[:BATCH_CHARS]}"

    def lines(self) -> Iterator[Line | RefusedLine]:
        """The lines, in order; empty ones are left out. Raises OSError."""
        # Not kept, however many there are: what they begin is known to the journal.
        name, seen = self.name, dict[str, int]()
        with self.inputs.open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                if not raw.strip():
                    continue
                try:
                    line = self._line(name, number, raw)
                except _Unfit as unfit:
                    yield RefusedLine(number, str(unfit))
                    continue
                if (first := seen.setdefault(line.run, number)) != number:
                    reason = f"line {first} has the same {self.key}, `{line.key}`"
                    yield RefusedLine(number, reason)
                else:
                    yield line

    def _line(self, name: str, number: int, raw: bytes) -> Line:
        given = _read(raw, is_first=number == 1)
        try:
            complete = complete_input(self.machine, {**self.shared, **given})
        except InvalidInput as error:
            raise _Unfit("; ".join(fault.message for fault in error.faults)) from error
        key = _value_at(complete, self.key) if self.key else str(number)
        place = key if READABLE.fullmatch(key) else digest_of(key)[:DIGEST_CHARS]
        return Line(number, key, f"{name}-{place}", complete, digest_of_input(complete))


def key_fault(machine: Machine, key: str) -> str:
    """Why no line can be known by an input, as far as its type says; "" if lines can."""
    datatype: DataType = parse_record(machine.input)
    for step in key.split("."):
        inner = datatype.field(step)
        if inner is None:
            is_closed = datatype.schema.get("additionalProperties") is False
            if not is_closed and datatype.scalar is None and datatype.items is None:
                return ""
            hint = did_you_mean(step, datatype.fields or {})
            return f"there is no input `{key}`" + (f"; {hint}" if hint else "")
        datatype = inner
    is_nested = datatype.items is not None or datatype.fields is not None
    if is_nested or datatype.scalar in ("num", "bool"):
        return f"the input `{key}` is not a text or a whole number, so it cannot identify lines"
    return ""


class _Unfit(Exception):
    """A line that is not a valid input; the message says why."""


def digest_of_input(complete: Mapping[str, Any]) -> str:
    """A digest of the input that does not depend on the order of its keys."""
    return digest_of(json.dumps(complete, sort_keys=True))[:DIGEST_CHARS]


def _read(raw: bytes, *, is_first: bool) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8-sig" if is_first else "utf-8")
    except UnicodeDecodeError as error:
        raise _Unfit(f"it is not UTF-8 text (byte {error.start + 1})") from error
    data = parse_json(text)
    if isinstance(data, NoJson):
        raise _Unfit(f"it is not JSON: {data.reason}")
    if not isinstance(data, dict):
        raise _Unfit("it is not a JSON object; write the inputs of the run as one")
    return data


def _value_at(complete: Mapping[str, Any], path: str) -> str:
    value: object = complete
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise _Unfit(
            f"its `{path}` is not a text or a whole number, so it cannot identify the line"
        )
    return str(value)
