"""Goals of coverage: states, transitions, and caps reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loopkit.language.load import DocPath

GoalKind = Literal["state", "transition", "cap"]


@dataclass(frozen=True, slots=True)
class Goal:
    """One thing that a run of a case reaches or does not."""

    kind: GoalKind
    name: str
    """The state; the id of the edge; for what one declaration makes in many states, its path."""
    at: DocPath
    """Where the machine file declares it."""
    edges: tuple[str, ...] = ()
    """The edges of which any one reaches it: taken, or for a cap without room when its state
    decides. None for a state."""
