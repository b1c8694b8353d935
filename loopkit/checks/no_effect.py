"""`no-effect`: keys that do nothing where they stand: `on_error`, keys of outputs and of judges."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import JudgeRule, RenderState, WorkingState
from loopkit.proof.outcomes import PlacedRule
from loopkit.proof.outcomes.severity import levels_at, may_block

OF_TEXTS = {
    "fence": "it is found in fences anyway",
    "fields": "its fields are those of the schema",
}


def check_errors(subject: Subject) -> Iterator[Problem]:
    """A warning for `on_error` on a state whose work cannot fail."""
    for name, state in subject.machine.states_of(WorkingState).items():
        if state.on_error is not None and not state.faults:
            path = ("states", name, "on_error")
            message = f"{state.doing} cannot fail, so this edge is never taken"
            yield subject.no_effect(path, message)


def check_outputs(subject: Subject) -> Iterator[Problem]:
    """A warning for keys of `output` that the work of its state does not ask for."""
    yield from _of_templates(subject)
    for name, state in subject.machine.states.items():
        output = state.output_at(name)
        if all(agent.schema_ is None for agent in subject.machine.agents_at(name)):
            continue
        for key, instead in OF_TEXTS.items():
            if getattr(output, key):
                asked = " or ".join(map("`{}`".format, state.asks))
                message = f"the answer of {asked} is data, by its `schema`: {instead}"
                yield subject.no_effect(("states", name, "output", key), message)


def _of_templates(subject: Subject) -> Iterator[Problem]:
    for name, state in subject.machine.states_of(RenderState).items():
        output = state.output_at(name)
        if output.else_ is not None:
            message = "a filled template is the artifact, whatever its file holds"
            yield subject.no_effect(("states", name, "output", "else"), message)
        if state.adds and output.file is None:
            message = "there is no file to which the text could be added"
            yield subject.no_effect(("states", name, "output", "append"), message, "add `file`")


def check_opinions(subject: Subject) -> Iterator[Problem]:
    """A warning for each `samples`, `confirm` and `combine` of a judge that changes nothing."""
    for placed in subject.rules_of(JudgeRule):
        for key, message in _idle(subject, placed):
            yield subject.no_effect((*placed.path, key), message)


def _idle(subject: Subject, placed: PlacedRule[JudgeRule]) -> Iterator[tuple[str, str]]:
    rule = placed.rule
    levels = [levels_at(subject.machine, subject.judges[name]) for name in placed.judged_at]
    never_fails = bool(levels) and not any(may_block(rule, at) for at in levels)
    if rule.confirm is not None and never_fails:
        yield "confirm", "this judge never fails: with its `severity` it only advises"
    if rule.samples > 1 and never_fails:
        yield "samples", "there is nothing to vote on: with its `severity` this judge only advises"
    if rule.samples == 1 and "combine" in rule.model_fields_set:
        yield "combine", "there is one sample, so there is nothing to combine"
