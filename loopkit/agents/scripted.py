"""Scripted agents: prepared replies and faults, without a key, a network or a cost."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any, Protocol

from loopkit.agents.port import CUT_OFF, AgentError, AgentPort, Crashed, Person, Reply, Request
from loopkit.document.document import DocPath
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import HumanAnswer, LeftFolder, TokenUse, ToolCall
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.language.section import ErrorClass
from loopkit.outside.processes import CommandNotStarted, CommandResult, CommandTimeout
from loopkit.outside.workspace import OutsideWorkspace, UnusableWorkspace, prepare, resolve_inside
from loopkit.scenario.script import (
    CRASH,
    Attempts,
    Played,
    PlayedAnswer,
    PlayedCommand,
    PlayedFolder,
    call_at,
)
from loopkit.text import one_line, plural
from loopkit.validators.judges.prompt import reask_reason

UNREADABLE = "unreadable"
CAPPED = "capped"
SESSION_LOST = "session_lost"
TOO_LONG = "context_too_long"
FAULTS: Mapping[str, tuple[ErrorClass, str]] = {
    "rate_limit": ("transient", "429: rate limit reached"),
    "timeout": ("transient", "the provider did not answer in time"),
    "server_error": ("transient", "500: the provider failed"),
    "connection": ("transient", "the connection was refused"),
    UNREADABLE: ("transient", "the answer could not be read"),
    "authentication": ("fatal", "401: the API key is not valid"),
    "quota": ("fatal", "429: insufficient_quota"),
    TOO_LONG: ("fatal", "400: the prompt is longer than the model's context"),
    SESSION_LOST: ("fatal", "the session is not known any more"),
    "content_policy": ("fatal", "400: refused by the provider's content policy"),
    "bad_request": ("fatal", "400: the provider can't read the request"),
    CAPPED: ("fatal", f"{CUT_OFF} the longest that is asked for"),
    "missing_model": ("fatal", "404: the provider has no such model"),
    "region_outage": ("transient", "503: the provider's region is not available"),
    "refusal": ("content", "the agent says that it has no answer"),
}
UNAVAILABLE = frozenset({"quota", "missing_model", "region_outage"})
BROKEN: Mapping[str, Reply] = {
    "cut_off": Reply("The answer ends in the mid", cut_off=True),
    "invalid_json": Reply('{"verdict": "pass", "findings": ['),
}
LONGEST_REASON = 300
Sleep = Callable[[float], Awaitable[None]]


class Unprepared(AgentError):
    """The scenario does not have what was asked for; `at` is the reply that led to it, if any."""

    def __init__(self, message: str, at: DocPath = ()) -> None:
        super().__init__("fatal", message)
        self.at = at


class Timekeeper(Protocol):
    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class ScriptedAgent(AgentPort):
    def __init__(
        self,
        name: str,
        part: Attempts | Mapping[str, Attempts],
        sleep: Sleep = asyncio.sleep,
        *,
        is_model: bool = True,
        without_tools: Collection[int] = (),
    ) -> None:
        """`without_tools` are the fallbacks that can't call tools; 0 is the agent itself."""
        self._name = name
        self._part = part
        self._sleep = sleep
        self._is_model = is_model
        self._without_tools = without_tools

    def quote(self, request: Request) -> Usage:
        played = self._next(request)
        if (reserved := played.reserved) is not None:
            return Usage(agent_calls=1, tokens=reserved.tokens, cost_usd=reserved.cost_usd)
        return Usage(agent_calls=1, tokens=played.usage.tokens, cost_usd=played.cost_usd)

    async def ask(self, request: Request) -> Reply:
        played = self._next(request)
        await self._sleep(min(played.delay, request.deadline_s))
        if played.delay >= request.deadline_s:
            raise TimeoutError
        if played.is_refused:
            raise Unprepared(f"a call of `{self._name}` has no answer, and no limit refused it")
        if played.fault == CRASH:
            raise Crashed(f"the scenario plays that the process dies while `{self._name}` is asked")
        if played.fault == CAPPED and not self._is_model:
            raise Unprepared(
                f"the scenario plays `fault: {CAPPED}` for agent `{self._name}`, which is a "
                "program and gets no `max_tokens`; an answer that ends in the middle is "
                "`fault: cut_off`"
            )
        if played.fault is not None and played.fault in FAULTS:
            raise _failure(played, played.fault)
        _write_files(request.folder, played.files)
        return self._reply(played, request)

    def _reply(self, played: Played, request: Request) -> Reply:
        broken = BROKEN.get(played.fault or "")
        reply = broken.replace(text=played.message or broken.text) if broken else None
        reply = reply or Reply(played.text, said=played.said, cut_off=played.cut_off)
        spent = played.usage
        counted = TokenUse(input=spent.input, output=spent.output) if spent.is_counted else None
        left = _left_folder_fields(played.folder)
        tool_calls = tuple(
            ToolCall(id=f"call_{number}", name=one.name, arguments=one.text)
            for number, one in enumerate(played.tool_calls, 1)
        )
        return reply.replace(
            session=self._name if played.session else None,
            tokens=spent.tokens,
            counted=counted,
            cost_usd=played.cost_usd,
            played=not played.recorded,
            workspace=played.workspace,
            folder=LeftFolder(**left) if left else None,
            tool_calls=tool_calls,
            has_no_tools=not played.tools or request.fallback in self._without_tools,
        )

    def _next(self, request: Request) -> Played:
        attempts, index = self._part, request.task_index
        at: DocPath = ("agents", self._name)
        if isinstance(attempts, Mapping):
            attempts = attempts.get(request.place, ())
            index = request.place_index
            at = (*at, request.place)
        if index >= len(attempts):
            raise Unprepared(
                f"the scenario has {plural(len(attempts), 'attempt')} for agent `{self._name}` "
                f"at `{request.place}`, and attempt {index + 1} was asked for"
            )
        calls = attempts[index]
        position = call_at(calls, request.call_index, request.lost_index)
        if position >= len(calls):
            told = f"the scenario plays {plural(len(calls), 'call')} in attempt {index + 1} of "
            told += f"agent `{self._name}`, and another one was made"
            if not calls:
                raise Unprepared(told)
            raise Unprepared(told + _why_again(calls[-1], request), (*at, index, len(calls) - 1))
        return calls[position]


def _why_again(before: Played, request: Request) -> str:
    """Why a call was made after the last one that is played."""
    if before.fault is not None and before.fault in FAULTS:
        return f": tried again because it failed: {before.message or FAULTS[before.fault][1]}"
    if before.tool_calls:
        return ": asked again with the results of its tool calls"
    reason = reask_reason(request.prompt) if request.role == "judge" else request.prompt
    reason = one_line(reason, LONGEST_REASON).removesuffix(".")
    return f": asked again because {reason}" if reason else ""


def _failure(played: Played, fault: str) -> AgentError:
    error_class, message = FAULTS[fault]
    return AgentError(
        error_class,
        played.message or message,
        timed_out=fault == "timeout",
        retry_after_s=played.retry_after,
        cost_usd=played.cost_usd,
        tokens=played.usage.tokens,
        unreadable=fault == UNREADABLE,
        capped=fault == CAPPED,
        unavailable=fault in UNAVAILABLE,
        sent=played.sent,
        session_lost=fault in (SESSION_LOST, TOO_LONG),
    )


def _left_folder_fields(played: PlayedFolder | None) -> dict[str, Any] | None:
    if played is None:
        return None
    tree = played.tree or hashlib.sha256(played.change.encode()).hexdigest()
    return {**played.model_dump(), "tree": tree}


def _write_files(folder: Path | None, files: Mapping[str, str]) -> None:
    """Write what a scenario plays into its workspace; raises AgentError."""
    for relative, text in files.items():
        try:
            path = resolve_inside(prepare(folder or Path.cwd()), relative)
            prepare(path.parent)
            path.write_text(text, encoding="utf-8")
        except (OutsideWorkspace, UnusableWorkspace, OSError) as error:
            message = f"the scenario's file `{relative}` can't be written: {error}"
            raise AgentError("fatal", message) from error


class PlayedResults:
    def __init__(self, commands: Mapping[str, tuple[PlayedCommand, ...]]) -> None:
        self._commands = commands

    def plays(self, place: str) -> bool:
        return place in self._commands

    def result(
        self, place: str, index: int, folder: Path | None, earlier: int = 0
    ) -> CommandResult | None:
        """Raises CommandTimeout, CommandNotStarted, and Unprepared where no result is left."""
        if place not in self._commands:
            return None
        results = self._commands[place]
        if index >= len(results):
            raise Unprepared(
                f"the scenario has {plural(len(results), 'result')} for command `{place}`, "
                f"and result {index + 1} was asked for"
            )
        tries = (*results[index].earlier, results[index])
        if earlier >= len(tries):
            raise Unprepared(
                f"the scenario has {plural(len(tries), 'run')} of command `{place}` in result "
                f"{index + 1}, and another one was made"
            )
        played = tries[earlier]
        if played.fault == "timeout":
            raise CommandTimeout(place, 0.0, played.stdout, played.stderr, played.message)
        if played.fault == "not_found":
            raise CommandNotStarted(played.message or f"`{place}` can't be started: not found")
        _write_files(folder, played.files)
        texts = (played.stdout, played.stderr)
        left = _left_folder_fields(played.folder)
        return CommandResult(played.exit_code, *texts, 0.0, False, played.workspace, left)


class ScriptedPerson:
    """The person of a scenario; where it has no answer, the real person is asked."""

    def __init__(
        self, answers: Mapping[str, tuple[PlayedAnswer, ...]], otherwise: Person, clock: Timekeeper
    ) -> None:
        self._answers = answers
        self._otherwise = otherwise
        self._clock = clock

    async def answer(self, engine: Engine, run: RunState) -> HumanAnswer | None:
        question = run.question
        answers = self._answers.get(question.state, ()) if question else ()
        index = run.visits.get(run.state, 0) - 1
        if question is None or question.call is not None or index >= len(answers):
            return await self._otherwise.answer(engine, run)
        played = answers[index]
        left_s = inf if question.expires_at is None else question.expires_at - self._clock.now()
        await self._clock.sleep(max(0.0, min(played.after, left_s)))
        if played.after >= left_s or played.choice is None:
            return None
        return HumanAnswer(
            choice=played.choice,
            comment=played.comment,
            form=played.form,
            edit=played.edit,
            origins=played.origins,
            limits={**played.limits},
            by="script",
        )
