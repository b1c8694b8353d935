"""A validator run by itself: a machine of two states around it, driven by the code of any run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopkit.language import (
    CommandRule,
    FinalState,
    JudgeRule,
    Machine,
    RenderOutput,
    RenderState,
    Transition,
    ValidateState,
    Validator,
    rules_of,
)
from loopkit.language.datatypes import parse_record
from loopkit.language.load import Loaded

TEXT_INPUT = "text_to_judge"
IMPORT_STATE = "text_to_judge_import"
VERDICT_STATE = "text_to_judge_verdict"


def judging_machine(
    loaded: Loaded, validator: str, text: str, inputs: Mapping[str, Any]
) -> tuple[Loaded, dict[str, Any]]:
    """A machine that imports a text and judges it, and the input that it starts with."""
    machine = loaded.machine
    output = _output(loaded.machine, validator)
    written = machine.validators[validator]
    asked = {r.judge for r in rules_of(written) if isinstance(r, JudgeRule)}
    judging = machine.model_copy(
        update={
            "states": {
                IMPORT_STATE: RenderState(
                    render=f"{{{{ input.{TEXT_INPUT} }}}}", output=output, next=VERDICT_STATE
                ),
                VERDICT_STATE: ValidateState(
                    validate_=output.name,
                    by=(validator,),
                    transitions=(
                        Transition(guard="incomplete", target="text_to_judge_done"),
                        Transition(target="text_to_judge_done"),
                    ),
                ),
                "text_to_judge_done": FinalState(final="success"),
            },
            "validators": {**machine.validators, validator: _without_baseline(written)},
            "agents": {name: agent for name, agent in machine.agents.items() if name in asked},
            "initial": IMPORT_STATE,
            "limits": machine.limits.model_copy(update={"then": None}),
        }
    )
    missing = {
        name: None for name in parse_record(machine.input).fields or {} if name not in inputs
    }
    return replace(loaded, machine=judging), {**missing, **inputs, TEXT_INPUT: text}


def _without_baseline(validator: Validator) -> Validator:
    """There is no work before which a command could be run, so that everything counts."""
    rules = tuple(
        rule.model_copy(update={"baseline": False}) if isinstance(rule, CommandRule) else rule
        for rule in rules_of(validator)
    )
    return rules if isinstance(validator, tuple) else rules[0]


def _output(machine: Machine, validator: str) -> RenderOutput:
    """The artifact that the text stands for, with the fields that templates may name.

    It is the one that the first state with this validator judges.
    """
    judging = (s for s in machine.states_of(ValidateState).values() if validator in s.by)
    name = next((state.validate_ for state in judging), "artifact_to_judge")
    outputs = (state.output_at(name) for name, state in machine.states.items())
    fields = (o.fields for o in outputs if o is not None and o.name == name and o.fields)
    return RenderOutput(name=name, fields=next(fields, {}))
