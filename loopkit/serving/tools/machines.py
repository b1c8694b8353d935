"""The machines of a server as a toolbox: each tool runs one until it ends, waits or stops."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from loopkit.agents.not_runnable import NotRunnable
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.stored_event import Stored
from loopkit.drive.stored_runs import OpenQuestion, open_children
from loopkit.journal.errors import JournalError
from loopkit.language.input_faults import InvalidInput
from loopkit.outside.redaction import Redact, redact_data
from loopkit.serving.host import THIS_SERVER, Host
from loopkit.serving.tools.arguments import (
    refuse_unknown,
    refuse_unknown_tool,
    text_argument,
)
from loopkit.serving.tools.machine_tools import common_tools, machine_tools, most_asked
from loopkit.serving.tools.outside_agent import LEADING, NEXT, SUBMIT, OutsideAgents, request_in
from loopkit.serving.tools.run_progress import RunProgress
from loopkit.serving.tools.standing import standing
from loopkit.serving.tools.toolbox import Caller, CallRefused, ServedTool, UserAsked, UserReply
from loopkit.serving.tools.user_forms import answer_in, form_message, form_of
from loopkit.text.run_ids import root_of
from loopkit.views.review import review
from loopkit.views.summary import status_of

MOST_FORMS = 3
"""How often a user is asked one question whose answers are refused."""
LED_WITHIN_S = 45.0
"""How long `next` and `submit` wait for a run that works: clients wait about a minute."""
Answer = dict[str, Any] | UserAsked


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

        `pages` is the address of a server that shows the runs, if there is one; `led_within_s` is
        how long `next` and `submit` wait for a run that works. Raises NotRunnable if a machine has
        the name of another tool.
        """
        self._host = host
        self._redact = redact
        self._stops_with_call = stops_with_call
        self._pages = pages
        self._led_within_s = led_within_s
        self._machines = machine_tools(host.machines)
        self._common = common_tools(host.machines)
        self._outside = OutsideAgents(host)
        self._waiting: Counter[str] = Counter()
        """The number of calls that wait for each run."""
        self._answering: set[asyncio.Task[Answer]] = set()
        self._bounds: dict[str, asyncio.Task[float | None]] = {}

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
            self._give_up(call)
            raise

    def _forget(self, answering: asyncio.Task[Answer]) -> None:
        self._answering.discard(answering)
        if not answering.cancelled():
            # Marks the exception as seen: the caller of a cancelled call does not look at it.
            answering.exception()

    def _give_up(self, call: _Call) -> None:
        call.is_given_up = True
        if call.run:
            self._leave(call.run)

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
        except (CallRefused, AnswerRefused, InvalidInput, NotRunnable, JournalError) as error:
            raise CallRefused(self._redact(str(error))) from error
        if isinstance(answer, UserAsked):
            return UserAsked(self._redact(answer.message), answer.schema, answer.matter)
        plain: dict[str, Any] = redact_data(answer, self._redact)
        return plain

    async def _dispatch(self, name: str, arguments: Mapping[str, Any], call: _Call) -> Answer:
        refuse_unknown_tool(name, [*self._machines, *(tool.name for tool in self._common)])
        if name == SUBMIT.name:
            return await self._submit(arguments, call)
        if call.caller.reply is not None:
            return await self._take_reply(call.caller.reply, call)
        if name == NEXT.name:
            return await self._next(arguments, call)
        if name in self._machines:
            return await self._drive_until_stop(await self._host.start(name, arguments), 0, call)
        refuse_unknown(arguments, ("run",))
        run = root_of(text_argument(arguments, "run", "the id of a run"))
        await self._refuse_unserved(run)
        if name == "status":
            return await standing(self._host.app, run, self._pages)
        return await self._resume(run, call)

    async def _refuse_unserved(self, run: str) -> None:
        """Raises CallRefused for a run of a machine that is not served."""
        state = await self._host.app.state_of(run)
        if state.machine not in self._machines:
            raise CallRefused(f"run `{run}` is of machine `{state.machine}`, not served here")

    async def _resume(self, run: str, call: _Call) -> Answer:
        [row] = await self._host.app.journal.runs(run=run)
        if await self._host.go_on(run) != THIS_SERVER:
            return await standing(self._host.app, run, self._pages)
        return await self._drive_until_stop(run, row.seq, call)

    # -- what is wanted from outside ---------------------------------------------------------

    async def _next(self, arguments: Mapping[str, Any], call: _Call) -> Answer:
        """The request of a run; an interrupted run is continued first."""
        run = await self._outside.run_in(arguments)
        before = await self._length(run)
        if await self._is_interrupted(root_of(run)):
            await self._host.go_on(run)
        return await self._lead(run, before, call)

    async def _submit(self, arguments: Mapping[str, Any], call: _Call) -> Answer:
        """Deliver an artifact, and return the verdicts on it and where the run stands then."""
        run, request = request_in(arguments)
        before = await self._length(run)
        if call.caller.reply is not None:
            answer = await self._take_reply(call.caller.reply, call)
        else:
            await self._outside.deliver(run, request, arguments, call.caller.program)
            answer = await self._lead(run, before, call)
        if isinstance(answer, UserAsked):
            return answer
        return {"verdicts": await self._outside.verdicts(run, request), "next": answer}

    async def _lead(self, run: str, before: int, call: _Call) -> Answer:
        """Wait until a run stops, at most `led_within_s`, and return where it stands."""
        root = root_of(run)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._led_within_s):
                await self._follow(root, before, call)
        answer = await standing(self._host.app, run, self._pages)
        may_ask = call.caller.may_be_asked and "request" not in answer
        return (await self._form(root) if may_ask else None) or answer

    async def _is_interrupted(self, root: str) -> bool:
        """Whether a run was interrupted, so that it only has to be continued."""
        state = await self._host.app.state_of(root)
        [row] = await self._host.app.journal.runs(run=root)
        is_stopped = state.suspended is not None and state.suspended.reason == "interrupted"
        return is_stopped or status_of(state, is_driven=row.is_driven) == "interrupted"

    async def _length(self, run: str) -> int:
        """The number of events of the root of a run; raises CallRefused if it is not served."""
        await self._refuse_unserved(root_of(run))
        [row] = await self._host.app.journal.runs(run=root_of(run))
        return row.seq

    async def _drive_until_stop(self, run: str, before: int, call: _Call) -> Answer:
        """Wait until a run stops, and return where it stands; it had `before` events already."""
        call.run = run
        self._waiting[run] += 1
        if call.is_given_up:
            self._leave(run)
        await self._follow(run, before, call)
        if call.is_given_up:
            # The answer is not sent, and the journal may be closed.
            return {}
        self._leave(run)
        if call.caller.may_be_asked and (asked := await self._form(run)) is not None:
            return asked
        return await standing(self._host.app, run, self._pages)

    async def _follow(self, run: str, before: int, call: _Call) -> None:
        """Wait until this process no longer drives a run, and report its progress meanwhile."""
        if call.caller.tell is None:
            await self._host.wait_until_released(run)
            return
        progress = RunProgress(call.caller.tell, self._redact)
        with self._host.hearing(run, progress.hear):
            progress.begin(await self._history(run, before), before, await self._most_asked(run))
            await self._host.wait_until_released(run)

    async def _history(self, run: str, before: int) -> dict[str, Sequence[Stored]]:
        """The events of a run and of its unfinished children, parents first."""
        app = self._host.app
        history: dict[str, Sequence[Stored]] = {run: await app.events(run)}
        # The events of children of a new run arrive later, through `hear`.
        for child in open_children(await app.state_of(run)) if before else ():
            if await app.journal.has(child.started.child):
                history |= await self._history(child.started.child, before)
        return history

    async def _most_asked(self, run: str) -> float | None:
        """The `most_asked` of a run's machine; None if the run has another definition than it."""
        state = await self._host.app.state_of(run)
        loaded = self._host.machines[state.machine]
        if state.definition != loaded.digest:
            return None
        if state.machine not in self._bounds:
            proving = asyncio.to_thread(most_asked, loaded.machine)
            self._bounds[state.machine] = asyncio.create_task(proving)
        return await asyncio.shield(self._bounds[state.machine])

    # -- what a person is asked --------------------------------------------------------------

    async def _form(self, run: str) -> UserAsked | None:
        """The first open question of a family that a form can ask."""
        for asked in await self._host.app.questions(run):
            if (form := await self._form_of(asked)) is not None:
                return form
        return None

    async def _form_of(
        self, asked: OpenQuestion, number: int = 1, refused: str = ""
    ) -> UserAsked | None:
        """The form of a question that is asked for the `number`-th time."""
        schema = form_of(asked.question)
        if schema is None:
            return None
        app, state = self._host.app, asked.state
        engine = app.engine(await app.machine_of(state), state.definition)
        text = form_message(review(engine, state), asked.question, state.run, refused)
        matter = {"run": state.run, "question": asked.question.question, "number": number}
        return UserAsked(text, schema, json.dumps(matter))

    async def _take_reply(self, reply: UserReply, call: _Call) -> Answer:
        """Answer a question with the user's reply, and continue; without one it stays open."""
        matter = json.loads(reply.matter)
        run, question, number = matter["run"], matter["question"], matter["number"]
        root = root_of(run)
        await self._refuse_unserved(root)
        app = self._host.app
        [row] = await app.journal.runs(run=root)
        asked = [one for one in await app.questions(root) if one.question.question == question]
        asked = [one for one in asked if one.state.run == run]
        if reply.action != "accept" or not asked:
            # Another person may have answered meanwhile.
            return await standing(app, root, self._pages)
        answer = answer_in(reply.content, asked[0].question, call.caller.user)
        try:
            posted = await self._host.post(run, answer, question)
        except AnswerRefused as refused:
            again = await self._form_of(asked[0], number + 1, str(refused))
            if again is None or number >= MOST_FORMS:
                raise
            return again
        if posted.driver != THIS_SERVER:
            driver = posted.driver
            message = f"the answer was given; {driver} goes on with the run: see `status` later"
            return {**await standing(app, root), "message": message}
        return await self._drive_until_stop(root, row.seq, call)


class _Call:
    """A call that is being answered."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.run = ""
        """The run that it waits for."""
        self.is_given_up = False
        """Whether its client has cancelled it."""
