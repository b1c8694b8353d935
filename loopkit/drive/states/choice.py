"""A state without work: its transitions choose by what is known already."""

from __future__ import annotations

from loopkit.drive.active import ActiveRun
from loopkit.engine.events import Worked
from loopkit.language import ChoiceState


async def perform(active: ActiveRun, name: str, _: ChoiceState) -> Worked:
    return Worked(state=name, visit=active.state.visit, outcome="done")
