"""Questions to a person: their choices, and the answer that counts after a timeout.

`duplicate-choice`, `unknown-choice`, `missing-otherwise`, `missing-timeout`, `unanswerable-form`,
`otherwise-revises`.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import HumanState
from loopkit.language.datatypes import parse_record
from loopkit.language.guard.kleene import truth
from loopkit.machine.edges import Edge


def check_questions(subject: Subject) -> Iterator[Problem]:
    """`choices:`, `timeout:` and `otherwise:` of every human state."""
    for name, state in subject.machine.states_of(HumanState).items():
        for index, choice in enumerate(state.choices):
            if state.choices.index(choice) < index:
                message = f"the choice `{choice}` is offered twice"
                path = ("states", name, "choices", index)
                yield subject.source.problem(path, "duplicate-choice", message, help="delete one")
        yield from _absence(subject, name, state)


def _absence(subject: Subject, name: str, state: HumanState) -> Iterator[Problem]:
    path: DocPath = ("states", name, "otherwise")
    if state.timeout is not None and state.otherwise is None:
        message = "no choice is set for when the timeout ends"
        choice = next(iter(_forward_choices(subject, name, state)), "CHOICE")
        remedy = f"set the choice that counts then: `otherwise: {choice}`"
        path = ("states", name, "timeout")
        yield subject.source.problem(path, "missing-otherwise", message, help=remedy, key=True)
    if state.otherwise is None:
        return
    if state.timeout is None:
        message = "without a timeout the question waits forever, so this never applies"
        remedy = "add `timeout: 24h`"
        yield subject.source.problem(path, "missing-timeout", message, help=remedy, key=True)
    if state.otherwise not in state.choices:
        message = f"there is no choice `{state.otherwise}`"
        remedy = did_you_mean(state.otherwise, state.choices)
        yield subject.source.problem(path, "unknown-choice", message, help=remedy)
    else:
        yield from _absent_answer(subject, name, state, path)


def _absent_answer(
    subject: Subject, name: str, state: HumanState, path: DocPath
) -> Iterator[Problem]:
    fields = parse_record(state.form).fields or {}
    required = next((field for field, known in fields.items() if known.required), None)
    if required is not None:
        message = f"nobody fills in the field `{required}` of the form after the timeout"
        remedy = f"make it optional: `{required}: optional …`, or give it a default"
        yield subject.source.problem(path, "unanswerable-form", message, help=remedy)
    back = _revises(subject, name, state.otherwise or "")
    if back is not None:
        message = (
            f"`{state.otherwise}` may lead back to `{back.target}` with nobody to give feedback"
        )
        choices = _forward_choices(subject, name, state)
        remedy = "name a choice that only leads forward"
        listed = ", ".join(f"`{choice}`" for choice in choices)
        remedy += f": {listed}" if choices else ""
        yield subject.source.problem(path, "otherwise-revises", message, help=remedy)


def _forward_choices(subject: Subject, name: str, state: HumanState) -> list[str]:
    return [choice for choice in state.choices if _revises(subject, name, choice) is None]


def _revises(subject: Subject, name: str, choice: str) -> Edge | None:
    """The revise edge to which a choice may lead, whatever else is answered."""
    for edge in subject.graph.on(name, "done"):
        guard = subject.guards.whole(edge.guard) if edge.guard is not None else None
        holds = True if edge.guard is None else guard and truth(guard.tree, {"choice": choice})
        if edge.back and holds is not False:
            return edge
        if holds is True:
            return None
    return None
