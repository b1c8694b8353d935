"""Players: who plays the agents, the commands and the person of a run; those that are scripted."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from loopkit.agents.command import CommandAgentPort
from loopkit.agents.model.agent import ModelAgentPort
from loopkit.agents.model.pricing import longest_answer, missing_prices
from loopkit.agents.port import (
    CUT_OFF,
    AgentError,
    AgentPort,
    Crashed,
    NotRunnable,
    OutsideAgentPort,
    Person,
    PlayedCommands,
    Reply,
    Request,
)
from loopkit.agents.program import ProgramAgentPort
from loopkit.document.document import DocPath
from loopkit.document.problems import closest, did_you_mean
from loopkit.engine.findings import note
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import HumanAnswer, LeftFolder, TokenUse, ToolCall
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.language.agents import Agent, CommandAgent, OutsideAgent, has_no_provider, meant_model
from loopkit.language.agents.agent import CalledAgent
from loopkit.language.agents.model import Fallback, ModelAgent
from loopkit.language.agents.program import ProgramAgent
from loopkit.language.machine import Machine
from loopkit.language.section import ErrorClass
from loopkit.language.states import State
from loopkit.language.states.each import ChildrenState
from loopkit.machine.graph import Graph
from loopkit.outside.processes import CommandNotStarted, CommandResult, CommandTimeout
from loopkit.outside.redaction import Redact, redactor
from loopkit.outside.workspace import OutsideWorkspace, UnusableWorkspace, prepare, resolve_inside
from loopkit.project import project
from loopkit.scenario.cases import Scenario
from loopkit.scenario.playable import Playable, misnamed_parts
from loopkit.scenario.script import (
    ANY,
    CHILDREN,
    CRASH,
    Attempts,
    ChildParts,
    Parts,
    Played,
    PlayedAnswer,
    PlayedFolder,
    PlayedTry,
    call_at,
)
from loopkit.text import one_line, plural
from loopkit.text.run_ids import place_of
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
        without_tools: Collection[int] = (),
    ) -> None:
        """`without_tools` are the fallbacks that can't call tools; 0 is the agent itself."""
        self._name = name
        self._part = part
        self._sleep = sleep
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
            findings=tuple(
                note(code, each) for code, said in played.notes.items() for each in said
            ),
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
    def __init__(self, commands: Mapping[str, tuple[tuple[PlayedTry, ...], ...]]) -> None:
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
        tries = results[index]
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
        return CommandResult(played.exit_code, *texts, False, played.workspace, left)


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


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Players:
    """The players in all runs of a definition, or in the one run of a scenario."""

    agents: Mapping[str, AgentPort]
    commands: PlayedCommands
    person: Person
    scenario: Scenario | None
    calls_models: bool
    """Whether real models can be asked, by the run or by its children."""
    redact: Redact
    """Removes the secrets of the environment, as it is now, from the texts of the players."""
    notify: Sequence[str]
    """The program that is started when a run stops; empty for none."""


def players_of(
    machine: Machine,
    scenario: Scenario | None,
    functions: Functions,
    person: Person,
    clock: Timekeeper,
) -> Players:
    sleep = clock.sleep if scenario else asyncio.sleep
    agents = assign_agents(machine, scenario, functions, sleep)
    names = {path.rpartition("/")[2] for path in _models_within(machine)}
    asks_model = any(isinstance(port, ModelAgentPort) for port in agents.values())
    return Players(
        agents=agents,
        commands=PlayedResults(scenario.commands if scenario else {}),
        person=ScriptedPerson(scenario.answers if scenario else {}, person, clock),
        scenario=scenario,
        calls_models=asks_model or (not scenario and not names <= functions.keys()),
        redact=redactor(os.environ, tuple(machine.key_names)),
        notify=() if scenario else machine.notify or project().notify,
    )


PORTS: Mapping[str, Callable[[Any], AgentPort]] = {
    ModelAgent.kind: ModelAgentPort,
    CommandAgent.kind: CommandAgentPort,
    ProgramAgent.kind: ProgramAgentPort,
    OutsideAgent.kind: OutsideAgentPort,
}
"""For each kind of agent that neither a scenario nor a function plays."""

Messages: TypeAlias = list[dict[str, str]]
"""The conversation that ends with the prompt: each with `role` and `content`."""
Returned: TypeAlias = str | Mapping[str, Any] | list[Any]
"""A text, or data for an agent with a `schema`."""
AgentFunction: TypeAlias = Callable[[str, Messages], Returned | Awaitable[Returned]]

Functions = Mapping[str, AgentFunction]
"""By the agent that each plays."""


def assign_agents(
    machine: Machine, scenario: Scenario | None, functions: Functions, sleep: Sleep = asyncio.sleep
) -> dict[str, AgentPort]:
    """Who plays each agent; `sleep` waits for the delays of the scenario."""
    ports: dict[str, AgentPort] = {}
    for name, agent in machine.agents.items():
        if scenario is not None and name in scenario.agents:
            part = scenario.agents[name]
            ports[name] = ScriptedAgent(name, part, sleep, without_tools=agent.without_tools)
        elif name in functions:
            ports[name] = FunctionAgentPort(name, agent, functions[name])
        else:
            ports[name] = PORTS[agent.kind](agent)
    return ports


@dataclass(frozen=True)
class AgentChanges:
    """Other models and options for agents, by name: of an agent in the machine and in all that it
    runs, or `STATE/AGENT` for what that state runs."""

    models: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    """What a million tokens of the model cost."""
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options by their dotted names; None takes one away."""
    base_urls: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self._by_name)

    @property
    def _by_name(self) -> tuple[Mapping[str, Any], ...]:
        return self.models, self.prices, self.params, self.base_urls

    def apply_to(self, machine: Machine) -> Machine:
        """The machine with these changes; raises NotRunnable."""
        own = self.known_in(machine)
        options = ("--model", "--price", "--param", "--base-url")
        for option, by, known in zip(options, self._by_name, own._by_name, strict=True):  # noqa: SLF001 - its own
            for name in by.keys() - known.keys():
                raise NotRunnable(_no_model(option, name, machine))
        return self._applied(machine)

    def known_in(self, machine: Machine) -> AgentChanges:
        """The changes of models that a machine has, or one that it runs."""
        paths = [f"/{path}" for path in _models_within(machine)]

        def is_known(name: str) -> bool:
            within, _, agent = f"/{name}".rpartition("/")
            return any(p.startswith(f"{within}/") and p.endswith(f"/{agent}") for p in paths)

        return AgentChanges(*(
            {name: one for name, one in by.items() if is_known(name)} for by in self._by_name
        ))  # fmt: skip

    def within(self, state: str) -> AgentChanges:
        """The changes in a machine that a state runs; those for it alone come last."""
        return AgentChanges(*(_within(f"{state}/", by) for by in self._by_name))

    def _applied(self, machine: Machine) -> Machine:
        if not self:
            return machine
        models = {name: machine.models.get(model, model) for name, model in self.models.items()}
        named = replace(self, models=models)
        agents = {
            name: named._changed(name, agent, machine.models)  # noqa: SLF001 - its own
            for name, agent in machine.model_agents.items()
        }
        states: dict[str, State] = dict(machine.states)
        for name, state in machine.states_of(ChildrenState).items():
            child = named.within(name)._applied(state.child)  # noqa: SLF001 - its own
            runs = state.machine.model_copy(update={"definition": child})
            states[name] = state.model_copy(update={"machine": runs})
        changed = {"agents": {**machine.agents, **agents}, "states": states}
        return machine.model_copy(update=changed)

    def _changed(self, name: str, agent: ModelAgent, aliases: Iterable[str]) -> ModelAgent:
        model = self.models.get(name)
        base_url = self.base_urls.get(name)
        if model is not None:
            if meant := meant_model(model):
                message = f"LiteLLM knows no provider `{model.partition('/')[0]}`"
                raise NotRunnable(f"`--model {name}={model}`: {message}; did you mean `{meant}`?")
            agent = agent.with_model_of(Fallback(model=(model,)))
        if base_url is not None:
            if not re.match("https?://.", base_url):
                remedy = "write an address that begins with http:// or https://"
                raise NotRunnable(f"`--base-url {name}={base_url}`: {remedy}")
            agent = agent.model_copy(update={"base_url": base_url})
        # At some addresses LiteLLM knows who answers.
        if model is not None and agent.base_url is None and has_no_provider(model):
            remedy = "write PROVIDER/MODEL, such as openai/gpt-5-mini"
            if near := closest(model, aliases):
                remedy = f"did you mean `{near}`?"
            message = f"LiteLLM knows no provider for the model `{model}`"
            raise NotRunnable(f"`--model {name}={model}`: {message}; {remedy}")
        if (price := self.prices.get(name)) is not None:
            if not 0 <= price < inf:
                raise NotRunnable(f"`--price {name}={price:g}` is not a price")
            agent = agent.model_copy(update={"price": price})
        options = dict(agent.params)
        for dotted, value in self.params.get(name, {}).items():
            options = _with_option(options, dotted.split("."), value)
        return agent.model_copy(update={"params": options})


def _within(prefix: str, by: Mapping[str, T]) -> dict[str, T]:
    own = {name.removeprefix(prefix): one for name, one in by.items() if name.startswith(prefix)}
    return {name: one for name, one in by.items() if "/" not in name} | own


def _models_within(machine: Machine, prefix: str = "") -> Iterator[str]:
    """The agents of a machine that are models, and of all that it runs, as `STATE/AGENT`."""
    yield from (f"{prefix}{name}" for name in machine.model_agents)
    for name, state in machine.states_of(ChildrenState).items():
        yield from _models_within(state.child, f"{prefix}{name}/")


def _with_option(options: Mapping[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = path
    if rest:
        inner = options.get(first)
        value = _with_option(inner if isinstance(inner, Mapping) else {}, rest, value)
    kept = {name: known for name, known in options.items() if name != first}
    return kept if value is None else {**kept, first: value}


def _no_model(option: str, name: str, machine: Machine) -> str:
    if name in machine.agents:
        one = machine.agents[name]
        kind = f"a program (`{one.kind}:`)" if one.is_called else "played from outside"
        return f"`{option} {name}=…`: `{name}` is {kind}, not a model"
    hint = did_you_mean(name, _models_within(machine)) or "none of the machine's agents is a model"
    return f"`{option} {name}=…`: the machine has no agent `{name}`; {hint}"


class FunctionAgentPort(AgentPort):
    """A plain or async function as an agent. What its calls spend is unknown."""

    def __init__(self, name: str, definition: Agent, function: AgentFunction) -> None:
        self._name = name
        self._price = definition.call_usd
        self._most = Usage(agent_calls=1, cost_usd=self._price or 0.0)
        self._function = function

    def quote(self, _: Request) -> Usage:
        return self._most

    async def ask(self, request: Request) -> Reply:
        """Return what the function returns; whatever it raises becomes an AgentError."""
        messages = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        returned: object
        try:
            if inspect.iscoroutinefunction(self._function):
                returned = self._function(request.prompt, messages)
            else:
                # It may wait for a server, and other runs must go on meanwhile.
                returned = await asyncio.to_thread(self._call, request.prompt, messages)
            if inspect.isawaitable(returned):
                returned = await returned
        except Exception as error:
            # The function did not reach a server; the next try may.
            is_transient = isinstance(error, ConnectionError | TimeoutError)
            message = f"agent `{self._name}` raised {type(error).__name__}: {error}"
            raise AgentError("transient" if is_transient else "fatal", message) from error
        if returned is None:
            what = f"agent `{self._name}` returned None"
            raise AgentError("fatal", f"{what}, neither text nor data: is a `return` missing?")
        text = returned if isinstance(returned, str) else self._as_json(returned)
        return Reply(text, cost_usd=self._price, has_no_tools=True)

    def _call(self, prompt: str, messages: Messages) -> object:
        try:
            return self._function(prompt, messages)
        except StopIteration as error:
            # A future refuses it and would never end. Coroutines raise RuntimeError too.
            raise RuntimeError("the function raised StopIteration") from error

    def _as_json(self, returned: object) -> str:
        try:
            return json.dumps(returned, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            what = f"agent `{self._name}` returned {type(returned).__name__}"
            raise AgentError("fatal", f"{what}, neither text nor data: {error}") from error


OWN_SERVERS = frozenset({"hosted_vllm", "lm_studio", "llamafile", "openai_like", "custom_openai"})
"""Providers that LiteLLM takes for OpenAI itself without an address."""
NOBODY = ChildParts()
PASSING = "{data: {verdict: pass, findings: []}}"
"""In a script, the reply of a judge that finds nothing."""


def refuse_misnamed(machine: Machine, scenario: Parts) -> None:
    """Raise NotRunnable where a scenario plays somebody whom the machine does not have.

    A place or a choice may belong to a definition with which the run began.
    """
    for one in misnamed_parts((), scenario, Playable(Graph(machine))):
        if one.code not in ("unknown-place", "unknown-choice"):
            place = ".".join(map(str, one.at))
            raise NotRunnable(f"the scenario's `{place}`: {one.message}; {one.help}")


@dataclass(frozen=True)
class Cast:
    called: str
    path: tuple[str, ...]
    """Where in a scenario its parts are written."""
    machine: Machine
    said: Parts
    limited: frozenset[str]
    """The limits on calls that hold for it, whichever machine of its family declares them."""


def refuse_unplayable(
    machine: Machine, scenario: Parts | None, functions: Functions, limits: Mapping[str, Any]
) -> None:
    """Raise NotRunnable where a call would be unexpected, or a limit could not be kept."""
    limited = frozenset(name for name, limit in limits.items() if limit is not None)
    casts = list(casts_of(machine, scenario, limited))
    _refuse_unknown_functions(casts, functions)
    is_played = any(cast.said.agents for cast in casts)
    for cast in casts:
        try:
            _refuse(cast, functions, is_played=is_played)
        except NotRunnable as error:
            told = f"in `{cast.called}`: {error}" if cast.called else str(error)
            raise NotRunnable(told) from error


def casts_of(
    machine: Machine,
    said: Parts | None = None,
    limited: frozenset[str] = frozenset(),
    called: str = "",
    path: tuple[str, ...] = (),
) -> Iterator[Cast]:
    """The casts of a run, and of each kind of child that the scenario tells apart."""
    said = said or NOBODY
    own = dict(machine.limits)
    limited |= {name for name in ("cost_usd", "tokens") if own[name] is not None}
    yield Cast(called, path, machine, said, limited)
    children = list(said.in_children)
    for name, state in machine.states_of(ChildrenState).items():
        others = ANY if state.has_keys else ""
        known = [(child.key, child.said) for child in children if child.state == name]
        if others not in (key for key, _ in known):
            known.append((others, NOBODY))
        for key, parts in known:
            within = (*path, CHILDREN, name, *filter(None, [key]))
            yield from casts_of(state.child, parts, limited, place_of(name, key, called), within)


def _refuse(cast: Cast, functions: Functions, *, is_played: bool) -> None:
    agents = cast.machine.agents.items()
    unplayed = {name: agent for name, agent in agents if name not in cast.said.agents}
    real = {name: agent for name, agent in unplayed.items() if name not in functions}
    if is_played and (models := cast.machine.model_agents.keys() & real.keys()):
        missing = [name for name in real if name in models]
        authors = {agent for asked in cast.machine.authoring.values() for agent in asked}
        replies = {name: "TEXT" if name in authors else PASSING for name in missing}
        parts = ", ".join(f"{name}: [{reply}]" for name, reply in replies.items())
        for key in reversed((*cast.path, "agents")):
            parts = f"{key if key.isidentifier() else json.dumps(key)}: {{{parts}}}"
        raise NotRunnable(
            f"the scenario plays some agents, but not {', '.join(map('`{}`'.format, missing))}, so "
            f"that a real model would be called; let it play them too, or none: add `{parts}`"
        )
    for name, agent in real.items():
        for who, one in agent.labelled_in_turn(name):
            _refuse_call(who, one)
        if "cost_usd" in cast.limited:
            for who, what, remedy in missing_prices(name, agent, is_limited=True):
                raise NotRunnable(f"`limits.cost_usd` can't be kept: {who} {what}; {remedy}")
        if "tokens" in cast.limited:
            _refuse_endless(name, agent)
    for limit in ("cost_usd", "tokens"):
        if limit in cast.limited:
            _refuse_uncounted(limit, unplayed, functions)


def _refuse_unknown_functions(casts: list[Cast], functions: Functions) -> None:
    known = dict.fromkeys(name for cast in casts for name in cast.machine.agents)
    for name, function in functions.items():
        if not callable(function):
            kind = type(function).__name__
            raise NotRunnable(f"a function has to play agent `{name}`, not {kind}")
        if name not in known:
            hint = did_you_mean(name, known) or "the machine has none"
            raise NotRunnable(f"the machine has no agent `{name}`; {hint}")


def _refuse_uncounted(limit: str, agents: Mapping[str, Agent], functions: Functions) -> None:
    """Refuse a limit on what a function spends; only a program's price is known."""
    for name in functions.keys() & agents.keys():
        if not agents[name].is_called:
            continue
        if limit != "cost_usd" or agents[name].call_usd is None:
            raise NotRunnable(
                f"`limits.{limit}` can't be kept: a function plays agent `{name}`, and what it "
                "spends is not known; limit `agent_calls` instead"
            )


def _refuse_call(who: str, one: CalledAgent) -> None:
    """Refuse a model on a server of the user's own without an address: prompts would go
    elsewhere."""
    rungs = one.models if getattr(one, "base_url", None) is None else ()
    for provider in {model.partition("/")[0] for model in rungs} & OWN_SERVERS:
        if not os.environ.get(f"{provider.upper()}_API_BASE"):
            raise NotRunnable(
                f"{who} asks a server of your own (`{provider}`): add its `base_url:`"
            )


def _refuse_endless(name: str, agent: Agent) -> None:
    for who, one in agent.labelled_in_turn(name):
        if isinstance(one, ModelAgent) and None in [
            longest_answer(one, model, is_limited=True) for model in one.model
        ]:
            raise NotRunnable(
                f"`limits.tokens` can't be kept: {who} may answer at any length; "
                "add `max_tokens` to its `params:`"
            )
