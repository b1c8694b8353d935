"""One call: reserved, intended, made, and its reply or failure written down.

A call that was answered in an earlier life of the run is not made again; one
that may have been made is in doubt, and its policy decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from loopkit.agents.port import AgentError, Message, Reply, Request
from loopkit.definition import Retry
from loopkit.events import Failed, Intended, Replied, Role, Usage
from loopkit.findings import ErrorClass
from loopkit.runner.active import ActiveRun
from loopkit.runner.limits import LimitReached, refuse_beyond, time_left
from loopkit.runstate import Exchange, Task
from loopkit.validators.answer import storable


class CallFailed(Exception):
    """A call that brought no reply, retries included."""

    def __init__(
        self, error_class: ErrorClass, message: str, resume_at: float | None = None
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message
        self.resume_at = resume_at


@dataclass(frozen=True, slots=True)
class Written:
    """What an attempt left in its output file."""

    text: str | None = None
    """None where the attempt did not write it."""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """What all calls for one piece of work have in common."""

    task: str
    """`state:visit:role`, with the validator for a judge."""
    agent: str
    place: str
    role: Role
    retry: Retry
    timeout_s: float
    quote: Callable[[Request], Usage]
    ask: Callable[[Request], Awaitable[Reply]]
    written: Callable[[], Written] = Written
    """What the call left in its output file, where the output is a file."""


def exchanges_of(active: ActiveRun, work: Work) -> tuple[Exchange, ...]:
    """The committed exchanges of a piece of work."""
    task = active.state.tasks.get(work.task)
    return task.exchanges if task else ()


def usable_reply(active: ActiveRun, work: Work) -> Replied | None:
    """The reply that an earlier life of the run got and stored, if it is still to be used."""
    task = active.state.tasks.get(work.task)
    unused = task.exchanges[task.renewed :] if task else ()
    return unused[-1].reply if unused else None


async def call(active: ActiveRun, work: Work, request: Request, *, hold: bool = False) -> Replied:
    """The reply to a request, after as many tries as the retry budget has left.

    With `hold` the reply is staged: it becomes durable with the macrostep that
    it completes. Raises CallFailed and LimitReached.
    """
    while True:
        task = active.state.tasks.get(work.task)
        await _ready(active, work, task)
        intent, deadline_s = await _intend(active, work, request)
        outcome = await _make(active, work, replace(request, key=intent.key), deadline_s)
        if isinstance(outcome, Replied):
            if hold:
                active.stage(outcome)
            else:
                await active.append(outcome)
            return outcome
        await active.append(outcome)
        _give_up(active, work, outcome)


async def _ready(active: ActiveRun, work: Work, task: Task | None) -> None:
    """Wait until the next try may be made; raises CallFailed where none is left."""
    if work.task in active.state.refused:
        raise CallFailed("fatal", f"the call to `{work.agent}` is in doubt and is not made again")
    if task is None:
        return
    if task.tries >= work.retry.attempts:
        message = task.failed.message if task.failed else "the call was in doubt too often"
        raise CallFailed("transient", f"{message} ({task.tries} tries)")
    if task.failed is not None:
        _give_up(active, work, task.failed)
    if task.retry_at is not None:
        await active.clock.sleep(max(0.0, task.retry_at - active.clock.now()))


def _give_up(active: ActiveRun, work: Work, failed: Failed) -> None:
    """Raise CallFailed unless the failure is one to try again after."""
    if failed.error_class != "transient":
        raise CallFailed(failed.error_class, failed.message)
    if failed.retry_at is not None:
        wait = failed.retry_at - active.clock.now()
        if wait > work.retry.max_backoff:
            raise CallFailed("transient", failed.message, resume_at=failed.retry_at)


async def _intend(active: ActiveRun, work: Work, request: Request) -> tuple[Intended, float]:
    """Reserve the call's maximum and write down that it is about to be made."""
    async with active.reserving:
        task = active.state.tasks.get(work.task)
        try:
            reserved = work.quote(_counted(active, work, request))
        except AgentError as error:
            raise CallFailed(error.error_class, error.message) from error
        refuse_beyond(active.limits, active.state.committed, reserved)
        left = time_left(active.limits, active.state.committed)
        deadline_s = work.timeout_s if left is None else min(work.timeout_s, left)
        intent = Intended(
            key=f"{active.state.run}:{work.task}:{(task.sent if task else 0) + 1}",
            task=work.task,
            state=active.state.state,
            visit=active.state.visit,
            role=work.role,
            agent=work.agent,
            place=work.place,
            prompt=request.prompt,
            deadline_s=deadline_s,
            reserved=reserved,
        )
        await active.append(intent)
    return intent, deadline_s


def _counted(active: ActiveRun, work: Work, request: Request) -> Request:
    """The request with the place of this call among all of the agent's."""
    known = active.state.tasks
    task = known.get(work.task)
    same = [other for other in known.values() if other.agent == work.agent]
    return replace(
        request,
        task_index=task.index if task else len(same),
        place_index=task.place_index if task else sum(o.place == work.place for o in same),
        call_index=task.settled if task else 0,
    )


async def _make(
    active: ActiveRun, work: Work, request: Request, deadline_s: float
) -> Replied | Failed:
    started = active.clock.monotonic()
    request = _counted(active, work, request)
    try:
        async with asyncio.timeout(deadline_s):
            reply = await work.ask(request)
    except TimeoutError as error:
        spent = active.clock.monotonic() - started
        if deadline_s < work.timeout_s:
            limit = active.limits["time"]
            active.stage(_failed(active, work, request.key, spent, _late(deadline_s)))
            raise LimitReached("time", limit, active.state.committed.time_s) from error
        return _failed(active, work, request.key, spent, _late(deadline_s))
    except AgentError as error:
        return _failed(active, work, request.key, active.clock.monotonic() - started, error)
    spent = active.clock.monotonic() - started
    written = work.written()
    return Replied(
        key=request.key,
        text=storable(reply.text),
        cut_off=reply.cut_off,
        exit_code=reply.exit_code,
        stderr=reply.stderr,
        session=None if reply.session is None else storable(reply.session),
        artifact_text=written.text,
        artifact_fault=written.fault,
        usage=_usage(work, reply.tokens, reply.cost_usd, spent),
    )


def _late(deadline_s: float) -> AgentError:
    return AgentError("transient", f"no answer within {deadline_s:g} s")


def _failed(active: ActiveRun, work: Work, key: str, spent_s: float, error: AgentError) -> Failed:
    task = active.state.tasks[work.task]
    retry_at = None
    if error.error_class == "transient" and task.tries + 1 < work.retry.attempts:
        backoff = min(work.retry.backoff * 2**task.tries, work.retry.max_backoff)
        wait = backoff if error.retry_after_s is None else error.retry_after_s
        retry_at = active.clock.now() + wait
    return Failed(
        key=key,
        error_class=error.error_class,
        message=storable(error.message),
        retry_at=retry_at,
        usage=_usage(work, error.tokens, error.cost_usd, spent_s),
    )


def _usage(work: Work, tokens: int, cost_usd: float | None, spent_s: float) -> Usage:
    calls = 0 if work.role == "run" else 1
    return Usage(agent_calls=calls, tokens=tokens, cost_usd=cost_usd, time_s=spent_s)


def conversation(system: str, told: Sequence[Exchange], prompt: str) -> tuple[Message, ...]:
    """The messages of a call: the system prompt, the turns so far, the new prompt."""
    head = (Message("system", system),) if system else ()
    turns = tuple(
        message
        for exchange in told
        for message in (
            Message("user", exchange.prompt),
            Message("assistant", exchange.reply.text),
        )
    )
    return (*head, *turns, Message("user", prompt))
