"""A limit raised in mid-run: refused where a state would be left without a transition."""

from __future__ import annotations

from loopkit.checks.exits import fact_in_words
from loopkit.checks.explored import how_reached
from loopkit.engine.state import RunState
from loopkit.language import Machine
from loopkit.proof.bounds import Analysis, explore, present_of


def stuck_under_total(machine: Machine, run: RunState, total: int) -> str:
    """Where a run could get stuck with another total of revisions, or nothing.

    Everything ahead of the run is gone through, from the configuration in which it stands.
    """
    if machine.limits.total_revisions is None:
        # Then no edge counts a total, whatever it is.
        return ""
    limits = machine.limits.model_copy(update={"total_revisions": total})
    analysis = Analysis.of_machine(machine.model_copy(update={"limits": limits}))
    bounds = explore(analysis, present=present_of(analysis, run), measures=())
    found = next((stuck for stuck in bounds.stuck if stuck.is_reached), None)
    if found is None:
        return ""
    facts = " and ".join(fact_in_words(name, value) for name, value in found.facts.items())
    reason = f" when {facts}" if facts else ""
    return (
        f"`{found.state}` would have no transition left{reason} ({how_reached(found)}); "
        f"choose another number, or start anew with `- {{target: STATE}}` as the last "
        f"transition of `{found.state}`"
    )
