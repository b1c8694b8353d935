"""Checks that each run can go on, and comes to an end: of the ways out of states, and of limits.

`stuck`, `no-open-choice`, `dead-transition`, `never-binds`, `unreachable-state`, `no-effect`,
`no-way-to-the-end`, `no-final-state`, `forward-cycle`, `revise-ahead`, `resets-without-total`,
`billed-after-limit`, `unbounded-input`, `unknown-input`, `no-call-fits`, `unbounded-call`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import ceil
from typing import TYPE_CHECKING, Any

from loopkit.checks.subject import (
    Found,
    Subject,
    arrows,
    either,
    of_edges,
    of_machine,
    target_path,
)
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language.agents import Agent
from loopkit.language.agents.agent import AgentBase
from loopkit.language.agents.model import ModelAgent
from loopkit.language.datatypes.datatype import DataType, single_values
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.facts import VERDICT
from loopkit.language.guard.evaluate import truth
from loopkit.language.machine import Machine
from loopkit.language.section import Bound
from loopkit.language.states.kinds import AgentState
from loopkit.language.template.rendering import parse_if_valid
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.edges import TOTAL, Edge, author_key, budget_key
from loopkit.machine.program import agents_called, may_call_tools
from loopkit.proof.bounds.configurations import Endless, present_of
from loopkit.proof.bounds.exploring import explore, untaken_if_raised
from loopkit.proof.bounds.result import Bounds, Stuck, values_in_words
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.table import ROOM, Exit, Row, Table
from loopkit.text import plural

if TYPE_CHECKING:
    from loopkit.agents.port import Request
    from loopkit.engine.state import RunState

STUCK, SHUT, DEAD, AHEAD = "stuck", "no-open-choice", "dead-transition", "revise-ahead"
CONFIRMED = frozenset({STUCK, SHUT})
"""Problems found in the rows of a state, which hold only if a run produces such a row."""
MAY_BE_STUCK = "may be stuck: its guards leave more cases open than can be enumerated"
MOVE_UP = "delete it, or move it up"
LAST = "add `- {target: STATE}` as the last one"


@of_machine()
def check_exits(subject: Subject) -> Found:
    for name, table in subject.tables.items():
        if table is None or not table.exits:
            continue
        held = next((row for row, _, is_left in table.taken if not is_left), None)
        shut = table.without_choice() if held is None and table.is_human else None
        if held is not None:
            path: DocPath = ("states", name, "transitions")
            reason = _facts_in_words(table, _reduce(table, held)) if table.is_stuck(held) else ""
            how = f"is stuck: no transition is open{f' when {reason}' if reason else ''}"
            message = f"`{name}` {how if table.is_stuck(held) else MAY_BE_STUCK}"
            yield subject.problem(path, STUCK, message, LAST)
        elif shut is not None:
            path = ("states", name, "choices")
            message = f"no choice is open when {_facts_in_words(table, shut) or 'it is asked'}"
            yield subject.problem(path, SHUT, message, "offer a choice that leads forward")
        passed = {exit_.edge.id for _, exits, _ in table.taken for exit_ in exits}
        for exit_ in table.exits:
            if exit_.edge.id not in passed and not _is_harmless(subject, exit_.edge):
                reason, remedy = _why_dead(table, exit_)
                message = f"this transition is never taken: {reason}"
                yield subject.problem(exit_.edge.path, DEAD, message, remedy)


def _reduce(table: Table, row: Row) -> Row:
    """Remove the facts that do not matter for being stuck."""
    named = {name for exit_ in table.exits if exit_.guard for name in exit_.guard.names}
    facts = sorted(row, key=lambda fact: (fact in named, fact in (VERDICT, "choice")))
    kept = dict(row)
    for fact in facts:
        fewer = {other: value for other, value in kept.items() if other != fact}
        if table.is_stuck(table.with_derived_facts(fewer)):
            kept = fewer
    return kept


def _facts_in_words(table: Table, row: Row) -> str:
    shown = (name for name in row if not name.startswith(ROOM) and name != "cap_reached")
    parts = [fact_in_words(name, row[name]) for name in shown]
    return " and ".join([*parts, *_rooms(table, row)])


def fact_in_words(name: str, value: object) -> str:
    value = sorted(map(str, value)) if isinstance(value, frozenset) else value
    return f"`{name}` is {'none' if value is None else json.dumps(value, ensure_ascii=False)}"


def _rooms(table: Table, row: Row) -> Iterator[str]:
    row = table.with_derived_facts(row)
    is_capped = table.is_capped(row)
    if is_capped:
        yield "no revisions are left"
        return
    for exit_ in table.exits:
        if exit_.edge.back and truth(exit_.may_lead, row) is False:
            yield f"no revision of `{exit_.edge.target}` is left"
    if is_capped is False:
        yield "revisions are left"


def _is_harmless(subject: Subject, edge: Edge) -> bool:
    """Whether an edge is a default at the end, or is switched off by a cap of 0."""
    is_last = edge is subject.graph.on(edge.source, "done")[-1]
    is_off = any(subject.graph.caps.get(counter) == 0 for counter in edge.counters)
    return is_off or (is_last and edge.guard is None and not edge.back)


def _why_dead(table: Table, exit_: Exit) -> tuple[str, str]:
    before = table.exits[: table.exits.index(exit_)]
    if any(other.edge.guard is None and not other.edge.back for other in before):
        return "one before it has no guard", MOVE_UP
    if exit_.edge.origin is not None and not table.has_origin(exit_.edge.origin):
        reason = f"nothing that is found here can have the origin `{exit_.edge.origin}`"
        return reason, "leave the origin out, or delete the transition"
    if not table.may_hold(exit_.wanted):
        return "its guard is never true here", "correct the guard, or delete the transition"
    if not table.may_hold(exit_.wanted, exit_.allowed):
        return 'only a report with the verdict "fail" is sent back', "write `target:`, or delete it"
    return "the ones before it cover every case", MOVE_UP


def confirm_by_exploring(subject: Subject, problems: Sequence[Problem]) -> list[Problem]:
    """The problems of a machine after exploring all its runs.

    Where a run really is stuck, or a person has no open choice, the message names the path. A
    problem that no run reaches is dropped; if this cannot be decided, it becomes a warning.
    Transitions that no run takes and budgets that no run uses up are added. A machine with other
    errors is not explored.
    """
    if any(p.severity == "error" and p.code not in CONFIRMED for p in problems):
        # Where an edge goes back to what comes later, the other edges only seem to be wrong.
        caused = {_state_of(p) for p in problems if p.code == AHEAD}
        of_edges = (DEAD, *CONFIRMED)
        return [p for p in problems if p.code not in of_edges or _state_of(p) not in caused]
    try:
        bounds = explore(subject, measures=())
    except Endless:
        return list(problems)
    known = {(problem.code, problem.span) for problem in problems}
    confirmed = [*_confirm(bounds, problems)]
    # `--set` may raise a limit while a run goes on.
    never = untaken_if_raised(subject) if bounds.untaken else ()
    more = [*_further_stuck(subject, bounds, confirmed), *_untaken(subject, never, bounds)]
    if not any(problem.code in (DEAD, *CONFIRMED) for problem in (*confirmed, *more)):
        # Otherwise consequences of these problems would be reported again.
        more += _check_caps(subject, never, bounds)
    return [*confirmed, *(problem for problem in more if (problem.code, problem.span) not in known)]


def _state_of(problem: Problem) -> str:
    return problem.path.split(".")[1]


def _confirm(bounds: Bounds, problems: Sequence[Problem]) -> Found:
    stuck = {found.state: found for found in bounds.stuck}
    for problem in problems:
        found = stuck.get(_state_of(problem)) if problem.code in CONFIRMED else None
        doubt = problem.message.replace("` is stuck: no transition is open", "` may be stuck")
        if problem.code not in CONFIRMED:
            yield problem
        elif found is not None and found.is_reached:
            message = problem.message if found.is_sure else doubt
            yield problem.replace(message=f"{message} ({how_reached(found)})")
        elif found is not None:
            # The machine has too many configurations to explore all.
            remedy = "add `- {target: STATE}` as the last transition, or lower the caps"
            message = f"could not be decided: {doubt}"
            yield problem.replace(message=message, severity="warning", help=remedy)


def _further_stuck(subject: Subject, bounds: Bounds, confirmed: Sequence[Problem]) -> Found:
    """States in which runs are stuck although their own rows do not show it."""
    states = {_state_of(problem) for problem in confirmed if problem.code in CONFIRMED}
    for found in bounds.stuck:
        if found.state not in states and found.is_reached:
            how = "is stuck: no transition is open" if found.is_sure else MAY_BE_STUCK
            message = f"`{found.state}` {how} ({how_reached(found)})"
            path = ("states", found.state, "transitions")
            yield subject.problem(path, STUCK, message, LAST)


def how_reached(found: Stuck) -> str:
    spent = {
        f"revisions by {name}" if "[" in name else name.replace("revisions:", "revisions of "): n
        for name, n in found.counters.items()
        if n
    }
    held = values_in_words({**found.inputs, **spent})
    way = arrows([*(step.state for step in found.way), found.state])
    return f"a run gets there by {way}" + (f", with {held}" if held else "")


def _untaken(subject: Subject, never: Sequence[str], bounds: Bounds) -> Found:
    for edge_id in bounds.untaken:
        edge = subject.graph.by_id[edge_id]
        if edge_id in never and edge.event == "done" and not _is_harmless(subject, edge):
            message = "no run takes this transition: it is closed, or another one comes first, "
            message += f"whenever a run is in `{edge.source}`"
            remedy = "correct the guard or the order, or delete the transition"
            yield subject.problem(edge.path, DEAD, message, remedy)


def _check_caps(subject: Subject, never: Sequence[str], bounds: Bounds) -> Found:
    limits = subject.machine.limits
    opened = [subject.graph.by_id[edge] for edge in bounds.untaken if edge not in never]
    unknown = {counter for edge in opened for counter in edge.counters}
    """The counters of edges that only raised limits open."""
    written: Mapping[DocPath, Sequence[str]] = {
        **{("limits", "budgets", name): [budget_key(name)] for name in limits.budgets},
        ("limits", "total_revisions"): [TOTAL],
        ("limits", "revisions"): [author_key(name) for name in subject.states],
        **{(*edge.path, "max"): [edge.id] for edge in subject.graph.edges if edge.back},
    }
    for path, counters in written.items():
        used = [counter for counter in counters if counter in subject.graph.caps]
        left = [bounds.unfilled[counter] for counter in used if counter in bounds.unfilled]
        is_written = subject.source.document.node(path) is not None
        if left and len(left) == len(used) and is_written and unknown.isdisjoint(used):
            message = f"no run uses it up: a run makes at most {plural(max(left), 'revision')}"
            yield subject.problem(path, "never-binds", message, "lower it, or delete it")


@of_machine("paths")
def check_reachability(subject: Subject) -> Found:
    if not subject.machine.finals:
        message = "the machine has no final state, so no run could end"
        remedy = "add one: `done: {final: success}`"
        yield subject.problem(("states",), "no-final-state", message, remedy, key=True)
        return
    reachable = subject.graph.reachable(subject.machine.start)
    for name in subject.states:
        if name not in reachable:
            message = f"no path leads to the state `{name}`"
            remedy = "name it as the `target:` or `next:` of another state, or delete it"
            yield subject.problem(("states", name), "unreachable-state", message, remedy)
    lost = reachable - subject.leading_to(set(subject.machine.finals))
    stranded = [name for name in subject.states if name in lost]
    if stranded:
        names = ", nor from ".join(f"`{name}`" for name in stranded[:4])
        names += ", …" if stranded[4:] else ""
        message = f"no final state can be reached from {names}"
        remedy = "add a transition that leads forward, to a final state in the end"
        yield subject.problem(("states", stranded[0]), "no-way-to-the-end", message, remedy)


def stuck_ahead(machine: Machine, run: RunState, limits: Mapping[str, object]) -> Stuck | None:
    """The first state in which a run would be stuck with a machine and with limits of its own.

    Everything ahead of the run is gone through, from the configuration in which it stands.
    """
    analysis = Analysis.of_machine(machine, limits)
    bounds = explore(analysis, present=present_of(analysis, run), measures=())
    return next((stuck for stuck in bounds.stuck if stuck.is_reached), None)


def stuck_under(machine: Machine, run: RunState, limits: Mapping[str, object]) -> str:
    """The message where a run could get stuck with other limits on revisions; else empty."""
    if (found := stuck_ahead(machine, run, {**run.limits, **limits})) is None:
        return ""
    told = f"`{found.state}` would have no transition left{stuck_in_words(found)}; choose another"
    told += " number, or add `- {target: STATE}` as the last transition of"
    return f"{told} `{found.state}` (`--machine FILE`)"


def stuck_in_words(found: Stuck) -> str:
    facts = " and ".join(fact_in_words(name, value) for name, value in found.facts.items())
    return (f" when {facts}" if facts else "") + f" ({how_reached(found)})"


@of_machine("paths")
def check_cycles(subject: Subject) -> Found:
    """Each cycle of forward edges, whole, at the edge that closes it.

    An edge that is taken at a limit closes none, because it is taken once.
    """
    done = set[str]()
    closing: dict[str, tuple[Edge, list[str]]] = {}
    for start in (subject.machine.start, *subject.states):
        for edge, trail in _cycles_from(subject, start, done):
            # Several nodes of a junction may close the same cycle.
            closing.setdefault(edge.id, (edge, trail))
    for edge, trail in closing.values():
        cycle = [*trail[trail.index(edge.target) :], edge.target]
        message = f"the forward transitions form a cycle: {arrows(cycle)}"
        edge = edge if edge.source in subject.judges else _judging(subject, cycle) or edge
        back = f"revise: {edge.target}"
        if edge.event != "done" or edge.source not in subject.judges:
            feedback = '"{{ comment }}"' if subject.states[edge.source].waits else "…"
            back = f"{{{back}, max: 2, feedback: {feedback}}}"
        if edge.is_brief and edge.event == "done":
            back = f"transitions: [{back if back[0] == '{' else f'{{{back}}}'}, {{target: STATE}}]"
        remedy = f"going back is counted: write `{back}` in `{edge.source}`"
        yield subject.problem(target_path(edge), "forward-cycle", message, remedy)


def _judging(subject: Subject, cycle: list[str]) -> Edge | None:
    """The last edge of a cycle that leaves a state which judges: it may go back, with findings."""
    for source, target in reversed([*pairwise(cycle)]):
        if source in subject.judges or subject.states[source].waits:
            ways = [edge for edge in subject.graph.on(source, "done") if edge.forward]
            return next((edge for edge in ways if edge.target == target), None)
    return None


def _cycles_from(subject: Subject, start: str, done: set[str]) -> Iterator[tuple[Edge, list[str]]]:
    """The edges that close cycles, with the states on the way there, depth first.

    `done` are the nodes from which all cycles have been told.
    """
    junctions = subject.graph.junctions
    if start in done or start not in subject.states:
        return
    trail = {start: iter(_forward(subject, start))}
    while trail:
        waiting = next(reversed(trail.values()))
        edge = next(waiting, None)
        if edge is None:
            done.add(trail.popitem()[0])
        elif (node := junctions.to(edge)) in trail:
            yield edge, [junctions.state_of(each) for each in trail]
        elif node not in done:
            trail[node] = iter(_forward(subject, node))


def _forward(subject: Subject, node: str) -> list[Edge]:
    ways_out = subject.graph.junctions.ways.get(node, ())
    return [e for e in ways_out if e.forward and e.target in subject.states]


@of_edges("paths")
def check_revise_targets(subject: Subject, edge: Edge) -> Found:
    path = target_path(edge)
    if not edge.back or edge.target not in subject.states:
        return
    if subject.states[edge.target].ends:
        message = f"`{edge.target}` is a final state: nothing can be revised there"
        yield subject.problem(path, AHEAD, message, f"write `target: {edge.target}`")
    elif subject.forward_path(edge.target, edge.source) is None:
        message = f"no forward path leads from `{edge.target}` back to `{edge.source}`"
        remedy = f"write `target: {edge.target}`, or revise a state that comes before"
        yield subject.problem(path, AHEAD, message, f"{remedy} `{edge.source}`")


@of_machine()
def check_resets(subject: Subject) -> Found:
    for edge, written in subject.revise_edges:
        path, resets = (*edge.path, "resets"), getattr(written, "resets", ())
        if resets and subject.machine.limits.total_revisions is None:
            message = "counters are reset without a total limit, so a run need not end"
            remedy = "add `limits: {total_revisions: 10}`"
            yield subject.problem(path, "resets-without-total", message, remedy)
            continue
        others = (e.target for e in subject.graph.edges if e.back and e.id != edge.id)
        if resets and set(resets) <= subject.states.keys() - {*others}:
            message = f"no other edge revises {either(resets)}, so there is nothing to reset"
            yield subject.no_effect(path, message)


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


@of_machine("unneeded")
def check_unused_limits(subject: Subject) -> Found:
    for name, reason in _unused_limits(subject):
        if getattr(subject.machine.limits, name) is not None:
            yield subject.problem(("limits", name), "never-binds", reason, "delete it")


def _unused_limits(subject: Subject) -> Iterator[tuple[str, str]]:
    if not any(edge.back for edge in subject.graph.edges):
        yield "revisions", "no revise edge uses it"
    if not may_call_tools(subject.machine):
        yield "tool_calls", "no agent that writes has tools that it could call"
    for name in OF_CALLS if not agents_called(subject.machine) else ():
        yield name, "no state asks an agent or a judge"


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
