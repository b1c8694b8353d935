"""Outside agents over a protocol: a client is led through a run, one artifact at a time.

`next` gives the prompt of what is wanted now, `submit` takes it. Validators of the machine judge
what is submitted; a question to a person is shown and can't be answered here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from loopkit.agents.assignment import NotRunnable
from loopkit.drive.states.human import AnswerRefused
from loopkit.engine.diagnostics import report_diagnostics
from loopkit.engine.events import Delivery, Replied, Waiting, Wanted, Worked
from loopkit.engine.state import RunState
from loopkit.journal import JournalError
from loopkit.language import ChildrenState, Machine
from loopkit.outside.redaction import Redact, redacted
from loopkit.serving.arguments import refuse_unknown_arguments, refuse_unknown_tool, text_argument
from loopkit.serving.host import Host
from loopkit.serving.toolbox import NOBODY, Caller, CallRefused, ServedTool
from loopkit.text import one_line
from loopkit.text.run_ids import root_of

MOST_LISTED = 50
"""Runs that are looked at where the client names none."""
WAIT_S = 45.0
"""How long an answer waits for a run that works; clients give a tool a minute or so."""
LOOK_AGAIN_S = 0.1
"""How long it waits before it looks again whether a delivery was taken."""
DELIVERED_BY = "mcp"
"""Who delivers, for the record."""
TOLD = "`next` says which"
_RUN = {"type": "string", "description": "The id of the run."}
_NEXT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "run": _RUN,
        "status": {
            "enum": ["wanted", "person", "working", "suspended", "over"],
            "description": "`wanted`: write what `request` asks for, and call `submit`. `person`: "
            "a person has to decide first. `working`: call `next` again later. `suspended`: a "
            "person has to resume the run. `over`: there is nothing left to do.",
        },
        "request": {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "Names this request in `submit`."},
                "run": {"type": "string", "description": "The run that asks; `submit` names it."},
                "state": {"type": "string"},
                "attempt": {"type": "integer", "description": "From 1."},
                "prompt": {
                    "type": "string",
                    "description": "What to do, with what was found in the version before.",
                },
                "artifact": {"type": "string", "description": "What it is called."},
                "form": {"enum": ["text", "data", "file", "folder"]},
                "deliver": {"type": "string", "description": "How to deliver it."},
                "schema": {"type": "object", "description": "JSON Schema of data."},
                "workspace": {"type": "string", "description": "The folder to work in."},
                "path": {"type": "string", "description": "The file or folder in it."},
            },
            "required": ["id", "run", "state", "attempt", "prompt", "artifact", "form", "deliver"],
        },
        "message": {"type": "string", "description": "What is waited for, or why it stopped."},
        "outcome": {"type": "string", "description": "The final state, once the run is over."},
        "success": {"type": "boolean"},
        "result": {"type": "object"},
    },
    "required": ["run", "status"],
}
_SUBMITTED: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "verdicts": {
            "type": "array",
            "description": "What the validators found in it, each that has judged it by now.",
            "items": {
                "type": "object",
                "properties": {
                    "state": {"type": "string"},
                    "verdict": {"type": "string"},
                    "ok": {"type": "boolean"},
                    "diagnostics": {"type": "array"},
                },
                "required": ["state", "verdict"],
            },
        },
        "next": _NEXT,
    },
    "required": ["verdicts", "next"],
}


class OutsideAgentToolbox:
    """`next` and `submit`, for the runs of certain machines."""

    def __init__(self, host: Host, redact: Redact, wait_s: float = WAIT_S) -> None:
        self._host = host
        self._redact = redact
        self._wait_s = wait_s
        self._tools: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]] = {
            "next": self._next,
            "submit": self._submit,
        }

    @property
    def instructions(self) -> str:
        return (
            "A run asks for one artifact after the other. Call `next` for the prompt, do what it "
            "says, and call `submit`. Validators judge what you submit; if they reject it, the "
            "next request says why. Go on until the status is neither `wanted` nor `working`. "
            "Questions to a person are not for you: tell the user about them."
        )

    @property
    def offered(self) -> Sequence[ServedTool]:
        return [
            ServedTool(
                name="next",
                description="What a run wants from you now, with the prompt and the feedback on "
                "the last attempt; or that it waits for a person, or is over.",
                arguments={
                    "type": "object",
                    "properties": {
                        "run": {**_RUN, "description": "Left out: the only run that wants "
                                "something."},
                    },
                    "additionalProperties": False,
                },
                result=_NEXT,
            ),
            ServedTool(
                name="submit",
                description="Deliver what `next` asked for. The validators of the machine judge "
                "it; the answer has their verdict, and what is next.",
                arguments={
                    "type": "object",
                    "properties": {
                        "run": {"type": "string", "description": "`request.run` of `next`."},
                        "request": {"type": "string", "description": "`request.id` of `next`."},
                        "artifact": {
                            "description": "The whole text, or the data. Leave it out to deliver "
                            "the workspace as it is, for a file or a folder.",
                        },
                    },
                    "required": ["run", "request"],
                    "additionalProperties": False,
                },
                result=_SUBMITTED,
            ),
        ]  # fmt: skip

    async def call(
        self, name: str, arguments: Mapping[str, Any], caller: Caller = NOBODY
    ) -> dict[str, Any]:
        """What a tool answers; raises CallRefused."""
        try:
            answer: dict[str, Any] = redacted(await self._called(name, arguments), self._redact)
        except (CallRefused, AnswerRefused, NotRunnable, JournalError) as error:
            raise CallRefused(self._redact(str(error))) from error
        return answer

    async def _called(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        refuse_unknown_tool(name, self._tools)
        return await self._tools[name](arguments)

    async def _next(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        refuse_unknown_arguments(arguments, ("run",))
        run = (
            text_argument(arguments, "run", TOLD) if "run" in arguments else await self._only_run()
        )
        await self._refuse_strange(run)
        return await self._standing(run)

    async def _submit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        refuse_unknown_arguments(arguments, ("run", "request", "artifact"))
        run, request = (text_argument(arguments, name, TOLD) for name in ("run", "request"))
        await self._refuse_strange(run)
        delivery = Delivery(text=_artifact(arguments), by=DELIVERED_BY)
        await self._host.reply(run, delivery, request)
        await self._until_taken(run, request)
        await self._wait(run)
        return {"verdicts": await self._verdicts(run, request), "next": await self._standing(run)}

    async def _refuse_strange(self, run: str) -> None:
        """Refuse a run of a machine that is not served."""
        state = await self._host.app.state_of(root_of(run))
        if state.machine not in self._host.machines:
            raise CallRefused(f"run `{run}` is of machine `{state.machine}`, not served here")

    async def _only_run(self) -> str:
        """The run that wants something, where there is only one; raises CallRefused."""
        app = self._host.app
        rows = [
            row.run
            for row in await app.journal.runs(limit=MOST_LISTED)
            if row.machine in self._host.machines and row.damage is None
        ]
        wanting = [
            run for run in rows if any(one.question.wanted for one in await app.questions(run))
        ]
        if len(wanting) == 1:
            return wanting[0]
        if not wanting:
            raise CallRefused("no run wants anything now; name a `run`, or start one")
        raise CallRefused(f"several runs want something; name one as `run`: {', '.join(wanting)}")

    async def _until_taken(self, run: str, request: str) -> None:
        """Wait until whoever drives a run has taken what was delivered, but not too long."""
        for _ in range(ceil(self._wait_s / LOOK_AGAIN_S)):
            if not await self._asks(run, request):
                return
            # It may be another process, which tells nobody here.
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _asks(self, run: str, request: str) -> bool:
        state = await self._host.app.state_of(run)
        return state.question is not None and state.question.question == request

    async def _wait(self, run: str) -> None:
        """Wait for a run that this server drives, but not longer than a client does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait_s):
                await self._host.stopped(run)

    async def _standing(self, run: str) -> dict[str, Any]:
        """What is next for a run, and for the family that it belongs to."""
        app, root = self._host.app, root_of(run)
        state = await app.state_of(root)
        if _is_cut_off(state) and not self._host.drives(root):
            # The process that drove it is gone: nobody else would go on with it.
            await self._host.go_on(root)
        await self._wait(root)
        state = await app.state_of(root)
        if state.is_over:
            return _over(state)
        wanted = await app.questions(root, is_for_artifact=True)
        if asked := [one for one in wanted if one.question.wanted is not None]:
            mine = next((one for one in asked if one.state.run == run), asked[0])
            assert mine.question.wanted is not None
            request = _request(mine.state, mine.question.question, mine.question.wanted)
            return {"run": root, "status": "wanted", "request": request}
        if state.status == "waiting" or state.waits_for_children:
            texts = "; ".join(one_line(one.question.text, 300) for one in wanted)
            line = f"a person answers it: `loopkit runs show {root}`"
            return {"run": root, "status": "person", "message": f"{texts} ({line})"}
        if state.suspended is not None:
            message = f"{state.suspended.message}; a person resumes it: `loopkit resume {root}`"
            return {"run": root, "status": "suspended", "message": message}
        return {"run": root, "status": "working", "message": "other states work; call `next` later"}

    async def _verdicts(self, run: str, request: str) -> list[dict[str, Any]]:
        """What was found in what was delivered to a request, by all who have judged it."""
        app = self._host.app
        events = [stored.event for stored in await app.events(run)]
        machine = await app.machine_of(await app.state_of(run))
        waits = [event for event in events if isinstance(event, Waiting) and event.wanted]
        calls = {event.wanted.call for event in waits if event.wanted and event.question == request}
        begun = next(
            (n for n, e in enumerate(events) if isinstance(e, Replied) and e.key in calls),
            len(events),
        )
        later = (n for n, e in enumerate(events) if n > begun and e in waits)
        return [
            {
                "state": event.state,
                **report_diagnostics(event.report, machine.limits.feedback_items),
            }
            for event in events[begun : next(later, len(events))]
            if isinstance(event, Worked) and event.report is not None
        ]


def has_outside_agents(machine: Machine) -> bool:
    """Whether runs of a machine, or their children, may ask somebody outside."""
    if not all(agent.is_called for agent in machine.agents.values()):
        return True
    children = machine.states_of(ChildrenState).values()
    return any(has_outside_agents(state.child) for state in children)


def _is_cut_off(state: RunState) -> bool:
    """Whether a run has only to be driven on."""
    interrupted = state.suspended is not None and state.suspended.reason == "interrupted"
    return state.status == "running" or interrupted


def _over(state: RunState) -> dict[str, Any]:
    finished = state.finished
    told: dict[str, Any] = {"run": state.run, "status": "over", "success": False}
    if finished is None:
        return {**told, "message": "the run was cancelled"}
    return {
        **told,
        "outcome": finished.outcome,
        "success": finished.success,
        "result": finished.result,
    }


def _request(state: RunState, request: str, wanted: Wanted) -> dict[str, Any]:
    assert state.question is not None
    optional = {
        "schema": wanted.json_schema,
        "workspace": wanted.workspace,
        "path": wanted.path,
    }
    return {
        "id": request,
        "run": state.run,
        "state": state.state,
        "attempt": wanted.attempt,
        "prompt": state.question.text,
        "artifact": wanted.artifact,
        "form": wanted.form,
        "deliver": _how(wanted),
        **{name: value for name, value in optional.items() if value},
    }


def _how(wanted: Wanted) -> str:
    if wanted.is_left:
        told = f"put it at {wanted.path!r} in the workspace, and submit without `artifact`"
        return told + ("; or submit a text as `artifact`" if wanted.takes_text else "")
    what = "the whole text" if wanted.form == "text" else "data that fits `schema`"
    where = ", after working in the workspace" if wanted.workspace else ""
    return f"submit {what} as `artifact`{where}"


def _artifact(arguments: Mapping[str, Any]) -> str | None:
    """What is delivered as a text; none for the workspace as it is."""
    given = arguments.get("artifact")
    if given is None or isinstance(given, str):
        return given
    return json.dumps(given, ensure_ascii=False)
