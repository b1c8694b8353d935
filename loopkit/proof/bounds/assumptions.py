"""Assumed probabilities of the outcomes of a state's work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from loopkit.document.problems import did_you_mean
from loopkit.language.facts import BOOL
from loopkit.language.guard import Guard, GuardError, check, parse
from loopkit.machine.guard_names import own_names
from loopkit.proof.outcomes import Analysis
from loopkit.values import Value

ENDS = ("transient", "content", "fatal", "limit")
BLOCKED = "blocked"


class NotDetermined(Exception):
    """The probabilities do not decide the paths of runs or are impossible; the message says why."""


class Assumption(Value, frozen=True):
    """The probability that a state's work meets a condition."""

    state: str
    condition: Guard
    probability: Fraction


def assumptions_of(analysis: Analysis, given: Mapping[str, Fraction]) -> tuple[Assumption, ...]:
    """Assumptions from texts such as `validate.valid`; raises NotDetermined for unknown names."""
    return tuple(_assumption(analysis, text, chance) for text, chance in given.items())


def _assumption(analysis: Analysis, text: str, probability: Fraction) -> Assumption:
    state, _, condition = text.partition(".")
    if state not in analysis.machine.states:
        raise NotDetermined(f"there is no state `{state}`: {_near(state, analysis.machine.states)}")
    if not 0 <= probability <= 1:
        raise NotDetermined(f"the probability of `{text}` is {probability}, not between 0 and 1")
    try:
        guard = parse(condition)
    except GuardError as error:
        raise NotDetermined(f"`{text}`: {error}") from error
    facts = own_names(analysis.graph, state)
    words = {str(word) for known in facts.values() for word in known.values}
    known = {**dict.fromkeys((*words, *ENDS, BLOCKED), BOOL), **facts}
    for name in sorted(guard.names - known.keys()):
        raise NotDetermined(f"`{state}` has no fact `{name}`: {_near(name, known)}")
    for problem in check(guard, known):
        raise NotDetermined(f"`{text}`: {problem.message}: {problem.help}")
    return Assumption(state, guard, probability)


def _near(name: str, known: Iterable[str]) -> str:
    return did_you_mean(name, sorted(known))
