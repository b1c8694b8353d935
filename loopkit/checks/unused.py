"""Checks of what is sound and hardly meant: parts that nothing uses, texts that are not filled in
or cut off, rules that demand nothing, judges without criteria, and successes without a result.

`unused`, `no-effect`, `infeasible-success`, `unread-verdict`, `unknown-field`, `wrong-kind`,
`not-filled-in`, `cut-off`, `no-demand`, `no-criteria`, `no-result`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import Any

from loopkit.checks import guards, templates
from loopkit.checks.artifacts import REPORT
from loopkit.checks.references import names_used, unknown_models
from loopkit.checks.report_maps import pattern_places
from loopkit.checks.subject import (
    CODE,
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
from loopkit.checks.templates import plain_texts
from loopkit.checks.text_as_code import INTERPRETERS, WRAPPERS, program_name
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, Severity, closest
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.tools import ToolBase
from loopkit.language.datatypes.notation import is_json_schema, parse_fields
from loopkit.language.facts import CODES, COUNTS, OF_REVISING, SCORE, SEVERITY
from loopkit.language.guard.evaluate import ITEMS, truth
from loopkit.language.guard.grammar import Guard
from loopkit.language.section import INPUT_FILE
from loopkit.language.states.each import RESULT
from loopkit.language.states.kinds import AgentState, FilledState, ValidateState
from loopkit.language.states.state import ExtractSection, Output, WorkingState
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.grammar import Anything, Fields, Shape, member
from loopkit.language.template.rendering import OF_REPORTS, prints_value
from loopkit.language.validators import LengthRule, MatchesRule, Rule, SectionRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.edges import Edge
from loopkit.machine.scope import own_names, shape_of
from loopkit.proof.outcomes.analysis import PlacedRule, levels_at, may_block, parse_or_problem
from loopkit.proof.outcomes.facts import is_of, may_be_infeasible
from loopkit.proof.outcomes.table import Exit, Row, Table
from loopkit.text.json_text import texts_in

NUMBERS = ("int", "num")
NOTED = frozenset({"model", "validator"})
"""What can be named on the command line, too, so that it is only noted."""
SECTIONS = {
    "model": "models",
    "MCP server": "mcp",
    "agent": "agents",
    "validator": "validators",
    "guard": "guards",
    "pattern": "patterns",
    "feedback": "feedback",
    "budget": "limits.budgets",
}


@of_machine()
def check_unused(subject: Subject) -> Found:
    patterns = {name for _, name in pattern_places(subject)} & subject.machine.patterns.keys()
    used = {word: set[object]() for word in SECTIONS}
    # A folder of agents may have more than are used.
    used |= {"agent": {*subject.source.roles}, "pattern": {*patterns}}
    used |= {"model": _models(subject), "guard": _guards(subject)}
    for kind, _, name, *_ in names_used(subject):
        used.get(kind, set()).add(name)
    for word, section in SECTIONS.items():
        declared: Mapping[str, object] = attrgetter(section)(subject.machine)
        severity: Severity = "note" if word in NOTED else "warning"
        # An unknown name may mean one of these; it is reported elsewhere.
        for name in declared if used[word] <= declared.keys() else ():
            if name not in used[word]:
                yield _unused(subject, (*section.split("."), name), word, severity)


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
        if filled.output_at(name).else_ is not None:
            message = "a filled template is the artifact, whatever its file holds"
            yield subject.no_effect(("states", name, "output", "else"), message)
        if filled.adds and filled.output_at(name).file is None:
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
    state, table = subject.states[name], subject.tables[name]
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
    would_revise = any(e.edge.back and truth(e.wanted, with_room) is not False for e in before)
    asks_for_room = not names.isdisjoint(OF_REVISING)
    return would_revise or (asks_for_room and truth(exit_.wanted, with_room) is not True)


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
    table = subject.tables[name]
    if table is None:
        return []
    taken = _edges_taken(table, lambda _, row: table.verdict(row) == "infeasible")
    # If no guard names it, such a report is an error of the class content.
    return taken or subject.graph.on(name, "content")


def _edges_taken(table: Table, is_one: Callable[[Exit, Row], bool]) -> list[Edge]:
    """The edges that a row may take of which this holds."""
    rows = ((table.with_derived_facts(row), exits) for row, exits, _ in table.taken)
    every = ((exit_, row) for row, exits in rows for exit_ in exits)
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
            fields = _fields_of(declared.schema_)
            yield ("agents", agent, "schema"), [f for f in fields if f != declared.infeasible]


def _fields_of(notation: Mapping[str, Any] | None) -> list[str]:
    """The fields that are declared here for this machine: a JSON Schema may be made for others."""
    if notation is None or is_json_schema(notation):
        return []
    return list(parse_fields(notation).fields or {})


def _unused(subject: Subject, path: DocPath, word: str, severity: Severity = "note") -> Problem:
    name = str(path[-1])
    declared = subject.scope.input.field(name) if word == "input" else None
    is_key = declared is not None and declared.scalar in ("str", "int")
    remedy = f"delete it, unless the lines of a batch are known by it: `--key {name}`"
    message = f"nothing uses the {word} `{name}`"
    return subject.problem(path, "unused", message, remedy if is_key else "", severity=severity)


def _mentions(subject: Subject) -> Iterator[Mentions]:
    machine, states, rules = subject.machine, subject.states.values(), subject.rules
    first = [value.lists for value in machine.first_values.values()]
    named = [*(state.item_lists for state in states), *first]
    lists = (path for held in named for paths in held.values() for path in paths)
    guards = (*(edge.guard for edge in subject.graph.edges), *(one.rule.guard for one in rules))
    yield from (in_template(use.text) for use in templates.uses(subject))
    code = [
        *(choice.from_ for choice in machine.choices.values()),
        *(path for state in states for path in state.needed or ()),
        *(".".join(takewhile(ITEMS.__ne__, path)) for path in lists),
        *filter(None, (*guards, *machine.guards.values())),
        *map(str, subject.graph.caps.values()),
        *(text for placed in rules for text in placed.rule.mentions),
    ]
    yield from map(in_code, code)


NAME = r"[a-z_]\w*(?:\.[a-z_]\w*)*"
SINGLE = re.compile(rf"(?<![\w{{$%#/`\\])\{{\s*({NAME})\s*\}}(?![}}`/])")
OF_SHELL = re.compile(r"(?<![$\\])\$\{([A-Za-z_]\w*)\}")
DOLLAR = re.compile(rf"(?<![$\w\\])\$\{{\{{-?\s*({NAME})\s*-?\}}\}}")
MONEY = re.compile(r"cost|price|usd|amount|total|sum|budget|fee|pay|dollar|spent|money|value")


@of_machine()
def check_braces(subject: Subject) -> Found:
    """A name that is known at its place stands in single braces, or behind a `$`."""
    given = shape_of(subject.scope.input)
    told: set[DocPath] = set()
    sent = ((path, text, {"input": given}) for path, text in plain_texts(subject))
    filled = ((use.path, use.text, use.names) for use in templates.uses(subject))
    for path, text, names in (*filled, *sent):
        names = {} if names is None else names
        if "{" not in text or path in told:
            continue
        told.add(path)
        for found in DOLLAR.finditer(text):
            first, *steps = (name := found[1]).split(".")
            known = subject.scope.input.at(steps) if first == "input" else None
            if not MONEY.search(name) and not (known and known.scalar in NUMBERS):
                message = f"a `$` stands before the value of `{name}`, and is printed"
                remedy = f"write `{{{{ {name} }}}}` alone"
                yield _here(subject, path, found, message, remedy)
        bare = CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
        for found in (*SINGLE.finditer(bare), *OF_SHELL.finditer(bare)):
            written = found[1] if found[0][0] == "{" else found[1].lower()
            name = _known(written, names, given)
            if name and name.rpartition(".")[2] not in in_template(text).names:
                message = f"`{found[0]}` is not filled in"
                remedy = f"a template has two braces: `{{{{ {name} }}}}`"
                yield _here(subject, path, found, message, remedy)


def _known(written: str, names: Mapping[str, Shape], given: Shape) -> str:
    """The name in a template that was meant by a word; empty where it is none."""
    first, *steps = written.split(".")
    if first not in names:
        inputs = given.fields if isinstance(given, Fields) else {}
        return f"input.{written}" if "input" in names and first in inputs and not steps else ""
    shape: Shape | None = names[first]
    for step in steps:
        shape = None if shape is None or isinstance(shape, Anything) else member(shape, step)
    return written if shape is not None and first != "item" else ""


def _here(
    subject: Subject, path: DocPath, found: re.Match[str], message: str, remedy: str
) -> Problem:
    text, at = found.string, found.start()
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    fault = TemplateError("not-filled-in", message, line, column, len(found[0]), remedy)
    return subject.fault(path, fault).replace(severity="warning")


VARIABLE = re.compile(r"\$(?:\{([A-Z_][A-Z0-9_]*)\}|([A-Z_][A-Z0-9_]+)\b)")
ARGUMENT = re.compile(rf"(?:[\w-]+=)?{VARIABLE.pattern}(?:[/:][\w./-]*)?")
AS_WRITTEN = {"base_url", "api_key_env", "model", "path", "url", "file", "folder", "params"}
PROGRAMS = {"run", "command", "resume"}
OWN_WAYS = {*INTERPRETERS, *WRAPPERS, "ssh", "watch", "envsubst", "make", "tmux"}
"""Programs that fill in variables, or hand their words to one that does."""
PLACES = "in a machine file only the `headers` of an MCP server read variables"


@of_machine()
def check_variables(subject: Subject) -> Found:
    """`${VAR}` stands where nothing fills it in."""
    plain = subject.source.document.plain()
    for path, text in texts_in(plain) if isinstance(plain, dict) else ():
        keys = {step for step in path if isinstance(step, str)}
        found = VARIABLE.search(text)
        if found is None or path[0] in ("input", "tests") or "headers" in keys:
            continue
        name = found[1] or found[2]
        if words := PROGRAMS & keys:
            at = next(n for n, step in enumerate(path) if step in words) + 1
            node = subject.source.document.node(path[:at])
            listed = node.value if node is not None and isinstance(node.value, tuple) else ()
            programs = {program_name(str(word.value)) for word in listed}
            if not programs or programs & OWN_WAYS or not ARGUMENT.fullmatch(text):
                continue
            remedy = f"run it in a shell: `[sh, -c, '…']`, with `env: [{name}]` beside it"
        elif not AS_WRITTEN & {path[-1], *path[-2:-1], *path[-3:-2]}:
            continue
        elif path[-1] == "api_key_env":
            remedy = f"write the name alone: `api_key_env: {name}`"
        else:
            remedy = f"write the value itself; {PLACES}"
        message = f"`{found[0]}` is not filled in: it is taken as it is written"
        yield subject.problem(path, "not-filled-in", message, remedy)


ENDED = re.compile(r"[.!?:;…\"')\]}]\s*$")
GOES_ON = re.compile(r"#(?:\s?\d|\w|.*[.!?]\s*$)")
ASIDE = re.compile(r"#+\s*(?:todo|fixme|noqa|xxx|note|yamllint|pylint|type:)", re.IGNORECASE)


@of_machine()
def check_comments(subject: Subject) -> Found:
    """A plain text ends before a comment that reads like the rest of it."""
    document = subject.source.document
    rows = document.text.splitlines()
    every = [*((use.path, use.text) for use in templates.uses(subject)), *plain_texts(subject)]
    for path in dict.fromkeys(document.as_written(path) for path, _ in every):
        node = document.node(path)
        if node is None or node.style != "plain" or " " not in node.raw:
            continue
        end = node.span.end_column - 1
        rest = rows[node.span.end_line - 1][end:] if node.span.file == document.file else ""
        comment = rest.strip()
        if not comment.startswith("#") or ENDED.search(node.raw) or ASIDE.match(comment):
            continue
        if GOES_ON.match(comment):
            message = f"the text ends before ` {comment}`, which YAML reads as a comment"
            remedy = "quote the text if that is a part of it; else end the text with a full stop"
            yield subject.problem(path, "cut-off", message, remedy)


NO_TEXTS = ("", "a", "7", "-", "\n", "é b\n")
"""Texts that have nothing in common."""


@of_rules(RuleBase)
def check_demands(subject: Subject, placed: PlacedRule[Rule]) -> Found:
    """A rule can fail, and can pass."""
    rule = placed.rule
    path = (*placed.path, rule.kind)
    if isinstance(rule, LengthRule):
        number = getattr(rule, rule.kind)
        if number == 0:
            every = rule.kind.startswith("min")
            message = "every text has that" if every else f"every text has more {rule.unit}s"
            yield subject.problem(path, "no-demand", message, "write the number that is meant")
    elif isinstance(rule, SectionRule):
        yield from _section(subject, path, rule.section)
    for at, written in rule.patterns:
        pattern = subject.pattern(written)
        is_counted = isinstance(rule, MatchesRule) and rule.count.max is not None
        if at[0] == "verdict" or pattern is None or is_counted:
            continue
        if written == "" or all(pattern.search(text) for text in NO_TEXTS):
            name = "an empty pattern" if written == "" else f"`{written}`"
            message = f"{name} matches every text, whatever stands in it"
            least = isinstance(rule, MatchesRule) and rule.count.min > 1
            if not least:
                yield subject.problem(
                    (*placed.path, *at), "no-demand", message, "write what has to be found"
                )


@of_machine()
def check_fields(subject: Subject) -> Found:
    for name, state in subject.states.items():
        output = getattr(state, "output", None)
        for field, how in output.fields.items() if isinstance(output, Output) else ():
            path = ("states", name, "output", "fields", field)
            if isinstance(how, ExtractSection):
                yield from _section(subject, (*path, "section"), how.section)
            for key in ("match", "all", "count"):
                if getattr(how, key, None) == "":
                    message = "an empty pattern finds nothing but an empty text"
                    remedy = "write what has to be found"
                    yield subject.problem((*path, key), "no-demand", message, remedy)


def _section(subject: Subject, path: DocPath, name: str) -> Found:
    if not name.strip():
        message = "no section has an empty name"
        yield subject.problem(path, "no-demand", message, "write the heading of the section")


@of_machine()
def check_no_revision(subject: Subject) -> Found:
    for edge, written in subject.revise_edges:
        if getattr(written, "max", None) == 0:
            message = "with a `max` of 0 nothing is ever revised"
            remedy = "write how often it may be, or delete the edge"
            yield subject.problem((*edge.path, "max"), "no-demand", message, remedy)


@of_rules(JudgeRule)
def check_criteria(subject: Subject, placed: PlacedRule[JudgeRule]) -> Found:
    rule = placed.rule
    asked = subject.machine.agents.get(rule.judge)
    has_some = any(map(str.strip, (*rule.rubric, rule.prompt or "")))
    is_told = has_some or not rule.is_own_form
    if isinstance(asked, ModelAgent) and not is_told and not asked.system.strip():
        message = "this judge has no criteria: it is only asked whether the work can be used"
        remedy = "say what it judges by: `rubric: [It names two teas.]`, or write a `prompt:`"
        yield subject.problem((*placed.path, "judge"), "no-criteria", message, remedy)


@of_machine("unneeded")
def check_results(subject: Subject) -> Found:
    """A text that a model writes comes out of a success, if of anything."""
    machine = subject.machine
    finals = {name: state for name, state in machine.finals.items() if state.succeeds}
    is_given = any(state.result or state.mark for state in finals.values())
    working = machine.states_of(AgentState)
    is_effect = (
        machine.workspace is not None
        or any(agent.works_on_files for agent in machine.agents.values())
        or any(state.emits or state.kind not in KINDS for state in machine.states.values())
    )
    written = {name: state.output_at(name) for name, state in working.items()}
    # What has a form may only be for guards.
    texts = [
        output.name
        for name, output in written.items()
        if not (output.is_left or output.fields)
        and not any(agent.schema_ for agent in machine.agents_at(name))
    ]
    if is_given or is_effect or not texts or len(texts) < len(written):
        return
    for name in finals:
        # On some ways to it, nothing may have been written.
        sure = [text for text in texts if subject.way_without(("artifact", text), name) is None]
        for text in sure[-1:]:
            message = f"this success has no result, and nothing else gives out `{text}`"
            remedy = f"add `result: {text}`"
            yield subject.problem(("states", name, "final"), "no-result", message, remedy)


KINDS = ("agent", "validate", "render", "choice", "human", "final")
