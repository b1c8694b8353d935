"""The base of all rules: the keys that every rule may have, and the facts that each kind states.

A kind of rule is known by one key. Its class says what it is; `loopkit.validators` judges by it.
"""

from collections.abc import Collection, Iterator, Mapping
from math import inf
from typing import ClassVar, Literal

from loopkit.language.section import Id, Ids, Key, Noun, PlainText, Text, Written
from loopkit.language.validators.report_map import ReportMap, VerdictReading


class RuleBase(Noun):
    """What every rule may say."""

    severity: Id | None = None
    """The severity of its findings; the maximum for findings that have their own. Default: one that
    blocks, and no maximum."""
    code: str = ""
    """A code for its findings, which guards can test: `"CODE" in codes`."""
    origin: Ids = ()
    """The states that must fix its findings, if the machine has `origins`. Default: the author of
    the judged artifact."""
    guard: str | None = None
    """A condition. The rule is skipped if this is false."""

    kind: ClassVar[str]
    """The key by which rules of this kind are known."""
    played: ClassVar[Literal["", "command", "judge"]] = ""
    """What a scenario plays of it, if it does not judge by itself."""
    may_be_lost: ClassVar[bool] = False
    """Whether it may come to no verdict for a time, and another try help."""
    sees_only_artifact: ClassVar[bool] = False
    """Whether what it finds hangs on nothing but the artifact."""
    explains_unreadable: ClassVar[bool] = False
    """Whether that the artifact can't be read is its own finding, told in its `message`."""
    keeps_output: ClassVar[bool] = False
    """Whether its `message` leaves standing what was said, as the only trace of the defect."""

    asks: ClassVar[Key[str | None]] = Key("judge", None)
    """The agent that judges by it; none where it judges without a model."""
    is_always_asked: ClassVar[Key[bool]] = Key("always", True)
    """Whether it comes to its turn even where another rule blocks."""

    @property
    def asks_again(self) -> bool:
        """Whether a second opinion confirms what it finds."""
        return getattr(self, "confirm", None) is not None

    @property
    def most_samples(self) -> int:
        """The maximum number of times that it judges one artifact."""
        return getattr(self, "samples", 1) + self.asks_again

    @property
    def score_range(self) -> tuple[float, float] | None:
        """The lowest and the highest score that it may give, where it gives one."""
        score = getattr(self, "score", None)
        return None if score is None else (score.min, score.max)

    program: ClassVar[Key[tuple[str, ...]]] = Key("command", ())
    has_baseline: ClassVar[Key[bool]] = Key("baseline", False)
    """Whether its program runs once before the run's first work."""

    @property
    def grades(self) -> bool:
        """Whether it tells how bad each finding is, instead of all having the rule's severity."""
        return False

    @property
    def is_in_words(self) -> bool:
        """Whether nothing but their words tells its findings from one round to the next, unless
        they have keys."""
        return self.verdict_reading is not None

    @property
    def names_origins(self) -> bool:
        """Whether it tells who injected each finding, instead of all having the rule's origin."""
        return False

    @property
    def codes(self) -> frozenset[str] | None:
        """The codes that it gives; none where what it reads may give any."""
        return frozenset()

    @property
    def most_findings(self) -> float:
        return inf

    shown: ClassVar[Key[tuple[str, ...]]] = Key("sees", ())
    """What it sees besides the artifact, by dotted names: artifacts, inputs and the like."""

    @property
    def tells_more(self) -> bool:
        """Whether its findings may say more than the language knows of them."""
        return self.report_map is not None

    report_map: ClassVar[Key[ReportMap | None]] = Key("map", None)
    """How it reads a report of another shape than ours."""
    verdict_reading: ClassVar[Key[VerdictReading | None]] = Key("verdict", None)
    own_fields: ClassVar[Key[Collection[str]]] = Key("fields", ())
    """What else its findings say, by name."""

    @property
    def finding_templates(self) -> Written:
        yield from ()

    @property
    def templates(self) -> Written:
        """Its templates besides `message`."""
        return self.written("prompt", "contains", "not_contains")

    @property
    def patterns(self) -> Written:
        """Its patterns, each written out or the name of one under `patterns:`."""
        yield from self.written("matches", "not_matches")
        if self.verdict_reading is not None:
            for at, text in self.verdict_reading.patterns:
                yield ("verdict", *at), text

    @property
    def conditions(self) -> Written:
        return self.written("require")

    @property
    def paths(self) -> Written:
        return self.written("each")

    @property
    def mentions(self) -> Iterator[str]:
        """Everything outside of templates and guards that names a field or an input."""
        yield from (*(text for _, text in (*self.conditions, *self.paths)), *self.shown)

    @property
    def about(self) -> str:
        """The one value that it is about, for a place with little room."""
        value = getattr(self, self.kind)
        return " ".join(value) if isinstance(value, tuple) else str(value)

    def wish(self, patterns: Mapping[str, str]) -> str:
        """The rule's demand on an artifact, in words for its author."""
        return "it is accepted"


class FixedRule(RuleBase):
    """A rule that judges without a model."""

    message: Text | None = None
    """A template for the finding's message; it can use `item`, `index`, `value`, `parent` and
    `artifact`. Default: a message of the rule's own."""
    fields: dict[str, PlainText] = {}
    """Extra fields of a finding, by name: templates that can use the same names as `message`. Empty
    results are omitted."""

    @property
    def finding_templates(self) -> Written:
        yield from self.written("message")
        yield from ((("fields", name), text) for name, text in self.fields.items())

    @property
    def codes(self) -> frozenset[str] | None:
        return frozenset({self.code}) if self.code else self.read_codes

    @property
    def read_codes(self) -> frozenset[str] | None:
        """The codes that it gives where it has none of its own."""
        return frozenset()
