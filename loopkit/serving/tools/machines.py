"""The machines of a server as a toolbox: each tool runs one until it ends, waits or stops.

A machine with an outside agent leads its client: `next` returns the prompt for what the run waits
for, `submit` delivers it. A question to a person is shown and can't be answered there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from math import ceil
from typing import Any

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.drive.answers import AnswerRefused
from loopkit.drive.stored_runs import read_stored
from loopkit.engine.events import ENDS, Replied, Waiting, Worked
from loopkit.engine.findings import report_diagnostics
from loopkit.engine.payloads import Delivery
from loopkit.journal.errors import JournalError, RunUnreadable, UnknownRun
from loopkit.journal.records import Place
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import Loaded
from loopkit.language.machine import Machine
from loopkit.language.states import FinalState
from loopkit.language.states.each import ChildrenState
from loopkit.outside.redaction import Redact, redact_data
from loopkit.serving.host import THIS_SERVER, Host
from loopkit.serving.tools.arguments import (
    Caller,
    CallRefused,
    ServedTool,
    refuse_unknown,
    standing,
)
from loopkit.text import one_line
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import root_of
from loopkit.views.console import FamilyProgress
from loopkit.views.run_data import status_of

LED_WITHIN_S = 45.0
"""How long `next` and `submit` wait for a run that works: clients wait about a minute."""
Answer = dict[str, Any]


class MachineToolbox:
    """A tool for each machine of a host, and `status` and `resume` for their runs."""

    def __init__(
        self,
        host: Host,
        redact: Redact,
        *,
        stops_with_call: bool,
        pages: str = "",
        led_within_s: float = LED_WITHIN_S,
    ) -> None:
        """With `stops_with_call` a run stops after its step when no call waits for it any more.

        `pages` is the address of a server that shows the runs, if there is one. Raises NotRunnable
        if a machine has the name of another tool.
        """
        self._host = host
        self._redact = redact
        self._stops_with_call = stops_with_call
        self._pages = pages
        self._led_within_s = led_within_s
        self._machines = machine_tools(host.machines)
        self._common = common_tools(host.machines)
        self._waiting: Counter[str] = Counter()
        self._answering: set[asyncio.Task[Answer]] = set()

    @property
    def instructions(self) -> str:
        common = ", ".join(f"`{tool.name}`" for tool in self._common)
        return (
            f"Each tool but {common} runs a machine: agents write, validators judge, and what they "
            "reject is revised, until the run ends or waits for somebody. Questions of a run are "
            "for a person and not for you: tell the user about them."
            + (f" {LEADING}" if NEXT in self._common else "")
        )

    @property
    def offered(self) -> Sequence[ServedTool]:
        return [*self._machines.values(), *self._common]

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> Answer:
        """Call a tool and return where its run stands; raises CallRefused.

        Work for a call that is cancelled is finished, so that nothing is stored by half.
        """
        call = _Call(caller)
        answering = asyncio.create_task(self._answer(name, arguments, call))
        self._answering.add(answering)
        answering.add_done_callback(self._forget)
        try:
            return await asyncio.shield(answering)
        except asyncio.CancelledError:
            call.is_given_up = True
            if call.run:
                self._leave(call.run)
            raise

    def _forget(self, answering: asyncio.Task[Answer]) -> None:
        self._answering.discard(answering)
        if not answering.cancelled():
            # Marks the exception as seen: the caller of a cancelled call does not look at it.
            answering.exception()

    def _leave(self, run: str) -> None:
        """Let one call no longer wait for a run; the run stops if it was the last one."""
        self._waiting[run] -= 1
        if self._waiting[run] > 0:
            return
        del self._waiting[run]
        if self._stops_with_call:
            self._host.stop_run(run)

    async def _answer(self, name: str, arguments: Mapping[str, Any], call: _Call) -> Answer:
        try:
            answer = await self._dispatch(name, arguments, call)
        except (
            CallRefused, AnswerRefused, InvalidInput, NotRunnable, JournalError, UnicodeEncodeError,
        ) as error:  # fmt: skip
            # The last is for half a surrogate pair, which JSON can name.
            raise CallRefused(self._redact(str(error))) from error
        plain: Answer = redact_data(answer, self._redact)
        return plain

    async def _dispatch(self, name: str, arguments: Mapping[str, Any], call: _Call) -> Answer:
        common = {tool.name: tool for tool in self._common}
        refuse_unknown([name], [*self._machines, *common], "tool")
        if name in common:
            common[name].refuse(arguments)
        if name == SUBMIT.name:
            return await self._submit(arguments, call)
        if name == NEXT.name:
            return await self._next(arguments, call)
        if name in self._machines:
            return await self._drive_until_stop(
                await self._host.start(name, arguments), Place(), call
            )
        run = root_of(arguments["run"])
        before = await self._newest(run)
        if name == "status" or await self._host.go_on(run) != THIS_SERVER:
            return await standing(self._host.app, run, self._pages)
        return await self._drive_until_stop(run, before, call)

    async def _next(self, arguments: Mapping[str, Any], call: _Call) -> Answer:
        """The request of a run; an interrupted run is continued first."""
        run = arguments.get("run") or await run_to_lead(self._host)
        before = await self._newest(run)
        state = await self._host.app.state_of(root_of(run))
        [row] = await self._host.app.journal.runs(run=state.run)
        is_stopped = state.suspended is not None and state.suspended.reason == "interrupted"
        if is_stopped or status_of(state, is_driven=row.is_driven) == "interrupted":
            await self._host.go_on(run)
        return await self._lead(run, before, call)

    async def _submit(self, arguments: Mapping[str, Any], call: _Call) -> Answer:
        run, request = arguments["run"], arguments["request"]
        before = await self._newest(run)
        await deliver(self._host, arguments, call.caller.program)
        answer = await self._lead(run, before, call)
        return {"verdicts": await verdicts_on(self._host.app, run, request), "next": answer}

    async def _lead(self, run: str, before: Place, call: _Call) -> Answer:
        """Wait until a run stops, at most `led_within_s`, and return where it stands."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._led_within_s):
                await self._follow(root_of(run), before, call)
        return await standing(self._host.app, run, self._pages)

    async def _newest(self, run: str) -> Place:
        """The place of the last record of all; raises CallRefused if the run is not served."""
        state = await self._host.app.state_of(root_of(run))
        if state.machine not in self._machines:
            raise CallRefused(f"run `{state.run}` is of machine `{state.machine}`, not served here")
        return await self._host.app.journal.newest()

    async def _drive_until_stop(self, run: str, before: Place, call: _Call) -> Answer:
        """Wait until a run stops, and return where it stands; what is told lies behind `before`."""
        call.run = run
        self._waiting[run] += 1
        if call.is_given_up:
            self._leave(run)
        await self._follow(run, before, call)
        if call.is_given_up:
            # The answer is not sent, and the journal may be closed.
            return {}
        self._leave(run)
        return await standing(self._host.app, run, self._pages)

    async def _follow(self, run: str, before: Place, call: _Call) -> None:
        """Wait until this process no longer drives a run, and tell what happens in its family."""
        if (tell := call.caller.tell) is None:
            await self._host.wait_until_released(run)
            return
        family, place = FamilyProgress(), Place()
        released = asyncio.create_task(self._host.wait_until_released(run))
        try:
            while True:
                is_last = released.done()
                placed = await self._host.app.journal.records_after(place, run)
                for place, of, record in placed:
                    stored = read_stored(of, record)
                    lines = [line.text.strip() for line in family.lines(of, stored)]
                    family.take(of, stored)
                    if lines and place > before and not call.is_given_up:
                        await tell(one_line(self._redact(" · ".join(lines)), WIDTH))
                if is_last and not placed:
                    return
                if not placed:
                    await asyncio.wait([released], timeout=LOOK_AGAIN_S)
        finally:
            released.cancel()


@dataclass(eq=False)
class _Call:
    caller: Caller
    run: str = ""
    is_given_up: bool = False


_OF_RUN = parse_record({"run": {"type": "str", "description": "the id of a run"}}).schema
OF_RUNS = (
    ServedTool(
        name="status",
        description="Where a run stands: its result, or what it waits for and where a person "
        "answers. Changes nothing.",
        arguments=_OF_RUN,
        changes_nothing=True,
    ),
    ServedTool(
        name="resume",
        description="Go on with a run that was interrupted or suspended, until it ends or waits "
        "for somebody. Nothing that was done is done again.",
        arguments=_OF_RUN,
    ),
)


def common_tools(machines: Mapping[str, Loaded]) -> Sequence[ServedTool]:
    is_led = any(has_outside_agents(loaded.machine) for loaded in machines.values())
    return (*OF_RUNS, *(OF_OUTSIDE if is_led else ()))


def machine_tools(machines: Mapping[str, Loaded]) -> dict[str, ServedTool]:
    """A tool for each machine, by its name; raises NotRunnable if another tool has that name."""
    for name in (tool.name for tool in common_tools(machines) if tool.name in machines):
        raise NotRunnable(
            f"a machine is named `{name}`, like a tool that this server has besides; "
            "name it otherwise with `name:`"
        )
    return {name: _tool(name, loaded.machine) for name, loaded in machines.items()}


def _tool(name: str, machine: Machine) -> ServedTool:
    ends = machine.states_of(FinalState).items()
    outcomes = ", ".join(f"`{end}` ({state.final})" for end, state in ends)
    about = machine.description or f"Run the machine `{name}`."
    return ServedTool(
        name=name,
        description=f"{about}\n\nIt ends in {outcomes}.",
        arguments=parse_record(machine.input).schema,
    )


WIDTH = 300
"""Characters of a message about what happens."""


MOST_LISTED = 50
TAKEN_WITHIN_S = 45.0
"""How long `submit` waits until the process that drives the run accepts the delivery."""
LOOK_AGAIN_S = 0.1
NEXT = ServedTool(
    name="next",
    description="What a run wants from you now, with the prompt and the feedback on the last "
    "attempt; or that it waits for a person, or is over.",
    arguments={
        **_OF_RUN,
        "properties": {
            "run": {
                "type": "string",
                "description": "the id of a run; left out: the only one that wants something",
            }
        },
        "required": [],
    },
)
SUBMIT = ServedTool(
    name="submit",
    description="Deliver what `next` asked for. The validators of the machine judge it; the answer "
    "has their verdict, and what is next.",
    arguments={
        **_OF_RUN,
        "properties": {
            "run": {"type": "string", "description": "`request.run` of `next` says which"},
            "request": {"type": "string", "description": "`request.id` of `next` says which"},
            "artifact": {
                "description": "the whole text, or the data; leave it out to deliver the workspace "
                "as it is, for a file or a folder"
            },
        },
        "required": ["run", "request"],
    },
)
OF_OUTSIDE = (NEXT, SUBMIT)
LEADING = (
    "Where the answer of a tool has a `request`, the run wants something from you: do what its "
    "prompt says, and call `submit`. Validators judge what you submit; if they reject it, the next "
    "request says why. Go on until there is no `request` any more; `next` tells it again."
)


async def run_to_lead(host: Host) -> str:
    """The one run that waits for a delivery; raises CallRefused."""
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


async def deliver(host: Host, arguments: Mapping[str, Any], program: str) -> None:
    """Deliver the arguments of `submit`, and wait until the run has accepted them.

    Raises AnswerRefused and NotRunnable if the run waits for something else.
    """
    run, request, artifact = arguments["run"], arguments["request"], arguments.get("artifact")
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


def has_outside_agents(machine: Machine) -> bool:
    if not all(agent.is_called for agent in machine.agents.values()):
        return True
    children = machine.states_of(ChildrenState).values()
    return any(has_outside_agents(state.child) for state in children)
