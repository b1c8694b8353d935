"""Everything that is read of a run before it becomes a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopkit.drive.active import OpenQuestion, Stored
from loopkit.engine.events import Usage
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run, its events, and what is known of it besides."""

    state: RunState
    history: Sequence[Stored]
    engine: Engine
    """Of the definition that holds now."""
    usage: Usage
    """What its family has spent."""
    now: float
    """Unix time."""
    is_driven: bool = False
    hints: Sequence[str] = ()
    """Lines that lead on with a run that was suspended."""
    children: Mapping[str, RunState] = field(default_factory=dict)
    """The states of children that have not ended."""
    asked: Sequence[OpenQuestion] = ()
    """What the run and its children ask now."""
