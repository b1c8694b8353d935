"""Inputs of suggested cases: the file's own, then what guards need, then the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopkit.language.datatypes import DataType, conform, describe_type
from loopkit.machine.program import Program
from loopkit.proof.outcomes import OTHER_TEXT
from loopkit.testing.suggesting.wording import facts_in_words, todo


@dataclass(frozen=True)
class Inputs:
    """The inputs of a machine, as far as a file with cases gives them."""

    program: Program
    shared: Mapping[str, Any]
    """The inputs that all cases of the file share."""

    @cached_property
    def usual(self) -> dict[str, Any]:
        """The input where nothing else is needed: the shared one, else the default, else a plain
        value; a text that is not known yet differs from all texts that guards name."""
        given = dict(self.shared)
        for name, field in self._fields.items():
            if field.required and name not in given and field.scalar is not None:
                given[name] = _plain(field)
        filled, _ = conform(given, self.program.input_type)
        return filled if isinstance(filled, dict) else given

    def of(self, facts: Mapping[str, object]) -> dict[str, Any]:
        """The usual input with these `facts`, by dotted name, as far as they are known."""
        inputs = deepcopy(self.usual)
        for dotted, value in facts.items():
            *outer, last = dotted.split(".")[1:]
            record: Any = inputs
            for step in outer:
                record = record.get(step) if isinstance(record, dict) else None
            if isinstance(record, dict):
                record[last] = value
        return inputs

    def case_input(
        self, facts: Mapping[str, object], judged: Mapping[str, Iterable[str]]
    ) -> dict[str, Any]:
        """The input that a case needs itself; `judged` has the requirements on texts, by input."""
        found: dict[str, Any] = {}
        for name, field in self._fields.items():
            own = {n: value for n, value in facts.items() if n.split(".")[1] == name}
            if own or name in judged or (field.required and name not in self.shared):
                found |= self._one(name, field, own, tuple(judged.get(name, ())))
        return found

    def _one(
        self, name: str, field: DataType, own: Mapping[str, object], judged: tuple[str, ...]
    ) -> dict[str, Any]:
        value = self.of(own).get(name)
        is_open = judged or OTHER_TEXT in own.values() or value == OTHER_TEXT
        is_known = value is not None or f"input.{name}" in own
        if is_known and not is_open and (field.scalar is not None or name in self.shared):
            return {} if value is None and field.is_left_out else {name: value}
        return {
            name: todo(
                f"Put the input here: {describe_type(field)}", [*facts_in_words(own), *judged]
            )
        }

    @property
    def _fields(self) -> Mapping[str, DataType]:
        return self.program.input_type.fields or {}


def _plain(field: DataType) -> object:
    if field.values:
        return field.values[0]
    match field.scalar:
        case "bool":
            return False
        case "int" | "num":
            low = 0 if field.minimum is None else max(0, field.minimum)
            number = low if field.maximum is None else min(low, field.maximum)
            return int(number) if field.scalar == "int" else number
        case _:
            return OTHER_TEXT
