"""Validators: lists of rules, or one judge. A rule is known by the key it carries.

Here are the rules that judge by themselves, but for `command`, and the one table of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    WithJsonSchema,
    model_validator,
)

from loopkit.document.writing import inline
from loopkit.language.guard.evaluate import ITEMS, parse_path
from loopkit.language.guard.grammar import GuardError
from loopkit.language.section import (
    FROM_LIST,
    FUNCTION_PATTERN,
    INCLUDED_SCHEMA,
    Duration,
    Id,
    Notation,
    Noun,
    PlainText,
    PluginFolder,
    Section,
    Spelled,
    Texts,
    Variables,
    Written,
    by_type,
    fault,
    one_of,
    one_or_more,
)
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.rule import FixedRule, RuleBase
from loopkit.text import plural


class Count(Noun):
    """The number of times that a pattern must match."""

    min: int = Field(1, ge=0)
    """The minimum number of matches."""
    max: int | None = Field(None, ge=0)
    """The maximum number of matches."""


class MatchesRule(FixedRule):
    """Checks that a pattern is found in the text."""

    matches: str
    """A regular expression, or a name under `patterns:`. `^` and `$` match at every line."""
    outside_code: bool = False
    """Ignore fenced and indented code."""
    count: Count = Count()
    """How many times the pattern must match."""

    kind = "matches"
    most_findings: ClassVar[float] = 1
    sees_only_artifact = True

    def wish(self, patterns: Mapping[str, str]) -> str:
        most = "" if self.count.max is None else f", at most {self.count.max},"
        pattern = patterns.get(self.matches, self.matches)
        return f"at least {self.count.min}{most} of `{pattern}`{_outside(self.outside_code)}"


class NotMatchesRule(FixedRule):
    """Checks that a pattern is not found. Each match is a finding with its line."""

    not_matches: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Ignore fenced and indented code."""

    kind = "not_matches"
    sees_only_artifact = True

    def wish(self, patterns: Mapping[str, str]) -> str:
        pattern = patterns.get(self.not_matches, self.not_matches)
        return f"nothing of `{pattern}`{_outside(self.outside_code)}"


class ContainsRule(FixedRule):
    """Checks that the text contains another text."""

    contains: PlainText
    """A template for the text to look for, without surrounding white space."""
    ignore_case: bool = False
    """Whether capitals count as small letters."""

    kind = "contains"
    most_findings: ClassVar[float] = 1

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"the text `{self.contains}`"


class NotContainsRule(FixedRule):
    """Checks that the text does not contain another text. Each place is a finding with its line."""

    not_contains: PlainText
    """A template for the text to look for, without surrounding white space."""
    ignore_case: bool = False
    """Whether capitals count as small letters."""

    kind = "not_contains"

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"nowhere the text `{self.not_contains}`"


class SectionRule(Section, FixedRule):
    """Checks that the Markdown has a heading or bold label of this name, with text under it."""

    kind = "section"
    most_findings: ClassVar[float] = 1
    sees_only_artifact = True

    def wish(self, patterns: Mapping[str, str]) -> str:
        title = " or a title" if self.or_title else ""
        return f"a section `{self.section}` with text in it{title}"


class LengthRule(FixedRule):
    """The rules that count what a text has."""

    most_findings: ClassVar[float] = 1
    sees_only_artifact = True

    @property
    def unit(self) -> str:
        return "word" if self.kind.endswith("words") else "character"

    def wish(self, patterns: Mapping[str, str]) -> str:
        end = "least" if self.kind.startswith("min") else "most"
        return f"at {end} {plural(getattr(self, self.kind), self.unit)}"


class MinCharsRule(LengthRule):
    """Checks that the text, without surrounding white space, is not shorter than a minimum."""

    min_chars: int = Field(ge=0)
    """The minimum number of characters, without surrounding white space."""

    kind = "min_chars"


class MaxCharsRule(LengthRule):
    """Checks that the text, without surrounding white space, is not longer than a maximum."""

    max_chars: int = Field(ge=0)
    """The maximum number of characters, without surrounding white space."""

    kind = "max_chars"


class MinWordsRule(LengthRule):
    """Checks that the text has enough words."""

    min_words: int = Field(ge=0)
    """The minimum number of words."""

    kind = "min_words"


class MaxWordsRule(LengthRule):
    """Checks that the text has not too many words."""

    max_words: int = Field(ge=0)
    """The maximum number of words."""

    kind = "max_words"


class SchemaRule(FixedRule):
    """Checks that the artifact is JSON or YAML data of a given type."""

    schema_: Notation = Field(alias="schema")
    """A type in the notation of the language, or a JSON Schema."""
    tolerant: bool = False
    """Extract the data from a code fence or the prose around it."""

    kind = "schema"
    sees_only_artifact = True
    explains_unreadable = True

    @property
    def about(self) -> str:
        """Nothing: a schema is a whole tree."""
        return ""

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"data of the schema {inline(self.schema_)}"


class RequireRule(FixedRule):
    """Checks that a condition in the guard language is true for the data."""

    require: str
    """The condition; its names are fields of the data or of the item."""
    each: str | None = None
    """A path such as `nodes[]`; the condition is tested on every item."""
    sees: Texts = ()
    """Other artifacts whose data the condition can read, such as `plan`."""

    kind = "require"

    @property
    def most_findings(self) -> float:
        return 1 if self.each is None else inf

    def wish(self, patterns: Mapping[str, str]) -> str:
        return self.require + (f", for each of `{self.each}`" if self.each else "")


NAME_PATTERN = r"^[a-z][a-z0-9_]*(\.[^\s.]+)*$"
LOOKS_LIKE_FILE = re.compile(r"/|\.(ya?ml|json)$")
SOURCE_HELP = "name an input (`input.known`), an artifact, or a file: `{file: known.yaml}`"


class DataFile(Noun):
    """A file of known values; the loader put its text beside its name."""

    file: str
    text: str

    def __str__(self) -> str:
        return self.file


def _source(value: Any) -> object:
    match value:
        case DataFile():
            return value
        case {"file": str() as file, "text": str() as text} if len(value) == 2:
            return DataFile(file=file, text=text)
        case Mapping():
            raise fault("bad-source", "this names no file", help="write `{file: PATH}`")
        case str() if LOOKS_LIKE_FILE.search(value):
            raise fault("bad-source", f"`{value}` is not a name", help=f"write `{{file: {value}}}`")
        case str() if re.fullmatch(NAME_PATTERN, value):
            return value
    raise fault("bad-source", f"`{value}` is not a name", help=SOURCE_HELP)


KnownIn = Annotated[
    str | DataFile,
    BeforeValidator(_source),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": NAME_PATTERN}, INCLUDED_SCHEMA]}, mode="validation"
    ),
]
"""The dotted name of an input, the name of an artifact, or a file of JSON or YAML."""


Paths = Annotated[
    tuple[str, ...],
    Field(min_length=1),
    BeforeValidator(
        one_or_more, json_schema_input_type=str | Annotated[list[str], Field(min_length=1)]
    ),
]
"""One path into data, or a list of them."""


class Lookup(Noun):
    """The values to check, and the source of the known values."""

    path: Paths
    """One or several paths of the values in the judged data: `nodes[].capability`."""
    in_: KnownIn = Field(alias="in")
    """The source of the known values: an input such as `input.known`, the name of an artifact, or
    `{file: PATH}`."""
    at: str | None = None
    """The path of the known values in the source: `items[].id`. Default: the source itself."""
    where: str | None = None
    """A condition on each item of `at`. Only the values of items that meet it count as known."""
    cover: bool = False
    """Check the reverse: every known value must be used at `path`, or at one of several."""
    avoid: bool = False
    """Check the opposite: no known value may be used at `path`."""

    def __str__(self) -> str:
        how = "covers" if self.cover else "avoids" if self.avoid else "in"
        return f"{', '.join(self.path)} {how} {self.in_}"

    @property
    def place(self) -> str:
        return " or ".join(f"`{path}`" for path in self.path)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.cover and self.avoid:
            message = "`cover` and `avoid` exclude each other"
            raise fault("two-directions", message, ("avoid",), help="write two rules")
        if self.where is not None and "[]" not in (self.at or ""):
            message = "`where` is tried on items, and `at` goes through none"
            help_ = "write `at:` with `[]`, such as `at: items[].id`"
            raise fault("bad-path", message, ("at" if self.at else "where",), help=help_)
        return self


class LookupRule(FixedRule):
    """Checks that every value at a path is known, that every known value is used there, or that
    none is."""

    lookup: Lookup
    """The values to check, and the known values."""

    kind = "lookup"

    @property
    def paths(self) -> Written:
        has_several = len(self.lookup.path) > 1
        for index, path in enumerate(self.lookup.path):
            yield ("lookup", "path", *([index] if has_several else ())), path
        yield from ((("lookup", *at), path) for at, path in self.lookup.written("at"))

    @property
    def conditions(self) -> Written:
        yield from ((("lookup", *at), text) for at, text in self.lookup.written("where"))

    @property
    def mentions(self) -> Iterator[str]:
        yield from super().mentions
        yield str(self.lookup.in_)

    def wish(self, patterns: Mapping[str, str]) -> str:
        where = f" at `{self.lookup.at}`" if self.lookup.at else ""
        where += f" where {self.lookup.where}" if self.lookup.where else ""
        if self.lookup.avoid:
            return f"no {self.lookup.place} is one that `{self.lookup.in_}` has{where}"
        if self.lookup.cover:
            return f"every value that `{self.lookup.in_}` has{where} is a {self.lookup.place}"
        return f"every {self.lookup.place} is one that `{self.lookup.in_}` has{where}"


class Acyclic(Noun):
    """The paths of the graph's nodes and edges in the data."""

    nodes: str
    """The path of the node ids: `nodes[].id`."""
    edges: str | None = None
    """The path of the edges: the ids that each node names, `nodes[].needs[]`, or a list of pairs of
    ids. Default, beside `needs`: the nodes come in the order in which they are written."""
    open: bool = False
    """Whether an edge may also lead to what is no node, such as a library."""
    needs: str | None = None
    """The path of what each node needs: `nodes[].inputs[]`. The rule then checks only that an
    earlier node gives it."""
    gives: str | None = None
    """The path of what each node gives: `nodes[].outputs[]`."""
    given: str | None = None
    """An input or an artifact that lists what is available without any node."""

    def __str__(self) -> str:
        return self.edges or self.nodes

    @property
    def item_steps(self) -> tuple[str, ...]:
        """The steps of the path to the items that are the nodes; none where they are no items."""
        steps = parse_path(self.nodes)
        return steps[: len(steps) - steps[::-1].index(ITEMS)] if ITEMS in steps else ()

    def is_in_nodes(self, path: str) -> bool:
        items, steps = self.item_steps, parse_path(path)
        return 0 < len(items) < len(steps) and steps[: len(items)] == items

    @model_validator(mode="after")
    def _flows(self) -> Self:
        if (self.needs is None) != (self.gives is None) or (self.given and not self.needs):
            missing = "gives" if self.needs else "needs"
            message = f"`needs` and `gives` belong together, and `{missing}` is missing"
            raise fault("missing-field", message, help=f'add it: `{missing}: "nodes[].name[]"`')
        if self.edges is None and self.needs is None:
            message = "`edges` is missing, without which only `needs` and `gives` can be checked"
            raise fault("missing-field", message, help='add it: `edges: "nodes[].name[]"`')
        for key, path in (("needs", self.needs), ("gives", self.gives)):
            with suppress(GuardError):
                if path is not None and not self.is_in_nodes(path):
                    message = f"`{path}` does not lead into the nodes, the items of `{self.nodes}`"
                    help_ = "write it like `nodes[].name[]` beside `nodes: nodes[].id`"
                    raise fault("bad-path", message, (key,), help=help_)
        return self


class AcyclicRule(FixedRule):
    """Checks that a graph in the data has no cycle and that its edges lead to nodes."""

    acyclic: Acyclic
    """The paths of the nodes and edges."""

    kind = "acyclic"

    @property
    def paths(self) -> Written:
        paths = self.acyclic.written("nodes", "edges", "needs", "gives")
        yield from ((("acyclic", *at), path) for at, path in paths)

    @property
    def mentions(self) -> Iterator[str]:
        yield from super().mentions
        if self.acyclic.given is not None:
            yield self.acyclic.given

    def wish(self, patterns: Mapping[str, str]) -> str:
        if self.acyclic.needs is not None:
            return f"a node before has each of `{self.acyclic.needs}` in `{self.acyclic.gives}`"
        return f"no cycle in `{self.acyclic.edges}`, which lead to `{self.acyclic.nodes}`"


PluginName = Annotated[
    str,
    Spelled(
        rf"^({FUNCTION_PATTERN}|[A-Za-z_][\w.-]*)$",
        "bad-plugin",
        "names no function",
        "write `package.module:function`, without `.py`, or an installed plug-in's name",
        re.ASCII,
    ),
]
"""`package.module:function`, or the name of an entry point of the group `loopkit.validators`."""


class PythonRule(FixedRule):
    """Runs a Python function as a validator, in a process of its own."""

    python: PluginName
    """`package.module:function`, or the name under which a package registers its plug-in."""
    with_: dict[str, Any] = Field({}, alias="with")
    """Arguments for the function, as data; not templates."""
    sees: Texts = ()
    """Further values to pass to the function, such as another artifact: `plan`."""
    folder: PluginFolder = None
    """The folder to search first for modules, relative to the machine file. Default: the machine
    file's own folder."""
    timeout: Duration = 60.0
    """The time after which the function is killed; there is no verdict then."""
    env: Variables = ()
    """Environment variables to pass on, besides the harmless ones."""

    kind = "python"
    may_be_lost = True
    grades: ClassVar[bool] = True
    tells_more: ClassVar[bool] = True
    read_codes: ClassVar[frozenset[str] | None] = None

    @property
    def mentions(self) -> Iterator[str]:
        """The names that it reads: the whole input, and those under `sees`."""
        yield "input"
        yield from super().mentions

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"`{self.python}` finds nothing"


RULE_NOUNS: tuple[type[RuleBase], ...] = (
    MatchesRule,
    NotMatchesRule,
    ContainsRule,
    NotContainsRule,
    SectionRule,
    MinCharsRule,
    MaxCharsRule,
    MinWordsRule,
    MaxWordsRule,
    SchemaRule,
    RequireRule,
    LookupRule,
    AcyclicRule,
    CommandRule,
    JudgeRule,
    PythonRule,
)
"""Every kind of rule: the one table of them, from which all else that knows them is made."""
RULE_KINDS = {noun.kind: noun for noun in RULE_NOUNS}


if TYPE_CHECKING:
    Rule = FixedRule | JudgeRule
else:
    Rule = one_of(RULE_NOUNS, unknown=("unknown-rule", "this is not a rule"))


Rules = Annotated[tuple[Rule, ...], Field(min_length=1), FROM_LIST]
Validator = SerializeAsAny[Annotated[Rules | Rule, by_type("<rules>", "<rule>", list, tuple)]]
ByItem = SerializeAsAny[Annotated[Id | Rule, by_type("<name>", "<rule>")]]


def rules_of(validator: Rule | tuple[Rule, ...]) -> tuple[Rule, ...]:
    return validator if isinstance(validator, tuple) else (validator,)


def _outside(is_outside: bool) -> str:
    return " outside of code" if is_outside else ""
