"""Texts that keep the rules for text, and texts that break one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopkit.language import (
    MatchesRule,
    MaxCharsRule,
    MinCharsRule,
    NotMatchesRule,
    RequireRule,
    Rule,
    SchemaRule,
    SectionRule,
)
from loopkit.language.datatypes import parse_type
from loopkit.testing.properties.matches import sample
from loopkit.testing.properties.samples import Hints, samples

MOST_CHARS = 20_000
"""A rule that wants a longer text gets none."""
_QUOTED = re.compile(r'"([^"]*)"|\'([^\']*)\'')
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Texts:
    """Makes the texts of one attempt of one author."""

    rules: Sequence[Rule]
    patterns: Mapping[str, str]
    number: int
    """Of the attempt: texts name it, so that two attempts differ."""

    def made(self) -> Iterator[str]:
        """First one that keeps all rules, then for each rule one that breaks it, then others."""
        if any(isinstance(rule, SchemaRule | RequireRule) for rule in self.rules):
            yield from self._data()
        yield self._text()
        for rule in self.rules:
            yield from self._without(rule)
        yield self._sentence

    @property
    def _sentence(self) -> str:
        return f"Suggested text {self.number}."

    def _text(self, *, without: Rule | None = None, more: str = "", longer: int = 0) -> str:
        kept = [rule for rule in self.rules if rule is not without]
        parts = [self._sentence, *(part for rule in kept for part in self._part(rule)), more]
        text = "\n\n".join(part for part in parts if part)
        least = max([longer, *(r.min_chars for r in kept if isinstance(r, MinCharsRule))])
        return _filled(text, min(least, MOST_CHARS))

    def _part(self, rule: Rule) -> Iterator[str]:
        match rule:
            case SectionRule():
                yield f"## {rule.section}\n\nSuggested text {self.number} for it."
            case MatchesRule():
                yield from self._matching(rule.matches, rule.count.min)
            case _:
                return

    def _matching(self, pattern: str, times: int) -> Iterator[str]:
        found = sample(pattern, self.patterns)
        if found is not None:
            yield "\n\n".join([found] * times)

    def _without(self, rule: Rule) -> Iterator[str]:
        """Texts that break one rule, and if possible no other one."""
        match rule:
            case MatchesRule():
                yield self._text(without=rule)
                if rule.count.max is not None:
                    more = "\n\n".join(self._matching(rule.matches, rule.count.max + 1))
                    yield self._text(without=rule, more=more)
            case NotMatchesRule():
                yield self._text(more="\n\n".join(self._matching(rule.not_matches, 1)))
            case MaxCharsRule():
                yield self._text(longer=rule.max_chars + 1)
            case _:
                yield self._text(without=rule)

    def _data(self) -> Iterator[str]:
        words, numbers = named_in(self.rules)
        hints = Hints(str(self.number), words, numbers)
        for rule in self.rules:
            if isinstance(rule, SchemaRule):
                for value in samples(parse_type(rule.schema_), hints):
                    yield json.dumps(value, ensure_ascii=False)


def named_in(rules: Sequence[Rule]) -> tuple[list[str], list[float]]:
    """The texts and the numbers that the conditions of rules name."""
    texts = [rule.require for rule in rules if isinstance(rule, RequireRule)]
    words = [one or other for text in texts for one, other in _QUOTED.findall(text)]
    numbers = [float(n) for text in texts for n in _NUMBER.findall(_QUOTED.sub("", text))]
    return list(dict.fromkeys(words)), list(dict.fromkeys(numbers))


def _filled(text: str, least: int) -> str:
    """The text, with sentences added until it is long enough."""
    short = least - len(text)
    if short <= 0:
        return text
    filler = "This line only makes the text long enough.\n"
    return f"{text}\n\n{filler * (short // len(filler) + 1)}".rstrip()
