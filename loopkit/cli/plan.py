"""`loopkit plan`."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopkit.cli import terminal
from loopkit.cli.inputs import MACHINE, Given, input_options, read_inputs
from loopkit.cli.machine import (
    folder_of,
    load_changed,
    max_cost_option,
    model_options,
    with_cost_limit,
    workspace_line,
)
from loopkit.cli.terminal import echo_wrapped, examples, misuse
from loopkit.drive.preflight import needs_of
from loopkit.programs import PROGRAMS
from loopkit.proof.bounds.configurations import Endless, NotDetermined
from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import ANSWER_TOKENS, plan_of

if TYPE_CHECKING:
    from loopkit.agents.players import AgentChanges


@click.command(
    epilog=examples("loopkit plan plan.yaml --set max_revisions=3 --assume validate.valid=0.6")
)
@click.argument("machine", type=MACHINE)
@input_options
@model_options
@max_cost_option("The cost limit of the run.")
@click.option(
    "--answer-tokens",
    type=click.IntRange(min=1),
    default=ANSWER_TOKENS,
    show_default=True,
    metavar="N",
    help="The length of an answer, for the typical cost.",
)
@click.option(
    "--assume",
    "assumed",
    multiple=True,
    metavar="STATE.FACT=P",
    help="The probability of a fact, from 0 to 1.",
)
@click.option("--paths", is_flag=True, help="Show configurations and the path with most calls.")
def plan_command(
    machine: Path,
    given: Given,
    changes: AgentChanges | None,
    max_cost: float | None,
    answer_tokens: int,
    assumed: tuple[str, ...],
    paths: bool,
) -> int:
    """Show what a run of MACHINE would do and cost, typically and at most. Calls nothing."""
    loaded = load_changed(machine, changes, max_cost)
    definition = with_cost_limit(loaded.machine, max_cost)
    inputs = read_inputs(definition, given, "defaults")
    try:
        plan = plan_of(definition, inputs, probabilities(assumed), answer_tokens)
    except (Endless, NotDetermined) as error:
        raise misuse(str(error)) from error
    folder = folder_of(loaded, machine)
    needs = needs_of(definition, inputs=inputs, folder=folder)
    missing = [f"- {need.line}" for need in needs if need.is_missing]
    place = workspace_line(definition, folder, inputs)
    known = {f"program {program.executable}" for program in PROGRAMS.values()}
    here = [f"{need.name} is installed" for need in needs if need.name in known and not need.lack]
    echo_wrapped([plan_text(plan, inputs, has_paths=paths), "", place, *here])
    if missing:
        echo_wrapped(["", "Missing here:", *missing])
    return terminal.OK


def probabilities(assumed: Iterable[str]) -> dict[str, Fraction]:
    given: dict[str, Fraction] = {}
    for written in assumed:
        fact, _, text = written.rpartition("=")
        if "." not in fact:
            raise misuse(f"`--assume {written}` is not of the form `state.fact=0.6`")
        try:
            number = Fraction(text)
        except (ValueError, ZeroDivisionError) as error:
            raise misuse(f"`--assume {written}`: `{text}` is not a number") from error
        if not 0 <= number <= 1:
            raise misuse(f"`--assume {written}`: a probability is from 0 to 1")
        given[fact] = number
    return given
