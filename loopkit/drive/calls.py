"""One call to an agent: reserved, intended, made, and its reply or failure appended.

A call that an earlier process got an answer to is not made again; one that may have been made is in
doubt, and its policy decides. The run's events alone say which callee has the next try.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from itertools import islice
from math import inf, isfinite
from typing import Any, TypeVar

from loopkit.agents.port import AgentError, Message, Reply, Request
from loopkit.drive.active import ActiveRun, AskedAboutDoubt, Stopped
from loopkit.drive.breakers import PROBE_S
from loopkit.drive.limits import (
    Account,
    AnswerCutOff,
    LimitReached,
    Reservation,
    noted,
    remedy_for_longer,
)
from loopkit.drive.replies import (
    KEPT_CHARS,
    NOTHING_WRITTEN,
    Written,
    bounded,
    refuse_halves,
    reply_event,
    shorten,
    storable_text,
    usage_of,
)
from loopkit.drive.retries import (
    IN_DOUBT,
    CallFailed,
    SessionLost,
    TryFailed,
    has_try_left,
    index_of_last,
    next_index,
    seconds_to_next_try,
    wait_after,
)
from loopkit.engine.events import Acted, Failed, Held, InDoubt, Intended, Policy, Replied
from loopkit.engine.findings import Finding
from loopkit.engine.payloads import PromptSize
from loopkit.engine.records import RefusedCall, Usage
from loopkit.engine.state import Exchange, GivenUp, RunState, Task
from loopkit.language.agents import Agent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.tools import Tool
from loopkit.language.machine import Machine
from loopkit.language.states import State
from loopkit.machine.program import Callee, callees_of
from loopkit.plugins import serving
from loopkit.programs.port import Action
from loopkit.text import one_line, plural
from loopkit.values import NOTHING, Value

T = TypeVar("T")
ACTION_WIDTH = 300
MOST_ACTIONS = 1_000
"""Of one call; what a program does after these is not stored."""
LOOK_AGAIN_S = 0.3
"""How often is asked what other processes have used of an account."""


class CallSeries(Value, frozen=True):
    """What all calls for one piece of work have in common."""

    task: str
    """`state:visit:role`, with the validator for a judge."""
    callees: tuple[Callee, ...]
    """They are asked one after the other until one answers."""
    quote: Callable[[Request], Usage]
    ask: Callable[[Request], Coroutine[Any, Any, Reply]]
    undo: Callable[[], Awaitable[tuple[Finding, ...]]] | None = None
    """Puts protected files back as they were, and says what was changed in them."""
    written: Callable[[], Awaitable[Written]] | None = None
    """Reads the output file or folder after the call, if the output is one."""
    files: Callable[[], Awaitable[str]] | None = None
    """Computes the digest of the files that the call left in its workspace, if it leaves any."""
    digests: Mapping[str, str] = NOTHING
    """By `SERVER.TOOL`, the digests of the tools of MCP servers that are offered."""
    ready: Callable[[], Awaitable[object]] | None = None
    """Waits for what a call needs before it can be made."""
    opinion: str = ""
    """Which of a judge's opinions this is, if it is asked for several."""
    goes_on: bool = False
    """Whether tool results are sent instead of the prompt."""
    instead_of: str = ""
    """The word for which there is no agent, if that is to be reported."""


def exchanges_of(active: ActiveRun, work: CallSeries) -> tuple[Exchange, ...]:
    task = active.state.tasks.get(work.task)
    return task.exchanges if task else ()


def find_stored_reply(
    active: ActiveRun, work: CallSeries, is_mended: Callable[[Replied], bool] = lambda _: False
) -> Replied | None:
    """The reply that an earlier process stored, if it can still be used.

    A reply that was unusable before a resume is used if `is_mended` accepts it under the repaired
    definition.
    """
    task = active.state.tasks.get(work.task)
    if task is None or not task.exchanges:
        return None
    last = task.exchanges[-1].reply
    return last if task.renewed < len(task.exchanges) or is_mended(last) else None


async def call(
    active: ActiveRun, work: CallSeries, request: Request, *, hold: bool = False
) -> Replied:
    """The reply to a request, after as many tries as its callees have left.

    With `hold` the reply is staged: it becomes durable with the macrostep that
    it completes. Raises CallFailed, LimitReached and SessionLost.
    """
    caller, wait_s = Caller(active, work, request), None
    while True:
        callee = await caller.next_callee(wait_s)
        try:
            async with active.breakers.turn(callee.provider, active.clock.monotonic, active.pause):
                reply = await caller.attempt()
        except TryFailed as failure:
            if failure.error.error_class == "transient":
                named_s, now = failure.error.retry_after_s, active.clock.monotonic()
                await active.breakers.record_failure(callee.provider, now, named_s)
            else:
                await active.breakers.record_answer(callee.provider)
            wait_s = await caller.record_failure(failure)
            continue
        except BaseException:
            await active.breakers.release_probe(callee.provider)
            raise
        active.stage(reply)
        if not hold:
            await active.append()
        await active.breakers.record_answer(callee.provider)
        return reply


class Caller:
    """Chooses who is asked, reserves, records the intent, asks, and waits before the next try."""

    def __init__(self, active: ActiveRun, work: CallSeries, request: Request) -> None:
        self.active = active
        self.work = work
        self.request = request
        self.turns = request.messages
        self.passed: list[GivenUp] = []
        self.actions = 0

    @property
    def task(self) -> Task | None:
        return self.active.state.tasks.get(self.work.task)

    async def next_callee(self, wait_s: float | None) -> Callee:
        """Wait until the next callee may be asked; raises CallFailed if none is left.

        The wait after a failure in an earlier process is computed from the time of day. After a
        failure in this process, `wait_s` gives it, because the time of day may jump.
        """
        active = self.active
        callees = self.work.callees
        task = self.task
        index = 0
        if self.work.task in active.state.refused:
            raise CallFailed("fatal", refusal(self.request.agent))
        if task is not None:
            last = index_of_last(task, callees)
            if wait_s is None:
                wait_s = wait_after(task, callees[last].retry, active.clock.now())
            index = next_index(task, callees, wait_s)
            if index == last:
                await active.pause(wait_s)
        while (
            index < len(callees) and callees[index].provider and await self._is_passed_over(index)
        ):
            index += 1
        if index == len(callees):
            raise self._nobody_left()
        request, callee = self.request, callees[index]
        request.model = callee.model
        request.fallback = index
        request.timeout_s = callee.timeout_s
        request.in_words = (request.agent, callee.model) in active.state.in_words
        system = [Message("system", callee.system)] if callee.system else []
        request.messages = [*system, *self.turns]
        return callee

    async def _is_passed_over(self, index: int) -> bool:
        """Wait while the provider must not be called; True if the next callee is asked instead.

        That is if a fallback is left, or the wait is too long.
        """
        active = self.active
        [callee, *others] = self.work.callees[index:]
        most_s = callee.retry.max_backoff
        circuits = active.breakers
        provider = callee.provider
        while wait_s := await circuits.seconds_to_wait(provider, active.clock.monotonic()):
            until = active.clock.now() + wait_s
            times = plural(circuits.failures(provider), "time")
            reason = f"`{provider}` failed {times} in a row"
            if others or PROBE_S < wait_s <= most_s:
                held = Held(
                    task=self.work.task,
                    state=active.state.state,
                    provider=provider,
                    until=until,
                    reason=reason,
                    instead=others[0].model if others else "",
                )
                await active.append(held)
            if others or wait_s > most_s:
                failed = IN_DOUBT.replace(message=reason, resume_at=until)
                self.passed.append(GivenUp(index, 0, failed))
                return True
            await active.pause(wait_s)
        return False

    async def attempt(self) -> Replied:
        """Make one try; raises TryFailed, CallFailed, AskedAboutDoubt and LimitReached."""
        active = self.active
        work = self.work
        request = self.request
        files = ""
        try:
            if work.ready is not None:
                await work.ready()
            # The intent is staged in the turn in which the line admits it, and written here.
            if (account := active.budget.outermost.account) is not None:
                await self._hold(account)
            else:
                await active.budget.line.enter(self._admit, active.wait_for)
            await active.append()
            request.report, self.actions = self._store_action, 0
            self._go_on_in_session()
            started = active.clock.monotonic()
            try:
                async with active.in_hand(request.deadline_s):
                    with serving(request.key):
                        reply = await work.ask(request)
                refuse_halves(request, reply)
            except (TimeoutError, AgentError) as error:
                raise self._failure(error, active.clock.monotonic() - started) from error
            spent_s = active.clock.monotonic() - started
            if work.undo is not None:
                reply = reply.replace(findings=(*reply.findings, *await work.undo()))
            # A scenario gives the folder itself.
            written = Written(folder=reply.folder) if reply.folder else NOTHING_WRITTEN
            if work.written is not None and reply.folder is None:
                written = await work.written()
            if work.files is not None and not reply.workspace:
                files = await work.files()
        finally:
            active.budget.settle(request.key)
        return reply_event(active.redact, request, reply, written, files, spent_s)

    def _go_on_in_session(self) -> None:
        """Let a program that has begun this work and failed go on in the same session."""
        request, task = self.request, self.task
        if task is None or task.session in (None, request.session):
            return
        request.session, request.session_use = task.session, None
        if request.whole_prompt is None:
            prompt = request.prompt
            request.whole_prompt = lambda: prompt

    def _admit(self) -> bool:
        """Stage the intent of a call with its maximum reserved, if there is room for it.

        False if it has to wait for other calls. Nothing is awaited between reading the limits and
        staging the intent, so that concurrent judges can't exceed a limit together. Raises
        CallFailed, LimitReached and Stopped.
        """
        try:
            reserved = self._reserve()
        except LimitReached as reached:
            raise noted(reached) from None
        if reserved is not None:
            self._stage(reserved)
        return reserved is not None

    async def _hold(self, account: Account) -> None:
        """Stage the intent once the account of the batch holds its maximum.

        Other processes spend meanwhile, so that the journal decides; how the account stood is only
        where to begin. Raises what `_admit` raises.
        """
        active, request, outer = self.active, self.request, self.active.budget.outermost
        hold = partial(account.of.hold, account.name, active.state.run)
        before: Usage | None = None
        while True:
            await outer.refresh()
            try:
                reserved = self._reserve()
            except LimitReached as reached:
                # A reply that is just being stored still counts with its reservation.
                if reached.budget is not outer or before == outer.at_rest:
                    raise noted(reached) from None
                reserved, before = None, outer.at_rest
            usd = reserved.usage.cost_usd or 0.0 if reserved else 0.0
            if reserved is None or (usd and not await hold(request.key, usd)):
                await active.pause(LOOK_AGAIN_S)
            elif active.aborting or not active.budget.has_room(reserved.usage, but=outer):
                # Another call of the run was admitted meanwhile.
                await hold(request.key, 0.0)
            else:
                return self._stage(reserved)

    def _reserve(self) -> Reservation | None:
        active = self.active
        work = self.work
        request = self.request
        if active.aborting:
            raise Stopped
        number_call(active.state, work, request)
        try:
            reserved = active.budget.reserve(work.quote, request)
        except AgentError as error:
            raise CallFailed(error.error_class, error.message) from error
        except LimitReached as reached:
            reached.call = RefusedCall(
                agent=request.agent, place=request.place, task=work.task, reserved=reached.reserved
            )
            raise
        return reserved

    def _stage(self, reserved: Reservation) -> None:
        active, request = self.active, self.request
        request.deadline_s = min(request.timeout_s, reserved.left_s)
        active.stage(intent_of(active, self.work, request, reserved.usage))
        active.budget.in_flight.append(request.key)

    def _failure(
        self, error: TimeoutError | AgentError, spent_s: float
    ) -> TryFailed | CallFailed | AskedAboutDoubt | LimitReached:
        """The exception for a try without a reply.

        What becomes of the call is staged if a limit ended it, or if it is in doubt.
        """
        active = self.active
        request = self.request
        by_limit = False
        if isinstance(error, TimeoutError):
            by_limit = request.deadline_s < request.timeout_s
            message = f"no answer within {request.deadline_s:g} s"
            error = AgentError("transient", message, charged=True, timed_out=True)
        is_doubtful = error.timed_out or error.doubt
        doubt = self._doubt(error, spent_s, by_limit=by_limit) if is_doubtful else None
        message = storable_text(active.redact, error.message)
        message = message if len(message) <= KEPT_CHARS else shorten(message)
        failure = TryFailed(error, message, spent_s)
        if doubt is not None:
            active.stage(doubt)
        elif by_limit or error.capped:
            active.stage(self._failed(failure))
        if by_limit:
            return active.budget.out_of_time()
        if doubt is not None and doubt.policy == "fail":
            return CallFailed("fatal", f"{refusal(self.request.agent)}: {doubt.reason}")
        if doubt is not None:
            return AskedAboutDoubt()
        if error.capped:
            return AnswerCutOff(message, remedy_for_longer(active, self.work.quote, request))
        return failure

    async def _store_action(self, action: Action, session: str | None) -> None:
        """Store what a program does at once: people follow it, and a call that fails after it can
        go on in its session."""
        self.actions += 1
        if self.actions > MOST_ACTIONS:
            return
        active, clean = self.active, partial(storable_text, self.active.redact)
        acted = Acted(
            key=self.request.key,
            kind=action.kind,
            name=one_line(clean(action.name), ACTION_WIDTH),
            about=one_line(clean(action.about), ACTION_WIDTH),
            session=session,
        )
        writing = asyncio.ensure_future(active.append(acted))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # The deadline of the call is none of what is being stored.
            await writing
            raise

    def _doubt(self, error: AgentError, spent_s: float, *, by_limit: bool) -> InDoubt | None:
        """The event of a program that was ended or failed, and may have done its work.

        None if it may be started again, or is not because an edge leads on after the limit; and for
        models, because an answer that got lost does no harm.
        """
        run, request = self.active.state, self.request
        called = called_in(self.active.program.machine, run.open_calls[request.key])
        policy = policy_of(called)
        if called.if_in_doubt == "retry" or policy == "retry":
            return None
        most_s = getattr(called, "timeout", request.timeout_s)
        reason = error.doubt or f"it took longer than {most_s:g} s"
        if by_limit:
            limit_s = self.active.limits.get("time")
            leads_on = self.active.program.graph.on
            is_own = limit_s is not None and run.committed.time_s + spent_s >= limit_s
            if is_own and not run.then_used and leads_on(run.state, "limit"):
                return None
            reason = f"the limit `time` left it {request.deadline_s:.3g} s"
        tells = error.doubt and error.cost_usd
        used = usage_of(request.role, error.tokens, error.cost_usd, spent_s) if tells else None
        return InDoubt(key=request.key, policy=policy, reason=reason, time_s=spent_s, used=used)

    async def record_failure(self, failure: TryFailed) -> float:
        """Record a failed try; the seconds until the same callee may be asked again.

        Raises SessionLost if a session can't go on, and a fresh one may.
        """
        active = self.active
        request = self.request
        error = failure.error
        failed, index = self._failed(failure), request.fallback
        if request.whole_prompt is not None and self._is_session_lost(error):
            anew = request.whole_prompt()
            await active.append(failed.replace(error_class="fatal", begins_anew=anew))
            raise (SessionLost if request.begins_anew else self._nobody_left()) from failure
        now, named_s = active.clock.now(), error.retry_after_s
        failed = failed.replace(
            resume_at=None if named_s is None else now + named_s, unavailable=error.unavailable
        )
        after = active.state.tasks[self.work.task].after_failure(failed)
        wait_s = seconds_to_next_try(self.work.callees[index].retry, after.tries, named_s)
        if error.error_class == "transient" and index == next_index(
            after, self.work.callees, wait_s
        ):
            failed = failed.replace(retry_at=now + wait_s)
        await active.append(failed)
        return wait_s

    def _is_session_lost(self, error: AgentError) -> bool:
        """Whether the session can't go on; a transient failure may be over at the next try."""
        if not error.session_lost or error.error_class == "fatal":
            return error.session_lost
        task = self.active.state.tasks[self.work.task]
        retry = self.work.callees[self.request.fallback].retry
        is_last = not has_try_left(retry, task.tries + 1, task.unread)
        return self.request.begins_anew and (error.error_class == "content" or is_last)

    def _failed(self, failure: TryFailed) -> Failed:
        error, key = failure.error, self.request.key
        reserved = self.active.state.open_calls[key].reserved
        tokens, cost_usd = error.tokens, error.cost_usd
        if error.charged:
            tokens, cost_usd = reserved.tokens, reserved.cost_usd
        usage = usage_of(self.request.role, tokens, cost_usd, failure.spent_s)
        if not error.sent:
            usage = Usage(time_s=usage.time_s)
        return Failed(
            key=key,
            error_class=error.error_class,
            message=failure.message,
            unreadable=error.unreadable,
            in_words=storable_text(self.active.redact, error.in_words),
            stream=bounded(storable_text(self.active.redact, error.stream)),
            usage=usage.as_held if error.charged else usage,
        )

    def _nobody_left(self) -> CallFailed:
        """The error if no callee is left: the last class, all failures, the earliest resume."""
        task, callees = self.task, self.work.callees
        tried = list(task.given_up) if task else []
        if task and task.tries:
            tried.append(GivenUp(task.fallback, task.tries, task.failed))
        by_place = {one.fallback: one for one in (*tried, *self.passed)}
        lost, lines, named = IN_DOUBT, list[str](), list[float]()
        for place in sorted(place for place in by_place if place < len(callees)):
            lost = by_place[place].failed or IN_DOUBT
            tries = by_place[place].tries
            is_repeated = tries > 1 and lost.error_class == "transient"
            message = f"{lost.message} ({tries} tries)" if is_repeated else lost.message
            lines.append(f"fallback `{callees[place].model}`: {message}" if place else message)
            named += [lost.resume_at] if lost.resume_at is not None else []
        resume_at = min(named, default=None)
        return CallFailed(lost.error_class, "; ".join(lines), resume_at=resume_at)


def intent_of(active: ActiveRun, work: CallSeries, request: Request, reserved: Usage) -> Intended:
    run = active.state
    new = {name: digest for name, digest in work.digests.items() if name not in run.offered}
    return Intended(
        key=request.key,
        task=work.task,
        state=run.state,
        visit=run.visit,
        role=request.role,
        agent=request.agent,
        place=request.place,
        opinion=work.opinion,
        instead_of="" if work.task in run.tasks else work.instead_of,
        prompt="" if work.goes_on else request.prompt,
        goes_on=work.goes_on,
        offered=new or NOTHING,
        model=request.model,
        fallback=request.fallback,
        deadline_s=request.deadline_s if isfinite(request.deadline_s) else None,
        cap=request.cap,
        reserved=reserved,
        size=size_of(request, goes_on=work.goes_on),
    )


def size_of(request: Request, *, goes_on: bool) -> PromptSize:
    """The size of a request in characters; `goes_on` if it has no prompt of its own."""
    prompt = 0 if goes_on else len(request.prompt)
    if not request.model:
        return PromptSize(prompt=prompt)
    system = _message_chars(m for m in request.messages if m.role == "system")
    schemas = [tool.schema for tool in request.tools]
    schemas += [request.schema] if request.schema is not None else []
    described = sum(len(tool.name) + len(tool.description) for tool in request.tools)
    return PromptSize(
        system=system,
        turns=max(0, _message_chars(request.messages) - system - prompt),
        prompt=prompt,
        schemas=described + sum(len(json.dumps(each, ensure_ascii=False)) for each in schemas),
    )


def _message_chars(messages: Iterable[Message]) -> int:
    return sum(
        len(message.content) + sum(len(call.arguments) for call in message.tool_calls)
        for message in messages
    )


def number_call(run: RunState, work: CallSeries, request: Request) -> None:
    """Set the key of the next call for a piece of work, and its place among all of its agent.

    A call in doubt that is made again to the same callee keeps its key.
    """
    task = run.tasks.get(work.task)
    number = 1 if task is None else task.sent - task.doubted + 1
    request.key = f"{run.run}:{work.task}:{number}{run.era}"
    if request.model:
        request.key += f"@{request.model}"
    if request.fallback:
        request.key += f"#{request.fallback}"
    if task is None:
        asked_at = run.asked_at.get(request.agent, NOTHING)
        request.task_index = sum(asked_at.values())
        request.place_index = asked_at.get(request.place, 0)
        return
    open_calls = sum(call.task == work.task for call in run.open_calls.values())
    request.task_index = task.index
    request.place_index = task.place_index
    request.call_index = task.settled
    request.lost_index = task.sent - task.settled - open_calls


def called_in(machine: Machine, call: Intended) -> State | Agent | Tool:
    if call.role == "run":
        return machine.states[call.state]
    agent, _, tool = call.agent.partition(".")
    return machine.agents[agent].callable_tools.get(tool, machine.agents[agent])


def policy_of(called: State | Agent | Tool) -> Policy:
    return getattr(called, "on_in_doubt", None) or called.if_in_doubt


def refusal(agent: str) -> str:
    return f"the call to `{agent}` is in doubt and is not made again"


def callees_for(active: ActiveRun, agent: Agent, author: str) -> tuple[Callee, ...]:
    """The callees for work on what a state authors, in order; of a ladder, the current rung."""
    return callees_of(agent, lambda asked: _rung(active, asked, author))


def _rung(active: ActiveRun, agent: ModelAgent, author: str) -> str:
    """The current model of a ladder; nothing is counted beyond the last."""
    if len(agent.model) == 1:
        return agent.model[0]
    if agent.climb == "revision":
        return agent.model_after(active.state.revised.get(author, 0))
    most = agent.rung * (len(agent.model) - 1)
    rounds = reversed(active.state.rounds)
    stalls = (r for r in rounds if r.report.stalled and r.judged.author == author)
    return agent.model_after(sum(1 for _ in islice(stalls, most)))


async def limit_time(active: ActiveRun, judging: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of rules, which are ended when the time is over, and at an abort.

    A verdict that comes too late does not count, so that only the limit is reported. If the run has
    gone on after a limit, the rules have no deadline. Raises LimitReached and Stopped.
    """
    left_s = inf if active.state.then_used else active.budget.left_s()
    started = active.clock.monotonic()
    try:
        async with active.in_hand(left_s) as deadline:
            judged = await judging()
            if active.clock.monotonic() - started < left_s:
                return judged
    except TimeoutError:
        if not deadline.expired():
            raise
    spent_s = active.clock.monotonic() - started
    reached = active.budget.out_of_time(spent_s)
    reached.time_s = spent_s
    raise reached
