"""Texts that keep the rules for text, and texts that break one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopkit.language import Rule
from loopkit.language.datatypes import parse_type
from loopkit.language.validators.rule import Breach
from loopkit.testing.properties.matches import sample
from loopkit.testing.properties.samples import Hints, samples

MOST_CHARS = 20_000
"""A rule that needs a longer text does not get one."""
_QUOTED = re.compile(r'"([^"]*)"|\'([^\']*)\'')
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Texts:
    """Makes the texts of one attempt of one author."""

    rules: Sequence[Rule]
    patterns: Mapping[str, str]
    number: int
    """The number of the attempt, which is in the texts, so that two attempts differ."""

    def candidates(self) -> Iterator[str]:
        """First data, then a text that keeps all rules, texts that each break one, and another."""
        yield from self._data()
        yield self._text()
        for rule in self.rules:
            for breach in rule.breaches(self._matching):
                yield self._text(breach, rule)
        yield self._sentence

    @property
    def _sentence(self) -> str:
        return f"Suggested text {self.number}."

    def _text(self, breach: Breach | None = None, broken: Rule | None = None) -> str:
        """A text that breaks one rule and keeps the others, if possible."""
        breach = breach or Breach()
        kept = [rule for rule in self.rules if rule is not broken or not breach.is_left_out]
        own = f"Suggested text {self.number} for it."
        parts = [part for rule in kept for part in rule.parts(own, self._matching)]
        text = "\n\n".join(part for part in (self._sentence, *parts, breach.more) if part)
        least = max([breach.least_chars, *(rule.least_chars for rule in kept)])
        return _pad(text, min(least, MOST_CHARS))

    def _matching(self, pattern: str, times: int) -> str:
        found = sample(pattern, self.patterns)
        return "" if found is None else "\n\n".join([found] * times)

    def _data(self) -> Iterator[str]:
        hints = Hints(str(self.number), *condition_literals(self.rules))
        for rule in self.rules:
            if rule.data_type is not None:
                for value in samples(parse_type(rule.data_type), hints):
                    yield json.dumps(value, ensure_ascii=False)


def condition_literals(rules: Sequence[Rule]) -> tuple[list[str], list[float]]:
    """The texts and the numbers in the conditions of rules."""
    texts = [text for rule in rules for _, text in rule.conditions]
    numbers = [float(n) for text in texts for n in _NUMBER.findall(_QUOTED.sub("", text))]
    return list(dict.fromkeys(quoted_texts(texts))), list(dict.fromkeys(numbers))


def quoted_texts(texts: Iterable[str]) -> Iterator[str]:
    """The texts in quotes in guards and conditions."""
    return (one or other for text in texts for one, other in _QUOTED.findall(text))


def _pad(text: str, least: int) -> str:
    """The text, with sentences added until it is long enough."""
    short = least - len(text)
    if short <= 0:
        return text
    filler = "This line only makes the text long enough.\n"
    return f"{text}\n\n{filler * (short // len(filler) + 1)}".rstrip()
