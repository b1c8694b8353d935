"""Sums over the runs of each machine; no run is kept in memory."""

from __future__ import annotations

from loopkit.engine.telemetry import Tally
from loopkit.views.stats.of_run import density, phase_stats, share
from loopkit.views.stats.statistics import Group, MachineStats, RunStats


class _Mean:
    """The mean cost and time of runs."""

    def __init__(self) -> None:
        self.runs = self.unpriced = 0
        self.usd = self.seconds = 0.0

    def add(self, run: RunStats) -> None:
        self.runs += 1
        self.seconds += run.seconds
        self.unpriced += run.cost_usd is None
        self.usd += run.cost_usd or 0.0

    @property
    def group(self) -> Group:
        priced = self.runs - self.unpriced
        return Group(
            runs=self.runs,
            cost_usd=self.usd / priced if priced else None,
            seconds=self.seconds / self.runs if self.runs else None,
            unpriced=self.unpriced,
        )


class _Sums:
    """The sums of the runs of one machine."""

    def __init__(self) -> None:
        self.runs = self.succeeded = self.overrides = 0
        self.works = self.corrections = self.blocking = self.resolved = self.caught = 0
        self.means = {True: _Mean(), False: _Mean()}
        """By whether the runs are clean."""
        self.phases: dict[str, Tally] = {}

    def add(self, run: RunStats) -> None:
        self.runs += 1
        self.works += run.works
        self.corrections += run.corrections
        self.blocking += run.blocking
        self.resolved += run.resolved
        self.caught += run.caught
        self.overrides += len(run.overrides)
        if run.outcome is not None:
            self.succeeded += run.success is True
            self.means[run.is_clean].add(run)
        for phase in run.phases:
            self.phases.setdefault(phase.state, Tally()).add(phase)

    def stats(self, machine: str) -> MachineStats:
        clean, corrected = self.means[True].group, self.means[False].group
        finished = clean.runs + corrected.runs
        phases = tuple(phase_stats(of.phase(state)) for state, of in self.phases.items())
        return MachineStats(
            machine=machine,
            runs=self.runs,
            finished=finished,
            succeeded=self.succeeded,
            clean=clean,
            corrected=corrected,
            clean_share=share(clean.runs, finished),
            works=self.works,
            corrections=self.corrections,
            correction_rate=share(self.corrections, self.works),
            blocking=self.blocking,
            resolved=self.resolved,
            density=density(self.blocking, sum(phase.characters for phase in phases)),
            caught=self.caught,
            process_yield=share(self.caught, self.blocking),
            overrides=self.overrides,
            phases=phases,
        )


class Totals:
    """The figures of each machine, as runs are added."""

    def __init__(self) -> None:
        self._of: dict[str, _Sums] = {}

    def add(self, run: RunStats) -> None:
        self._of.setdefault(run.machine, _Sums()).add(run)

    @property
    def machines(self) -> list[MachineStats]:
        """By name."""
        return [self._of[machine].stats(machine) for machine in sorted(self._of)]
