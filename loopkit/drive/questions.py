"""Questions to a person: the answers that count, and the decision about calls in doubt."""

from __future__ import annotations

from loopkit.agents.not_runnable import NotRunnable
from loopkit.drive.active import ActiveRun
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.human_answers import complete_work
from loopkit.engine.events import Choice, HumanAnswer, Settled, Waiting, Wanted
from loopkit.engine.macrostep import Engine, Macrostep
from loopkit.engine.state import RunState
from loopkit.language.template import TemplateError
from loopkit.machine.compiler import NoEdge
from loopkit.text import is_broken, one_line
from loopkit.text.command_lines import delivery_line

MOST_SHOWN = 200
"""Characters that are shown of the arguments of a tool call."""
DOUBT = "doubt:"
"""Begins the ids of questions about calls in doubt."""
DOUBT_CHOICES = ("retry", "fail")


def step_of_answer(engine: Engine, run: RunState, answer: HumanAnswer, now: float) -> Macrostep:
    """The macrostep of an answer to the open question; raises AnswerRefused."""
    question = run.question
    if question is None:
        raise AnswerRefused(f"run `{run.run}` asks nothing now")
    if any(map(is_broken, (answer.comment, answer.edit or "", answer.by, *answer.origins))):
        raise AnswerRefused("the answer has half a surrogate pair in it, which is not a character")
    if question.wanted is not None:
        raise AnswerRefused(no_question_message(run.run, question.wanted))
    if question.call is not None:
        step = Macrostep(run.copy())
        step.add(settlement(question.call, answer))
        return step
    state = engine.program.plans[question.state].human
    if state is None:
        raise AnswerRefused(f"`{question.state}` asks no question")
    try:
        return engine.step(run, complete_work(engine, run, state, answer), now)
    except TemplateError as error:
        message = f"`{answer.choice}` leads to a template that could not be filled in: {error}"
        raise AnswerRefused(message) from error
    except NoEdge as error:
        raise AnswerRefused(str(error)) from error


def no_question_message(run: str, wanted: Wanted) -> str:
    """The message for somebody who answers when an artifact has to be delivered."""
    line = delivery_line(run, is_left=wanted.is_left)
    return f"nothing is asked: agent `{wanted.agent}` owes `{wanted.artifact}`; deliver it: {line}"


def new_question(engine: Engine, run: RunState, now: float) -> tuple[Waiting, ...]:
    """The question of the active state under another definition, if it asks; raises NotRunnable."""
    try:
        plan = engine.program.plans.get(run.state)
        if plan is None or plan.human is None:
            return ()
        return (engine.questions.question(run, plan.human, now),)
    except TemplateError as error:
        raise NotRunnable(
            f"the question of `{run.state}` could not be filled in: {error}"
        ) from error


def settlement(call: str, answer: HumanAnswer) -> Settled:
    """The event with which an answer settles a call in doubt; raises AnswerRefused."""
    if answer.choice == "retry":
        return Settled(key=call, choice="retry")
    if answer.choice == "fail":
        return Settled(key=call, choice="fail")
    raise AnswerRefused(f"there is no choice `{answer.choice}`: one of `retry`, `fail`", "choice")


async def ask_about_doubt(active: ActiveRun) -> None:
    """Ask a person about the first call in doubt, if nothing else is asked."""
    if active.state.status != "running":
        return
    key, intent = next(iter(active.state.doubts.items()))
    arguments = f" with {one_line(intent.prompt, MOST_SHOWN)}" if intent.role == "tool" else ""
    await active.append(
        Waiting(
            state=active.state.state,
            question=f"{DOUBT}{key}",
            text=(
                f"The process ended while `{intent.agent}` was being called{arguments}, so the "
                f"call may have been made, and a program may still be at work. Make it again, or "
                f"let it count as failed?"
            ),
            choices=tuple(Choice(name=name) for name in DOUBT_CHOICES),
            call=key,
        )
    )
