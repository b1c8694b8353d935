"""What a run refuses: going on when it is over, limits that are too low, a child's own end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from loopkit.agents.not_runnable import NotRunnable
from loopkit.checks.stuck_ahead import stuck_under_total
from loopkit.document.problems import did_you_mean
from loopkit.drive.repair.spent import overspent
from loopkit.engine.state import RunState
from loopkit.language import Limits, Machine
from loopkit.text.run_ids import is_child, root_of

RAISABLE = ("agent_calls", "tool_calls", "tokens", "cost_usd", "time", "total_revisions")


def new_limits(given: Mapping[str, Any]) -> dict[str, Any]:
    """New limits of a run as a machine would read them; raises NotRunnable."""
    limits: dict[str, Any] = {}
    for name, value in given.items():
        if name not in RAISABLE:
            raise NotRunnable(f"`{name}` can't be raised; {did_you_mean(name, RAISABLE)}")
        try:
            limits[name] = getattr(Limits.model_validate({name: value}), name)
        except ValueError as error:
            raise NotRunnable(f"`{value}` is not a value for `limits.{name}`") from error
    return limits


def refuse_limits(machine: Machine, state: RunState, limits: Mapping[str, Any]) -> None:
    """Raise NotRunnable if new limits are used up, or a run could get stuck under them.

    Only the total decides where a run goes; what else is limited ends it wherever it is.
    """
    for _, message in overspent(state, limits):
        raise NotRunnable(message)
    total = limits.get("total_revisions")
    if total is not None and (stuck := stuck_under_total(machine, state, total)):
        raise NotRunnable(f"`limits.total_revisions` can't be {total} in this run: {stuck}")


def refuse_child(run: str, *command: str) -> None:
    """Raise NotRunnable if a run is a child: a family is ended and removed as a whole."""
    if is_child(run):
        line = shlex.join(["loopkit", *command, root_of(run)])
        raise NotRunnable(f"run `{run}` belongs to `{root_of(run)}`; for the whole family: {line}")


def refuse_over(state: RunState) -> None:
    """Raise NotRunnable if a run has ended."""
    if state.finished is not None:
        raise NotRunnable(f"run `{state.run}` has already finished: {state.finished.outcome}")
    if state.status == "cancelled":
        raise NotRunnable(f"run `{state.run}` was cancelled")
