"""Baselines that another definition wants, and that can't be taken any more."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.document.document import DocPath
from loopkit.engine.state import RunState
from loopkit.language import Machine
from loopkit.machine.asked import validators_of, with_places
from loopkit.machine.graph import Graph

_Place = tuple[str, str, str]


def new_baselines(run: RunState, old: Machine, new: Machine) -> Iterator[DocPath]:
    """The place of each validator whose baseline a run that has begun does not have."""
    # One that the old machine has as well is not taken because the input rules it out.
    known = {(*place, key) for place, keys in run.baselines.items() for key in keys}
    wanted = set(_baseline_places(new)) - known - set(_baseline_places(old)) if run.state else ()
    for state, validator in dict.fromkeys((state, validator) for state, validator, _ in wanted):
        if validator in new.validators:
            yield "validators", validator
        else:
            yield "states", state, "by", int(validator.removeprefix("by[").removesuffix("]"))


def _baseline_places(machine: Machine) -> Iterator[_Place]:
    for name, state in Graph(machine).judges.items():
        for validator, rules in validators_of(machine, state).items():
            for place, rule in with_places(rules):
                if rule.has_baseline:
                    yield name, validator, place
