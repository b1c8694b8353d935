"""Deliveries: artifacts that somebody outside makes, from the request to the reply.

The request is an `intended` event and a `waiting` one in one append. It stays open without a
process; what is delivered becomes the reply to it, which is judged like any other.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn

from loopkit.agents.outside import OutsideAgentPort
from loopkit.agents.port import Reply, Request
from loopkit.drive.active import ActiveRun
from loopkit.drive.calls import CallSeries, intent_of, number_call
from loopkit.drive.folders import watch_folder
from loopkit.drive.replies import NOTHING_WRITTEN, Written, reply_event
from loopkit.drive.state_files import (
    file_before,
    files_reader,
    read_written,
    watch_output,
    workspace,
)
from loopkit.engine.events import Delivery, Failed, Replied, Usage, Waiting, Wanted
from loopkit.engine.state import RunState
from loopkit.engine.template_values import render
from loopkit.machine.asked import AgentAsked
from loopkit.outside.workspace import FileMark


class Awaited(Exception):
    """The run waits for somebody outside, with nothing in flight."""


async def await_delivery(
    active: ActiveRun,
    work: CallSeries,
    asked: AgentAsked,
    request: Request,
    port: OutsideAgentPort,
) -> NoReturn:
    """Ask for the artifact of the active state, and let the run wait; raises Awaited."""
    run, timeout_s = active.state, port.definition.timeout
    number_call(run, work, run.tasks.get(work.task), request)
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
        agent=work.agent,
        call=request.key,
        artifact=output.name,
        attempt=active.state.attempts.get(work.place, 0) + 1,
        form="text" if asked.schema is None else "data",
        takes_text=not output.may_be_missing,
        json_schema=None if asked.schema is None else dict(asked.schema),
        workspace=str(folder) if is_at_work else "",
    )
    if output.folder is not None:
        await watch_output(active, folder, output, work.task)
        relative = render(active.program, active.state, output.folder).strip()
        return wanted.replace(form="folder", path=relative)
    if output.file is not None:
        relative = render(active.program, active.state, output.file).strip()
        before = await file_before(active, folder, relative, output.name, work.task)
        return wanted.replace(form="file", path=relative, before=before.to_text())
    return wanted


async def reply_from_delivery(active: ActiveRun, wanted: Wanted, delivery: Delivery) -> Replied:
    """The reply for a delivery: its text, and the output in the workspace.

    Raises CallFailed if the workspace can't be read.
    """
    name = active.state.state
    asked = active.engine.plans[name].agents[wanted.agent]
    output = asked.output
    folder = await workspace(active, asked.workspace)
    files = ""
    if asked.agent.works_on_files and active.program.graph.judged and not output.is_whole_folder:
        files = await files_reader(active, folder, output)()
    request = Request(agent=wanted.agent, place=name, role="outside", prompt="", key=wanted.call)
    written = await _read_output(active, folder, wanted)
    reply = reply_event(active.redact, request, Reply(delivery.text or ""), written, files, 0.0)
    return reply.replace(by=delivery.by)


async def _read_output(active: ActiveRun, folder: Path, wanted: Wanted) -> Written:
    """Read what was written to the output file or folder since the request."""
    if wanted.form == "folder":
        intent = active.state.open_calls[wanted.call]
        place = Path(active.state.captured[intent.task].place)
        left = await watch_folder(active, place, wanted.path, wanted.artifact, intent.task)
        return await left()
    if wanted.form == "file":
        before = FileMark.of_text(wanted.before)
        return await asyncio.to_thread(read_written, folder, wanted.path, before)
    return NOTHING_WRITTEN


def delivery_failures(run: RunState, why: str) -> tuple[Failed, ...]:
    """The event that ends the wait for a delivery without one; none if the run does not wait."""
    if run.awaited is None:
        return ()
    return (Failed(key=run.awaited, error_class="transient", message=why, usage=Usage()),)
