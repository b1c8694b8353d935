"""The Python API: the same runs, checks and plans as on the command line."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from loopkit.agents.players import AgentChanges, Functions, Returned
from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.checks import check as problems_of
from loopkit.checks import problems_in, refuse_errors
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.drive.active import ActiveRun, Listener
from loopkit.drive.answers import AnsweredTwice, AnswerRefused
from loopkit.drive.inbox import AnyAnswer
from loopkit.drive.notify import notify
from loopkit.drive.repair import Mend, new_limits
from loopkit.drive.stored_runs import note_of_change
from loopkit.engine.events import Event, Suspended, Waiting
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Delivery, HumanAnswer, Version
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState, Status
from loopkit.journal.errors import JournalError
from loopkit.journal.files import STATE_FOLDER, is_url
from loopkit.language.input_faults import InvalidInput, json_data
from loopkit.language.load import Loaded
from loopkit.language.load import load as load_file
from loopkit.machine.inputs import complete_input, partial_input
from loopkit.observability import observers_within
from loopkit.proof.bounds.configurations import NotDetermined
from loopkit.text import plural
from loopkit.text.run_ids import root_of
from loopkit.views.plan.planned import ANSWER_TOKENS, Plan, plan_of

Machine: TypeAlias = str | Path | Loaded
"""A machine file, or what `load` returned for one."""
Folder: TypeAlias = str | Path | None
T = TypeVar("T")

__all__ = [
    "AnswerRefused",
    "InvalidInput",
    "JournalError",
    "NotDetermined",
    "NotRunnable",
    "ProblemsFound",
    "Result",
    "answer",
    "arun",
    "check",
    "load",
    "plan",
    "reply",
    "resume",
    "run",
    "start",
]


@dataclass(frozen=True, slots=True)
class Result:
    """The state of a run when it ended, stopped, or began to wait for a person."""

    run: str
    """The id of the run, for `resume` and `answer`."""
    status: Status
    """`finished`, `waiting` for an answer, `suspended` or `cancelled`."""
    outcome: str | None
    """The name of the final state, once the run is finished."""
    success: bool
    although: str
    """Of a success: what had failed and nobody has read, in words; else empty."""
    result: Mapping[str, Any]
    """The artifacts of the final state by name: texts and data."""
    artifacts: Mapping[str, Version]
    """Of each of these which version it is, after how many attempts, and whether and why it is a
    fallback."""
    question: Waiting | None
    """The open question, if the run is waiting for an answer to a question of its own."""
    questions: Mapping[str, Waiting]
    """All open questions, of the run and of the runs that it has begun, by the run's id."""
    suspended: Suspended | None
    """Why the run stopped and what to do about it, if it is suspended."""
    usage: Usage
    """Calls, tokens, USD and seconds of work so far."""


def load(path: str | Path) -> Loaded:
    """Read a machine file; raises ProblemsFound with all mistakes in its syntax and fields."""
    return load_file(Path(path))


def check(machine: Machine) -> list[Problem]:
    """Everything that `loopkit check` reports about a machine, the most severe problems first.

    Never raises for a bad machine.
    """
    try:
        return problems_of(_ensure_loaded(machine))
    except ProblemsFound as found:
        return problems_in(found)


def plan(
    machine: Machine,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the language
    assume: Mapping[str, Fraction] | None = None,
    answer_tokens: int = ANSWER_TOKENS,
) -> Plan:
    """What a run would do and cost. The input may be partial.

    The typical cost assumes that each answer has `answer_tokens` tokens. `assume` maps facts to
    probabilities, such as `{"judge.valid": Fraction("0.6")}`, for expected values. Raises
    ProblemsFound, InvalidInput, and NotDetermined if a probability is missing.
    """
    loaded = _sound(machine)
    inputs = partial_input(loaded.machine, json_data("the input", input))
    return plan_of(loaded.machine, inputs, assume, answer_tokens)


def run(
    machine: Machine,
    input: Mapping[str, Any] | None = None,  # noqa: A002
    *,
    agents: Functions | None = None,
    state: Folder = STATE_FOLDER,
) -> Result:
    """Run a machine until it ends, waits for a person, or is suspended.

    `agents` maps names of agents to functions that are called in their place. Each takes the
    prompt and the messages that end with it (`{"role": …, "content": …}`), and returns a string,
    or data for an agent with a `schema`. It may be async. `state` is the folder of the journal;
    with None the run is kept in memory and cannot be resumed. Raises ProblemsFound for an unsound
    machine, InvalidInput, NotRunnable, and JournalError. May be called while an event loop runs.
    """
    return _run_to_end(arun(machine, input, agents=agents, state=state))


async def arun(
    machine: Machine,
    input: Mapping[str, Any] | None = None,  # noqa: A002
    *,
    agents: Functions | None = None,
    state: Folder = STATE_FOLDER,
) -> Result:
    """The same as `run`, as a coroutine."""
    loaded, inputs = _ready(machine, input)
    return await _drive(lambda app: app.start(loaded, inputs), state, agents)


async def start(
    machine: Machine,
    input: Mapping[str, Any] | None = None,  # noqa: A002
    *,
    agents: Functions | None = None,
    state: Folder = STATE_FOLDER,
) -> AsyncIterator[Event]:
    """Start a run and yield each of its events, not those of children, as soon as it is durable.

    The first one, `started`, has the id of the run. Breaking off the iteration stops the run,
    which can then be resumed. Takes the arguments of `run` and raises the same exceptions.
    """
    loaded, inputs = _ready(machine, input)
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    async with _open_app(state, agents, lambda stored: events.put_nowait(stored.event)) as app:
        active = await app.start(loaded, inputs)
        driven = asyncio.ensure_future(_drive_and_notify(app, active))
        driven.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await driven
        finally:
            driven.cancel()
            await asyncio.gather(driven, return_exceptions=True)


def resume(
    run: str,
    *,
    machine: Machine | None = None,
    models: Mapping[str, str] | None = None,
    prices: Mapping[str, float] | None = None,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    base_urls: Mapping[str, str] | None = None,
    limits: Mapping[str, Any] | None = None,
    agents: Functions | None = None,
    state: str | Path = STATE_FOLDER,
) -> Result:
    """Continue a stored run in exactly the state in which it stopped.

    `limits` sets new limits. With a `machine` the run continues with that definition instead of
    the stored one. `models` maps agents to other models, `prices` to the price of a million
    tokens, `params` to options by dotted name (None removes an option), and `base_urls` to the
    addresses of models; `STATE/AGENT` means the agent only in what that state runs. Without a
    `machine`, a RuntimeWarning says if the file has changed since the run read it. Raises
    ProblemsFound if the machine is unsound or does not fit what the run has done, NotRunnable if
    the run has already finished or can't have these limits, models or prices, and JournalError.
    """
    loaded = None if machine is None else _sound(machine)
    mend = Mend(loaded, AgentChanges(models or {}, prices or {}, params or {}, base_urls or {}))
    raised = new_limits(limits or {})

    async def go_on(app: App) -> ActiveRun:
        if loaded is None and (changed := await app.machine_file_if_changed(run)) is not None:
            note = f"{note_of_change(changed)}; to continue with the file, give it as `machine`"
            warnings.warn(note, RuntimeWarning, stacklevel=2)
        return await app.resume(run, raised, mend)

    return _run_to_end(_drive(go_on, state, agents))


def answer(
    run: str,
    choice: str,
    *,
    comment: str = "",
    form: Mapping[str, Any] | None = None,
    edit: str | None = None,
    origins: Mapping[str, str | Sequence[str]] | None = None,
    limits: Mapping[str, Any] | None = None,
    by: str = "person",
    question: str | None = None,
    agents: Functions | None = None,
    state: str | Path = STATE_FOLDER,
) -> Result:
    """Answer the open question of a run, and continue the run.

    `edit` is the new text of the artifact that the question offers for editing. `origins` maps
    findings of the last report to the states that have to fix them, `limits` sets higher
    `revisions` or `total_revisions`, and `by` says who answers, for the record. `question` is the
    id of the question you mean, `result.question.question`; without it, giving the same answer as
    to the previous question is refused. If it is a child that asks, the whole family continues.
    Raises AnswerRefused with the reason, NotRunnable if no question is open, and JournalError, also
    if another process drives the run and takes the answer.
    """
    try:
        fields = json_data("the form", form)
    except InvalidInput as error:
        raise AnswerRefused(str(error)) from error
    moved = {
        name: (states,) if isinstance(states, str) else tuple(states)
        for name, states in (origins or {}).items()
    }
    given = HumanAnswer(
        choice=choice,
        comment=comment,
        form=fields,
        edit=edit,
        origins=moved,
        limits=dict(limits or {}),
        by=by,
    )
    return _give(run, given, question, state, agents)


def reply(
    run: str,
    said: Returned | None = None,
    *,
    by: str = "person",
    question: str | None = None,
    agents: Functions | None = None,
    state: str | Path = STATE_FOLDER,
) -> Result:
    """Deliver the artifact that a run waits for from outside, and continue the run.

    `said` is a text, or data for an agent with a `schema`; None delivers what lies in the
    workspace, where the artifact is a file or a folder. `by` says who delivers, for the record.
    `question` is the id of the request you mean, `result.question.question`; without it, delivering
    the same as to the previous request is refused. If it is a child that waits, the whole family
    continues. What is delivered is judged like any other artifact, so the result may be waiting
    again. Raises AnswerRefused with the reason, NotRunnable if nothing is waited for, TypeError for
    what is not JSON data, and JournalError, also if another process drives the run and takes the
    delivery.
    """
    text = said if said is None or isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return _give(run, Delivery(text=text, by=by), question, state, agents)


def _give(
    run: str,
    given: AnyAnswer,
    question: str | None,
    state: str | Path,
    agents: Functions | None,
) -> Result:
    """Give it to a run, or to the only child that waits for such a thing, and continue the run."""

    async def go_on(app: App) -> ActiveRun | RunState:
        every = await app.questions(run, is_for_artifact=isinstance(given, Delivery))
        if len(every) > 1:
            raise AnswerRefused(
                f"`{run}` has {plural(len(every), 'open question')}: answer one of `questions` of "
                "the result by its id"
            )
        try:
            await app.post(every[0].state.run if every else run, given, question)
        except AnsweredTwice as twice:
            help_ = f"name it with `question=` to {twice.again}"
            raise AnswerRefused(f"{twice}; {help_}") from twice
        try:
            return await app.resume(run)
        except NotRunnable:
            # The same was given before, or by somebody who was faster and drove the run to its end.
            state = await app.state_of(root_of(run))
            if not state.is_over:
                raise
            return state

    return _run_to_end(_drive(go_on, state, agents))


async def _drive_and_notify(app: App, active: ActiveRun) -> RunState:
    """Drive a run until it stops, start its notifier, and return its state."""
    state = await app.drive(active)
    if fault := await notify(active):
        warnings.warn(fault, RuntimeWarning, stacklevel=2)
    return state


async def _drive(
    begin: Callable[[App], Coroutine[Any, Any, ActiveRun | RunState]],
    state: Folder,
    agents: Functions | None,
) -> Result:
    """The result of the run that is begun, or of one that is over already."""
    async with _open_app(state, agents) as app:
        begun = await begin(app)
        over = begun if isinstance(begun, RunState) else await _drive_and_notify(app, begun)
        return await _result(app, over)


_IDLE: list[dict[str, Engine]] = []
"""Engines that no run uses at the moment, by the digest of their definition, kept for reuse."""


@asynccontextmanager
async def _open_app(
    state: Folder, agents: Functions | None, *listeners: Listener
) -> AsyncIterator[App]:
    engines = _IDLE.pop() if _IDLE else {}
    app = App.open(
        state if state is None or is_url(state) else Path(state),
        functions=agents,
        listeners=listeners,
        observe=observers_within,
        engines=engines,
    )
    try:
        yield app
    finally:
        await app.close()
        _IDLE.append(engines)


def _ready(machine: Machine, given: Mapping[str, Any] | None) -> tuple[Loaded, dict[str, Any]]:
    loaded = _sound(machine)
    return loaded, complete_input(loaded.machine, json_data("the input", given))


def _ensure_loaded(machine: Machine) -> Loaded:
    return machine if isinstance(machine, Loaded) else load(machine)


def _sound(machine: Machine) -> Loaded:
    """Load a machine; raises ProblemsFound if it has errors."""
    loaded = _ensure_loaded(machine)
    refuse_errors(loaded)
    return loaded


async def _result(app: App, state: RunState) -> Result:
    finished = state.finished
    is_waiting = state.status == "waiting" or state.waits_for_children
    asked = await app.questions(state.run) if is_waiting else ()
    return Result(
        run=state.run,
        status="waiting" if is_waiting else state.status,
        outcome=finished.outcome if finished else None,
        success=finished is not None and finished.success,
        although=finished.although if finished else "",
        result=finished.result if finished else {},
        artifacts=finished.picked if finished else {},
        question=state.question if state.status == "waiting" else None,
        questions={one.state.run: one.question for one in asked},
        suspended=state.suspended,
        usage=await app.usage_of(state),
    )


def _run_to_end(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # In a notebook, for example: a loop that is running cannot be waited for, so use another one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
