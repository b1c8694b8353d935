"""The setting of a rule: everything that it may read or do besides the artifact it judges."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopkit.language.facts import Severities
from loopkit.outside.processes import CommandResult, run_command
from loopkit.outside.redaction import Redact
from loopkit.values import NOTHING, Mutable


class Setting(Mutable):
    names: Mapping[str, object]
    """The names of templates and requirements: `input`, `attempt`, artifacts, …"""
    facts: Mapping[str, object]
    """The facts for the guards of rules, by dotted name: {"input.strict": True, "attempt": 2}."""
    patterns: Mapping[str, str]
    severities: Severities = Severities()
    """The severities, and the one from which findings block in this state."""
    origins: Sequence[str] = ()
    """The states that the machine declares as origins of defects."""
    folder: Path | None = None
    """Where commands run; None is the folder of this process."""
    run: Callable[..., Awaitable[CommandResult]] = run_command
    """Starts a command as `run_command` does, or plays what a script prepared."""
    note_file: Callable[[str, str], None] = lambda _name, _text: None
    """Called for each report that a command wrote to a file, with its name and its text."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits so many seconds between two tries of a command."""
    now: Callable[[], float] = time.time
    """Unix time."""
    baselines: Mapping[str, frozenset[str]] = NOTHING
    """By the place of a rule with a `baseline`: the ids of what its command found at first."""
    call: str = ""
    """What the key for its programs begins with."""
    validator: str = ""
    """The validator whose rules judge."""
    place: str = ""
    """The rule that judges now, such as `command[0]`; it changes from rule to rule."""
    remark: str = ""
    """How two sources of its verdict disagree, where they do; a check leaves it here."""
    redact: Redact = str
    """Removes the environment's secrets from the texts of plug-ins and of report files."""
    input: Mapping[str, Any] = NOTHING
    """The run's input, for programs that read it as a file."""

    @property
    def root(self) -> Path:
        return (self.folder or Path.cwd()).resolve()
