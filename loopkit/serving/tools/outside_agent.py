"""Outside agents over a protocol: a client is led through a run, one artifact at a time.

`next` returns the prompt for the artifact that a run waits for, `submit` delivers it. Validators of
the machine judge what is submitted; a question to a person is shown and can't be answered here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import takewhile
from math import ceil
from typing import Any

from loopkit.app import App
from loopkit.engine.events import ENDS, Replied, Waiting, Worked
from loopkit.engine.findings import report_diagnostics
from loopkit.engine.payloads import Delivery
from loopkit.journal.errors import RunUnreadable, UnknownRun
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.serving.host import Host
from loopkit.serving.tools.arguments import (
    STANDING,
    CallRefused,
    ServedTool,
    refuse_unknown,
    text_argument,
)
from loopkit.text.json_text import text_or_json

MOST_LISTED = 50
TAKEN_WITHIN_S = 45.0
"""How long `submit` waits until the process that drives the run accepts the delivery."""
LOOK_AGAIN_S = 0.1
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
        "next": STANDING,
    },
    "required": ["verdicts", "next"],
}
NEXT = ServedTool(
    name="next",
    description="What a run wants from you now, with the prompt and the feedback on the last "
    "attempt; or that it waits for a person, or is over.",
    arguments={
        "type": "object",
        "properties": {
            "run": {
                "type": "string",
                "description": "The id of the run. Left out: the only one that wants something.",
            }
        },
        "additionalProperties": False,
    },
    result=STANDING,
)
SUBMIT = ServedTool(
    name="submit",
    description="Deliver what `next` asked for. The validators of the machine judge it; the answer "
    "has their verdict, and what is next.",
    arguments={
        "type": "object",
        "properties": {
            "run": {"type": "string", "description": "`request.run` of `next`."},
            "request": {"type": "string", "description": "`request.id` of `next`."},
            "artifact": {
                "description": "The whole text, or the data. Leave it out to deliver the workspace "
                "as it is, for a file or a folder."
            },
        },
        "required": ["run", "request"],
        "additionalProperties": False,
    },
    result=_SUBMITTED,
)
OF_OUTSIDE = (NEXT, SUBMIT)
LEADING = (
    "Where the answer of a tool has a `request`, the run wants something from you: do what its "
    "prompt says, and call `submit`. Validators judge what you submit; if they reject it, the next "
    "request says why. Go on until there is no `request` any more; `next` tells it again."
)


async def run_to_lead(host: Host, arguments: Mapping[str, Any]) -> str:
    refuse_unknown(arguments, ("run",))
    if "run" in arguments:
        return text_argument(arguments, "run", "the id of a run")
    # Without a name: the one run that waits for a delivery.
    wanting: list[str] = []
    for row in await host.app.journal.runs(limit=MOST_LISTED, skipping=ENDS):
        if row.machine in host.machines:
            # A run that can't be read, or was removed meanwhile, waits for nothing.
            with suppress(UnknownRun, RunUnreadable):
                asked = await host.app.questions(row.run)
                wanting += [row.run] if any(one.question.wanted for one in asked) else []
    if len(wanting) == 1:
        return wanting[0]
    if not wanting:
        raise CallRefused("no run wants anything now; name a `run`, or start one")
    raise CallRefused(f"several runs want something; name one as `run`: {', '.join(wanting)}")


async def deliver(
    host: Host, run: str, request: str, arguments: Mapping[str, Any], program: str
) -> None:
    """Deliver the arguments of `submit`, and wait until the run has accepted them.

    Raises AnswerRefused and NotRunnable if the run waits for something else.
    """
    artifact = arguments.get("artifact")
    text = None if artifact is None else text_or_json(artifact)
    await host.post(run, Delivery(text=text, by=program), request)
    for _ in range(ceil(TAKEN_WITHIN_S / LOOK_AGAIN_S)):
        question = (await host.app.state_of(run)).question
        if question is None or question.question != request:
            return
        # Another process may drive the run; it does not notify this one.
        await asyncio.sleep(LOOK_AGAIN_S)


async def verdicts_on(app: App, run: str, request: str) -> list[dict[str, Any]]:
    """The reports of all states that have judged the delivery to a request."""
    machine = await app.machine_of(await app.state_of(run))
    events = iter([stored.event for stored in await app.events(run)])
    waits = (event for event in events if isinstance(event, Waiting))
    wanted = next((event.wanted for event in waits if event.question == request), None)
    replies = (event for event in events if isinstance(event, Replied))
    next((event for event in replies if wanted and event.key == wanted.call), None)
    judged = takewhile(lambda event: not (isinstance(event, Waiting) and event.wanted), events)
    return [
        {"state": event.state, **report_diagnostics(event.report, machine.limits.feedback_items)}
        for event in judged
        if isinstance(event, Worked) and event.report is not None
    ]


def request_in(arguments: Mapping[str, Any]) -> tuple[str, str]:
    refuse_unknown(arguments, ("run", "request", "artifact"))
    source = "`request` of `next` says which"
    return text_argument(arguments, "run", source), text_argument(arguments, "request", source)


def has_outside_agents(machine: Machine) -> bool:
    if not all(agent.is_called for agent in machine.agents.values()):
        return True
    children = machine.states_of(ChildrenState).values()
    return any(has_outside_agents(state.child) for state in children)
