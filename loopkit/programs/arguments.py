"""How options become arguments, where all programs do it alike."""

from __future__ import annotations

from loopkit.programs.port import Options


def flags(*pairs: tuple[str, object]) -> list[str]:
    """The flags that have a value, each followed by it."""
    return [part for name, value in pairs if value for part in (name, str(value))]


def not_granted(options: Options, *tools: str) -> list[str]:
    """Those of the tools that the options do not grant, whole or for some arguments."""
    granted = {tool.partition("(")[0] for tool in options.tools}
    return [tool for tool in tools if tool not in granted]
