"""Stuck states ahead of a run, under another total or another machine."""

from __future__ import annotations

from loopkit.checks.exits import fact_in_words
from loopkit.checks.explored import how_reached
from loopkit.engine.state import RunState
from loopkit.language import Machine
from loopkit.proof.bounds import Analysis, Stuck, explore, present_of


def stuck_ahead(machine: Machine, run: RunState, total: int | None) -> Stuck | None:
    """The first state in which a run would be stuck with a machine and a total of revisions.

    Everything ahead of the run is gone through, from the configuration in which it stands.
    """
    if machine.limits.total_revisions is not None:
        # Without a total, no edge would spend one.
        limits = machine.limits.model_copy(update={"total_revisions": total})
        machine = machine.model_copy(update={"limits": limits})
    analysis = Analysis.of_machine(machine)
    bounds = explore(analysis, present=present_of(analysis, run), measures=())
    return next((stuck for stuck in bounds.stuck if stuck.is_reached), None)


def stuck_under_total(machine: Machine, run: RunState, total: int) -> str:
    """The message where a run could get stuck with another total of revisions; else empty."""
    if machine.limits.total_revisions is None:
        return ""
    found = stuck_ahead(machine, run, total)
    if found is None:
        return ""
    return (
        f"`{found.state}` would have no transition left{stuck_in_words(found)}; "
        f"choose another number, or add `- {{target: STATE}}` as the last transition of "
        f"`{found.state}` (`--machine FILE`)"
    )


def stuck_in_words(found: Stuck) -> str:
    """The facts of a stuck state, and how a run gets there."""
    facts = " and ".join(fact_in_words(name, value) for name, value in found.facts.items())
    return (f" when {facts}" if facts else "") + f" ({how_reached(found)})"
