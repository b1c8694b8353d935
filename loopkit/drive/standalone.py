"""A validator run by itself: a machine of two states around it, driven by the code of any run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopkit.drive.artifacts import make_artifact
from loopkit.drive.judging.by_rules import answer_without_rules
from loopkit.engine.events import Artifact, Replied, Usage
from loopkit.engine.findings import Report
from loopkit.language import (
    Agent,
    FinalState,
    Machine,
    Output,
    RenderOutput,
    RenderState,
    Rule,
    Transition,
    ValidateState,
    Validator,
    rules_of,
)
from loopkit.language.datatypes import parse_record
from loopkit.language.load import Loaded, with_machine
from loopkit.language.template import MAX_OUTPUT

TEXT_INPUT = "text_to_judge"
IMPORT_STATE = "text_to_judge_import"
VERDICT_STATE = "text_to_judge_verdict"
JUDGED = "artifact_to_judge"
"""The artifact of a validator by which no state judges."""


class NoReport(Exception):
    """The run around a validator stopped before there was a report; the message says why."""


@dataclass(frozen=True)
class StandaloneValidator:
    """A validator of a machine, to judge texts by itself as it judges an artifact in a run."""

    loaded: Loaded
    """The whole machine."""
    name: str
    """The validator."""

    @property
    def machine(self) -> Machine:
        return self.loaded.machine

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        return rules_of(self.machine.validators[self.name])

    @property
    def asks(self) -> frozenset[str]:
        """The agents that judge for it."""
        return frozenset(rule.asks for rule in self.rules if rule.asks is not None)

    @cached_property
    def artifact(self) -> str:
        """The artifact that the text stands for: the first state with the validator judges it."""
        judging = self.machine.states_of(ValidateState).values()
        return next((s.validate_ for s in judging if self.name in s.by), JUDGED)

    @cached_property
    def author(self) -> Agent | None:
        """The agent whose answer is the artifact, if it answers with data; None for a text."""
        states = (name for name, output in self._outputs.items() if output.name == self.artifact)
        agents = (agent for name in states for agent in self.machine.agents_at(name))
        return next((agent for agent in agents if agent.schema_ is not None), None)

    @cached_property
    def _outputs(self) -> dict[str, Output]:
        outputs = ((name, state.output_at(name)) for name, state in self.machine.states.items())
        return {name: output for name, output in outputs if output is not None}

    @cached_property
    def _output(self) -> RenderOutput:
        """The fields to extract from the text, for templates that name them."""
        outputs = [output for output in self._outputs.values() if output.name == self.artifact]
        fields = next((output.fields for output in outputs if output.fields), {})
        fence = next((output.fence for output in outputs if output.fence), None)
        return RenderOutput(name=self.artifact, fields=fields, fence=fence)

    @cached_property
    def judging(self) -> Loaded:
        """A machine that imports a text or data, and judges it by this validator."""
        machine, written = self.machine, self.machine.validators[self.name]
        imports = RenderState(
            render=f"{{{{ input.{TEXT_INPUT} }}}}", output=self._output, next=VERDICT_STATE
        )
        judges = ValidateState(
            validate_=self.artifact,
            by=(self.name,),
            transitions=(
                Transition(guard="incomplete", target="text_to_judge_done"),
                Transition(target="text_to_judge_done"),
            ),
        )
        done = FinalState(final="success")
        changed = machine.model_copy(
            update={
                "states": {
                    IMPORT_STATE: imports,
                    VERDICT_STATE: judges,
                    "text_to_judge_done": done,
                },
                "validators": {**machine.validators, self.name: _without_baseline(written)},
                "agents": {n: agent for n, agent in machine.agents.items() if n in self.asks},
                "initial": IMPORT_STATE,
                # No state of the machine wrote the text, so none can have to fix it.
                "origins": (),
                "limits": machine.limits.model_copy(update={"then": None}),
            }
        )
        return with_machine(self.loaded, changed)

    def read(self, text: str) -> Artifact:
        """The artifact of a text: the data in it, if agents answer with data.

        Raises NoReport if it is longer than any text that a template can print.
        """
        if len(text) > MAX_OUTPUT:
            raise NoReport(
                f"the text has {len(text):,} characters; at most {MAX_OUTPUT:,} can be judged"
            )
        if self.author is None:
            return Artifact(name=self.artifact, author=IMPORT_STATE, attempt=1, text=text)
        reply = Replied(key=IMPORT_STATE, text=text, usage=Usage())
        return make_artifact(
            reply, self.author, self._output, IMPORT_STATE, 1, self.machine.patterns
        )

    def report_without_rules(self, artifact: Artifact) -> Report | None:
        """The report on an artifact that is not judged by rules, such as faulty data; else None."""
        if not (artifact.infeasible or artifact.fault):
            return None
        answer = answer_without_rules(artifact, self.machine.levels)
        return Report(
            state=VERDICT_STATE,
            artifact=artifact.name,
            author=artifact.author,
            attempt=artifact.attempt,
            verdict="infeasible" if answer.verdict == "infeasible" else "fail",
            answers=(answer,),
            findings=answer.findings,
            reason=answer.reason,
        )

    def by_itself(self, report: Report) -> Report:
        """The report without the names of what is only there to judge the text."""
        artifact = "" if report.artifact == JUDGED else report.artifact
        return report.replace(state="", author="", artifact=artifact)

    def inputs(self, artifact: Artifact, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The input that the judging machine starts with; missing values are None."""
        fields = parse_record(self.machine.input).fields or {}
        judged = artifact.data if artifact.is_data else artifact.text
        return {**dict.fromkeys(fields), **inputs, TEXT_INPUT: judged}


def _without_baseline(validator: Validator) -> Validator:
    """The validator without baselines: there is no earlier work, so that every finding counts."""
    rules = tuple(
        rule.model_copy(update={"baseline": False}) if rule.has_baseline else rule
        for rule in rules_of(validator)
    )
    return rules if isinstance(validator, tuple) else rules[0]
