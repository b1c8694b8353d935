"""What a resume changes: a machine file, models, prices, options; and the new definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loopkit.agents.assignment import with_models, with_params
from loopkit.agents.not_runnable import NotRunnable
from loopkit.checks.models import wrong_options
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.drive.repair.fitting import Misfit, NotFitting, fit
from loopkit.engine.events import Repaired
from loopkit.engine.state import RunState
from loopkit.language import Machine
from loopkit.language.load import Loaded, Source, digest_of, load_resolved, with_definition

CODE = "does-not-fit"


@dataclass(frozen=True)
class Definition:
    """A machine with what a journal keeps of it."""

    machine: Machine
    resolved: str
    source: Source | None = None
    """Where it stands in a file, if it was read from one."""

    @property
    def digest(self) -> str:
        return digest_of(self.resolved)

    def problem(self, misfit: Misfit) -> Problem:
        """What does not fit, at its place."""
        if self.source is None:
            place = ".".join(map(str, misfit.path))
            return Problem(CODE, misfit.message, None, place, misfit.help)
        return self.source.problem(misfit.path, CODE, misfit.message, help=misfit.help)


@dataclass(frozen=True)
class Mend:
    """What changes when a run is resumed."""

    loaded: Loaded | None = None
    """The machine of a file, instead of the one that the run has."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Another model for an agent."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """What a million tokens of that cost."""
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By agent, options by their dotted names; None takes one away."""

    @property
    def is_any(self) -> bool:
        return bool(self.loaded or self.models or self.prices or self.params)

    def apply_to(self, stored: str) -> Definition:
        """A stored definition with all changes applied; raises NotRunnable."""
        machine, resolved, source = load_resolved(stored), stored, None
        if self.loaded is not None:
            machine, resolved = self.loaded.machine, self.loaded.resolved
            source = self.loaded.source
        machine = with_params(with_models(machine, self.models, self.prices), self.params)
        for name in self.params:
            for key, _, message, remedy in wrong_options(machine.model_agents[name].params):
                raise NotRunnable(f"`--param {name}.{key}=…`: {message}: {remedy}")
        return Definition(machine, with_definition(resolved, machine), source)


def repair(run: RunState, old: Machine, wanted: Definition, raised: Mapping[str, Any]) -> Repaired:
    """The event with which a run goes on with a definition; raises ProblemsFound.

    It has no changes if the run has that definition already.
    """
    try:
        return fit(run, old, wanted.machine, raised).replace(definition=wanted.digest)
    except NotFitting as error:
        raise ProblemsFound(wanted.problem(misfit) for misfit in error.misfits) from error


AS_IT_IS = Mend()
"""Nothing is to change."""
