"""Ways tried out: each is improvised, and what was said is kept where it went all the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.language import CommandState
from loopkit.testing.playing import Run, Stage
from loopkit.testing.suggesting.author import NoWords
from loopkit.testing.suggesting.drafts import CASE, draft
from loopkit.testing.suggesting.improvising import Astray, Company
from loopkit.testing.suggesting.inputs import Inputs
from loopkit.testing.suggesting.lines import LimitNeeded
from loopkit.testing.suggesting.pool import Pool
from loopkit.testing.suggesting.wants import Want, wants_of
from loopkit.testing.suggesting.ways import Step, Way
from loopkit.testing.suites import Suite

MOST_PLAYS = 40
"""How often one way is played with other words."""

UNPLAYABLE = "only a template that fails or a workspace that can't be used leads there"


class NoWay(Exception):
    """A way on which nothing that was said led to its end; `step` is where it failed."""

    def __init__(self, step: Step, message: str) -> None:
        super().__init__(message)
        self.step = step


@dataclass
class _Improvised(Stage):
    """A case in which everybody says what leads on."""

    company: Company = field(default_factory=lambda: Company((), Pool()))

    def watch(self, active: ActiveRun) -> None:
        self.company.join(active)


@dataclass
class Trying:
    """Plays the ways of one machine."""

    suite: Suite
    inputs: Inputs

    def case(self, way: Way) -> dict[str, Any]:
        """The input, limits and words of a case that goes this way; raises NoWay."""
        options = [self._options(step) for step in way.steps]
        choice = _Choice([len(some) for some in options])
        reason = "nothing brings it about"
        for _ in range(MOST_PLAYS):
            wants = [some[index] for some, index in zip(options, choice.taken, strict=True)]
            try:
                return self._played(way, wants)
            except Astray as astray:
                blamed, reason = [min(astray.step, len(wants) - 1)], str(astray)
            except NoWords as silent:
                blamed, reason = _steps_of(wants, silent.wants), str(silent)
            if not choice.change(blamed):
                raise NoWay(way.steps[blamed[0]], f"{reason}, whatever is said")
        raise NoWay(way.steps[-1], f"{reason}, after {MOST_PLAYS} tries")

    def _options(self, step: Step) -> tuple[Want, ...]:
        options = wants_of(self.inputs.program, step)
        if not options:
            raise NoWay(step, UNPLAYABLE)
        return options

    def _played(self, way: Way, wants: Sequence[Want]) -> dict[str, Any]:
        inputs = self.inputs.of(way.inputs, wants)
        limits = _limits(self.suite, wants)
        try:
            company = self._improvised(inputs, limits, wants)
        except LimitNeeded as needed:
            limits = {"agent_calls": needed.calls}
            company = self._improvised(inputs, limits, wants)
        own = self.inputs.written(inputs)
        said = company.said.parts(self.suite.playbill)
        given = {"input": own, "limits": limits, **said}
        return {key: value for key, value in given.items() if value}

    def _improvised(
        self, inputs: dict[str, Any], limits: dict[str, Any], wants: Sequence[Want]
    ) -> Company:
        company = Company(wants, self.inputs.pool)
        stage = _Improvised(draft(self.suite, inputs, limits), CASE, company=company)
        asyncio.run(stage.play())
        assert stage.run is not None
        company.follow(stage.run.state)
        if (gone := len(stage.run.state.route)) < len(wants) and not _is_meant(stage.run, wants):
            raise Astray(gone, _stopped(stage.run))
        return company


def _limits(suite: Suite, wants: Sequence[Want]) -> dict[str, Any]:
    """A command is kept from running by a limit on time alone."""
    states = suite.machine.machine.states
    limited = (want.step.source for want in wants if want.step.move.event == "limit")
    is_command = any(isinstance(states[name], CommandState) for name in limited)
    return {"time": "0s"} if is_command else {}


def _is_meant(run: Run, wants: Sequence[Want]) -> bool:
    """Whether a run was suspended in the last step of its way, as it should be."""
    last, suspended = wants[-1].step, run.state.suspended
    is_last = len(run.state.route) == len(wants) - 1
    return (
        is_last
        and last.edge is None
        and suspended is not None
        and suspended.reason == last.move.event
    )


def _stopped(run: Run) -> str:
    if run.refused:
        return f"the answer was refused: {run.refused}"
    if run.state.suspended is not None:
        return f"the run is suspended in `{run.state.state}`: {run.state.suspended.message}"
    return f"the run stops in `{run.state.state}`"


def _steps_of(wants: Sequence[Want], meant: Sequence[Want]) -> list[int]:
    found = [i for i, want in enumerate(wants) if any(want is one for one in meant)]
    return found or [len(wants) - 1]


class _Choice:
    """Which of its options each step takes."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self.taken = [0] * len(sizes)

    def change(self, steps: Sequence[int]) -> bool:
        """Take the next options of some of these steps; false where all were taken."""
        for step in reversed(steps):
            self.taken[step] += 1
            if self.taken[step] < self._sizes[step]:
                return True
            self.taken[step] = 0
        return False
