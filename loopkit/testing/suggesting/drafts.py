"""Suites in memory: for a way that is being tried, and for a case as it would be pasted in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopkit.document import read
from loopkit.document.problems import ProblemsFound
from loopkit.language.load import Source
from loopkit.scenario import LoadedScenario, Scenario
from loopkit.testing.inputs import inputs_of
from loopkit.testing.suites import SUFFIX, Machines, Suite

CASE = "suggested"


def empty_suite(machine: Path, machines: Machines) -> Suite:
    """A suite without cases for a machine file that has none yet; raises ProblemsFound."""
    loaded = machines.machine(machine)
    path = machine.with_name(f"{machine.stem}{SUFFIX}")
    source = Source(read("scenario: 1", str(path)), {})
    written = LoadedScenario(Scenario(scenario=1), source, path.parent, {"scenario": 1})
    return Suite(path, written, loaded, {}, machines)


def draft(suite: Suite, inputs: Mapping[str, Any], limits: Mapping[str, Any]) -> Suite:
    """A suite with one case in which nobody says anything; `inputs` are complete."""
    return _with_case(suite, {}, {"limits": dict(limits)}, inputs)


def pasted(suite: Suite, case: Mapping[str, Any]) -> Suite:
    """The suite with this case instead of its own, and with what all cases share.

    Raises ProblemsFound where the case would not do.
    """
    shared = {key: value for key, value in suite.written.plain.items() if key != "cases"}
    made = _with_case(suite, shared, case, {})
    inputs, problems = inputs_of(made.written, CASE, suite.machine.machine)
    if problems:
        raise ProblemsFound(problems)
    return replace(made, inputs={CASE: inputs})


def _with_case(
    suite: Suite, shared: Mapping[str, Any], case: Mapping[str, Any], inputs: Mapping[str, Any]
) -> Suite:
    named = {"machine": suite.machine.source.document.file, **shared, "scenario": 1}
    plain = {**named, "cases": {CASE: dict(case)}}
    written = replace(suite.written, scenario=Scenario.model_validate(plain), plain=plain)
    return replace(suite, written=written, inputs={CASE: inputs})


def shared_inputs(suite: Suite) -> dict[str, Any]:
    """The inputs that all cases of a suite share, with their texts from files."""
    shared = {"input": suite.written.plain.get("input", {})}
    made = _with_case(suite, shared, {}, {})
    inputs, _ = inputs_of(made.written, CASE, suite.machine.machine)
    return {name: value for name, value in inputs.items() if name in shared["input"]}


def without_shared(suite: Suite, case: Mapping[str, Any]) -> dict[str, Any]:
    """A case without the replies of agents that say the same in what all cases share."""
    shared = suite.written.scenario.agents
    own = Scenario.model_validate({"scenario": 1, "agents": case.get("agents", {})}).agents
    said = {
        agent: part
        for agent, part in case.get("agents", {}).items()
        if agent not in shared or not _begins(shared[agent], own[agent])
    }
    kept = {key: value for key, value in case.items() if key != "agents"}
    return {**kept, "agents": said} if said else kept


def _begins(shared: Any, own: Any) -> bool:
    """Whether the shared replies are these, or go on behind them."""
    return isinstance(shared, tuple) and isinstance(own, tuple) and shared[: len(own)] == own
