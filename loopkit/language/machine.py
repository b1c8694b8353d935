"""The whole machine, as its author declared it, and the fields that each place of it allows."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import ConfigDict, Field, Tag, model_validator

from loopkit.document.problems import did_you_mean
from loopkit.language.agents import Agent
from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.tools import McpServer
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import common_type, parse_fields, parse_record
from loopkit.language.facts import ERROR, WARNING, Severities
from loopkit.language.section import (
    Argv,
    Bound,
    ByForm,
    Duration,
    Id,
    Ids,
    Inputs,
    Noun,
    Text,
    fault,
)
from loopkit.language.states import STATE_KINDS, FinalState, State, each
from loopkit.language.states.kinds import FirstText, FirstValue, MadeData, MadeText
from loopkit.language.states.state import AgentChoice, StateBase
from loopkit.language.validators import Validator
from loopkit.text import up_in

Amount = Annotated[float, Field(ge=0, strict=False, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0)]
ModelName = Annotated[str, Field(min_length=1)]
_Kind = TypeVar("_Kind", bound=StateBase)
_Placed = TypeVar("_Placed", bound=Noun)
NO_FINDING = "none"
"""The word of a report for an item that is no finding, so that it is no severity."""


class Amounts(Noun):
    """Limits on what a run spends."""

    agent_calls: Whole | None = None
    """The maximum number of calls to agents and judges, including failed tries and re-asks."""
    tool_calls: Whole | None = None
    """The maximum number of tool calls."""
    tokens: Whole | None = None
    """The maximum number of input and output tokens together."""
    cost_usd: Amount | None = None
    """The maximum cost in USD."""
    time: Duration | None = None
    """The maximum working time, not counting waiting."""


class Limits(Amounts):
    """The limits of a run. Limits on revisions close edges; all others stop the work."""

    revisions: Bound | None = None
    """How often each author may be revised, over all edges that lead back to it. Default: 2 over
    those without `max` or `budget`. The first attempt is not a revision."""
    total_revisions: Bound | None = None
    """The cap of all revise edges of a run together; it is never reset."""
    budgets: dict[Id, Bound] = {}
    """Counters that several revise edges can share by `budget: NAME`."""
    feedback_items: int = Field(20, ge=1)
    """The maximum number of findings in one feedback."""
    stall: int = Field(3, ge=2)
    """The number of rounds without progress after which revising counts as stalled."""
    then: Id | None = None
    """The state to go to when a limit is reached for the first time."""


class Alert(Noun):
    """Thresholds for figures of a run. The run raises an alert once when it passes one."""

    correction_rate: float = Field(ge=0, lt=1, strict=False, allow_inf_nan=False)
    """The share of corrections among all works so far above which the run raises an alert."""


def _with_folder(schema: dict[str, Any]) -> None:
    """Allow the key `folder` beside the names of agents."""
    [(pattern, agent)] = schema["patternProperties"].items()
    schema["patternProperties"] = {pattern.replace("^", "^(?!folder$)"): agent}
    shared = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    schema["properties"] = {"folder": {"anyOf": [{"type": "string"}, shared]}}


class Machine(Noun):
    """A validate-and-revise loop: states, transitions, guards and feedback."""

    model_config = ConfigDict(json_schema_extra={"patternProperties": {"^x-": {}}})

    loopkit: Literal[1]
    """The version of the language."""
    name: Id | None = None
    """The name of the machine. Default: the file name without its extension, turned into an id."""
    description: str = ""
    """A summary of what the machine does, shown in plans, on pages and to MCP clients."""
    input: Inputs = {}
    """The inputs of a run, with their types."""
    artifacts: dict[Id, FirstValue] = {}
    """The artifacts that there are when a run starts, made of its input."""
    limits: Limits = Limits()
    """The limits of a run."""
    severities: Annotated[Ids, Field(min_length=1)] = (ERROR, WARNING)
    """The severities of findings, worst first."""
    blocking: Id | None = None
    """The mildest severity that blocks."""
    report_severity: dict[Id, Whole] = {}
    """Words for how severe a report is as a whole, each with the fewest blocking findings for it.
    Default: the worst severity of its findings, or `none`."""
    origins: Ids = ()
    """The states that can have injected a defect, in the order in which they work."""
    guards: dict[Id, str] = {}
    """Named guards."""
    patterns: dict[Id, str] = {}
    """Named regular expressions, for rules and fields."""
    models: dict[ModelName, ModelName] = {}
    """Names for models, usable wherever a model is expected."""
    mcp: dict[Id, McpServer] = {}
    """MCP servers whose tools agents may call."""
    agents: dict[Id, Agent] = Field({}, json_schema_extra=_with_folder)
    """The agents that write and judge: models, programs, or somebody outside. `folder` names a
    folder in which each Markdown file is one."""
    validators: dict[Id, Validator] = {}
    """Named rules and lists of rules."""
    feedback: dict[Id, Text] = {}
    """Named templates for feedback."""
    workspace: Workspace | None = None
    """The folder in which agents and commands work."""
    notify: Argv | None = None
    """The program to start when a run waits for a person, fails or ends, and its arguments."""
    alert: Alert | None = None
    """The thresholds at which a run raises an alert."""
    initial: Id | None = None
    """The state in which a run starts. Default: the first one."""
    states: Annotated[dict[Id, State], Field(min_length=1)]
    """The states, by name. The key that carries a state's work determines its kind."""

    @model_validator(mode="after")
    def _severities_block(self) -> Self:
        if len(set(self.severities)) < len(self.severities) or NO_FINDING in self.severities:
            message = f"the severities are not {len(self.severities)} different levels"
            remedy = f"name each once, worst first; `{NO_FINDING}` means that it is not a finding"
            raise fault("bad-severities", message, ("severities",), help=remedy)
        if self.severities != (ERROR, WARNING) and self.blocking is None:
            message = "nothing says which severities block"
            remedy = f"add `blocking: {self.severities[0]}`, or a milder one"
            raise fault("no-blocking", message, ("severities",), help=remedy)
        if self.blocking is not None and self.blocking not in self.severities:
            message = f"there is no severity `{self.blocking}`"
            remedy = did_you_mean(self.blocking, self.severities)
            raise fault("unknown-severity", message, ("blocking",), help=remedy)
        counts = (*self.report_severity.values(),)
        if counts and (counts[0] != 0 or any(a >= b for a, b in pairwise(counts))):
            message = "these numbers do not rise from 0"
            remedy = "write the fewest blocking findings for each: `{none: 0, major: 1}`"
            raise fault("bad-severities", message, ("report_severity",), help=remedy)
        return self

    @property
    def label(self) -> str:
        return self.name or "machine"

    @property
    def identity(self) -> str:
        """A text that is equal for equal machines, whatever files they were read from."""
        return self.model_dump_json()

    @property
    def levels(self) -> Severities:
        return Severities(self.severities, self.blocking or self.severities[0])

    @property
    def severity_words(self) -> tuple[str, ...]:
        """The words for how severe a report is as a whole, mildest first."""
        return (*self.report_severity,) or (NO_FINDING, *reversed(self.severities))

    def severity_of(self, found: Iterable[str], blocking: int) -> str:
        """How severe a report is as a whole, by the severities of its findings and their number."""
        if not self.report_severity:
            return min(found, key=self.levels.rank, default=NO_FINDING)
        return [word for word, least in self.report_severity.items() if blocking >= least][-1]

    def with_named_models(self) -> Self:
        """The machine with each model name of the table `models` replaced by its models."""
        named = {n: one.with_named_models(self.models) for n, one in self.model_agents.items()}
        return self.model_copy(update={"agents": {**self.agents, **named}})

    @property
    def model_agents(self) -> dict[str, ModelAgent]:
        return {n: agent for n, agent in self.agents.items() if isinstance(agent, ModelAgent)}

    @property
    def key_names(self) -> list[str]:
        """The environment variables that hold keys of its models and servers, whatever they are
        called."""
        asked = (one for agent in self.agents.values() for one in agent.in_turn)
        of_models = [one.key_env for one in asked if one.key_env is not None]
        return of_models + [name for server in self.mcp.values() for name in server.variables]

    @property
    def first_values(self) -> dict[str, FirstText | MadeData]:
        written = self.artifacts.items()
        return {n: FirstText(render=one) if isinstance(one, str) else one for n, one in written}

    @property
    def start(self) -> str:
        return self.initial or next(iter(self.states))

    @property
    def finals(self) -> dict[str, FinalState]:
        return self.states_of(FinalState)

    def states_of(self, noun: type[_Kind]) -> dict[str, _Kind]:
        return {name: state for name, state in self.states.items() if isinstance(state, noun)}

    @property
    def authoring(self) -> dict[str, tuple[str, ...]]:
        return {name: state.asks for name, state in self.states.items() if state.asks}

    @property
    def choices(self) -> dict[str, AgentChoice]:
        found = ((name, state.choice) for name, state in self.states.items())
        return {name: choice for name, choice in found if choice is not None}

    def agents_at(self, name: str) -> tuple[Agent, ...]:
        """The agents of which one writes in a state, as far as they are declared."""
        return tuple(self.agents[asked] for asked in self.states[name].asks if asked in self.agents)

    def may_be_kept(self, name: str) -> bool:
        """Whether a state may keep its artifact when it is entered again.

        It may if the state names all that the artifact depends on, or if the machine has origins,
        and the artifact can depend on nothing else.
        """
        state = self.states[name]
        asked = self.agents_at(name)
        knows_all = all(isinstance(agent, ModelAgent) and not agent.tools for agent in asked)
        is_asked_for = state.needed is not None or bool(self.origins)
        return is_asked_for and state.may_be_kept and knows_all

    def works_in_sight(self, name: str) -> bool:
        """Whether a state may work in a workspace that others see, and not in a run's own tree."""
        used = self.workspaces_at(name)
        return any(workspace is None or workspace.isolate == "none" for workspace in used)

    def workspaces_at(self, name: str) -> tuple[Workspace | None, ...]:
        """The workspaces of a state: one for each agent that it may ask, or one in all."""
        return tuple(self.workspace_at(name, agent) for agent in self.agents_at(name) or (None,))

    def workspace_at(self, name: str, agent: Agent | None) -> Workspace | None:
        """Where a state works, which asks an agent or none: in its own, the agent's, or this one's.

        None is the project folder.
        """
        of_agent = agent.workspace if agent is not None else None
        return self.states[name].own_workspace or of_agent or self.workspace

    def with_workspaces(self, change: Callable[[Workspace], Workspace]) -> Self:
        """The machine with each workspace changed, and the same of the machines that it runs."""

        def of(one: _Placed) -> _Placed:
            own = getattr(one, "workspace", None)
            return one if own is None else one.model_copy(update={"workspace": change(own)})

        states = {name: of(state) for name, state in self.states.items()}
        for name, state in self.states_of(each.ChildrenState).items():
            inner = state.child.with_workspaces(change)
            runs = state.machine.model_copy(update={"definition": inner})
            states[name] = state.model_copy(update={"machine": runs})
        agents = {name: of(agent) for name, agent in self.agents.items()}
        return of(self).model_copy(update={"states": states, "agents": agents})

    @property
    def levels_up(self) -> int:
        """How far above the folder of its file its workspaces lead, and those that it runs."""
        levels = [0]

        def look(own: Workspace) -> Workspace:
            levels.append(up_in(own.path).count(".."))
            return own

        self.with_workspaces(look)
        return max(levels)

    def data_type(self, name: str) -> DataType | None:
        """The type of the data that a state leaves: an answer's, a form's or its own; none for
        texts.

        Of the answers of several agents it is what they have in common.
        """
        state = self.states[name]
        if isinstance(state, MadeText | MadeData):
            return state.type_with(parse_record(self.input))
        agents, form = self.agents_at(name), state.asked_form
        if form is not None:
            return parse_record(form)
        schemas = [agent.schema_ for agent in agents if agent.schema_ is not None]
        return common_type(map(parse_fields, schemas)) if schemas else None


# A machine has states, and some of these have machines.
vars(each)["Machine"] = Machine


def allowed_fields(root: type[Noun], loc: Sequence[str | int]) -> list[str]:
    """The fields of the noun at a pydantic location whose union tags are written `<tag>`."""
    annotation: Any = root
    for step in loc:
        annotation = _member(annotation, step) if is_tag(step) else _inside(annotation, step)
    noun = _bare(annotation)
    return sorted(field_names(noun)) if _is_noun(noun) else []


def kinds_with(field: str) -> list[str]:
    return [kind for kind, noun in STATE_KINDS.items() if field in field_names(noun)]


def field_names(noun: type[Noun]) -> list[str]:
    """The fields of a noun as YAML spells them."""
    return [field.alias or name for name, field in noun.model_fields.items()]


def is_tag(step: str | int) -> bool:
    """Whether a step of a pydantic location is a union's tag, or its mark for a key."""
    return isinstance(step, str) and (step.startswith("<") or step == "[key]")


def _member(annotation: Any, tag: str | int) -> Any:
    tagged = (one for one in _members(annotation) if Tag(str(tag)) in get_args(one)[1:])
    return next(tagged, None)


def _members(annotation: Any) -> Iterator[Any]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if any(isinstance(extra, Tag) for extra in args[1:]):
            yield annotation
        forms = (extra.tagged(args[0]) for extra in args[1:] if isinstance(extra, ByForm))
        yield from _members(next(forms, args[0]))
    elif origin in (Union, types.UnionType):
        for member in args:
            yield from _members(member)


def _inside(annotation: Any, step: str | int) -> Any:
    bare = _bare(annotation)
    if _is_noun(bare):
        fields = {field.alias or name: field for name, field in bare.model_fields.items()}
        found = fields.get(str(step))
        if found is None or not found.metadata:
            return None if found is None else found.annotation
        return Annotated[found.annotation, *found.metadata]
    origin, args = get_origin(bare), get_args(bare)
    if origin is dict:
        return args[1]
    return args[0] if origin in (tuple, list) else None


def _bare(annotation: Any) -> Any:
    """The annotation without metadata, and the noun or container in `X | None`."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [m for m in get_args(annotation) if m is not type(None)]
        return _bare(members[0]) if len(members) == 1 else annotation
    return annotation


def _is_noun(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Noun)
