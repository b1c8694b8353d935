"""The work of each kind of state, in the module that is named like that of its noun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.engine.events import Worked
from loopkit.language.states.state import StateBase

# The state is Any, because each takes the noun whose module is named like its own.
Perform = Callable[[ActiveRun, str, Any], Awaitable[Worked]]


@cache
def work_of(noun: type[StateBase]) -> Perform:
    """The function that does the work of a kind of state; loaded when a run first comes to one."""
    module = import_module(f"{__name__}.{noun.__module__.rpartition('.')[2]}")
    perform: Perform = module.perform
    return perform
