"""Everything that is read about a run to make its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopkit.drive.stored_runs import OpenQuestion, Stored, StoredRuns, open_children
from loopkit.engine.macrostep import Engine
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.views.hints import hints_for
from loopkit.views.run_data import MOST_SHOWN


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run, its events, and what the journal has about it besides."""

    state: RunState
    history: Sequence[Stored]
    engine: Engine
    usage: Usage
    now: float
    """Unix time."""
    is_driven: bool = False
    hints: Sequence[str] = ()
    """The commands that continue it, if it is suspended."""
    children: Mapping[str, RunState] = field(default_factory=dict)
    asked: Sequence[OpenQuestion] = ()


async def read_facts(
    stored: StoredRuns, state: RunState, history: Sequence[Stored], engine: Engine, now: float
) -> RunFacts:
    begun = (child.started.child for child in open_children(state)[:MOST_SHOWN])
    rows = await stored.journal.runs(run=state.run)
    return RunFacts(
        state=state,
        history=history,
        engine=engine,
        usage=await stored.usage_of(state),
        now=now,
        is_driven=any(row.is_driven for row in rows),
        hints=tuple(await hints_for(stored, state, now)),
        children={
            one: await stored.state_of(one) for one in begun if await stored.journal.has(one)
        },
        asked=tuple(await stored.questions_of(state)),
    )
