"""Deliveries: artifacts that somebody outside makes, from the request to the reply.

The request is an `intended` event and a `waiting` one in one append. It stays open without a
process; what is delivered becomes the reply to it, which is judged like any other.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from loopkit.agents.port import OutsideAgentPort, Reply, Request
from loopkit.drive.active import ActiveRun
from loopkit.drive.answers import AnswerRefused, AnswerUnfit, refuse_broken
from loopkit.drive.calls import CallSeries, intent_of, number_call
from loopkit.drive.isolation import (
    counterpart,
    files_reader,
    read_written,
    watch_folder,
    watch_output,
    workspace,
)
from loopkit.drive.replies import LONGEST_ANSWER, NOTHING_WRITTEN, is_answer, reply_event
from loopkit.engine.events import Event, Failed, Waiting
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Delivery, Wanted
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.engine.template_values import render
from loopkit.language.machine import Machine
from loopkit.machine.program import AgentAsked
from loopkit.outside.redaction import redactor
from loopkit.outside.trees import Folder, TooLarge, read_tree
from loopkit.outside.workspace import FileMark, OutsideWorkspace, resolve_inside, was_written_since

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


def judge(_: Engine, run: RunState, delivery: Delivery, __: float) -> None:
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


def may_differ(run: RunState, delivery: Delivery) -> bool:
    """Whether the workspace, if it is delivered, may be another one than at the last delivery."""
    if delivery.text is not None:
        return False
    wanted = run.question.wanted if run.question is not None else None
    if wanted is None:
        return True
    try:
        if wanted.form == "file":
            path = resolve_inside(Path(wanted.workspace), wanted.path)
            return was_written_since(path, FileMark.of_text(wanted.before))
        captured = run.captured[run.open_calls[wanted.call].task]
        root = Path(os.path.realpath(wanted.workspace))
        own = run.isolated.values()
        origin = counterpart(root, ((one.place, one.source) for one in own))
        tree = read_tree(Folder(root, wanted.path, origin, captured.ignored))
    except (KeyError, OutsideWorkspace, TooLarge, OSError):
        return True
    return (tree.digest, tree.times) != (captured.tree, captured.times)


async def take(active: ActiveRun, delivery: Delivery, _: bool) -> Sequence[Event]:
    """Take a delivery as the reply to the open request; raises CallFailed if it can't be read."""
    name, wanted = active.state.state, _wanted_by(active.state)
    asked = active.engine.plans[name].agents[wanted.agent]
    output = asked.output
    folder = await workspace(active, asked.workspace)
    files = ""
    if asked.agent.works_on_files and active.program.graph.judged and not output.is_whole_folder:
        files = await files_reader(active, folder, output)()
    request = Request(agent=wanted.agent, place=name, role="outside", prompt="", key=wanted.call)
    written = NOTHING_WRITTEN
    if wanted.form == "folder":
        task = active.state.open_calls[wanted.call].task
        written = await (await watch_folder(active, folder, output, wanted.path, task))()
    elif wanted.form == "file":
        before = FileMark.of_text(wanted.before)
        written = await asyncio.to_thread(read_written, folder, wanted.path, before)
    reply = reply_event(active.redact, request, Reply(delivery.text or ""), written, files, 0.0)
    active.stage(reply.replace(by=delivery.by))
    return ()


def delivery_failures(run: RunState, why: str) -> tuple[Failed, ...]:
    """The event that ends the wait for a delivery without one; none if the run does not wait."""
    if run.awaited is None:
        return ()
    return (Failed(key=run.awaited, error_class="transient", message=why, usage=Usage()),)
