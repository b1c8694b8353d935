"""The published JSON Schemas, made from the definition classes for editors and other tools.

They are of draft-07, with the words of the docstrings, which are read from the source of a class.

A schema of files gives one message for one mistake: it first decides which form is meant, then
checks it. A validator that tries every form of an `anyOf` can only say that none fits. So `if`
selects the form: by its JSON type, and among objects by the key that only this form has.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from loopkit.engine.events import EVENTS, Waiting
from loopkit.engine.payloads import Version
from loopkit.engine.records import Record, Usage
from loopkit.language.agents.model import ModelAgent
from loopkit.language.machine import Machine
from loopkit.scenario.cases import Scenario


def file_schema(noun: type[BaseModel]) -> Schema:
    schema: Schema = as_draft_07(noun.model_json_schema(schema_generator=_Generate))
    made = _in_markdown(_Rewriting(schema.get("definitions", {})).of(schema))
    return {"$schema": DRAFT_07, **made}


def machine_schema() -> Schema:
    schema = file_schema(Machine)
    for place, snippets in SNIPPETS.items():
        offered = [
            {"label": what.rstrip("."), "description": what, "body": body}
            for what, body in snippets.items()
        ]
        parts = (schema["properties"], schema["definitions"])
        next(part[place] for part in parts if place in part)["defaultSnippets"] = offered
    return schema


def _in_markdown(value: Any) -> Any:
    """Each description a second time as Markdown: an editor escapes the marks of a plain one."""
    match value:
        case {"description": str(text), **others}:
            marked = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
            described = {"description": text, "markdownDescription": marked}
            return {**described, **_in_markdown(others)}
        case dict():
            return {key: _in_markdown(inner) for key, inner in value.items()}
        case list():
            return [_in_markdown(inner) for inner in value]
        case _:
            return value


SNIPPETS: Mapping[str, Mapping[str, Any]] = {
    "agents": {
        "A model.": {"${1:writer}": {"model": "${2:openai/gpt-5-mini}"}},
        "A coding program.": {"${1:coder}": {"program": "${2:claude}"}},
    },
    "states": {
        "Draft an artifact.": {
            "${1:draft}": {
                "agent": "${2:writer}",
                "prompt": "${3:Write about {{ input.topic \\}\\}.}",
                "output": "${4:text}",
                "next": "${5:review}",
            }
        },
        "Review an artifact.": {
            "${1:review}": {
                "validate": "${2:text}",
                "by": [{"${3:min_chars}": "${4:100}"}],
                "transitions": [
                    {"guard": "valid", "target": "${5:done}"},
                    {"revise": "${6:draft}"},
                    {"target": "${7:failed}"},
                ],
            }
        },
        "Succeed.": {"${1:done}": {"final": "success", "result": "${2:text}"}},
        "Fail.": {"${1:failed}": {"final": "failure"}},
    },
    "Transition": {
        "Go on if the artifact is valid.": {"guard": "${1:valid}", "target": "${2:done}"},
        "Send it back to its author.": {"revise": "${1:draft}"},
    },
}
"""By the place in a machine: what an editor can insert there."""


def event_schema() -> dict[str, Any]:
    """The JSON Schema of one printed event. Keys and types that it does not name are allowed."""
    definitions = records_of([*EVENTS.values(), Usage, Version])
    definitions["Question"] = definitions[Waiting.__name__]
    named = {name: noun.__name__ for name, noun in EVENTS.items()}
    for name, definition in named.items():
        kind = {"const": name, "description": "The kind of event, which determines its other keys."}
        properties = {**HEAD, "type": kind, **definitions[definition]["properties"]}
        known = {"properties": properties, "required": list(properties)}
        definitions[definition] = {**definitions[definition], **known}
    named[RESULT] = "Result"
    definitions["Result"] = {
        "description": "The last line that `--output jsonl` prints.",
        "type": "object",
        "properties": {key: {**kind, "description": says} for key, (kind, says) in KEYS.items()},
        "required": list(KEYS),
    }
    return {
        "$schema": DRAFT_07,
        "description": DESCRIPTION,
        "type": "object",
        "properties": {"type": {"type": "string", "examples": list(named)}},
        "required": ["type"],
        "allOf": [_of_type(name, definition) for name, definition in named.items()],
        "definitions": definitions,
    }


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "machine": machine_schema,
    "scenario": partial(file_schema, Scenario),
    "event": event_schema,
}

Schema = dict[str, Any]
KEY_OF_FORM = {"edge": "revise", "exit": "target"}
"""The identifying key of each form whose key is not its tag."""
FORM_WITHOUT_KEY = frozenset({"choice", "classes", "model"})
"""The forms of objects that have no identifying key."""
ORDER = ("object", "array", "string", "integer", "number", "")
"""The order in which types are tested; the last one of a union is the default."""
FORWARD = ("guard", "target", "emit")
"""The keys of a transition that does not revise."""


class _Rewriting:
    """Rewrites a schema: each union selects one form, and an unknown key is the only error."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def of(self, value: Any) -> Any:
        match value:
            case {"anyOf": list() as forms, **rest}:
                tags = cast("list[str]", rest.pop(TAGS, [""] * len(forms)))
                return {**self._distinguish(list(zip(tags, forms, strict=True))), **rest}
            case {"type": "object", "properties": dict() as properties, **rest} if (
                rest.get("additionalProperties") is False
            ):
                noun = {key: self.of(inner) for key, inner in value.items() if key != "properties"}
                return _with_names_checked_first({**noun, "properties": self._each(properties)})
            case dict():
                return self._each(value)
            case list():
                return [self.of(item) for item in value]
            case _:
                return value

    def _each(self, value: Schema) -> Schema:
        return {key: self.of(inner) for key, inner in value.items()}

    def _distinguish(self, forms: list[tuple[str, Schema]]) -> Schema:
        """A chain of conditions on the type; the last form applies if none matches."""
        by_type: dict[str, list[tuple[str, Schema]]] = {}
        for tag, form in forms:
            kind = str(self._resolve(form).get("type", ""))
            by_type.setdefault(kind, []).append((tag, form))
        kinds = sorted(by_type, key=ORDER.index)
        *ways, (_, rules) = [(kind, self._one_of(kind, by_type[kind])) for kind in kinds]
        for kind, way in reversed(ways):
            rules = {"if": {"type": kind}, "then": way, "else": rules}
        return rules

    def _one_of(self, kind: str, forms: list[tuple[str, Schema]]) -> Schema:
        first, *others = (self.of(form) for _, form in forms)
        if not others:
            return cast("Schema", first)
        return self._by_key(dict(forms)) if kind == "object" else {"anyOf": [first, *others]}

    def _by_key(self, forms: Mapping[str, Schema]) -> Schema:
        rest = next((form for tag, form in forms.items() if tag in FORM_WITHOUT_KEY), None)
        keyed = {KEY_OF_FORM.get(tag, tag): form for tag, form in forms.items() if form is not rest}
        # With these, an editor offers the keys in a mapping that has none of them.
        offered = {
            key: {"description": str(self._resolve(form).get("description", ""))}
            for key, form in keyed.items()
        }
        form_of_rest = rest or {"required": [next(iter(keyed))]}
        rules = self._without_key(forms, [self.of(form_of_rest), {"properties": offered}])
        for key, form in reversed(keyed.items()):
            rules = {"if": {"required": [key]}, "then": self.of(form), "else": rules}
        return {"type": "object", **rules}

    def _without_key(self, forms: Mapping[str, Schema], rest: list[Schema]) -> Schema:
        """The schema of an object without an identifying key, which may be misspelt."""
        names = sorted(
            {key for each in forms.values() for key in self._resolve(each)["properties"]}
        )
        return {
            "if": {"propertyNames": {"enum": names}},
            "then": {"allOf": rest},
            "else": {"properties": {key: {} for key in names}, "additionalProperties": False},
        }

    def _resolve(self, form: Schema) -> Schema:
        while "$ref" in form:
            form = self._definitions[form["$ref"].rpartition("/")[2]]
        # A union of objects alone is an object as well.
        inner = [self._resolve(one) for one in form.get("anyOf", ())]
        if inner and all(one.get("type") == "object" for one in inner):
            return {**form, "type": "object"}
        return form


def _with_names_checked_first(noun: Schema) -> Schema:
    """Require keys only if every key is known: a misspelt key is not also a missing one."""
    required = noun.get("required", [])
    noun = {key: value for key, value in noun.items() if key != "required"}
    rules = [{"required": required}] if required else []
    if {"file", *required} <= noun["properties"].keys() and required == [ModelAgent.kind]:
        # The file of an agent may have the required keys.
        rules = [{"anyOf": [{"required": ["file"]}, *rules]}]
    if {"next", "transitions"} <= noun["properties"].keys():
        rules.append(_either("transitions", "next"))
    if {"revise", "target"} <= noun["properties"].keys():
        unfit = [key for key in noun["properties"] if key not in ("revise", *FORWARD)]
        rules.append(_either("revise", "target", unfit))
    if not rules:
        return noun
    names = [{"enum": list(noun["properties"])}]
    names += [{"pattern": pattern} for pattern in noun.get("patternProperties", ())]
    known = {"propertyNames": names[0] if len(names) == 1 else {"anyOf": names}}
    return {**noun, "if": known, "then": rules[0] if len(rules) == 1 else {"allOf": rules}}


def _either(first: str, second: str, only_first: Sequence[str] = ()) -> Schema:
    """Exactly one of two keys; `only_first` are not allowed beside the second."""
    return {
        "if": {"required": [first]},
        "then": {"properties": {second: False}},
        "else": {"required": [second], "properties": dict.fromkeys(only_first, False)},
    }


DRAFT_07 = "http://json-schema.org/draft-07/schema#"
TAGS = "tags"
"""Beside an `anyOf`: the tags of its forms in the definition. It is not published."""


class _Generate(GenerateJsonSchema):
    """Without titles and null, which files omit; each form of a tagged union keeps its tag."""

    schema_dialect = DRAFT_07

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> dict[str, Any]:
        forms = {
            str(tag).strip("<>"): self.generate_inner(choice)
            for tag, choice in schema["choices"].items()
            if not isinstance(choice, str)
        }
        return {"anyOf": list(forms.values()), TAGS: list(forms)}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        made = super().dict_schema(schema)
        # A name that is not an id is marked.
        return {**made, "additionalProperties": False} if "patternProperties" in made else made

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        if schema["schema"]["type"] == "nullable":
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        noun = super().model_schema(schema)
        properties = noun.get("properties", {})
        for field, described in docstrings(schema["cls"]).items():
            if field in properties:
                properties[field] = {**properties[field], "description": described}
        return {key: value for key, value in noun.items() if key != "title"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def as_draft_07(schema: Any) -> Any:
    """A schema with `definitions` for `$defs`, and a reference beside other keys in `allOf`."""
    match schema:
        case {"$ref": str(ref), **rest}:
            moved = {"$ref": ref.replace("#/$defs/", "#/definitions/")}
            # Draft-07 ignores the keys beside a reference.
            return {"allOf": [moved], **as_draft_07(rest)} if rest else moved
        case dict():
            return {
                ("definitions" if key == "$defs" else key): as_draft_07(value)
                for key, value in schema.items()
            }
        case list() | tuple():
            return [as_draft_07(item) for item in schema]
        case _:
            return schema


def records_of(nouns: Iterable[type[Record]]) -> dict[str, Any]:
    """The draft-07 definitions of records and of the records inside them, by name.

    Every key is required. Unknown keys are allowed: a later version may add some.
    """
    _, made = msgspec.json.schema_components(nouns, ref_template="#/definitions/{name}")
    kinds = {noun.__name__: noun for noun in _below(Record)}
    return {name: as_draft_07(_record_schema(kinds[name], made[name])) for name in sorted(made)}


def _record_schema(noun: type[Record], schema: dict[str, Any]) -> dict[str, Any]:
    described = docstrings(noun)
    properties = {
        name: {**value, "description": described[name]} if name in described else value
        for name, value in schema["properties"].items()
    }
    return {
        # The indentation that a docstring has in its source, which msgspec 0.22 leaves in it.
        "description": inspect.cleandoc(schema["description"]),
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _below(noun: type[Record]) -> Iterator[type[Record]]:
    for kind in noun.__subclasses__():
        yield kind
        yield from _below(kind)


HEAD: dict[str, dict[str, str]] = {
    "run": {"type": "string", "description": "The id of the run. Children are runs of their own."},
    "seq": {"type": "integer", "description": "The position in the run, from 1, without gaps."},
    "epoch": {
        "type": "integer",
        "description": "The epoch of the owner that wrote it; each claim begins a new one.",
    },
    "time": {"type": "number", "description": "The Unix time at which it was stored."},
}
"""The keys that every event has besides its own."""
DESCRIPTION = (
    "One event of a run, as a line of `--output jsonl` or `runs logs --jsonl`; the last line of "
    "`--output jsonl` is the result. `type` determines the other keys; `version` is the version of "
    "the format. Ignore keys and types that you do not know: later versions may add some, and "
    "remove none."
)


def _of_type(name: str, definition: str) -> dict[str, Any]:
    is_this = {"properties": {"type": {"const": name}}, "required": ["type"]}
    return {"if": is_this, "then": {"$ref": f"#/definitions/{definition}"}}


def docstrings(noun: type[BaseModel | Record]) -> dict[str, str]:
    """The text below each field of a noun, by the name that files give the field.

    Pydantic can read these itself, but only when the classes are created, which would
    cost every command 40 ms.
    """
    described: dict[str, str] = {}
    for base in reversed(noun.__mro__):
        if issubclass(base, BaseModel | Record) and base not in (BaseModel, Record):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            described |= _below_fields(tree)
    if not issubclass(noun, BaseModel):
        return described
    return {
        field.alias or name: described[name]
        for name, field in noun.model_fields.items()
        if name in described
    }


def _below_fields(tree: ast.stmt) -> dict[str, str]:
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


RESULT = "result"
TEXT = {"type": "string"}
QUESTION = {"$ref": "#/definitions/Question"}
KEYS: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"const": RESULT}, "Marks the last line of a command."),
    "run": (TEXT, "The id of the run."),
    "machine": (TEXT, "The name of its machine."),
    "status": (TEXT, "`finished`, `cancelled`, `waiting`, `suspended`, or `running` if stopped."),
    "state": (TEXT, "The current state of the run."),
    "outcome": (
        {"type": ["string", "null"]},
        "The name of the final state; null before it is reached.",
    ),
    "success": (
        {"type": ["boolean", "null"]},
        "Whether the final state is a success; null before it is reached.",
    ),
    "although": (TEXT, "Of a success: what had failed unread, in words; else empty."),
    "result": ({"type": "object"}, "The artifacts of the result, by name."),
    "artifacts": (
        {"type": "object", "additionalProperties": {"$ref": "#/definitions/Version"}},
        "For each of these artifacts: its version, and how the run came to it.",
    ),
    "question": (
        {"anyOf": [{"type": "null"}, QUESTION]},
        "The open question of the run itself; null if there is none.",
    ),
    "questions": (
        {"type": "array", "items": QUESTION},
        "The open questions of its children: `run`, `item`, and the keys of a question.",
    ),
    "error": (TEXT, "Why the run is suspended; empty if it is not."),
    "usage": ({"$ref": "#/definitions/Usage"}, "The usage of the run and its children."),
    "exit": ({"type": "integer"}, "The exit code of the command."),
}
"""By key: its type, and its description."""
