"""Checks of what a machine declares or makes and nothing uses.

`unused`, `no-effect`, `infeasible-success`, `unread-verdict`, `unknown-field`, `wrong-kind`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import takewhile
from typing import Any

from loopkit.checks import guards, templates
from loopkit.checks.artifacts import REPORT
from loopkit.checks.references import is_plain_id, unknown_models
from loopkit.checks.report_maps import pattern_places
from loopkit.checks.subject import (
    Found,
    Mentions,
    StatePath,
    Subject,
    arrows,
    either,
    in_code,
    in_template,
    of_machine,
    of_rules,
    of_states,
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
from loopkit.language.states.kinds import FilledState, ValidateState
from loopkit.language.states.state import WorkingState
from loopkit.language.template.rendering import OF_REPORTS, prints_value
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.edges import Edge
from loopkit.machine.scope import own_names
from loopkit.proof.outcomes.analysis import PlacedRule, levels_at, may_block, parse_or_problem
from loopkit.proof.outcomes.facts import is_of, may_be_infeasible, table_of
from loopkit.proof.outcomes.table import Exit, Row, Table

NUMBERS = ("int", "num")
NOTED = frozenset({"model", "validator"})
"""What can be named on the command line, too, so that it is only noted."""


@of_machine()
def check_unused(subject: Subject) -> Found:
    machine = subject.machine
    agents = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    agents.update(*machine.authoring.values())
    validators = {name for _, name in subject.validators_named}
    patterns = {p for _, p in pattern_places(subject) if p in machine.patterns}
    feedback = {edge.feedback for edge in subject.graph.edges if is_plain_id(edge.feedback or "")}
    budgets = {name for _, written in subject.revise_edges for _, name in written.budgets}
    sections: list[tuple[DocPath, str, Mapping[str, object], Set[object]]] = [
        (("models",), "model", machine.models, _models(subject)),
        (("mcp",), "MCP server", machine.mcp, {one.server for _, one in subject.tools_of(McpTool)}),
        # A folder of agents may have more than are used.
        (("agents",), "agent", machine.agents, agents | subject.source.roles),
        (("validators",), "validator", machine.validators, validators),
        (("guards",), "guard", machine.guards, _guards(subject)),
        (("patterns",), "pattern", machine.patterns, patterns),
        (("feedback",), "feedback", machine.feedback, feedback),
        (("limits", "budgets"), "budget", machine.limits.budgets, budgets),
    ]
    for section, word, declared, used in sections:
        # An unknown name may mean one of these; it is reported elsewhere.
        for name in declared if used <= {None, *declared} else ():
            if name not in used:
                severity: Severity = "note" if word in NOTED else "warning"
                yield _unused(subject, (*section, name), word, severity)


def _models(subject: Subject) -> set[object]:
    """The names of models that agents use, and unknown ones, which may be misspelt."""
    machine = subject.machine
    agents = machine.agents.values()
    asked = {model for agent in agents for one in agent.in_turn for model in one.called}
    unknown = {model for _, model in unknown_models(machine) if "/" not in model}
    return {name for name, model in machine.models.items() if model in asked} | unknown


def _guards(subject: Subject) -> set[object]:
    parsed = (parse_or_problem(use.text) for use in guards.uses(subject))
    whole = (guard for guard in parsed if isinstance(guard, Guard))
    named = subject.machine.guards.keys()
    direct = {name for guard in whole for name in guard.names & named}
    return direct.union(*(subject.guards.reached.get(name, frozenset()) for name in direct))


@of_machine()
def check_infeasible(subject: Subject) -> Found:
    for name, agent in subject.machine.agents.items():
        told, path = agent.infeasible, ("agents", name, "infeasible")
        if told is None:
            continue
        fields = (parse_fields(agent.schema_).fields or {}) if agent.schema_ else {}
        known = fields.get(told)
        is_always_said = known and (known.required or known.values or known.scalar in NUMBERS)
        if known is None:
            near, message = closest(told, fields), f"the schema has no field `{told}`"
            remedy = f"did you mean `{near}`?" if near else f"add it: `schema: {{…, {told}: bool}}`"
            yield subject.problem(path, "unknown-field", message, remedy)
        elif is_always_said and known.scalar != "bool":
            message = f"the field `{told}` of the schema is neither true nor false, "
            message += "and no optional text, list or record"
            yield subject.problem(path, "wrong-kind", message, f"make it `{told}: bool`")


def _way_to_success(
    subject: Subject, edge: Edge, is_read: Callable[[str], bool]
) -> StatePath | None:
    """The states of a shortest path along an edge to a success, past no state that `is_read`."""
    return subject.shortest_path(
        edge.target,
        lambda name: subject.states[name].succeeds and not is_read(name),
        lambda onward: onward.event != "limit" and not is_read(onward.source),
    )


OF_TEXTS = {"fence": "it is found in fences anyway", "fields": "its fields are those of the schema"}


@of_states(WorkingState)
def check_errors(subject: Subject, name: str, state: WorkingState) -> Found:
    if state.on_error is not None and not state.faults:
        message = f"{state.doing} cannot fail, so this edge is never taken"
        yield subject.no_effect(("states", name, "on_error"), message)


@of_machine()
def check_outputs(subject: Subject) -> Found:
    for name, filled in subject.machine.states_of(FilledState).items():
        written = filled.output_at(name)
        if written.else_ is not None:
            message = "a filled template is the artifact, whatever its file holds"
            yield subject.no_effect(("states", name, "output", "else"), message)
        if filled.adds and written.file is None:
            message = "there is no file to which the text could be added"
            yield subject.no_effect(("states", name, "output", "append"), message, "add `file`")
    for name, state in subject.states.items():
        if all(agent.schema_ is None for agent in subject.machine.agents_at(name)):
            continue
        for key, instead in OF_TEXTS.items():
            if getattr(state.output_at(name), key):
                message = f"the answer of {either(state.asks)} is data, by its `schema`: {instead}"
                yield subject.no_effect(("states", name, "output", key), message)


@of_rules(JudgeRule)
def check_opinions(subject: Subject, placed: PlacedRule[JudgeRule]) -> Found:
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


OF_FINDINGS = frozenset({*COUNTS, CODES, SCORE, SEVERITY})
"""The facts by which a guard asks how bad a report is."""
OF_CHILD = frozenset({"outcome", "success", "failed", "succeeded"})
SILENT_OF_CHILD = RESULT.keys() - OF_CHILD - {"findings"}
"""What a child leaves that does not say whether it failed."""


@of_machine("unneeded")
def check_unread_failures(subject: Subject) -> Found:
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
                yield subject.problem(target_path(edge), "unread-verdict", message, remedy)


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


@of_machine("unneeded")
def check_unread_verdict(subject: Subject) -> Found:
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
            yield subject.problem(("states", name), "unread-verdict", message, remedy, key=True)


@of_states(ValidateState, "unneeded")
def check_infeasible_success(subject: Subject, name: str, state: ValidateState) -> Found:
    """A warning for each edge of such a report that leads to a success without another judgement.

    A validate state, a person, and another writing of the artifact count as judging again.
    """
    artifact = state.validate_

    def is_judged(name: str) -> bool:
        one = subject.states[name]
        return one.waits or one.judges is not None or subject.graph.written.get(name) == artifact

    for edge in _edges_of_infeasible(subject, name) if may_be_infeasible(subject, name) else ():
        way = _way_to_success(subject, edge, is_judged)
        if way is not None:
            message = f"`{artifact}` may be infeasible here,"
            message += " and the run succeeds without judging it"
            remedy = f"on the path {arrows((edge.source, *way))}; let `infeasible` lead elsewhere"
            yield subject.problem(target_path(edge), "infeasible-success", message, remedy)


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


@of_machine("unneeded")
def check_unused_fields(subject: Subject) -> Found:
    """A note for each input, and each field of a schema, a form or an output, that nothing names.

    Whatever uses a whole artifact, answer or input uses all of its fields; of a text, only a
    result does, whose fields others may read in the events. The arguments of a tool are known only
    to its own templates.
    """
    mentions = [*_mentions(subject)]
    names = frozenset[str]().union(*(each.names for each in mentions))
    whole = frozenset[str]().union(*(each.whole for each in mentions))
    shown = (name for state in subject.states.values() for _, name in state.shown)
    file = {"input"} if INPUT_FILE in whole else ()
    for path, fields in _declared(subject, whole.union(shown, subject.graph.judged, file)):
        unused = (field for field in fields if field not in names)
        word = "input" if path == ("input",) else "field"
        yield from (_unused(subject, (*path, field), word) for field in unused)
    for path, tool in subject.tools_of(ToolBase):
        accepted = tool.accepts.fields if tool.accepts is not None else None
        named = frozenset[str]().union(*(in_template(text).names for _, text in tool.templates))
        unused = (field for field in accepted or {} if field not in named)
        yield from (_unused(subject, (*path, "input", field), "field") for field in unused)


def _declared(subject: Subject, whole: Set[str]) -> Iterator[tuple[DocPath, Iterable[str]]]:
    """The fields of what is not used as a `whole`."""
    if "input" not in whole:
        yield ("input",), _fields_of(subject.machine.input)
    results = {name for final in subject.machine.finals.values() for name in final.result}
    for name, state in subject.states.items():
        if name not in whole:
            yield ("states", name, "form"), _fields_of(state.asked_form)
        output = state.output_at(name)
        if output is not None and output.name not in results:
            yield ("states", name, "output", "fields"), output.fields
    # The report of an agent that judges would be read whole.
    judging = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    written: dict[str, set[str | None]] = {}
    for name, asked in subject.machine.authoring.items():
        for agent in asked:
            written.setdefault(agent, set()).add(subject.graph.written.get(name))
    for agent in written.keys() & subject.machine.agents.keys() - judging:
        declared = subject.machine.agents[agent]
        if not written[agent] & whole:
            fields = [
                field for field in _fields_of(declared.schema_) if field != declared.infeasible
            ]
            yield ("agents", agent, "schema"), fields


def _fields_of(notation: Mapping[str, Any] | None) -> list[str]:
    """The fields that are declared here for this machine: a JSON Schema may be made for others."""
    if notation is None or is_json_schema(notation):
        return []
    return list(parse_fields(notation).fields or {})


def _unused(subject: Subject, path: DocPath, word: str, severity: Severity = "note") -> Problem:
    message = f"nothing uses the {word} `{path[-1]}`"
    return subject.problem(path, "unused", message, severity=severity)


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
