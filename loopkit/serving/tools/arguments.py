"""Arguments of tools, which nobody has checked: each is refused by its name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from loopkit.document.problems import did_you_mean
from loopkit.serving.tools.toolbox import CallRefused
from loopkit.text import one_line


def refuse_unknown_tool(name: str, known: Collection[str]) -> None:
    """Raises CallRefused where there is no tool of a name."""
    if name not in known:
        hint = did_you_mean(name, known) or "there is none"
        raise CallRefused(f"there is no tool `{one_line(name)}`; {hint}")


def refuse_unknown_arguments(arguments: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises CallRefused for the first argument that a tool does not have."""
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known) or "there is none"
            raise CallRefused(f"unknown argument `{one_line(name)}`; {hint}")


def text_argument(arguments: Mapping[str, Any], name: str, source: str) -> str:
    """An argument that is a text, and not missing; `source` says who tells it."""
    given = arguments.get(name)
    if not isinstance(given, str):
        raise CallRefused(f"`{name}` has to be a text: {source}")
    return given
