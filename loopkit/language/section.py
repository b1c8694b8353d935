"""The base of all nouns of the language, and the parts that many of them share.

Nouns are closed, frozen, documented in place. Their modules do not postpone annotations: pydantic
would have to compile each of these texts again, for every noun that inherits it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from types import GenericAlias
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeVar,
    Union,
    get_args,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializeAsAny,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from loopkit.language.datatypes.datatype import DataType, NotationError
from loopkit.language.datatypes.notation import parse_fields, parse_record, parse_type, refuse_files
from loopkit.text import KNOWN_KEY
from loopkit.values import Value

_Held = TypeVar("_Held")


class Key(Generic[_Held]):
    """A property of nouns: what stands under a key, or what holds for all without that key."""

    def __init__(self, name: str, otherwise: _Held) -> None:
        self._name, self._otherwise = name, otherwise

    def __get__(self, noun: object, _: object = None) -> _Held:
        return getattr(noun, self._name, self._otherwise)


class Noun(BaseModel):
    """A noun of the language: unknown fields are errors, values never change."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        populate_by_name=True,
        defer_build=True,
        protected_namespaces=(),
    )

    def written(self, *keys: str) -> Written:
        """The texts under some keys, as far as they are there."""
        found = ((key, getattr(self, key, None)) for key in keys)
        return (((key,), text) for key, text in found if text is not None)


ID_PATTERN = r"^[a-z][a-z0-9_]*$"
FUNCTION_PATTERN = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
INPUT_PATTERN = r"^input(\.[^\s.]+)+$"
Place = tuple[str | int, ...]
Written = Iterator[tuple[Place, str]]
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION_PATTERN = r"^\d+(\.\d+)?(ms|s|m|h)$"


class ByItself(Value, frozen=True):
    """Beside a noun inside others: its schema is built when a file first has one.

    Otherwise pydantic would build those of all nouns before it reads the first value. A choice
    among such nouns is `SerializeAsAny`, because it does not know what they hold.
    """

    noun: type[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: object) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            lambda value, info: self.noun.model_validate(value, context=info.context)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        self.noun.model_rebuild()
        built, others = self.noun.__pydantic_core_schema__, []
        if built["type"] == "definitions":
            built, others = built["schema"], built["definitions"]
        # As pydantic calls it, so that it is one definition wherever it stands.
        ref = f"{self.noun.__module__}.{self.noun.__qualname__}:{id(self.noun)}"
        return handler(core_schema.definitions_schema({**built, "ref": ref}, others))


class ByForm(Value, frozen=True):
    """Beside a union: the tags of its members, and the one that belongs to a value."""

    tags: tuple[str, ...]
    tag_of: Callable[[Any], str]

    def tagged(self, union: Any) -> Any:
        members = zip(get_args(union), self.tags, strict=True)
        tagged = tuple(Annotated[member, Tag(tag)] for member, tag in members)
        return Annotated[Union[tagged], Discriminator(self.tag_of)]  # noqa: UP007 - as below

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(self.tagged(source))


def by_type(first: str, other: str, *types: type) -> ByForm:
    """The tags of a union whose first member is a text, or of these types, and the other is not."""
    kinds = types or (str,)
    return ByForm((first, other), lambda value: first if isinstance(value, kinds) else other)


def by_key(tags: tuple[str, ...], otherwise: str, **keys: str) -> ByForm:
    """The tags of a union: the first is that of a text, any other of what has the first of some
    keys; what has none of them has the tag `otherwise`."""

    def tag_of(value: object) -> str:
        if isinstance(value, str):
            return tags[0]
        has = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        return next((tag for key, tag in keys.items() if key in has), otherwise)

    return ByForm(tags, tag_of)


def fault(
    code: str, message: str, path: tuple[str | int, ...] = (), **hints: Any
) -> PydanticCustomError:
    """A fault that `load` turns into a problem; `path` leads on from the field that raised it."""
    # The text goes through the context, because pydantic fills braces in a message itself.
    return PydanticCustomError(code, "{text}", {"text": message, "path": path, **hints})


class Spelled(Value, frozen=True):
    """Beside `str`: a text that a pattern matches, which the published schema has as well."""

    pattern: str
    code: str
    message: str
    """The message for any other text, which is printed before it."""
    remedy: str
    flags: int = 0

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text, self.flags) or KNOWN_KEY.search(text):
            raise fault(self.code, f"`{text}` {self.message}", help=self.remedy)
        return text


def _duration(value: object) -> object:
    if isinstance(value, str) and (match := DURATION.fullmatch(value)):
        return float(match[1]) * SECONDS[match[2]]
    from loopkit.text.moments import seconds_in  # noqa: PLC0415 - only a mistake needs it

    seconds, remedy = seconds_in(str(value)), "`90s`, `10m` or `2h`"
    if seconds is not None:
        unit = next((unit for unit in ("h", "m") if seconds and seconds % SECONDS[unit] == 0), "s")
        remedy = f"`{seconds / SECONDS[unit]:g}{unit}`"
    raise fault("bad-duration", f"`{value}` is not a duration", help=f"write {remedy}")


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


FROM_LIST = BeforeValidator(_tuple)
"""Lets a list of a file be the tuple of a noun."""


def one_or_more(value: object) -> object:
    return (value,) if isinstance(value, str) else _tuple(value)


def or_one(item: Any, as_many: Callable[[object], object] = one_or_more) -> BeforeValidator:
    """Lets one item stand for a list of it, in files and in the published schema."""
    return BeforeValidator(as_many, json_schema_input_type=item | GenericAlias(list, (item,)))


def _check_with(parse: Callable[[Any], DataType], *, is_input: bool = False) -> AfterValidator:
    """A validator that leaves the value as it is, and refuses what `parse` cannot read."""

    def check(value: Any) -> Any:
        try:
            refuse_files(parse(value), is_input=is_input)
        except NotationError as error:
            remedy = error.remedy or TYPE_HELP
            raise fault("bad-type", error.message, error.path, help=remedy) from error
        return value

    return AfterValidator(check)


def _bound(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= 1000:
            raise fault("bad-bound", f"{value} is out of range", help=BOUND_HELP)
    elif not isinstance(value, str) or not re.fullmatch(INPUT_PATTERN, value):
        raise fault("bad-bound", f"`{value}` is not a number of revisions", help=BOUND_HELP)
    return value


INCLUDED_SCHEMA = {
    "type": "object",
    "description": "A file whose text is used; its path is relative to the folder of this file.",
    "properties": {"file": {"type": "string"}},
    "required": ["file"],
    "additionalProperties": False,
}
TYPE_HELP = (
    "a type is `str`, `int`, `num`, `bool`, `any`, `a|b|c`, `[T]`, `{field: T}`, `optional T`, "
    "a mapping with `type:`, or JSON Schema"
)
BOUND_HELP = "write a whole number from 0 to 1000, or a bounded input such as `input.max_revisions`"
BOUND_SCHEMA = {
    "description": BOUND_HELP,
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 1000},
        {"type": "string", "pattern": INPUT_PATTERN},
    ],
}


def templates_of(key: str, argv: Sequence[str], stdin: str | None) -> Written:
    """The templates of a program: its arguments, which stand under a key, and its stdin."""
    yield from (((key, index), text) for index, text in enumerate(argv))
    if stdin is not None:
        yield ("stdin",), stdin


ID_HELP = "an id is lower case: a letter, then letters, digits and underscores"
Id = Annotated[str, Spelled(ID_PATTERN, "bad-id", "is not an id", ID_HELP)]
"""A name that an author gives: lower case letters, digits, underscores."""


def as_id(text: str) -> str:
    """The id that is most like a text: `plan_review_2` for `Plan-Review 2`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()
    word = re.sub(r"[^a-z0-9]", "_", words).strip("_") or "machine"
    return word if word[0].isalpha() else f"m_{word}"


def id_from(name: str) -> str:
    """The id that stands for the name of a file: `frontend_coder` for `Frontend-coder`."""
    return name.lower().replace("-", "_")


Ids = Annotated[tuple[Id, ...], or_one(Id)]
PlainText = Annotated[str, Field(max_length=100_000)]
"""A template or a plain text that stands in the machine file itself."""
Text = Annotated[
    PlainText, WithJsonSchema({"anyOf": [{"type": "string"}, INCLUDED_SCHEMA]}, mode="validation")
]
"""A template or a plain text, or `{file: PATH}`, which was replaced by the text of the file."""


def _argv(words: tuple[str, ...]) -> tuple[str, ...]:
    first, *rest = re.sub(r"\{\{.*?\}\}", "", words[0]).split() or [""]
    # A path may have blanks in it, but then no option follows.
    if rest and (not re.search(r"[/\\]", first) or any(word[0] == "-" for word in rest)):
        raise fault("bad-command", f"no program is called `{words[0]}`", help=ARGUMENTS)
    return words


ARGUMENTS = "each argument is an item of its own"
Argv = Annotated[tuple[str, ...], Field(min_length=1), FROM_LIST, AfterValidator(_argv)]
"""A command as a list; each element is one template and stays one argument."""
INPUT_FILE = "input_file"
"""The name by which templates of programs know the run's input as a file."""
Texts = Annotated[tuple[str, ...], FROM_LIST]


def _place(folder: str | None, info: ValidationInfo) -> str | None:
    """A folder of plug-ins, written out from that of the machine file, so that a run finds it."""
    around = (info.context or {}).get("folder")
    return folder if around is None else str((around / (folder or ".")).resolve())


PluginFolder = Annotated[
    str | None,
    AfterValidator(_place),
    Field(validate_default=True, json_schema_extra=lambda schema: schema.pop("default", None)),
]
Variable = Annotated[
    str,
    Spelled(
        r"^[A-Za-z_]\w*$",
        "bad-variable",
        "is not the name of an environment variable",
        "write the name alone, such as `OPENAI_API_KEY`: the environment has its value",
        re.ASCII,
    ),
]
Variables = Annotated[tuple[Variable, ...], FROM_LIST]
Duration = Annotated[
    float,
    BeforeValidator(_duration, json_schema_input_type=str),
    PlainSerializer(lambda seconds: f"{seconds!r}s", return_type=str, when_used="json"),
    Field(json_schema_extra={"pattern": DURATION_PATTERN}),
]
"""A time in seconds, written `90s`, `10m` or `2h`."""
Notation = Annotated[Any, _check_with(parse_type)]
"""A type in the language's notation; see `loopkit.language.datatypes`."""
Schema = Annotated[dict[str, Any], _check_with(parse_fields)]
"""The type of data at its root: a mapping from field to type notation, or JSON Schema."""
Fields = Annotated[dict[str, Any], _check_with(parse_record)]
"""The type of data that must be a mapping: from field to type notation, or JSON Schema."""
Inputs = Annotated[dict[str, Any], _check_with(parse_record, is_input=True)]
"""The type of what a run is given, of which each field may also be a file."""
Bound = Annotated[
    int | str, BeforeValidator(_bound), WithJsonSchema(BOUND_SCHEMA, mode="validation")
]
"""A number of revisions, or the bounded input that holds it."""

Word = Annotated[str, Field(min_length=1)]
Phrases = Annotated[tuple[Word, ...], or_one(str)]


OnInDoubt = Literal["retry", "ask", "fail"]
ErrorClass = Literal["transient", "content", "fatal"]


class Retry(Noun):
    """How often, and how soon, a call is retried after a transient error."""

    attempts: int = Field(5, ge=1, le=100)
    """The total number of tries per call, including the first."""
    backoff: Duration = 1.0
    """The wait before the second try; it doubles with each further try."""
    max_backoff: Duration = 60.0
    """The longest wait. If the provider asks for a longer one, the run is suspended until then."""


WAITS = frozenset({"retry_after", "resume_at"})
"""The groups of a pattern under `errors:` that catch when it is worth asking again."""


class ErrorRule(Noun):
    """Maps an exit code or output of a command to a class of errors."""

    exit: int | None = None
    """The exit code."""
    stderr: str | None = None
    """A regular expression to search for in stderr. A group `retry_after` or `resume_at` captures
    when the program can be called again."""
    stdout: str | None = None
    """A regular expression to search for in stdout."""
    error_class: ErrorClass = Field(alias="class")
    """The class of the error."""


class Section(Noun):
    """A heading or a bold label of this name, with text under it."""

    section: str
    """The heading or bold label."""
    or_title: bool = False
    """Use the document's title if there is no such section."""
    strip: Phrases = ()
    """With `or_title`: texts to remove from the end of the title."""
    placeholders: Phrases = ()
    """Texts that count as empty."""

    @model_validator(mode="after")
    def _strip_has_an_effect(self) -> Self:
        if self.strip and not self.or_title:
            message = "`strip` shortens the title, which is not used here"
            remedy = "add `or_title: true`, or remove `strip`"
            raise fault("no-effect", message, ("strip",), help=remedy)
        return self


Label = Annotated[str, Field(min_length=1, max_length=10_000)]


class Emission(Noun):
    """An event with a name that the author of the machine chooses."""

    name: Id
    """The name of the event."""
    phase: Label | None = None
    """A template for the phase of the work that begins here. Later events belong to it until one
    names another phase."""
    source: Label | None = None
    """A template for the maker of the version that the event is about. Default: the state that
    wrote it."""

    @classmethod
    def of(cls, written: str | Self | None) -> Self | None:
        """What `emit:` says, in its long form."""
        return cls(name=written) if isinstance(written, str) else written

    @property
    def templates(self) -> Written:
        return self.written("phase", "source")


Emit = SerializeAsAny[
    Annotated[Id | Annotated[Emission, ByItself(Emission)], by_type("<name>", "<event>")]
]


class ReportEmission(Noun):
    """The events of a validate state: one when it starts, and one for each verdict."""

    name: Id | None = None
    """The name of the event that is stored when the state starts its work."""
    phase: Label | None = None
    """A template for the phase of the work that begins here, beside `name`."""
    source: Label | None = None
    """A template for the maker of the version, beside `name`."""
    pass_: Emit | None = Field(None, alias="pass")
    """The event of a report that accepts, with warnings or without."""
    fail: Emit | None = None
    """The event of a report that fails."""
    infeasible: Emit | None = None
    """The event of a report that is `infeasible`."""
    incomplete: Emit | None = None
    """The event of a report that is `incomplete`."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.name is None and (self.phase or self.source or not self.of_verdicts):
            message = "this has neither the `name` of an event nor one for a verdict"
            remedy = "write `name: EVENT`, or an event under `pass` or `fail`"
            raise fault("missing-field", message, help=remedy)
        return self

    @property
    def at_start(self) -> Emission | None:
        name, phase, source = self.name, self.phase, self.source
        return None if name is None else Emission(name=name, phase=phase, source=source)

    @property
    def of_verdicts(self) -> dict[str, Emission]:
        """The event of each verdict that has one; `pass` stands for all that accept."""
        written = {"pass": self.pass_, "fail": self.fail}
        written |= {"infeasible": self.infeasible, "incomplete": self.incomplete}
        return {verdict: e for verdict, emit in written.items() if (e := Emission.of(emit))}


class Kind(Protocol):
    kind: ClassVar[str]


def one_of(
    nouns: Sequence[type[Kind]],
    otherwise: str | None = None,
    unknown: tuple[str, str] | None = None,
) -> Any:
    """The union of these nouns, each known by its key, or without any of them as `otherwise`.

    `unknown` has the code and the message for a value that is none of them.
    """

    def tag(value: object) -> str | None:
        keys = value if isinstance(value, dict) else ()
        fitting = (noun.kind for noun in nouns if isinstance(value, noun) or noun.kind in keys)
        kind = next(fitting, otherwise)
        return None if kind is None else f"<{kind}>"

    code, message = unknown or (None, None)
    tagged = tuple(Annotated[noun, ByItself(noun), Tag(f"<{noun.kind}>")] for noun in nouns)
    as_any: Any = SerializeAsAny  # which mypy takes for no class
    return as_any[
        Annotated[
            Union[tagged],  # noqa: UP007 - they are known when this runs, and not before
            Discriminator(tag, custom_error_type=code, custom_error_message=message),
        ]
    ]
