"""Machines as tools: their arguments, and the tools that all machines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.agents.not_runnable import NotRunnable
from loopkit.language import FinalState, Machine
from loopkit.language.datatypes import parse_record
from loopkit.language.load import Loaded
from loopkit.proof.bounds import Analysis, explore
from loopkit.proof.bounds.extremes import Measure
from loopkit.serving.tools.outside_agent import OF_OUTSIDE, has_outside_agents
from loopkit.serving.tools.standing import RUN, STANDING
from loopkit.serving.tools.toolbox import ServedTool

MOST_CONFIGURATIONS = 10_000
"""Configurations that are explored for the bound of the progress; above, it is less exact."""
_OF_RUN: Mapping[str, Any] = {
    "type": "object",
    "properties": {"run": RUN},
    "required": ["run"],
    "additionalProperties": False,
}
OF_RUNS = (
    ServedTool(
        name="status",
        description="Where a run stands: its result, or what it waits for and where a person "
        "answers. Changes nothing.",
        arguments=_OF_RUN,
        result=STANDING,
        changes_nothing=True,
    ),
    ServedTool(
        name="resume",
        description="Go on with a run that was interrupted or suspended, until it ends or waits "
        "for somebody. Nothing that was done is done again.",
        arguments=_OF_RUN,
        result=STANDING,
    ),
)
"""The tools that every server of machines has."""


def common_tools(machines: Mapping[str, Loaded]) -> Sequence[ServedTool]:
    """The tools for runs of any of the machines."""
    is_led = any(has_outside_agents(loaded.machine) for loaded in machines.values())
    return (*OF_RUNS, *(OF_OUTSIDE if is_led else ()))


def machine_tools(machines: Mapping[str, Loaded]) -> dict[str, ServedTool]:
    """A tool for each machine, by its name; raises NotRunnable if another tool has that name."""
    for name in (tool.name for tool in common_tools(machines) if tool.name in machines):
        raise NotRunnable(
            f"a machine is named `{name}`, like a tool that this server has besides; "
            "name it otherwise with `name:`"
        )
    return {name: _tool(name, loaded.machine) for name, loaded in machines.items()}


def _tool(name: str, machine: Machine) -> ServedTool:
    ends = machine.states_of(FinalState).items()
    outcomes = ", ".join(f"`{end}` ({state.final})" for end, state in ends)
    about = machine.description or f"Run the machine `{name}`."
    return ServedTool(
        name=name,
        description=f"{about}\n\nIt ends in {outcomes}.",
        arguments=parse_record(machine.input).schema,
        result=STANDING,
    )


def most_asked(machine: Machine) -> float | None:
    """The most works that a run can request from agents; None if that is unknown."""
    measures: tuple[Measure, ...] = ("runs",)
    bounds = explore(Analysis.of_machine(machine), most=MOST_CONFIGURATIONS, measures=measures)
    return bounds.runs.worst.total
