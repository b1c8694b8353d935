"""A human state: the answer of a person, checked against the question."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.document.problems import closest
from loopkit.engine.events import Artifact, HumanAnswer, Worked
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.language import HumanState
from loopkit.language.datatypes import conform, facts_of, parse_record
from loopkit.language.json_schema import NotJudged


class AnswerRefused(Exception):
    """An answer that the question does not take; the message says why and what it takes."""


def complete_work(engine: Engine, run: RunState, state: HumanState, answer: HumanAnswer) -> Worked:
    """The completed work of the active human state; raises AnswerRefused."""
    answer = check_answer(engine, run, state, answer)
    return Worked(
        state=run.state,
        visit=run.visit,
        outcome="done",
        facts=_facts(state, answer.form, answer.choice),
        artifact=_edited(run, state, answer),
        answer=answer,
    )


def check_answer(
    engine: Engine, run: RunState, state: HumanState, answer: HumanAnswer
) -> HumanAnswer:
    """The answer with its form complete; raises AnswerRefused."""
    choice = next((c for c in engine.closed_choices(run) if c.name == answer.choice), None)
    if choice is None:
        raise AnswerRefused(_unknown_choice(answer.choice, state.choices))
    if choice.closed:
        raise AnswerRefused(f"`{choice.name}` is closed: {choice.closed}")
    if choice.needs_comment and not answer.comment.strip():
        raise AnswerRefused(f"`{choice.name}` needs a comment, which becomes the feedback")
    form = _form(state, answer)
    if closed := engine.leads_to_closed_edge(run, _facts(state, form, answer.choice)):
        raise AnswerRefused(f"`{answer.choice}` with this form is closed: {closed}")
    if answer.edit is not None and state.edit is None:
        raise AnswerRefused("this question offers nothing to edit")
    return answer.replace(form=form)


def _facts(state: HumanState, form: Mapping[str, object], choice: str) -> dict[str, object]:
    """What an answer leaves for guards."""
    return {**facts_of(form, parse_record(state.form)), "choice": choice}


def _unknown_choice(choice: str, choices: tuple[str, ...]) -> str:
    near = closest(choice, choices)
    hint = f"did you mean `{near}`?" if near else "one of " + ", ".join(f"`{c}`" for c in choices)
    return f"there is no choice `{choice}`: {hint}"


def _form(state: HumanState, answer: HumanAnswer) -> dict[str, object]:
    try:
        form, faults = conform(answer.form, parse_record(state.form))
    except NotJudged as error:
        raise AnswerRefused(f"the form could not be held against its type: {error}") from error
    if faults:
        told = "; ".join(f"{where}: {what}" if where else what for where, what in faults)
        raise AnswerRefused(f"the form is not complete or not right: {told}")
    return form if isinstance(form, dict) else {}


def _edited(run: RunState, state: HumanState, answer: HumanAnswer) -> Artifact | None:
    if answer.edit is None or state.edit is None:
        return None
    before = run.artifacts.get(state.edit)
    if before is None:
        return Artifact(name=state.edit, author=run.state, attempt=1, text=answer.edit)
    plain = {"fault": "", "fault_code": "", "is_data": False, "data": None, "fields": {}}
    return before.replace(**plain, text=answer.edit, edited=True)
