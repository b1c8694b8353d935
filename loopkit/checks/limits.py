"""Checks of limits, which may not limit, bind nobody, or leave no room for a single call.

`billed-after-limit`, `unbounded-input`, `unknown-input`, `never-binds`, `no-call-fits`,
`unbounded-call`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from loopkit.checks.subject import Found, Subject, Texts, arrows, either, of_machine
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language.agents import Agent
from loopkit.language.agents.agent import AgentBase
from loopkit.language.agents.model import ModelAgent
from loopkit.language.datatypes.datatype import DataType, single_values
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.section import Bound
from loopkit.language.states.kinds import AgentState
from loopkit.language.template.rendering import parse_if_valid
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.edges import TOTAL, Edge, author_key, budget_key
from loopkit.machine.program import agents_called, may_call_tools
from loopkit.proof.outcomes.table import bounded_inputs
from loopkit.text import plural

if TYPE_CHECKING:
    from loopkit.agents.port import Request

MOST_REVISIONS = 1000


@of_machine("paths")
def check_limit_target(subject: Subject) -> Found:
    """No agent or judge works after `limits.then`, because the limit is used up there."""
    asking = {name: text for name in subject.states if (text := _request_text(subject, name))}
    then = subject.machine.limits.then or ""
    way = subject.shortest_path(then, asking.__contains__, lambda _: True)
    if way is not None:
        behind = f" (on the path {arrows(way)})" if len(way) > 1 else ""
        message = f"after a limit no agent may be called, but `{way[-1]}` {asking[way[-1]]}{behind}"
        remedy = "name a state from which only human, render, run and final states can be reached"
        yield subject.problem(("limits", "then"), "billed-after-limit", message, remedy)


def _request_text(subject: Subject, name: str) -> str:
    """`asks the agent …` for a state that asks an agent or a judge; else empty."""
    if agents := subject.states[name].asks:
        return f"asks the agent {either(agents)}"
    judge = next((rule.asks for rule in subject.rules_at.get(name, ()) if rule.asks), None)
    return f"asks the judge `{judge}`" if judge else ""


@of_machine()
def check_bounds(subject: Subject) -> Found:
    limits = subject.machine.limits
    bounds: list[tuple[DocPath, Bound | None]] = [
        (("limits", "revisions"), limits.revisions),
        (("limits", "total_revisions"), limits.total_revisions),
        *((("limits", "budgets", name), bound) for name, bound in limits.budgets.items()),
        *(((*edge.path, "max"), written.max) for edge, written in subject.revise_edges),
    ]
    inputs = dict(single_values(subject.scope.input, "input."))
    choices = [name for name, inner in inputs.items() if not _unfit(inner)]
    for path, bound in bounds:
        if not isinstance(bound, str):
            continue
        field = bound.rpartition(".")[2]
        remedy = f"declare it as `{field}: {{type: int, default: 2, minimum: 0, maximum: 5}}`"
        if bound not in inputs:
            what = "there is no input"
            yield subject.unknown(path, "unknown-input", what, bound, choices, remedy)
        elif fault := _unfit(inputs[bound]):
            message = f"`{bound}` can't bound revising: {fault}"
            yield subject.problem(path, "unbounded-input", message, remedy)


def _unfit(datatype: DataType) -> str:
    """Why values of a type can't be a number of revisions; else empty."""
    if datatype.scalar != "int":
        return "it is not a whole number"
    if datatype.optional:
        return "it may be none"
    if datatype.minimum is None or datatype.maximum is None:
        missing = [end for end in ("minimum", "maximum") if getattr(datatype, end) is None]
        return f"it has no `{'` and no `'.join(missing)}`"
    if datatype.minimum < 0 or datatype.maximum > MOST_REVISIONS:
        return f"its values must lie between 0 and {MOST_REVISIONS}"
    return ""


OF_CALLS = ("agent_calls", "tokens", "cost_usd")
REVISIONS: DocPath = ("limits", "revisions")


@of_machine("unneeded")
def check_never_binds(subject: Subject) -> Found:
    for path, message in (*_of_counters(subject), *_of_calls(subject)):
        remedy = "delete it" if path == REVISIONS else "lower it, or delete it"
        yield subject.problem(path, "never-binds", message, remedy)


def _of_counters(subject: Subject) -> Texts:
    limits = subject.machine.limits
    document = subject.source.document
    back = [edge for edge in subject.graph.edges if edge.back]
    known = bounded_inputs(subject.scope.input)

    def ends(bound: Bound) -> range:
        # An input without bounds is reported elsewhere.
        return range(bound, bound + 1) if isinstance(bound, int) else known.get(bound, range(1))

    caps = {counter: ends(cap) for counter, cap in subject.graph.caps.items()}
    own = {edge.id: caps[edge.id][-1] for edge in back if edge.id in edge.counters}
    resets = {counter for edge in back for counter in edge.resets}
    message = "never used up: the caps of its edges are reached first"
    roomy = {counter for counter, cap in caps.items() if _has_room(counter, back, own, cap[0])}
    for name in filter(lambda name: budget_key(name) in roomy, limits.budgets):
        yield ("limits", "budgets", name), f"the budget `{name}` is {message}"
    written: dict[DocPath, range] = {
        (*edge.path, "max"): caps[edge.id] for edge in back if edge.id in own
    }
    granted: dict[str, float] = {}
    for edge in back:
        first = edge.counters[0]
        granted[first] = granted.get(first, 0) + own.get(edge.id, inf)
    if limits.revisions is not None:
        written[REVISIONS] = ends(limits.revisions)
        if roomy >= {author_key(edge.target) for edge in back}:
            yield REVISIONS, message if back else "no revise edge uses it"
    if TOTAL not in caps:
        return
    most = sum(min(some, caps.get(key, range(1))[-1]) for key, some in granted.items())
    if not resets and caps[TOTAL][0] >= most:
        message = f"the total is never used up: all revise edges together allow at most {most}"
        yield ("limits", "total_revisions"), message
        return
    written |= {("limits", "budgets", name): ends(cap) for name, cap in limits.budgets.items()}
    for path, bound in written.items():
        if bound[0] > caps[TOTAL][-1] and document.node(path) is not None:
            yield path, "it is above `limits.total_revisions`, which is reached first"


def _has_room(counter: str, back: Sequence[Edge], own: Mapping[str, float], cap: float) -> bool:
    """Whether a counter is never used up, because its edges have caps that allow no more."""
    sharing = {edge.id for edge in back if counter in edge.counters}
    is_reset = any(not sharing.isdisjoint(edge.resets) for edge in back)
    return bool(sharing) and not is_reset and cap >= sum(own.get(edge, inf) for edge in sharing)


def _of_calls(subject: Subject) -> Texts:
    limits = subject.machine.limits
    if limits.tool_calls is not None and not may_call_tools(subject.machine):
        yield ("limits", "tool_calls"), "no agent that writes has tools that it could call"
    for name in OF_CALLS if not agents_called(subject.machine) else ():
        if getattr(limits, name) is not None:
            yield ("limits", name), "no state asks an agent or a judge"


NO_CALL_FITS = "no-call-fits"
DEAREST_TOKEN = 150 / 1_000_000
"""The maximum price of a token in USD, for nearly every model."""
SHORTEST_ANSWER = 20_000
"""More than the shortest one with what any effort lets a model think."""
ADDED_TOKENS = 4_000
"""More than what a chat format, tools and the form of a report add to a prompt."""
UNITS = {"agent_calls": "call", "tool_calls": "call", "tokens": "token", "cost_usd": ""}


@of_machine()
def check_tight_limits(subject: Subject, options: Mapping[str, str] = {}) -> Found:
    """A warning for each limit and agent, none of whose calls can be made under it.

    A limit that an option of the command line sets is told of by that, as nobody wrote it.
    """
    written = {name: getattr(subject.machine.limits, name) for name in UNITS}
    limited = [name for name in UNITS if written[name] is not None]
    family = agents_called(subject.machine) if limited else {}
    for name, (asked, agent) in product(limited, family.items()):
        limit, unit = written[name], UNITS[name]
        least = _least(subject, asked, agent, name, limit)
        if least is None or least <= limit:
            continue
        least = ceil(least * 10_000) / 10_000
        takes = plural(ceil(least), unit, ",") if unit else f"${least:.4f}"
        option = options.get(name)
        where = "this limit" if option is None else f"`{option} {_plain(limit)}`"
        enough = f"{name}:" if option is None else option
        whose = f"`{asked}`" if name != "tool_calls" else f"a tool of `{asked}`"
        message = f"no call of {whose} fits into {where}: the smallest may take {takes}"
        remedy = f"raise it to `{enough} {_plain(least)}` or more"
        if unit != "call" and isinstance(agent, ModelAgent):
            remedy += ", or give the agent a lower `max_tokens` or a cheaper model"
        elif name == "cost_usd" and agent.call_usd:
            remedy += ", or lower `price_per_run` of the agent if its runs cost less"
        if option is None:
            yield subject.problem(("limits", name), NO_CALL_FITS, message, remedy)
        else:
            yield Problem(NO_CALL_FITS, message, help=remedy, severity="warning")


OVERRUN = {
    "tokens": "if that is too much, give the program itself a limit",
    "cost_usd": "write the most that one run can cost as its `price_per_run`",
}


@of_machine()
def check_unbounded_calls(subject: Subject) -> Found:
    """A note for each limit that one call can exceed: nothing is reserved for what it reports."""
    limited = [name for name in OVERRUN if getattr(subject.machine.limits, name)]
    called = agents_called(subject.machine) if limited else {}
    for name, (asked, agent) in product(limited, called.items()):
        if name in agent.unbounded:
            what = f"nothing is reserved for the {name.removesuffix('_usd')} that it reports"
            alone = "so no other such call is made beside it"
            message = f"one call of `{asked}` can exceed this limit: {what}, {alone}"
            yield subject.problem(("limits", name), "unbounded-call", message, OVERRUN[name])


def _plain(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def _is_roomy(agent: AgentBase, name: str, limit: float, prompt: str) -> bool:
    """Whether a call of any model fits."""
    if not isinstance(agent, ModelAgent) or agent.price is not None:
        return False
    caps = [agent.params.get(cap) for cap in ("max_tokens", "max_completion_tokens")]
    longest = max([cap for cap in caps if isinstance(cap, int)], default=SHORTEST_ANSWER)
    # The JSON Schema of a record is several times as long as its notation.
    schema = 20 * len(repr(agent.schema_))
    tokens = longest + ADDED_TOKENS + 2 * len(f"{agent.system}{prompt}".encode()) + schema
    return limit >= (tokens if name == "tokens" else tokens * DEAREST_TOKEN)


def _least(subject: Subject, called: str, agent: Agent, name: str, limit: float) -> float | None:
    """How much of a limit an agent's smallest call may take; None if it is unknown."""
    if name == "agent_calls":
        return 1
    if name == "tool_calls":
        return 1 if agent.most_tool_calls else None
    prompt = min(map(_fixed_words, _prompts(subject, called)), key=len, default="")
    if any(_is_roomy(asked, name, limit, prompt) for asked in agent.in_turn):
        return None
    # Only a low limit needs what a call is made of.
    from loopkit.agents.port import Message, Request, Tool  # noqa: PLC0415

    smallest = Request(
        agent=called,
        place="",
        role="author",
        prompt=prompt,
        messages=[Message("user", prompt)],
        schema=_smallest_schema(subject, called, agent),
        tools=[Tool(tool, "", {}) for tool in agent.callable_tools],
    )
    found = [amount for asked in agent.in_turn for amount in _amounts(asked, name, smallest)]
    known = [amount for amount in found if amount is not None]
    return min(known) if len(known) == len(found) else None


def _prompts(subject: Subject, called: str) -> list[str]:
    states = subject.machine.states_of(AgentState).values()
    return [state.prompt for state in states if called in state.asks]


def _fixed_words(prompt: str) -> str:
    """What a template always prints, as far as that is easily seen."""
    template = parse_if_valid(prompt)
    parts = template.parts or () if template is not None else ()
    return "".join(part for part in parts if isinstance(part, str))


def _smallest_schema(subject: Subject, called: str, agent: Agent) -> Mapping[str, Any] | None:
    """The smallest schema with which a model is asked; None if it may be asked without one."""
    # Only a low limit needs the forms of reports.
    from loopkit.validators.judges.prompt import form_of  # noqa: PLC0415

    if _prompts(subject, called):
        return parse_fields(agent.schema_).schema if agent.schema_ else None
    machine = subject.machine
    schemas = [
        form_of(placed.rule, agent, machine.levels, {}, (), machine.origins).schema
        for placed in subject.rules_of(JudgeRule)
        if placed.rule.judge == called
    ]
    known = [schema for schema in schemas if schema is not None]
    is_always = known and len(known) == len(schemas)
    return min(known, key=lambda schema: len(str(schema))) if is_always else None


def _amounts(asked: AgentBase, name: str, smallest: Request) -> list[float | None]:
    """What the smallest call of one of an agent's callees may take, for each of its models."""
    if not isinstance(asked, ModelAgent):
        return [asked.unbounded.get(name, asked.call_usd if name == "cost_usd" else 0)]
    # Only a low limit needs the table of prices, which is long.
    from loopkit.agents.model.pricing import least_call  # noqa: PLC0415
    from loopkit.agents.port import Message  # noqa: PLC0415

    if asked.system:
        smallest = smallest.replace(messages=[Message("system", asked.system), *smallest.messages])
    return [getattr(least_call(asked, model, smallest), name) for model in asked.model]
