"""The limits that `--set limits.K=V` names."""

from __future__ import annotations

from typing import Any

from loopkit.agents.not_runnable import NotRunnable
from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.drive.repair.refusals import RAISABLE, new_limits


def parse_limits(sets: tuple[str, ...]) -> dict[str, Any]:
    """The limits that `--set limits.k=v` names; raises Stop."""
    limits: dict[str, Any] = {}
    for written in sets:
        key, equals, value = written.partition("=")
        name = key.removeprefix("limits.")
        if not equals or not key.startswith("limits."):
            raise Stop(
                USAGE,
                f"error: `--set {written}`: only limits can change: write `--set "
                f"limits.{key if key in RAISABLE else 'NAME'}={value or 'VALUE'}`",
            )
        limits[name] = _amount(name, value) if name in RAISABLE else value
    try:
        return new_limits(limits)
    except NotRunnable as error:
        raise Stop(USAGE, f"error: {error}") from error


def _amount(name: str, text: str) -> Any:
    if name == "time":
        return text
    try:
        return float(text) if name == "cost_usd" else int(text)
    except ValueError as error:
        raise Stop(USAGE, f"error: `{text}` is not a number for `limits.{name}`") from error
