"""What a resume says anew: a machine file, models, prices, options; and the definition with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loopkit.agents.assignment import with_models, with_params
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.language import Machine
from loopkit.language.load import Loaded, Source, digest_of, load_resolved, with_definition
from loopkit.repair.fitting import NotFitting


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

    def problems(self, error: NotFitting) -> ProblemsFound:
        """What does not fit, with its places."""
        return ProblemsFound(
            Problem("does-not-fit", m.message, None, ".".join(map(str, m.path)), m.help)
            if self.source is None
            else self.source.problem(m.path, "does-not-fit", m.message, help=m.help)
            for m in error.misfits
        )


@dataclass(frozen=True)
class Mend:
    """What a run is to go on with."""

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

    def applied(self, stored: str) -> Definition:
        """The definition with all of it, in place of a stored one; raises NotRunnable."""
        machine, resolved, source = load_resolved(stored), stored, None
        if self.loaded is not None:
            machine, resolved = self.loaded.machine, self.loaded.resolved
            source = self.loaded.source
        machine = with_params(with_models(machine, self.models, self.prices), self.params)
        return Definition(machine, with_definition(resolved, machine), source)


AS_IT_IS = Mend()
"""Nothing is to change."""
