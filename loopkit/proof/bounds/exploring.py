"""`explore`: from a machine to its bounds."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from loopkit.language.guard import Guard
from loopkit.machine.program import flat_facts
from loopkit.proof.bounds.agent_calls import Asking, Price, Usual
from loopkit.proof.bounds.assumptions import Assumption, assumptions_of
from loopkit.proof.bounds.configurations import Explorer, Present, TooMany
from loopkit.proof.bounds.exact import Exact
from loopkit.proof.bounds.extremes import Measure
from loopkit.proof.bounds.moves import Moves
from loopkit.proof.bounds.plans import Plans
from loopkit.proof.bounds.result import Bounds
from loopkit.proof.bounds.variables import Variables
from loopkit.proof.outcomes import Analysis

MOST_CONFIGURATIONS = 500_000
ALL: tuple[Measure, ...] = ("runs", "calls", "cost")


def explore(
    analysis: Analysis,
    *,
    price: Price = lambda *_: None,
    inputs: Mapping[str, object] | None = None,
    assume: Mapping[str, Fraction] | None = None,
    most: int = MOST_CONFIGURATIONS,
    measures: Collection[Measure] = ALL,
    present: Present | None = None,
    ways: int = 0,
    usual: Usual = lambda _state, work, _revised: work.call_usd,
) -> Bounds:
    """The bounds of a machine whose edges all lead to states.

    `price` says what one call costs at most; `inputs` are the values that are known, any others
    are tried. Above `most` configurations bounds may be too high, and say so. `assume` gives
    probabilities, such as `{"validate.valid": Fraction("0.6")}`, for `Bounds.expected`; a run
    that stands somewhere already is explored from its `present`; for `Bounds.ways` as many
    configurations are looked at as `ways` says; `usual` is what a call costs in the mean. Raises
    Endless where runs need not end, NotDetermined for what `assume` leaves open.
    """
    assumptions = assumptions_of(analysis, assume or {})
    given = flat_facts({"input": inputs or {}}) if present is None else present.inputs
    moves = Moves(Variables(analysis, given), Asking(analysis, price), _conditions(assumptions))
    explorer = Explorer(Plans(moves), most, present)
    try:
        bounds = Exact(explorer, explorer.explored(), present).bounds(measures)
    except TooMany:
        bounds = _bracketed(explorer, given, present, measures)
    if ways:
        from loopkit.proof.bounds.shortest import shortest_ways  # noqa: PLC0415 - for plans alone

        followed, is_all = shortest_ways(Explorer(explorer.plans, sys.maxsize, present), ways)
        bounds = replace(bounds, ways=followed, has_all_ways=is_all)
    if not assumptions:
        return bounds
    from loopkit.proof.bounds.expected import expected  # noqa: PLC0415 - few people assume

    fresh = Explorer(explorer.plans, sys.maxsize, present)
    means = expected(fresh, assumptions, most, usual)
    return replace(bounds, expected=means)


def _bracketed(
    explorer: Explorer,
    given: Mapping[str, object],
    present: Present | None,
    measures: Collection[Measure],
) -> Bounds:
    """What holds of all configurations without a look at each."""
    from loopkit.proof.bounds.bracket import Bracket  # noqa: PLC0415 - few machines are so large
    from loopkit.proof.bounds.picture import Picture  # noqa: PLC0415 - as above

    picture = Picture(explorer, given, present, MOST_CONFIGURATIONS)
    return Bracket(explorer, picture, present).bounds(measures)


def _conditions(assumptions: Iterable[Assumption]) -> dict[str, tuple[Guard, ...]]:
    found: dict[str, tuple[Guard, ...]] = {}
    for assumption in assumptions:
        found[assumption.state] = (*found.get(assumption.state, ()), assumption.condition)
    return found
