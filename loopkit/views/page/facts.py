"""Everything that is read of a run before it becomes a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopkit.drive.active import OpenQuestion, Stored
from loopkit.drive.stored_runs import StoredRuns, open_children
from loopkit.engine.events import Usage
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.views.children_table import MOST_SHOWN
from loopkit.views.hints import hints_for


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


async def read_facts(
    stored: StoredRuns, state: RunState, history: Sequence[Stored], engine: Engine, now: float
) -> RunFacts:
    """All that a page shows of a run, whose state is the one after this history."""
    begun = (child.started.child for child in open_children(state)[:MOST_SHOWN])
    rows = await stored.journal.runs(run=state.run)
    return RunFacts(
        state=state,
        history=history,
        engine=engine,
        usage=await stored.usage_of(state),
        now=now,
        is_driven=any(row.is_driven for row in rows),
        hints=tuple(await hints_for(stored, state)),
        children={
            one: await stored.state_of(one) for one in begun if await stored.journal.has(one)
        },
        asked=tuple(await stored.questions_of(state)),
    )
