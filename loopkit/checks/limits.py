"""Checks of limits, and of revise edges that go back to the best version.

`billed-after-limit`, `unbounded-input`, `unknown-input`: limits that do not limit.
`never-judged`, `not-restored`, `last-shown`: `from: best` that can't work.
`never-binds`: a cap, a budget or a limit that no run can reach, because others close first.
`no-call-fits`, `unbounded-call`: a limit that no single call fits into, or that one can exceed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from loopkit.checks.references import revise_edges
from loopkit.checks.subject import Subject, arrows, leading_to, shortest_path
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language.agents import Agent
from loopkit.language.agents.agent import AgentBase
from loopkit.language.agents.model import ModelAgent
from loopkit.language.datatypes.datatype import DataType, single_values
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.section import Bound
from loopkit.language.states.kinds import AgentState
from loopkit.language.template.rendering import parse_if_valid
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.edges import TOTAL, Edge, budget_key
from loopkit.machine.program import agents_called, may_call_tools
from loopkit.proof.outcomes.table import bounded_inputs
from loopkit.text import plural

if TYPE_CHECKING:
    from loopkit.agents.port import Request

MOST_REVISIONS = 1000


def check_limit_target(subject: Subject) -> Iterator[Problem]:
    """No agent or judge works after `limits.then`, because the limit is used up there."""
    then = subject.machine.limits.then
    if then is None or then not in subject.states:
        return
    way = shortest_path(
        subject.graph, then, lambda name: bool(_request_text(subject, name)), lambda _: True
    )
    if way is not None:
        behind = f" (on the path {arrows(way)})" if len(way) > 1 else ""
        request = _request_text(subject, way[-1])
        message = f"after a limit no agent may be called, but `{way[-1]}` {request}"
        remedy = "name a state from which only human, render, run and final states can be reached"
        path = ("limits", "then")
        yield subject.problem(path, "billed-after-limit", message + behind, remedy)


def _request_text(subject: Subject, name: str) -> str:
    """`asks the agent …` for a state that asks an agent or a judge; else empty."""
    agents = subject.states[name].asks
    if agents:
        return f"asks the agent {' or '.join(map('`{}`'.format, agents))}"
    rules = subject.rules_at.get(name, ())
    judge = next((rule.asks for rule in rules if rule.asks), None)
    return f"asks the judge `{judge}`" if judge else ""


def check_bounds(subject: Subject) -> Iterator[Problem]:
    limits = subject.machine.limits
    bounds: list[tuple[DocPath, Bound | None]] = [
        (("limits", "revisions"), limits.revisions),
        (("limits", "total_revisions"), limits.total_revisions),
        *((("limits", "budgets", name), bound) for name, bound in limits.budgets.items()),
        *(((*edge.path, "max"), written.max) for edge, written in revise_edges(subject)),
    ]
    for path, bound in bounds:
        if isinstance(bound, str):
            yield from _bound(subject, path, bound)


def _bound(subject: Subject, path: DocPath, bound: str) -> Iterator[Problem]:
    datatype = dict(single_values(subject.scope.input, "input.")).get(bound)
    field = bound.rpartition(".")[2]
    remedy = f"declare it as `{field}: {{type: int, default: 2, minimum: 0, maximum: 5}}`"
    if datatype is None:
        known = single_values(subject.scope.input, "input.")
        choices = [name for name, inner in known if not _unfit(inner)]
        near = did_you_mean(bound, choices) if choices else remedy
        message = f"there is no input `{bound}`"
        yield subject.problem(path, "unknown-input", message, near)
    elif fault := _unfit(datatype):
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


def check_from_best(subject: Subject) -> Iterator[Problem]:
    for edge in subject.graph.edges:
        if not edge.from_best or edge.target not in subject.states:
            continue
        source, state = edge.source, subject.states[edge.source]
        if subject.judges.keys().isdisjoint(leading_to(subject.graph, {source})):
            message = f"no `validate` state comes before `{source}`, so no version is the best"
            remedy = "judge the artifact on the way, or delete `from`"
            yield subject.problem(from_path(edge), "never-judged", message, remedy)
        if state.waits and not state.picks_best and any(state.shown):
            message = f"`{source}` shows the last version, and the author would get the best one"
            remedy = "add `pick: best` to the state, or delete `from`"
            yield subject.warning(from_path(edge), "last-shown", message, remedy)
        for author in rewriting_authors(subject, edge):
            yield from _not_restored(subject, edge, author)


def from_path(edge: Edge) -> DocPath:
    return (*edge.path, "from")


def rewriting_authors(subject: Subject, edge: Edge) -> Iterator[str]:
    """The authors before an edge that may have worked again since an earlier version."""
    before = leading_to(subject.graph, {edge.source})
    yield from sorted(subject.graph.written.keys() & subject.graph.repeated & before)


def _not_restored(subject: Subject, edge: Edge, author: str) -> Iterator[Problem]:
    machine, path = subject.machine, from_path(edge)
    state = machine.states[author]
    output = machine.states[author].output_at(author)
    if state.child is not None:
        message = f"`{author}` runs other machines, and what these have done can't be taken back"
        remedy = "delete `from`, or go back to the best version inside of the other machine"
        yield subject.problem(path, "not-restored", message, remedy)
    elif output is not None and output.file is not None:
        message = f"the file that `{author}` writes stays as the last attempt has left it"
        remedy = "make its folder the artifact, in an isolated workspace: `output: {name: …, "
        yield subject.problem(path, "not-restored", message, f"{remedy}folder: …}}`")
    elif _is_judged_by_files(subject, author):
        message = f"the files that `{author}` leaves stay as the last attempt has left them"
        remedy = "make the folder its artifact: `output: {name: …, folder: …}`"
        yield subject.warning(path, "not-restored", message, remedy)


def _is_judged_by_files(subject: Subject, author: str) -> bool:
    """Whether an author changes files that a rule judges, and only its reply is the artifact."""
    output = subject.states[author].output_at(author)
    agents = subject.machine.agents_at(author)
    if output is None or output.is_left or not any(agent.works_on_files for agent in agents):
        return False
    judging = {name for placed in subject.rules_of(CommandRule) for name in placed.judged_at}
    return not judging.isdisjoint(subject.graph.judged.get(output.name, ()))


OF_CALLS = ("agent_calls", "tokens", "cost_usd")


def check_never_binds(subject: Subject) -> Iterator[Problem]:
    for path, message in (*_of_counters(subject), *_of_calls(subject)):
        yield subject.warning(path, "never-binds", message, "lower it, or delete it")


def _of_counters(subject: Subject) -> Iterator[tuple[DocPath, str]]:
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
    for name in limits.budgets:
        key = budget_key(name)
        sharing = {edge.id for edge in back if key in edge.counters}
        together = sum(own.get(edge, inf) for edge in sharing)
        if sharing and not resets & sharing and caps[key][0] >= together:
            message = "never used up: the caps of its edges are reached first"
            yield ("limits", "budgets", name), f"the budget `{name}` is {message}"
    written: dict[DocPath, range] = {
        (*edge.path, "max"): caps[edge.id] for edge in back if edge.id in own
    }
    places = {place for place in written if document.node(place) is not None}
    if "revisions" in limits.model_fields_set and len(places) == len(written):
        yield ("limits", "revisions"), "no revise edge uses it"
    if TOTAL not in caps:
        return
    granted: dict[str, float] = {}
    for edge in back:
        first = edge.counters[0]
        granted[first] = granted.get(first, 0) + own.get(edge.id, inf)
    most = sum(min(some, caps.get(key, range(1))[-1]) for key, some in granted.items())
    if not resets and caps[TOTAL][0] >= most:
        message = f"the total is never used up: all revise edges together allow at most {most}"
        yield ("limits", "total_revisions"), message
        return
    written |= {("limits", "budgets", name): ends(cap) for name, cap in limits.budgets.items()}
    written["limits", "revisions"] = ends(limits.revisions)
    for path, bound in written.items():
        if bound[0] > caps[TOTAL][-1] and document.node(path) is not None:
            yield path, "it is above `limits.total_revisions`, which is reached first"


def _of_calls(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    limits = subject.machine.limits
    if limits.tool_calls is not None and not may_call_tools(subject.machine):
        yield ("limits", "tool_calls"), "no agent that writes has tools that it could call"
    if not agents_called(subject.machine):
        for name in OF_CALLS:
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


def check_tight_limits(subject: Subject, options: Mapping[str, str] = {}) -> Iterator[Problem]:
    """A warning for each limit and agent, none of whose calls can be made under it.

    A limit that an option of the command line sets is told of by that, as nobody wrote it.
    """
    limits = subject.machine.limits
    written = {name: getattr(limits, name) for name in UNITS}
    family = agents_called(subject.machine) if any(n is not None for n in written.values()) else {}
    for name, unit in UNITS.items():
        limit = written[name]
        for asked, agent in family.items() if limit is not None else ():
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
                yield subject.warning(("limits", name), NO_CALL_FITS, message, remedy)
            else:
                yield Problem(NO_CALL_FITS, message, help=remedy, severity="warning")


def check_unbounded_calls(subject: Subject) -> Iterator[Problem]:
    """A note for each limit that one call can exceed: nothing is reserved for what it reports."""
    remedies = {
        "tokens": "if that is too much, give the program itself a limit",
        "cost_usd": "write the most that one run can cost as its `price_per_run`",
    }
    for name, remedy in remedies.items():
        if not getattr(subject.machine.limits, name):
            continue
        for asked, agent in agents_called(subject.machine).items():
            if name in agent.unbounded:
                what = f"nothing is reserved for the {name.removesuffix('_usd')} that it reports"
                alone = "so no other such call is made beside it"
                message = f"one call of `{asked}` can exceed this limit: {what}, {alone}"
                path = ("limits", name)
                yield subject.problem(path, "unbounded-call", message, remedy, severity="note")


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
        reserved = asked.call_usd if name == "cost_usd" else 0
        return [asked.unbounded.get(name, reserved)]
    # Only a low limit needs the table of prices, which is long.
    from loopkit.agents.model.pricing import least_call  # noqa: PLC0415
    from loopkit.agents.port import Message  # noqa: PLC0415

    if asked.system:
        smallest = smallest.replace(messages=[Message("system", asked.system), *smallest.messages])
    return [getattr(least_call(asked, model, smallest), name) for model in asked.model]
