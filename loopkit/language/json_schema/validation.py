"""The library's validator with our keywords, each of which looks at the clock first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from loopkit.language.json_schema.judging import (
    TIME_FOR_EACH_S,
    TIME_LIMIT_S,
    judging,
    judging_of,
)
from loopkit.language.json_schema.references import metaschema_resolver, resolver_of
from loopkit.language.json_schema.subschemas import SUBSCHEMA_KEYWORDS, errors_in
from loopkit.language.json_schema.unevaluated import UNEVALUATED_KEYWORDS
from loopkit.language.json_schema.value_keywords import VALUE_KEYWORDS, Keyword


def errors(
    value: object,
    schema: Mapping[str, Any],
    most: int | None,
    limit_s: float = TIME_LIMIT_S,
) -> list[ValidationError]:
    """The first violations of a schema in a value, or all of them, in the order of their places."""
    with judging_of(value, schema, TIME_FOR_EACH_S, limit_s):
        return _first(value, schema, resolver_of(schema), most)


def metaschema_errors(schema: object, most: int) -> list[ValidationError]:
    """The first violations of the metaschema in a schema."""
    # The schema of schemas looks at each value ten times.
    with judging_of(schema, None, 3 * TIME_FOR_EACH_S):
        meta: Mapping[str, Any] = Draft202012Validator.META_SCHEMA
        return _first(schema, meta, metaschema_resolver(), most)


def _first(
    value: object, schema: Mapping[str, Any], resolver: Any, most: int | None
) -> list[ValidationError]:
    root = _Validator({}, registry=Registry(), _resolver=resolver)
    found: Iterator[ValidationError] = errors_in(root, value, schema, resolver=resolver)
    return sorted(islice(found, most), key=_place)


def _place(error: ValidationError) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in error.absolute_path]


def _with_clock(keyword: Any) -> Keyword:
    def call_in_time(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        judging().look_at_clock()
        return keyword(validator, value, instance, schema)

    return call_in_time


_OURS = {**VALUE_KEYWORDS, **SUBSCHEMA_KEYWORDS, **UNEVALUATED_KEYWORDS}
_KEYWORDS = {**Draft202012Validator.VALIDATORS, **_OURS}
KEYWORDS = frozenset(_KEYWORDS)
"""The keywords with which data is judged."""
_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {word: _with_clock(keyword) for word, keyword in _KEYWORDS.items()}
)
