"""What is given to a run: answers of people, also about calls in doubt, and what outsiders deliver.

An answer is checked by completing the work with it. The request of a delivery is an `intended` and
a `waiting` event in one append; what is delivered becomes the reply to it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import NoReturn

from loopkit.agents.port import NotRunnable, OutsideAgentPort, Reply, Request
from loopkit.document.problems import closest
from loopkit.drive.active import ActiveRun
from loopkit.drive.calls import CallSeries, intent_of, number_call
from loopkit.drive.isolation import (
    counterpart,
    files_reader,
    read_written,
    watch_folder,
    watch_output,
    workspace,
)
from loopkit.drive.protection import undo_changes
from loopkit.drive.repair import refuse_limits
from loopkit.drive.replies import (
    LONGEST_ANSWER,
    NOTHING_WRITTEN,
    content_of,
    is_answer,
    reply_event,
)
from loopkit.engine.events import Event, Failed, Settled, Waiting, Worked
from loopkit.engine.macrostep import Engine, Macrostep
from loopkit.engine.payloads import Artifact, Choice, Considered, Delivery, HumanAnswer, Wanted
from loopkit.engine.questions import NotReclassified, apply_answer, consider
from loopkit.engine.records import Record, Usage
from loopkit.engine.revisions import cap_of
from loopkit.engine.state import RunState
from loopkit.engine.template_values import render
from loopkit.language.datatypes.datatype import DataType, conform, facts_of, fault_texts
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.input_faults import input_faults
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.machine import Machine
from loopkit.language.states.kinds import HumanState
from loopkit.language.template.errors import TemplateError
from loopkit.machine.compiler import NoEdge
from loopkit.machine.edges import OF_REVISIONS, limit_of
from loopkit.machine.program import AgentAsked
from loopkit.outside.redaction import redactor
from loopkit.outside.trees import Folder, TooLarge, read_tree
from loopkit.outside.workspace import OutsideWorkspace, resolve_inside, was_written_since
from loopkit.text import HALF, is_broken, one_line
from loopkit.text.run_ids import delivery_line

MOST_SHOWN = 200
"""Characters that are shown of the arguments of a tool call."""
LONGEST_FAULT = 1_000
"""Characters that are told of what is wrong with a form."""
DOUBT = "doubt:"
"""Begins the ids of questions about calls in doubt."""
DOUBT_CHOICES = ("retry", "fail")


class AnswerRefused(Exception):
    """An answer that does not fit the question; the message says why and what would."""

    def __init__(self, message: str, at: str = "") -> None:
        """`at` is the part of the answer that is wrong, such as `comment`; empty for the whole."""
        super().__init__(message)
        self.at = at


class AnswerUnfit(AnswerRefused):
    """An answer that its question does not take, whatever has become of the run meanwhile."""


class AnsweredTwice(AnswerRefused):
    """The question before this one was given the same, so it may be meant for that one."""

    def __init__(self, message: str, again: str) -> None:
        """`again` says what to do if it is meant for this one: `answer the same`."""
        super().__init__(message)
        self.again = again


async def take(active: ActiveRun, answer: HumanAnswer, to_all: bool) -> Sequence[Event]:
    """Take an answer to the open question; `to_all` settles all calls in doubt, if it does one."""
    asked = active.state.question
    step = step_of_answer(active.engine, active.state, answer, active.clock.now())
    if to_all and asked is not None and asked.call is not None:
        for key in active.state.doubts:
            if key != asked.call:
                step.add(_settlement(key, answer))
    active.take(step)
    return step.events[:1]


def step_of_answer(engine: Engine, run: RunState, answer: HumanAnswer, now: float) -> Macrostep:
    """The macrostep of an answer to the open question; raises AnswerRefused."""
    question = run.question
    if question is None:
        raise AnswerRefused(f"run `{run.run}` asks nothing now")
    refuse_broken(answer, "answer")
    if (wanted := question.wanted) is not None:
        owed = f"agent `{wanted.agent}` owes `{wanted.artifact}`"
        line = delivery_line(run.run, is_left=wanted.is_left)
        raise AnswerRefused(f"nothing is asked: {owed}; deliver it: {line}")
    if question.call is not None:
        step = Macrostep(run.copy())
        step.add(_settlement(question.call, answer))
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


def _settlement(call: str, answer: HumanAnswer) -> Settled:
    if answer.choice == "retry":
        return Settled(key=call, choice="retry")
    if answer.choice == "fail":
        return Settled(key=call, choice="fail")
    raise AnswerUnfit(f"there is no choice `{answer.choice}`: one of `retry`, `fail`", "choice")


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
        raise AnswerUnfit("this question offers nothing to edit", "edit")
    return Worked(
        state=run.state,
        visit=run.visit,
        outcome="done",
        facts=facts,
        artifact=_artifact_with_edit(engine, run, state, answer),
        answer=answer.replace(form=form),
        considered=about,
    )


def consider_answer(
    engine: Engine, run: RunState, answer: HumanAnswer
) -> tuple[Considered | None, RunState]:
    """What an answer decides, and the run with its origins and limits; raises AnswerRefused."""
    if answer.limits and (fault := _limits_fault(engine, run, answer.limits)):
        raise AnswerUnfit(fault, "limits")
    try:
        about = consider(engine.program.graph.origins, run.last_report, answer.origins)
    except NotReclassified as error:
        raise AnswerUnfit(str(error), "origins") from error
    ahead = run.copy()
    apply_answer(ahead, answer, about)
    return about, ahead


def _limits_fault(engine: Engine, run: RunState, limits: Mapping[str, object]) -> str:
    program = engine.program
    if others := sorted(limits.keys() - {*OF_REVISIONS}):
        known, named = (", ".join(f"`limits.{n}`" for n in some) for some in (OF_REVISIONS, others))
        return f"an answer can raise {known} only, not {named}"
    for counter in program.graph.caps:
        name, now = limit_of(counter), cap_of(program, run, counter)
        new = limits.get(name, inf)
        if not isinstance(new, int | float) or new <= now:
            return f"`limits.{name}` is {now} now, and an answer can only raise it"
    try:
        refuse_limits(program.machine, run, limits)
    except NotRunnable as error:
        return str(error)
    return ""


def _refuse_choice(engine: Engine, run: RunState, state: HumanState, answer: HumanAnswer) -> None:
    choice = next((c for c in engine.questions.choices(run) if c.name == answer.choice), None)
    if choice is None:
        near = closest(answer.choice, state.choices)
        known = ", ".join(f"`{name}`" for name in state.choices)
        hint = f"did you mean `{near}`?" if near else f"one of {known}"
        raise AnswerUnfit(f"there is no choice `{answer.choice}`: {hint}", "choice")
    if choice.closed:
        raise AnswerRefused(f"`{choice.name}` is closed: {choice.closed}", "choice")
    if choice.needs_comment and not answer.comment.strip():
        message = f"`{choice.name}` needs a comment, which becomes the feedback"
        raise AnswerUnfit(message, "comment")


def _complete_form(given: Mapping[str, object], form_type: DataType) -> dict[str, object]:
    try:
        form, faults = conform(given, form_type)
    except NotJudged as error:
        message = f"the form could not be checked against its type: {error}"
        raise AnswerUnfit(message, "form") from error
    if faults:
        lines = [fault.message for fault in input_faults(faults, given, form_type, "form field")]
        told = one_line("; ".join(lines or fault_texts(faults)), LONGEST_FAULT)
        raise AnswerUnfit(told, "form")
    return form if isinstance(form, dict) else {}


def _artifact_with_edit(
    engine: Engine, run: RunState, state: HumanState, answer: HumanAnswer
) -> Artifact | None:
    if answer.edit is None or state.edit is None:
        return None
    shown, _ = engine.questions.contents(run)
    before = shown.get(state.edit) or run.artifacts.get(state.edit)
    written = Artifact(name=state.edit, author=run.state, attempt=1, text=answer.edit, edited=True)
    if before is None:
        return written
    # A person who writes it all the same shows that it can be done.
    return before.replace(**content_of(written), fields={}, edited=True)


def new_question(engine: Engine, run: RunState, now: float) -> tuple[Waiting, ...]:
    """The question of the active state under another definition, if it asks; raises NotRunnable."""
    plan = engine.program.plans.get(run.state)
    if plan is None or plan.human is None:
        return ()
    try:
        return (engine.questions.question(run, plan.human, now),)
    except TemplateError as error:
        raise NotRunnable(
            f"the question of `{run.state}` could not be filled in: {error}"
        ) from error


async def ask_about_doubt(active: ActiveRun) -> None:
    if active.state.status != "running":
        return
    key, intent = next(iter(active.state.doubts.items()))
    called, again = f"`{intent.agent}`", active.state.tasks[intent.task].doubted - 1
    if intent.role == "tool":
        called += f" with {one_line(intent.prompt, MOST_SHOWN)}"
    if reason := active.state.doubt_reasons.get(key):
        text = (
            f"The call of {called} was ended, because {reason}, so it may have done its work, or a "
            "part of it."
        )
    else:
        text = (
            f"The process ended while {called} was being called, so the call may have been made, "
            "and a program may still be at work."
        )
    await active.append(
        Waiting(
            state=active.state.state,
            # A call that is made again can be in doubt again, and has the same key.
            question=f"{DOUBT}{key}" + (f"~{again}" if again else ""),
            text=f"{text} Make it again, or let it count as failed?",
            choices=tuple(Choice(name=name) for name in DOUBT_CHOICES),
            call=key,
        )
    )


def refuse_broken(given: Record, noun: str) -> None:
    """Raise AnswerRefused for texts that can't be stored."""
    if is_broken(json.dumps(given.plain(), ensure_ascii=False)):
        raise AnswerUnfit(f"the {noun} has {HALF}")


_WORDS = {"text": "a text", "data": "JSON data"}


class Awaited(Exception):
    """The run waits for somebody outside, with nothing in flight."""


async def await_delivery(
    active: ActiveRun, work: CallSeries, asked: AgentAsked, request: Request, port: OutsideAgentPort
) -> NoReturn:
    """Ask for the artifact of the active state, and let the run wait; raises Awaited."""
    run, timeout_s = active.state, port.definition.timeout
    number_call(run, work, request)
    request.timeout_s = request.deadline_s = float("inf") if timeout_s is None else timeout_s
    wanted = await _describe_wanted(active, work, asked, request)
    now = active.clock.now()
    await active.append(
        intent_of(active, work, request, Usage()),
        Waiting(
            state=run.state,
            question=f"{run.state}:{run.visit}:{request.key.rpartition(':author:')[2]}",
            text=request.prompt,
            choices=(),
            expires_at=None if timeout_s is None else now + timeout_s,
            wanted=wanted,
        ),
    )
    raise Awaited


async def _describe_wanted(
    active: ActiveRun, work: CallSeries, asked: AgentAsked, request: Request
) -> Wanted:
    """Describe what has to be delivered; the present output in the workspace is recorded."""
    output, folder = asked.output, request.folder
    assert folder is not None
    is_at_work = output.is_left or asked.workspace is not None
    wanted = Wanted(
        agent=request.agent,
        call=request.key,
        artifact=output.name,
        attempt=active.state.attempts.get(request.place, 0) + 1,
        form="text" if asked.schema is None else "data",
        takes_text=not output.may_be_missing,
        json_schema=None if asked.schema is None else dict(asked.schema),
        workspace=str(folder) if is_at_work else "",
    )
    template = output.folder or output.file
    if template is None:
        return wanted
    await watch_output(active, folder, output, work.task)
    path = render(active.program, active.state, template).strip()
    if output.folder is not None:
        return wanted.replace(form="folder", path=path)
    before = active.state.captured[work.task].times
    return wanted.replace(form="file", path=path, before=before)


def without_secrets(delivery: Delivery, machine: Machine) -> Delivery:
    """A delivery as it is stored, and compared with others: secrets of the environment removed."""
    if delivery.text is None:
        return delivery
    return delivery.replace(text=redactor(os.environ, machine.key_names)(delivery.text))


def judge_delivery(_: Engine, run: RunState, delivery: Delivery, __: float) -> None:
    """Raise AnswerRefused for what can't be the artifact that the run waits for."""
    wanted, text = _wanted_by(run), delivery.text
    refuse_broken(delivery, "delivery")
    if text is None:
        if not wanted.is_left:
            message = f"`{wanted.artifact}` is {_WORDS[wanted.form]}"
            raise AnswerUnfit(f"{message}: deliver that, and not the workspace as it is")
    elif not wanted.takes_text:
        where = f"the {wanted.form} {wanted.path!r} in {wanted.workspace!r}"
        message = f"`{wanted.artifact}` is {where}"
        raise AnswerUnfit(f"{message}: put it there, and deliver the workspace as it is")
    elif not is_answer(text):
        message = f"the delivery has {len(text):,} characters"
        raise AnswerUnfit(f"{message}, and {LONGEST_ANSWER:,} can be kept; deliver less")


def _wanted_by(run: RunState) -> Wanted:
    """What the open request of a run asks for; raises AnswerRefused if a person is asked."""
    if run.question is None or run.question.wanted is None:
        message = f"`{run.state}` waits for an answer, not for an artifact"
        raise AnswerRefused(f"{message}: see `loopkit runs show {run.run}`")
    return run.question.wanted


def delivery_may_differ(run: RunState, delivery: Delivery) -> bool:
    """Whether the workspace, if it is delivered, may be another one than at the last delivery."""
    if delivery.text is not None:
        return False
    wanted = run.question.wanted if run.question is not None else None
    if wanted is None:
        return True
    try:
        if wanted.form == "file":
            path = resolve_inside(Path(wanted.workspace), wanted.path)
            return was_written_since(path, wanted.before)
        captured = run.captured[run.open_calls[wanted.call].task]
        root = Path(os.path.realpath(wanted.workspace))
        own = run.isolated.values()
        origin = counterpart(root, ((one.place, one.source) for one in own))
        tree = read_tree(Folder(root, wanted.path, origin, captured.ignored))
    except (KeyError, OutsideWorkspace, TooLarge, OSError):
        return True
    return (tree.digest, tree.times) != (captured.tree, captured.times)


async def take_delivery(active: ActiveRun, delivery: Delivery, _: bool) -> Sequence[Event]:
    """Take a delivery as the reply to the open request; raises CallFailed if it can't be read."""
    name, wanted = active.state.state, _wanted_by(active.state)
    asked = active.engine.plans[name].agents[wanted.agent]
    output = asked.output
    folder = await workspace(active, asked.workspace)
    found = () if active.state.protected is None else await undo_changes(active)
    files = ""
    if asked.agent.works_on_files and active.program.graph.judged and not output.is_whole_folder:
        files = await files_reader(active, folder, output)()
    request = Request(agent=wanted.agent, place=name, role="outside", prompt="", key=wanted.call)
    written = NOTHING_WRITTEN
    if wanted.form == "folder":
        task = active.state.open_calls[wanted.call].task
        written = await (await watch_folder(active, folder, output, wanted.path, task))()
    elif wanted.form == "file":
        written = await asyncio.to_thread(read_written, folder, wanted.path, wanted.before)
    given = Reply(delivery.text or "", findings=found)
    reply = reply_event(active.redact, request, given, written, files, 0.0)
    active.stage(reply.replace(by=delivery.by))
    return ()


def delivery_failures(run: RunState, why: str) -> tuple[Failed, ...]:
    """The event that ends the wait for a delivery without one; none if the run does not wait."""
    if run.awaited is None:
        return ()
    return (Failed(key=run.awaited, error_class="transient", message=why, usage=Usage()),)
