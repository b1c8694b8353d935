"""One call to an agent: reserved, intended, made, and its reply or failure appended.

A call that an earlier process got an answer to is not made again; one that may have been made is in
doubt, and its policy decides. Which callee has the next try follows from the run's events alone, so
that a resumed run goes on with the same one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf, isfinite
from typing import Any, Generic, TypeVar, cast

from loopkit.agents.port import AgentError, Message, Reply, Request
from loopkit.drive.active import ActiveRun, AskedAboutDoubt, Stopped
from loopkit.drive.limits import (
    KEPT_CHARS,
    AnswerCutOff,
    LimitReached,
    find_room,
    out_of_time,
    room_for_longer,
    seconds_left,
    shorten,
    size_of,
)
from loopkit.drive.replies import (
    NOTHING_WRITTEN,
    Written,
    refuse_halves,
    reply_event,
    storable_text,
    usage_of,
)
from loopkit.drive.retries import (
    PROBE_S,
    CallFailed,
    SessionLost,
    TryFailed,
    has_try_left,
    seconds_to_next_try,
)
from loopkit.engine.events import Failed, Held, InDoubt, Intended, Policy, Replied, Role
from loopkit.engine.records import RefusedCall, Usage
from loopkit.engine.state import Exchange, GivenUp, RunState, Task
from loopkit.language.agents import Agent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.tools import Tool
from loopkit.language.machine import Machine
from loopkit.language.section import Retry
from loopkit.language.states import State
from loopkit.machine.program import Callee, callees_of
from loopkit.values import NOTHING, Value, replace

T = TypeVar("T")


class CallSeries(Value, frozen=True):
    """What all calls for one piece of work have in common."""

    task: str
    """`state:visit:role`, with the validator for a judge."""
    agent: str
    place: str
    role: Role
    callees: tuple[Callee, ...]
    """The callees, which are asked one after the other until one answers."""
    quote: Callable[[Request], Usage]
    ask: Callable[[Request], Coroutine[Any, Any, Reply]]
    written: Callable[[], Awaitable[Written]] | None = None
    """Reads the output file or folder after the call, if the output is one."""
    files: Callable[[], Awaitable[str]] | None = None
    """Computes the digest of the files that the call left in its workspace, if it leaves any."""
    digests: Mapping[str, str] = NOTHING
    """By `SERVER.TOOL`, the digests of the tools of MCP servers that are offered."""
    ready: Callable[[], Awaitable[None]] | None = None
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
    active: ActiveRun, work: CallSeries, is_mended: Callable[[Replied], bool] | None = None
) -> Replied | None:
    """The reply that an earlier process stored, if it can still be used.

    A reply that was unusable before a resume is used if `is_mended` accepts it under the repaired
    definition.
    """
    if (task := active.state.tasks.get(work.task)) is None:
        return None
    if usable := task.exchanges[task.renewed :]:
        return usable[-1].reply
    unusable = task.exchanges[-1].reply if task.exchanges else None
    is_usable = unusable is not None and is_mended is not None and is_mended(unusable)
    return unusable if is_usable else None


async def call(
    active: ActiveRun, work: CallSeries, request: Request, *, hold: bool = False
) -> Replied:
    """The reply to a request, after as many tries as its callees have left.

    With `hold` the reply is staged: it becomes durable with the macrostep that
    it completes. Raises CallFailed, LimitReached and SessionLost.
    """
    turns, index = request.messages, 0
    passed: list[GivenUp] = []
    if work.task in active.state.tasks or active.state.refused:
        index = await take_turn(active, work.task, work.agent, work.callees)
    while True:
        callee = work.callees[index]
        if callee.provider and (lost := await _wait_for_provider(active, work, index)) is not None:
            passed.append(lost)
            index += 1
            if index == len(work.callees):
                raise nobody_left(active.state.tasks.get(work.task), work.callees, passed)
            continue
        request.model, request.fallback, request.timeout_s = callee.model, index, callee.timeout_s
        request.messages = [Message("system", callee.system), *turns] if callee.system else turns
        try:
            reply = await _try(active, work, callee, request)
        except TryFailed as failure:
            whole = request.whole_prompt
            if whole is not None and _is_session_lost(active, request, work, callee, failure.error):
                failed = _bare_failure_event(active, work, failure)
                await active.append(failed.replace(error_class="fatal", begins_anew=whole()))
                if not request.begins_anew:
                    raise nobody_left(active.state.tasks[work.task], work.callees, passed) from None
                await take_turn(active, work.task, work.agent, work.callees, 0.0, passed)
                raise SessionLost from failure
            failed, wait_s = _failure_event(active, work, failure, index)
            await active.append(failed)
            index = await take_turn(active, work.task, work.agent, work.callees, wait_s, passed)
            continue
        if hold:
            active.stage(reply)
        else:
            await active.append(reply)
        return reply


def _is_session_lost(
    active: ActiveRun, request: Request, work: CallSeries, callee: Callee, error: AgentError
) -> bool:
    """Whether the session can't go on; a transient failure may be over at the next try with it."""
    if not error.session_lost or error.error_class == "fatal":
        return error.session_lost
    task = active.state.tasks[work.task]
    is_last = not has_try_left(callee.retry, task.tries + 1, task.unread)
    return request.begins_anew and (error.error_class == "content" or is_last)


async def _wait_for_provider(active: ActiveRun, work: CallSeries, index: int) -> GivenUp | None:
    """Wait while the provider must not be called; returns why the next callee is asked instead.

    The next callee is asked if a fallback is left or the wait is too long; else the result is None.
    """
    callee = work.callees[index]
    others = work.callees[index + 1 :]
    while (
        wait_s := active.breakers.seconds_to_wait(callee.provider, active.clock.monotonic())
    ) > 0:
        until = active.clock.now() + wait_s
        failures = active.breakers.failures(callee.provider)
        reason = f"`{callee.provider}` failed {failures} times in a row"
        is_too_long = wait_s > callee.retry.max_backoff and not others
        if not is_too_long and (wait_s > PROBE_S or others):
            held = Held(
                task=work.task,
                state=active.state.state,
                provider=callee.provider,
                until=until,
                reason=reason,
                instead=others[0].model if others else "",
            )
            await active.append(held)
        if others or is_too_long:
            failed = Failed(
                key="", error_class="transient", message=reason, resume_at=until, usage=Usage()
            )
            return GivenUp(index, 0, failed)
        await active.pause(wait_s)
    return None


async def _try(active: ActiveRun, work: CallSeries, callee: Callee, request: Request) -> Replied:
    """Make one try; raises TryFailed, CallFailed, AskedAboutDoubt and LimitReached."""
    try:
        if work.ready is not None:
            await work.ready()
        # The intent is staged in the turn in which the line admits it, and written here.
        await active.line.enter(partial(_admit, active, work, request), active.wait_for)
        await active.append()
        started = active.clock.monotonic()
        try:
            reply = begin(work.ask(request))
            if isinstance(reply, Begun):
                async with active.in_hand(request.deadline_s):
                    reply = await reply
            refuse_halves(request, reply)
        except (TimeoutError, AgentError) as error:
            spent_s = active.clock.monotonic() - started
            raise _classify_failure(active, work, request, error, spent_s) from error
        spent_s = active.clock.monotonic() - started
        written, files = NOTHING_WRITTEN, ""
        if reply.folder is not None or work.written is not None or work.files is not None:
            written, files = await _left_by_call(work, reply)
    except TryFailed as failure:
        if failure.error.error_class == "transient":
            active.breakers.record_failure(callee.provider, active.clock.monotonic())
        else:
            active.breakers.record_answer(callee.provider)
        raise
    except BaseException:
        active.breakers.release_probe(callee.provider)
        raise
    finally:
        active.line.leave(request.key)
    if callee.provider:
        active.breakers.record_answer(callee.provider)
    return reply_event(active.redact, request, reply, written, files, spent_s)


async def _left_by_call(work: CallSeries, reply: Reply) -> tuple[Written, str]:
    """What a call left in its output, and the digest of what it left in its workspace."""
    written = NOTHING_WRITTEN
    if reply.folder is not None:
        # A scenario gives the folder itself.
        written = Written(folder=reply.folder)
    elif work.written is not None:
        written = await work.written()
    return written, await work.files() if work.files is not None and not reply.workspace else ""


def _admit(active: ActiveRun, work: CallSeries, request: Request) -> bool:
    """Stage the intent of a call with its maximum reserved, if there is room for it.

    False if it has to wait for other calls. Nothing is awaited between reading the limits and
    staging the intent, so that concurrent judges can't exceed a limit together. Raises CallFailed,
    LimitReached and Stopped.
    """
    if active.aborting:
        raise Stopped
    run, task = active.state, active.state.tasks.get(work.task)
    number_call(run, work, task, request)
    try:
        room = find_room(active, work.quote, request)
    except AgentError as error:
        raise CallFailed(error.error_class, error.message) from error
    except LimitReached as reached:
        reached.call = RefusedCall(
            agent=work.agent, place=work.place, task=work.task, reserved=reached.reserved
        )
        raise
    if room is None:
        return False
    left = room.left_s
    request.deadline_s = request.timeout_s if left is None else min(request.timeout_s, left)
    active.stage(intent_of(active, work, request, room.reserved))
    active.line.in_flight.append(request.key)
    return True


def intent_of(active: ActiveRun, work: CallSeries, request: Request, reserved: Usage) -> Intended:
    run = active.state
    intent = Intended(
        key=request.key,
        task=work.task,
        state=run.state,
        visit=run.visit,
        role=work.role,
        agent=work.agent,
        place=work.place,
        opinion=work.opinion,
        instead_of="" if work.task in run.tasks else work.instead_of,
        prompt=request.prompt,
        model=request.model,
        fallback=request.fallback,
        deadline_s=request.deadline_s if isfinite(request.deadline_s) else None,
        cap=request.cap,
        reserved=reserved,
        size=size_of(request, goes_on=work.goes_on),
    )
    if work.goes_on:
        intent = replace(intent, prompt="", goes_on=True)
    if work.digests:
        new = {name: digest for name, digest in work.digests.items() if name not in run.offered}
        intent = replace(intent, offered=new)
    return intent


def number_call(run: RunState, work: CallSeries, task: Task | None, request: Request) -> None:
    """Set the key of the next call for a piece of work, and its place among all of its agent."""
    sent = 0 if task is None else task.sent
    request.key = f"{run.run}:{work.task}:{sent + 1}{run.era}"
    if task is None:
        asked_at = run.asked_at.get(work.agent, NOTHING)
        request.task_index = sum(asked_at.values())
        request.place_index = asked_at.get(work.place, 0)
        return
    open_calls = sum(call.task == work.task for call in run.open_calls.values())
    request.task_index, request.place_index = task.index, task.place_index
    request.call_index = task.settled
    request.lost_index = task.sent - task.settled - open_calls


def _classify_failure(
    active: ActiveRun,
    work: CallSeries,
    request: Request,
    error: TimeoutError | AgentError,
    spent_s: float,
) -> TryFailed | CallFailed | AskedAboutDoubt | LimitReached:
    """The exception for a try without a reply.

    What becomes of the call is staged if a limit ended it, or if it is in doubt.
    """
    by_limit = isinstance(error, TimeoutError) and request.deadline_s < request.timeout_s
    if isinstance(error, TimeoutError):
        message = f"no answer within {request.deadline_s:g} s"
        error = AgentError("transient", message, charged=True, timed_out=True)
    doubt = _doubt(active, request, spent_s, by_limit=by_limit) if error.timed_out else None
    if doubt is not None:
        active.stage(doubt)
    elif by_limit:
        late = TryFailed(error, error.message, request.key, spent_s)
        active.stage(_bare_failure_event(active, work, late))
    if by_limit:
        return out_of_time(active)
    if doubt is not None and doubt.policy == "fail":
        return CallFailed("fatal", f"{refusal(work.agent)}: {doubt.reason}")
    if doubt is not None:
        return AskedAboutDoubt()
    message = storable_text(active.redact, error.message)
    message = message if len(message) <= KEPT_CHARS else shorten(message)
    failure = TryFailed(error, message, request.key, spent_s)
    if error.capped:
        active.stage(_bare_failure_event(active, work, failure))
        longer = room_for_longer(active, work.agent, work.quote, request)
        return AnswerCutOff(message, longer)
    return failure


def _doubt(
    active: ActiveRun, request: Request, spent_s: float, *, by_limit: bool
) -> InDoubt | None:
    """The event of a program that was ended, and may have done its work.

    None if it may be started again, and for models, because an answer that got lost does no harm.
    """
    called = called_in(active.program.machine, active.state.open_calls[request.key])
    policy = policy_of(called)
    is_left = by_limit and _goes_on_after_limit(active, spent_s)
    if called.if_in_doubt == "retry" or policy == "retry" or is_left:
        return None
    reason = f"it took longer than {getattr(called, 'timeout', request.timeout_s):g} s"
    if by_limit:
        reason = f"the limit `time` left it {request.deadline_s:.3g} s"
    return InDoubt(key=request.key, policy=policy, reason=reason, time_s=spent_s)


def _goes_on_after_limit(active: ActiveRun, spent_s: float) -> bool:
    """Whether the run's own time is over, and an edge leads on: the call is not made again then."""
    run, limit_s = active.state, active.limits.get("time")
    is_own = limit_s is not None and run.committed.time_s + spent_s >= limit_s
    return is_own and not run.then_used and bool(active.program.graph.on(run.state, "limit"))


def called_in(machine: Machine, call: Intended) -> State | Agent | Tool:
    """The definition of what a call calls."""
    if call.role == "run":
        return machine.states[call.state]
    agent, _, tool = call.agent.partition(".")
    return machine.agents[agent].callable_tools.get(tool, machine.agents[agent])


def policy_of(called: State | Agent | Tool) -> Policy:
    written: Policy | None = getattr(called, "on_in_doubt", None)
    return written or called.if_in_doubt


def refusal(agent: str) -> str:
    """Why a call in doubt gets no reply."""
    return f"the call to `{agent}` is in doubt and is not made again"


def _failure_event(
    active: ActiveRun, work: CallSeries, failure: TryFailed, index: int
) -> tuple[Failed, float]:
    """The event of a failed try, and the seconds until the callee may be asked again."""
    error, retry, now = failure.error, work.callees[index].retry, active.clock.now()
    task, is_last = active.state.tasks[work.task], index + 1 == len(work.callees)
    failures, unread = task.tries + 1, task.unread + error.unreadable
    wait_s = seconds_to_next_try(retry, failures, error.retry_after_s)
    has_try = has_try_left(retry, failures, unread) and (is_last or not error.unavailable)
    is_awaited, named = has_try and wait_s <= retry.max_backoff, error.retry_after_s
    failed = _bare_failure_event(active, work, failure).replace(
        retry_at=now + wait_s if error.error_class == "transient" and is_awaited else None,
        resume_at=None if named is None else now + named,
        unavailable=error.unavailable,
    )
    return failed, wait_s


def _bare_failure_event(active: ActiveRun, work: CallSeries, failure: TryFailed) -> Failed:
    error = failure.error
    usage = usage_of(work.role, error.tokens, error.cost_usd, failure.spent_s)
    if error.charged:
        reserved = active.state.open_calls[failure.key].reserved
        usage = usage_of(work.role, reserved.tokens, reserved.cost_usd, failure.spent_s).as_held
    if not error.sent:
        usage = Usage(time_s=usage.time_s)
    return Failed(
        key=failure.key,
        error_class=error.error_class,
        message=failure.message,
        unreadable=error.unreadable,
        usage=usage,
    )


def callees_for(active: ActiveRun, agent: Agent, author: str) -> tuple[Callee, ...]:
    """The callees for work on what a state authors, in order; of a ladder, the current rung."""
    return callees_of(agent, lambda asked: _rung(active, asked, author))


def _rung(active: ActiveRun, agent: ModelAgent, author: str) -> str:
    """The current model of a ladder; nothing is counted beyond the last."""
    if len(agent.model) == 1:
        return agent.model[0]
    if agent.climb == "revision":
        return agent.model_after(active.state.revised.get(author, 0))
    most, rounds = agent.rung * (len(agent.model) - 1), reversed(active.state.rounds)
    stalls = (r for r in rounds if r.report.stalled and r.judged.author == author)
    return agent.model_after(sum(1 for _ in islice(stalls, most)))


async def take_turn(
    active: ActiveRun,
    task: str,
    agent: str,
    callees: Sequence[Callee],
    wait_s: float | None = None,
    passed: Sequence[GivenUp] = (),
) -> int:
    """Wait until the next callee may be asked, and return its index; CallFailed if none is left.

    The wait after a failure in an earlier process is computed from the time of day. After a failure
    in this process, `wait_s` gives it, because the time of day may jump. `passed` are the callees
    that were skipped without a try.
    """
    if task in active.state.refused:
        raise CallFailed("fatal", refusal(agent))
    known = active.state.tasks.get(task)
    if known is None:
        return 0
    index = known.fallback if known.fallback < len(callees) else 0
    is_last = index + 1 == len(callees)
    wait_s = _wait_s(known, callees[index].retry, active.clock.now()) if wait_s is None else wait_s
    if _is_asked_again(known, callees[index], wait_s, is_last=is_last):
        await active.pause(wait_s)
        return index
    failed = known.failed
    may_help = failed is None or failed.error_class == "transient" or failed.unavailable
    if is_last or not may_help:
        raise nobody_left(known, callees, passed)
    return index + 1


def _wait_s(task: Task, retry: Retry, now: float) -> float:
    """Seconds until the callee that was asked last may be asked again.

    A wait for the next try was at most `max_backoff`; longer it can only seem because the time of
    day has gone back.
    """
    failed = task.failed
    until = max(failed.retry_at or now, failed.resume_at or now) if failed else now
    is_awaited = failed is not None and failed.retry_at is not None
    return min(max(0.0, until - now), retry.max_backoff if is_awaited else inf)


def _is_asked_again(task: Task, callee: Callee, wait_s: float, *, is_last: bool) -> bool:
    failed, retry = task.failed, callee.retry
    is_lost = failed is not None and bool(failed.begins_anew)
    # Only the tries of a program can be used up before it is known that its session is lost.
    tries = task.tries - (is_lost and (retry.attempts == 1 or not callee.model))
    if not has_try_left(retry, tries, task.unread):
        return False
    if failed is None or is_lost:
        return True
    if failed.error_class != "transient" or (failed.unavailable and not is_last):
        return False
    return wait_s <= retry.max_backoff


def nobody_left(
    known: Task | None, callees: Sequence[Callee], passed: Iterable[GivenUp]
) -> CallFailed:
    """The error if no callee is left: the last class, all failures, the earliest resume time."""
    tried = list(known.given_up) if known else []
    if known and known.tries:
        tried.append(GivenUp(known.fallback, known.tries, known.failed))
    by_place = {one.fallback: one for one in (*tried, *passed) if one.fallback < len(callees)}
    lost = [by_place[place] for place in sorted(by_place)]
    named = [one.failed.resume_at for one in lost if one.failed is not None]
    return CallFailed(
        lost[-1].failed.error_class if lost[-1].failed else "transient",
        "; ".join(_failure_line(one, callees) for one in lost),
        resume_at=min((time for time in named if time is not None), default=None),
    )


def _failure_line(lost: GivenUp, callees: Sequence[Callee]) -> str:
    failed = lost.failed
    message = failed.message if failed else "the call was in doubt too often"
    if lost.tries > 1 and (failed is None or failed.error_class == "transient"):
        message = f"{message} ({lost.tries} tries)"
    return f"fallback `{callees[lost.fallback].model}`: {message}" if lost.fallback else message


async def limit_time(active: ActiveRun, judging: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of rules, which are ended when the time is over, and at an abort.

    A verdict that comes too late does not count, so that only the limit is reported. If the run has
    gone on after a limit, the rules have no deadline. Raises LimitReached and Stopped.
    """
    left_s = None if active.state.then_used else seconds_left(active)
    started = active.clock.monotonic()
    judged, is_late = begin(judging()), False
    if isinstance(judged, Begun):
        try:
            async with active.in_hand(left_s) as deadline:
                judged = await judged
        except TimeoutError:
            if not deadline.expired():
                raise
            is_late = True
    spent_s = active.clock.monotonic() - started
    if not is_late and (left_s is None or spent_s < left_s):
        return cast("T", judged)
    reached = out_of_time(active, spent_s)
    reached.time_s = spent_s
    raise reached


class Begun(Value, Generic[T], frozen=True):
    """A coroutine that has run up to its first wait."""

    work: Coroutine[Any, Any, T]
    waits_for: object

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self.waits_for
        while True:
            try:
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                    waits_for = self.work.throw(error)
                else:
                    waits_for = self.work.send(sent)
            except StopIteration as ended:
                answer: T = ended.value
                return answer


def begin(work: Coroutine[Any, Any, T]) -> T | Begun[T]:
    """What a coroutine returns if it waits for nothing, and so needs no deadline; else the rest."""
    try:
        return Begun(work, work.send(None))
    except StopIteration as ended:
        answer: T = ended.value
        return answer
