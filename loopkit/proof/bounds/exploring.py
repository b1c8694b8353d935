"""`explore`: from a machine to its bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

from loopkit.language.states.each import ChildrenState
from loopkit.machine.edges import limit_of
from loopkit.machine.inputs import Given
from loopkit.machine.program import flat_facts
from loopkit.proof.bounds.agent_calls import Asking, Price, Usual
from loopkit.proof.bounds.children import Children, PriceIn
from loopkit.proof.bounds.configurations import (
    Explorer,
    Measure,
    Present,
    TooMany,
    assumptions_of,
    shortest_ways,
)
from loopkit.proof.bounds.exact import Exact, untaken
from loopkit.proof.bounds.moves import Moves
from loopkit.proof.bounds.plans import Plans
from loopkit.proof.bounds.result import Bounds
from loopkit.proof.bounds.splitting import MOST_PARTS
from loopkit.proof.bounds.variables import Variables
from loopkit.proof.outcomes.analysis import Analysis

if TYPE_CHECKING:
    from loopkit.proof.bounds.bracket import Bracket

MOST_CONFIGURATIONS = 500_000
MOST_WITHOUT_FIGURES = 30_000
"""The most configurations that are explored where no figures are asked for."""
ALL: tuple[Measure, ...] = ("runs", "calls", "cost", "tool_calls")


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
    price_in: PriceIn | None = None,
    most_parts: int = MOST_PARTS,
) -> Bounds:
    """The bounds of a machine whose edges all lead to states.

    `price` gives the maximum cost of one call; `inputs` are the known values, and any others are
    tried. Above `most` configurations bounds may be too high, and say so. `assume` gives
    probabilities, such as `{"validate.valid": Fraction("0.6")}`, for `Bounds.expected`. A run
    that has begun is explored from its `present`. `ways` is the number of configurations to
    explore for `Bounds.ways`; `usual` is the mean cost of a call; `price_in` gives the prices in
    child machines, without it `price` does. In one state guards split inputs into `most_parts` at
    most; beyond that bounds may be too high as well. Raises Endless if runs need not end,
    NotDetermined if `assume` leaves something open.
    """
    assumptions = assumptions_of(analysis, assume or {})
    given = flat_facts({"input": inputs or {}}) if present is None else present.inputs
    children = None
    if measures and any(analysis.machine.states_of(ChildrenState)):
        # Few machines have children, and checks do not need their figures.
        children = _children(analysis, inputs or {}, price_in or (lambda _: price), most)
    moves = Moves(
        Variables(analysis, given),
        Asking(analysis, price, children),
        {
            a.state: tuple(b.condition for b in assumptions if b.state == a.state)
            for a in assumptions
        },
    )
    most = most if measures else min(most, MOST_WITHOUT_FIGURES)
    explorer = Explorer(Plans(moves, most_parts), most, present)
    bounds = _ends(explorer).bounds(measures)
    if ways:
        followed, is_all = shortest_ways(explorer.anew(), ways)
        bounds = bounds.replace(ways=followed, has_all_ways=is_all)
    if not assumptions:
        return bounds
    from loopkit.proof.bounds.expected import compute_means  # noqa: PLC0415 - few people assume

    means = compute_means(explorer.anew(), assumptions, most, usual)
    return bounds.replace(expected=means)


def untaken_if_raised(analysis: Analysis) -> tuple[str, ...]:
    """The edges that no run takes, even if limits of revisions are raised while it goes on.

    None are known if there are too many configurations.
    """
    fixed = [counter for counter in analysis.graph.caps if not limit_of(counter)]
    moves = Moves(Variables(analysis, {}, fixed), Asking(analysis, lambda *_: None))
    explorer = Explorer(Plans(moves), MOST_WITHOUT_FIGURES)
    with suppress(TooMany):
        return untaken(analysis.graph, explorer.explore_all())
    return ()


def _ends(explorer: Explorer) -> Exact | Bracket:
    """The bounds of a machine: exact ones, or a bracket if there are too many configurations."""
    try:
        return Exact(explorer.explore_all())
    except TooMany:
        from loopkit.proof.bounds.bracket import Bracket  # noqa: PLC0415 - few machines are so large

        return Bracket(explorer, MOST_CONFIGURATIONS)


def _children(
    analysis: Analysis, given: Mapping[str, object], price_in: PriceIn, most: int
) -> Children:
    def explore_child(child: Analysis, known: Given, inner: Children) -> Exact | Bracket:
        flat = flat_facts({"input": known})
        asking = Asking(child, price_in(child.machine), inner)
        return _ends(Explorer(Plans(Moves(Variables(child, flat), asking)), most))

    return Children(analysis, price_in, given, explore_child)
