"""Warnings, before a run starts, about secrets that the run would store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.cli.exit_codes import say
from loopkit.language import Machine
from loopkit.outside.redaction import ordinary_values, secret_finder


def warn_of_secrets(machine: Machine, inputs: Mapping[str, Any]) -> None:
    """Say which inputs look like secrets, and which secrets of the environment can't be hidden."""
    secret_in = secret_finder(os.environ, machine.key_names)
    for path, text in _texts(inputs, "input"):
        if held := secret_in(text):
            say(
                f"warning: `{path}` looks like a secret: it has {held}. It is stored, and sent to "
                "agents, as it is; let a command or an agent read it from its `env` instead"
            )
    if ordinary := ordinary_values(os.environ, machine.key_names):
        say(
            f"warning: {', '.join(ordinary)}: a value of only letters, or of fewer than 8 "
            "characters, could be part of any text, so it stays in what is stored and shown"
        )


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Each text of the input, with where it stands."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{path}[{index}]")
