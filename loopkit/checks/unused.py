"""Checks of what a machine declares or makes and nothing uses.

`unused`: a model, MCP server, agent, validator, guard, pattern, feedback, budget, field or input.
`no-effect`: keys that do nothing where they stand: `on_error`, keys of outputs and of judges.
`unread-verdict`: a report, or a failure, that no later transition reads and nobody is shown.
`unknown-field`, `wrong-kind`: `infeasible:` does not name a field that tells.
`infeasible-success`: an artifact that its author declares impossible ends as a success.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import takewhile
from typing import Any

from loopkit.checks import guards, templates
from loopkit.checks.artifacts import REPORT
from loopkit.checks.guards import uses
from loopkit.checks.references import is_plain_id, revise_edges, unknown_models, validators_of_tools
from loopkit.checks.report_maps import pattern_places
from loopkit.checks.subject import (
    Mentions,
    StatePath,
    Subject,
    arrows,
    in_code,
    in_template,
    shortest_path,
    target_path,
)
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, Severity, closest
from loopkit.language.agents.tools import McpTool, ToolBase
from loopkit.language.datatypes.notation import is_json_schema, parse_fields
from loopkit.language.facts import CODES, COUNTS, OF_REVISING, SCORE, SEVERITY
from loopkit.language.guard.evaluate import ITEMS
from loopkit.language.guard.grammar import Guard
from loopkit.language.section import INPUT_FILE
from loopkit.language.states.each import RESULT
from loopkit.language.states.kinds import FilledState
from loopkit.language.states.state import WorkingState
from loopkit.language.template.rendering import prints_value
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.edges import Edge
from loopkit.machine.scope import own_names
from loopkit.proof.outcomes.analysis import levels_at, may_block, parse_or_problem
from loopkit.proof.outcomes.facts import is_of, may_be_infeasible, table_of
from loopkit.proof.outcomes.table import Exit, Row, Table

WORDS = {"feedback": "feedback", "mcp": "MCP server"}
"""The word for a part of a section, if it is not the singular of the section."""


def check_unused(subject: Subject) -> Iterator[Problem]:
    """A warning for each declaration that nothing names; a note for models and validators.

    Those can be named on the command line, too.
    """
    machine = subject.machine
    budgets = {name for _, written in revise_edges(subject) for _, name in written.budgets}
    feedback = {edge.feedback for edge in subject.graph.edges if is_plain_id(edge.feedback or "")}
    patterns = {p for _, p in pattern_places(subject) if p in machine.patterns}
    items = (item for state in subject.judges.values() for item in state.by)
    validators = {item for item in items if isinstance(item, str)}
    validators.update(name for a in machine.agents for _, name in validators_of_tools(subject, a))
    yield from _check_section(subject, ("models",), machine.models, _models(subject), "note")
    servers = {tool.server for _, tool in subject.tools_of(McpTool)}
    yield from _check_section(subject, ("mcp",), machine.mcp, servers)
    agents = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    agents.update(*machine.authoring.values())
    # A folder of agents may have more than are used.
    agents |= subject.source.roles
    yield from _check_section(subject, ("agents",), machine.agents, agents)
    yield from _check_section(subject, ("validators",), machine.validators, validators, "note")
    yield from _check_section(subject, ("guards",), machine.guards, _guards(subject))
    yield from _check_section(subject, ("patterns",), machine.patterns, patterns)
    yield from _check_section(subject, ("feedback",), machine.feedback, feedback)
    yield from _check_section(subject, ("limits", "budgets"), machine.limits.budgets, budgets)


def _check_section(
    subject: Subject,
    section: tuple[str, ...],
    declared: Mapping[str, object],
    used: Set[object],
    severity: Severity = "warning",
) -> Iterator[Problem]:
    word = WORDS.get(section[-1]) or section[-1].removesuffix("s")
    if used - {None, *declared}:
        # An unknown name may mean one of these; it is reported elsewhere.
        return
    for name in declared:
        if name not in used:
            yield _unused(subject, (*section, name), word, severity)


def _models(subject: Subject) -> set[object]:
    """The names of models that agents use, and unknown ones, which may be misspelt."""
    machine = subject.machine
    agents = machine.agents.values()
    asked = {model for agent in agents for one in agent.in_turn for model in one.called}
    unknown = {model for _, model in unknown_models(machine) if "/" not in model}
    return {name for name, model in machine.models.items() if model in asked} | unknown


def _guards(subject: Subject) -> set[object]:
    parsed = (parse_or_problem(use.text) for use in uses(subject))
    guards = (guard for guard in parsed if isinstance(guard, Guard))
    named = subject.machine.guards.keys()
    direct = {name for guard in guards for name in guard.names & named}
    through = (subject.guards.reached.get(name, frozenset()) for name in direct)
    return direct.union(*through)


def check_infeasible(subject: Subject) -> Iterator[Problem]:
    for name, agent in subject.machine.agents.items():
        if agent.infeasible is None:
            continue
        fields = (parse_fields(agent.schema_).fields or {}) if agent.schema_ else {}
        path = ("agents", name, "infeasible")
        if agent.infeasible not in fields:
            message = f"the schema has no field `{agent.infeasible}`"
            near = closest(agent.infeasible, fields)
            add = f"add it: `schema: {{…, {agent.infeasible}: bool}}`"
            remedy = f"did you mean `{near}`?" if near else add
            yield subject.problem(path, "unknown-field", message, remedy)
            continue
        known = fields[agent.infeasible]
        is_always_said = known.required or known.values or known.scalar in ("int", "num")
        if known.scalar != "bool" and is_always_said:
            message = f"the field `{agent.infeasible}` of the schema is neither true nor false, "
            message += "and no optional text, list or record"
            remedy = f"make it `{agent.infeasible}: bool`"
            yield subject.problem(path, "wrong-kind", message, remedy)


def check_infeasible_success(subject: Subject) -> Iterator[Problem]:
    """A warning for each edge of such a report that leads to a success without another judgement.

    A validate state, a person, and another writing of the artifact count as judging again.
    """
    for name, state in subject.judges.items():
        if may_be_infeasible(subject, name):
            for edge in _edges_of_infeasible(subject, name):
                yield from _check_path(subject, edge, state.validate_)


def _edges_of_infeasible(subject: Subject, name: str) -> Sequence[Edge]:
    table = table_of(subject, name)
    if table is None:
        return []
    taken = _edges_taken(table, lambda _, row: table.verdict(row) == "infeasible")
    # If no guard names it, such a report is an error of the class content.
    return taken or subject.graph.on(name, "content")


def _edges_taken(table: Table, is_one: Callable[[Exit, Row], bool]) -> list[Edge]:
    """The edges that a row may take of which this holds."""
    rows = map(table.with_derived_facts, table.rows())
    every = ((exit_, row) for row in rows for exit_ in table.exits_of(row)[0])
    return [*{exit_.edge.id: exit_.edge for exit_, row in every if is_one(exit_, row)}.values()]


def _check_path(subject: Subject, edge: Edge, artifact: str) -> Iterator[Problem]:
    def is_judged(name: str) -> bool:
        state = subject.states[name]
        rewrites = subject.graph.written.get(name) == artifact
        return state.waits or state.judges is not None or rewrites

    way = _way_to_success(subject, edge, is_judged)
    if way is not None:
        message = f"`{artifact}` may be infeasible here, and the run succeeds without judging it"
        path = arrows((edge.source, *way))
        remedy = f"on the path {path}; let `infeasible` lead elsewhere"
        yield subject.warning(target_path(edge), "infeasible-success", message, remedy)


def _way_to_success(
    subject: Subject, edge: Edge, is_read: Callable[[str], bool]
) -> StatePath | None:
    """The states of a shortest path along an edge to a success, past no state that `is_read`."""
    states = subject.states
    return shortest_path(
        subject.graph,
        edge.target,
        lambda name: states[name].succeeds and not is_read(name),
        lambda onward: onward.event != "limit" and not is_read(onward.source),
    )


OF_TEXTS = {"fence": "it is found in fences anyway", "fields": "its fields are those of the schema"}


def check_errors(subject: Subject) -> Iterator[Problem]:
    for name, state in subject.machine.states_of(WorkingState).items():
        if state.on_error is not None and not state.faults:
            path = ("states", name, "on_error")
            message = f"{state.doing} cannot fail, so this edge is never taken"
            yield subject.no_effect(path, message)


def check_outputs(subject: Subject) -> Iterator[Problem]:
    for name, filled in subject.machine.states_of(FilledState).items():
        written = filled.output_at(name)
        if written.else_ is not None:
            message = "a filled template is the artifact, whatever its file holds"
            yield subject.no_effect(("states", name, "output", "else"), message)
        if filled.adds and written.file is None:
            message = "there is no file to which the text could be added"
            yield subject.no_effect(("states", name, "output", "append"), message, "add `file`")
    for name, state in subject.states.items():
        output = state.output_at(name)
        if all(agent.schema_ is None for agent in subject.machine.agents_at(name)):
            continue
        for key, instead in OF_TEXTS.items():
            if getattr(output, key):
                asked = " or ".join(map("`{}`".format, state.asks))
                message = f"the answer of {asked} is data, by its `schema`: {instead}"
                yield subject.no_effect(("states", name, "output", key), message)


def check_opinions(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules_of(JudgeRule):
        rule = placed.rule
        levels = [levels_at(subject.machine, subject.judges[name]) for name in placed.judged_at]
        never_fails = bool(levels) and not any(may_block(rule, at) for at in levels)
        if rule.confirm is not None and never_fails:
            message = "this judge never fails: with its `severity` it only advises"
            yield subject.no_effect((*placed.path, "confirm"), message)
        if rule.samples > 1 and never_fails:
            message = "there is nothing to vote on: with its `severity` this judge only advises"
            yield subject.no_effect((*placed.path, "samples"), message)
        if rule.samples == 1 and "combine" in rule.model_fields_set:
            message = "there is one sample, so there is nothing to combine"
            yield subject.no_effect((*placed.path, "combine"), message)


OF_REPORTS = frozenset(
    {"report", "reports", "findings", "warnings", "resolved", "regressed", "history"}
)


def check_unread_verdict(subject: Subject) -> Iterator[Problem]:
    if not subject.judges or _is_shown(subject):
        return
    read = subject.guards.names_in(use.text for use in guards.uses(subject))
    for name in subject.judges:
        own = own_names(subject.graph, name).keys() & subject.names_read(name)
        decides = own or any(edge.back for edge in subject.graph.on(name, "done"))
        if not decides and not any(is_of(fact, name) for fact in read):
            message = f"nothing reads the verdict of `{name}`, so it has no effect on the run"
            remedy = "add a transition with `guard: valid`, or one that revises; "
            remedy += "or delete the state"
            yield subject.warning(("states", name), "unread-verdict", message, remedy, key=True)


OF_FINDINGS = frozenset({*COUNTS, CODES, SCORE, SEVERITY})
"""The facts by which a guard asks how bad a report is."""
OF_CHILD = frozenset({"outcome", "success", "failed", "succeeded"})
SILENT_OF_CHILD = RESULT.keys() - OF_CHILD - {"findings"}
"""What a child leaves that does not say whether it failed."""


def check_unread_failures(subject: Subject) -> Iterator[Problem]:
    """A warning for each failure with which a run may succeed though nothing on its way reads it.

    It is read by a person, by guards and templates that name it, by an agent that is given the
    artifact, and by whoever judges or replaces that.
    """
    graph = subject.graph
    said = defaultdict[str | None, set[str]](set)
    texts = defaultdict[str | None, set[str]](set)
    for use in templates.uses(subject):
        texts[use.state].add(use.text)
        said[use.state] |= in_template(use.text).names
    for name, edges in graph.outgoing.items():
        # What its guards read of other states.
        named = subject.guards.names_in(edge.guard for edge in edges)
        said[name] |= {fact for fact in named if "." in fact}
    for name, state in graph.states.items():
        failed = f"`{name}` failed" if state.failing else f"no revision after `{name}` helped"
        failed = f"`{state.judges}` is not valid" if state.judges else failed
        own = (*state.failing, *own_names(graph, name))
        fields = {fact.partition(".")[0] for fact in own}
        asked = {fact.partition(".")[0] for fact in subject.names_read(name)} & fields
        told: Set[str] = fields.union(OF_REPORTS if state.judges else state.beside)
        if state.child or (state.asks and asked):
            told = OF_CHILD if state.child else asked
        silent = SILENT_OF_CHILD if state.child else fields - told
        decisive = next((fact for fact in own if fact.partition(".")[0] in told), "")
        reads = partial(_reads, subject, said, texts, name, told, silent)
        for edge in _unread_exits(subject, name) if own and not state.waits else ():
            way = _way_to_success(subject, edge, reads)
            if way is not None and edge.emit is None and "fail" not in state.emits_of_verdicts:
                message = f"a run may succeed although {failed}, and nothing reads that"
                path = f"on the path {arrows((name, *way))}"
                read = "print `findings`" if state.judges else f"decide by `{decisive}`"
                remedy = f"{path}: {read}, ask a person, or end in a failure"
                yield subject.warning(target_path(edge), "unread-verdict", message, remedy)


def _unread_exits(subject: Subject, name: str) -> Sequence[Edge]:
    """The edges on which a state goes on although its work has failed, without asking for that."""
    state, table = subject.states[name], table_of(subject, name)
    if table is not None and any(exit_.edge.back for exit_ in table.exits):
        return _edges_taken(table, partial(_is_exhausted, table))
    edges = subject.graph.on(name, "done")
    finals = state.child.finals.values() if state.child is not None else ()
    cannot_fail = bool(finals) and all(final.succeeds for final in finals)
    is_read = not subject.names_read(name).isdisjoint(state.failing)
    return () if cannot_fail or is_read or not state.failing else edges


def _is_exhausted(table: Table, exit_: Exit, row: Row) -> bool:
    """Whether an edge leaves a loop of revisions that came to nothing, and does not ask how bad it
    is, which would accept it on purpose."""
    names = exit_.guard.names if exit_.guard is not None else frozenset[str]()
    if exit_.edge.back:
        return False
    if table.is_report:
        return table.verdict(row) == "fail" and names.isdisjoint(OF_FINDINGS)
    # It is taken only because no revision is left: one would come first, or its guard says so.
    others = {name: value for name, value in row.items() if name not in OF_REVISING}
    with_room = {**others, "cap_reached": False}
    before = table.exits[: table.exits.index(exit_)]
    would_revise = any(e.edge.back and e.holds(with_room) is not False for e in before)
    asks_for_room = not names.isdisjoint(OF_REVISING)
    return would_revise or (asks_for_room and exit_.holds(with_room) is not True)


def _reads(
    subject: Subject,
    said: Mapping[str | None, Set[str]],
    texts: Mapping[str | None, Set[str]],
    failed: str,
    told: Set[str],
    silent: Set[str],
    name: str,
) -> bool:
    """Whether something that a state does tells of the failure of another, by the names `told` or
    by printing more of what it left than the fields `silent`."""
    state = subject.graph.states[name]
    source = subject.graph.states[failed]
    artifact = source.judges or subject.graph.written.get(failed)
    names = said[name]
    if state.waits or artifact in (state.judges, subject.graph.written.get(name)):
        return True
    if source.judges is not None:
        is_told = bool(state.emits) or any(edge.emit for edge in subject.graph.outgoing[name])
    else:
        # Data says it itself, and an agent finds it in a text.
        result = subject.machine.finals[name].result if state.ends and source.asks else ()
        is_data = bool(state.asks or source.asks or source.child)
        filled = texts.get(name, ()) if artifact in names else ()
        is_printed = any(prints_value(text, artifact or "", silent) for text in filled)
        is_told = artifact in result or (is_data and is_printed)
    return is_told or bool(told & names) or any(is_of(fact, failed) for fact in names)


def _is_shown(subject: Subject) -> bool:
    """Whether some text, person or result draws on reports; which one it is, is left open."""
    states = subject.states.values()
    picks = any(state.picks_best for state in states)
    shows = any(at[0] == "show" and name == REPORT for s in states for at, name in s.shown)
    used = (in_template(use.text) for use in templates.uses(subject))
    return picks or shows or any(OF_REPORTS & mentions.names for mentions in used)


def check_unused_fields(subject: Subject) -> Iterator[Problem]:
    """A note for each input, and each field of a schema, a form or an output, that nothing names.

    Whatever uses a whole artifact, answer or input uses all of its fields; of a text, only a
    result does, whose fields others may read in the events.
    """
    said = _Said(subject)
    yield from said.find_unused(("input",), _fields_of(subject.machine.input), "input", "input")
    for name, state in subject.states.items():
        form = _fields_of(state.asked_form)
        yield from said.find_unused(("states", name, "form"), form, "field", name)
        output = state.output_at(name)
        if output is not None and output.name not in said.results:
            path = ("states", name, "output", "fields")
            yield from said.find_unused(path, output.fields, "field", None)
    yield from _of_tools(subject)
    for agent in _authors(subject):
        yield from _of_schema(subject, said, agent)


def _of_tools(subject: Subject) -> Iterator[Problem]:
    """The arguments of a tool, which only the tool's templates know."""
    for path, tool in subject.tools_of(ToolBase):
        fields = tool.accepts.fields if tool.accepts is not None else None
        named = frozenset[str]().union(*(in_template(text).names for _, text in tool.templates))
        unused = (field for field in fields or {} if field not in named)
        yield from (_unused(subject, (*path, "input", field), "field") for field in unused)


def _of_schema(subject: Subject, said: _Said, agent: str) -> Iterator[Problem]:
    declared = subject.machine.agents[agent]
    written = {
        subject.graph.written.get(name)
        for name, asked in subject.machine.authoring.items()
        if agent in asked
    }
    if not written & said.used_whole:
        fields = [field for field in _fields_of(declared.schema_) if field != declared.infeasible]
        yield from said.find_unused(("agents", agent, "schema"), fields, "field", None)


def _fields_of(notation: Mapping[str, Any] | None) -> list[str]:
    """The fields that are declared here for this machine: a JSON Schema may be made for others."""
    if notation is None or is_json_schema(notation):
        return []
    return list(parse_fields(notation).fields or {})


def _authors(subject: Subject) -> list[str]:
    """The agents that write and do not judge, whose reports would be read whole."""
    judging = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    authors = subject.machine.authoring.values()
    asked = dict.fromkeys(agent for agents in authors for agent in agents)
    return [name for name in asked if name in subject.machine.agents and name not in judging]


def _unused(subject: Subject, path: DocPath, word: str, severity: Severity = "note") -> Problem:
    message = f"nothing uses the {word} `{path[-1]}`"
    return subject.problem(path, "unused", message, key=True, severity=severity)


class _Said:
    """All names that the texts of a machine mention."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        mentions = list(_mentions(subject))
        self._names = frozenset[str]().union(*(each.names for each in mentions))
        finals = subject.machine.finals.values()
        self.results = {name for final in finals for name in final.result}
        shown = (name for state in subject.states.values() for _, name in state.shown)
        whole = frozenset[str]().union(*(each.whole for each in mentions))
        file = {"input"} if INPUT_FILE in whole else ()
        self.used_whole = whole.union(shown, subject.graph.judged, file)

    def find_unused(
        self, path: DocPath, fields: Iterable[str], word: str, holder: str | None
    ) -> Iterator[Problem]:
        if holder in self.used_whole:
            return
        for name in fields:
            if name not in self._names:
                yield _unused(self._subject, (*path, name), word)


def _mentions(subject: Subject) -> Iterator[Mentions]:
    for use in templates.uses(subject):
        yield in_template(use.text)
    for choice in subject.machine.choices.values():
        yield in_template(choice.template)
    for needing in subject.states.values():
        yield from (in_template(f"{{{{ {path} }}}}") for path in needing.needed or ())
    for state in subject.states.values():
        paths = (path for lists in state.item_lists.values() for path in lists)
        yield from (in_code(".".join(takewhile(ITEMS.__ne__, path))) for path in paths)
    guards = (edge.guard for edge in subject.graph.edges)
    of_rules = (placed.rule.guard for placed in subject.rules)
    for guard in (*guards, *of_rules, *subject.machine.guards.values()):
        yield in_code(guard or "")
    for bound in subject.graph.caps.values():
        yield in_code(str(bound))
    for placed in subject.rules:
        yield in_code(" ; ".join(placed.rule.mentions))
