"""Validation errors of pydantic → problems in the language's words, at the right place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from loopkit.document import Document, Node, looks_like_unquoted_colon
from loopkit.document.problems import Problem, closest, did_you_mean
from loopkit.language import Machine
from loopkit.language.agents.tools import TOOL_KINDS
from loopkit.language.fields import allowed_fields, field_names, is_tag, kinds_with
from loopkit.language.habits import LONGEST_QUOTED, remedy_for_field, remedy_for_value
from loopkit.language.noun import Noun
from loopkit.language.states import STATE_KINDS
from loopkit.language.validators import RULE_KINDS

AT_KEY = ("extra_forbidden", "missing", "unknown-rule", "unknown-tool")
EXTRACTS = "a field is extracted with `section`, `match`, `all` or `count`"
WORK_KEYS = tuple(kind for kind in STATE_KINDS if kind != "choice")
KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "`true` or `false`",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "int_from_float": "a whole number",
}
BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
"""Pydantic's names for the bounds of a number, in words."""


def explain(
    error: ValidationError, document: Document, root: type[Noun] = Machine
) -> Iterator[Problem]:
    """A problem for each mistake, at its line and column."""
    for fault in error.errors(include_url=False):
        # Pydantic counts a list of only faulty items as empty, too; the faults are reported.
        if fault["type"] != "too_short" or not fault["input"]:
            yield _problem(fault, document, root)


def _problem(fault: Mapping[str, Any], document: Document, root: type[Noun]) -> Problem:
    loc = tuple(fault["loc"])
    context = fault.get("ctx", {})
    named = (*(step for step in loc if not is_tag(step)), *context.get("path", ()))
    path = document.as_written(named)
    at_key = fault["type"] in AT_KEY or loc[-1:] == ("[key]",)
    path, message, help_text, code = _explanation(fault, loc, path, document, root)
    span, also = document.places(path, key=at_key)
    return Problem(code, message, span, ".".join(map(str, path)), help_text, also=also)


Explanation = tuple[tuple[Any, ...], str, str, str]


def _explanation(
    fault: Mapping[str, Any],
    loc: tuple[Any, ...],
    path: tuple[Any, ...],
    document: Document,
    root: type[Noun],
) -> Explanation:
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "extra_forbidden":
        return path, *(_torn_text(path, document) or _unknown_field(fault, loc, path, root))
    if kind == "missing":
        return path[:-1], f"missing field `{path[-1]}`", _missing_help(path), "missing-field"
    if kind in KINDS:
        message, remedy, code = _wrong_kind(KINDS[kind], path, document)
        return path, message, _habit_remedy(path, fault) or remedy, code
    if kind == "literal_error":
        return path, *_unknown_value(fault, path)
    if kind == "unknown-rule":
        return _unknown_kind(path, fault.get("input"), "rule", RULE_KINDS)
    if kind == "unknown-tool" and "text" not in context:
        return _unknown_kind(path, fault.get("input"), "tool", TOOL_KINDS)
    if kind == "unknown-extract":
        return path, context.get("text", fault["msg"]), EXTRACTS, kind
    if kind == "too_short":
        return path, f"`{path[-1]}` is empty", "it needs at least one item", "empty"
    if "text" in context:
        remedy = _habit_remedy(path, fault) or context.get("help", "")
        return path, context["text"], remedy, kind
    return path, _of_bound(fault, path, document), "", kind.replace("_", "-")


def _of_bound(fault: Mapping[str, Any], path: Sequence[Any], document: Document) -> str:
    """The message of a number beyond a bound; for what is no bound, pydantic's own."""
    context, node = fault.get("ctx", {}), document.node(path)
    for name, words in BOUNDS.items():
        if name in context:
            found = f", found `{node.raw}`" if node is not None and node.raw else ""
            return f"expected {words} {context[name]:,.10g}{found}"
    message: str = fault["msg"]
    return message[:1].lower() + message[1:]


def _unknown_field(
    fault: Mapping[str, Any], loc: Sequence[Any], path: Sequence[Any], root: type[Noun]
) -> tuple[str, str, str]:
    name = str(path[-1])
    choices = allowed_fields(root, loc[:-1])
    if remedy := remedy_for_field(name, choices, fault.get("input")):
        return f"unknown field `{name}`", remedy, "unknown-field"
    tag = next((step for step in reversed(loc[:-1]) if is_tag(step)), "")
    of_state = root is Machine and len(path) == 3 and path[0] == "states"
    if of_state and name in WORK_KEYS:
        kind = str(tag)[1:-1]
        return (
            f"a state does one piece of work; `{name}` would be a second one beside `{kind}`",
            "make two states of it",
            "two-works",
        )
    if of_state and (kinds := kinds_with(name)):
        belongs = " or ".join(f"`{kind}`" for kind in kinds)
        return (
            f"`{name}` does not belong here",
            f"it is a field of {belongs} states",
            "unknown-field",
        )
    if of_state and tag == "<choice>":
        choices = [*WORK_KEYS, *choices]
    return f"unknown field `{name}`", did_you_mean(name, choices), "unknown-field"


def _habit_remedy(path: Sequence[Any], fault: Mapping[str, Any]) -> str:
    return remedy_for_value(path, fault.get("input"))


def _torn_text(path: Sequence[Any], document: Document) -> tuple[str, str, str] | None:
    """The mistake of a text in `{}` that goes on after a comma, as a field without a value."""
    node, name = document.node(path), str(path[-1])
    if " " not in name or node is None or node.value is not None:
        return None
    message = f"the comma ends the text before it, so `{name}` is taken for a field"
    return message, "put the whole text in quotes", "unquoted-comma"


def _missing_help(path: Sequence[Any]) -> str:
    versions = {("loopkit",): "loopkit: 1", ("scenario",): "scenario: 1"}
    version = versions.get(tuple(path))
    return f"start the file with `{version}`" if version else f"add `{path[-1]}: …`"


def _unknown_value(fault: Mapping[str, Any], path: Sequence[Any]) -> tuple[str, str, str]:
    expected = fault["ctx"]["expected"]
    near = closest(str(fault.get("input")), re.findall("'([^']+)'", expected))
    help_text = f"did you mean `{near}`?" if near else ""
    if path in (("loopkit",), ("scenario",)):
        help_text = "this version of loopkit reads version 1 of the language"
        if fault.get("input") == "1":
            help_text = "write the number without quotes"
    allowed = expected.replace("'", "`")
    return f"expected {allowed}", help_text, "unknown-value"


def _wrong_kind(expected: str, path: Sequence[Any], document: Document) -> tuple[str, str, str]:
    node = document.node(path)
    if node is not None and expected == "text":
        if (meant := looks_like_unquoted_colon(node)) is not None:
            return "the colon makes this a mapping", f'quote the text: "{meant}"', "unquoted-colon"
        if node.style == "plain" and node.raw:
            return f"expected text, found `{node.raw}`", f'quote it: "{node.raw}"', "wrong-kind"
    remedy = _list_remedy(str(path[-1]), node) if node is not None and expected == "a list" else ""
    return f"expected {expected}, found {_kind_of(document, path)}", remedy, "wrong-kind"


def _list_remedy(field: str, node: Node) -> str:
    """How to write a list, which has brackets or dashes also if it has one item."""
    if node.raw and len(node.raw) <= LONGEST_QUOTED:
        return f"write `{field}: [{node.raw}]`"
    return "" if node.is_unwritten else "start each item with `- `, or put `[…]` around the items"


def _kind_of(document: Document, path: Sequence[Any]) -> str:
    node = document.node(path)
    value = None if node is None else node.value
    match value:
        case None:
            return "nothing"
        case bool() | int() | float():
            return f"`{str(value).lower()}`"
        case str():
            return "text"
        case tuple():
            return "a list"
        case _:
            return "a mapping"


def _unknown_kind(
    path: tuple[Any, ...], value: object, word: str, kinds: Mapping[str, type[Noun]]
) -> Explanation:
    """A rule or a tool without the key of its kind."""
    if isinstance(value, Mapping):
        known = {name for noun in kinds.values() for name in field_names(noun)}
        unknown = next((str(key) for key in value if key not in known), None)
        if unknown is not None:
            remedy = remedy_for_field(unknown, kinds, value[unknown])
            remedy = remedy or did_you_mean(unknown, kinds)
            return (*path, unknown), f"unknown {word} `{unknown}`", remedy, f"unknown-{word}"
    listed = ", ".join(f"`{kind}`" for kind in kinds)
    return path, f"this names no {word}", f"a {word} is one of {listed}", f"unknown-{word}"
