"""Unchecked arguments of tools: a refusal names the argument that is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from loopkit.document.problems import did_you_mean
from loopkit.serving.tools.toolbox import CallRefused
from loopkit.text import one_line


def refuse_unknown_tool(name: str, known: Collection[str]) -> None:
    """Raises CallRefused if there is no tool with this name."""
    if name not in known:
        raise CallRefused(f"there is no tool `{one_line(name)}`; {_near(name, known)}")


def refuse_unknown(names: Iterable[str], known: Collection[str], noun: str = "argument") -> None:
    """Raises CallRefused for the first unknown name."""
    for name in names:
        if name not in known:
            raise CallRefused(f"unknown {noun} `{one_line(name)}`; {_near(name, known)}")


def _near(name: str, known: Collection[str]) -> str:
    return did_you_mean(name, known) or "there is none"


def text_argument(arguments: Mapping[str, Any], name: str, source: str) -> str:
    """An argument that is a text; `source` says where its value comes from. Raises CallRefused."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise CallRefused(f"`{name}` has to be a text: {source}")
    return value
