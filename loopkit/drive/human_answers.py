"""Answers of people, each checked against the question of the human state that is active."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.document.problems import closest
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.beside_choice import consider_answer
from loopkit.engine.events import Artifact, HumanAnswer, Worked
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.language import HumanState
from loopkit.language.datatypes import DataType, conform, facts_of, fault_texts, parse_record
from loopkit.language.input_faults import input_faults
from loopkit.language.json_schema import NotJudged


def complete_work(engine: Engine, run: RunState, state: HumanState, answer: HumanAnswer) -> Worked:
    """The completed work of the active human state; raises AnswerRefused."""
    about, ahead = consider_answer(engine, run, answer)
    _refuse_choice(engine, ahead, state, answer)
    form_type = parse_record(state.form)
    form = _complete_form(answer.form, form_type)
    facts = {**facts_of(form, form_type), "choice": answer.choice}
    if closed := engine.questions.why_refused(ahead, facts):
        raise AnswerRefused(f"`{answer.choice}` with this form is closed: {closed}", "choice")
    if answer.edit is not None and state.edit is None:
        raise AnswerRefused("this question offers nothing to edit", "edit")
    return Worked(
        state=run.state,
        visit=run.visit,
        outcome="done",
        facts=facts,
        artifact=_artifact_with_edit(engine, run, state, answer),
        answer=answer.replace(form=form),
        considered=about,
    )


def _refuse_choice(engine: Engine, run: RunState, state: HumanState, answer: HumanAnswer) -> None:
    choice = next((c for c in engine.questions.choices(run) if c.name == answer.choice), None)
    if choice is None:
        raise AnswerRefused(_unknown_choice(answer.choice, state.choices), "choice")
    if choice.closed:
        raise AnswerRefused(f"`{choice.name}` is closed: {choice.closed}", "choice")
    if choice.needs_comment and not answer.comment.strip():
        message = f"`{choice.name}` needs a comment, which becomes the feedback"
        raise AnswerRefused(message, "comment")


def _unknown_choice(choice: str, choices: tuple[str, ...]) -> str:
    near = closest(choice, choices)
    hint = f"did you mean `{near}`?" if near else "one of " + ", ".join(f"`{c}`" for c in choices)
    return f"there is no choice `{choice}`: {hint}"


def _complete_form(given: Mapping[str, object], form_type: DataType) -> dict[str, object]:
    """The form with its defaults."""
    try:
        form, faults = conform(given, form_type)
    except NotJudged as error:
        message = f"the form could not be checked against its type: {error}"
        raise AnswerRefused(message, "form") from error
    if faults:
        lines = [fault.message for fault in input_faults(faults, given, form_type, "form field")]
        raise AnswerRefused("; ".join(lines or fault_texts(faults)), "form")
    return form if isinstance(form, dict) else {}


def _artifact_with_edit(
    engine: Engine, run: RunState, state: HumanState, answer: HumanAnswer
) -> Artifact | None:
    """The version that a person was shown, with their text."""
    if answer.edit is None or state.edit is None:
        return None
    shown, _ = engine.questions.contents(run)
    before = shown.get(state.edit) or run.artifacts.get(state.edit)
    if before is None:
        return Artifact(name=state.edit, author=run.state, attempt=1, text=answer.edit, edited=True)
    plain = {"fault": "", "fault_code": "", "is_data": False, "data": None, "fields": {}}
    # A person who writes it all the same shows that it can be done.
    can_be_done = {"infeasible": False, "missing": ()}
    return before.replace(**plain, **can_be_done, text=answer.edit, edited=True)


__all__ = ["AnswerRefused", "complete_work"]
