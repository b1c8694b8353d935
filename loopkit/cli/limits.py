"""The limits that `--set limits.K=V` names."""

from __future__ import annotations

from typing import Any

from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.document.problems import did_you_mean
from loopkit.language import Limits

RAISABLE = ("agent_calls", "tool_calls", "tokens", "cost_usd", "time", "total_revisions")


def parse_limits(sets: tuple[str, ...]) -> dict[str, Any]:
    """The limits that `--set limits.k=v` names."""
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
        if name not in RAISABLE:
            raise Stop(USAGE, f"error: `{name}` can't be raised; {did_you_mean(name, RAISABLE)}")
        limits[name] = _amount(name, value)
    return limits


def _amount(name: str, text: str) -> Any:
    number: Any = text
    if name != "time":
        try:
            number = float(text) if name == "cost_usd" else int(text)
        except ValueError as error:
            raise Stop(USAGE, f"error: `{text}` is not a number for `limits.{name}`") from error
    try:
        return getattr(Limits.model_validate({name: number}), name)
    except ValueError as error:
        raise Stop(USAGE, f"error: `{text}` is not a value for `limits.{name}`") from error
