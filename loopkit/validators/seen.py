"""The values that `sees:` gives a rule besides the artifact that it judges."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.language import Rule
from loopkit.language.template import FieldedText
from loopkit.validators.data import NoData, data_of
from loopkit.validators.judged_artifact import JudgedArtifact


def sees_values(rule: Rule, names: Mapping[str, object]) -> dict[str, object]:
    """The value of each dotted name under `sees:`; what is missing is left out."""
    values = {path: _value_at(path, names) for path in rule.shown}
    return {path: value for path, value in values.items() if value is not None}


def sees_data(rule: Rule, names: Mapping[str, object]) -> dict[str, object]:
    """The values under `sees:` as data, by first words: of a text, the data in it or its fields."""
    seen: dict[str, object] = {}
    for name in dict.fromkeys(path.partition(".")[0] for path in rule.shown):
        value = names.get(name)
        if isinstance(value, FieldedText):
            data = data_of(JudgedArtifact(name, value), tolerant=True)
            fields = value.fields or value
            value = fields if isinstance(data, NoData) else data
        if value is not None:
            seen[name] = value
    return seen


def _value_at(path: str, names: Mapping[str, object]) -> object:
    """The value at a dotted path, None where a step is missing."""
    value: object = names
    for step in path.split("."):
        fields = value.fields if isinstance(value, FieldedText) else value
        value = fields.get(step) if isinstance(fields, Mapping) else None
    return value
