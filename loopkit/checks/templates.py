"""Checks of templates and of what else reads names: rules that look data up, and tools of agents.

`uses` lists all templates and the names that each may read.

`unknown-name`, `may-be-missing`, `no-effect`, `unknown-field`, `before-first-work`,
`missing-feedback`, `undelivered-feedback`, `not-a-template`, `no-known-values`, `unreadable-data`,
`fields-as-data`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice

from loopkit.checks.references import is_plain_id
from loopkit.checks.subject import (
    Found,
    Subject,
    Texts,
    arrows,
    of_edges,
    of_machine,
    of_rules,
    on_path,
    target_path,
)
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, ProblemsFound, closest, did_you_mean
from loopkit.document.reading import read
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.tools import ToolBase
from loopkit.language.guard.evaluate import ITEMS, parse_path, parse_requirement
from loopkit.language.guard.grammar import GuardError
from loopkit.language.section import INPUT_FILE
from loopkit.language.states import State
from loopkit.language.states.each import ChildrenState
from loopkit.language.states.kinds import FirstText, MadeData
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.grammar import Anything, Fields, Items, Scalar, Shape, member
from loopkit.language.template.rendering import check, parse, parse_if_valid
from loopkit.language.validators import (
    AcyclicRule,
    DataFile,
    Lookup,
    LookupRule,
    RequireRule,
    Rule,
    rules_of,
)
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.edges import Edge
from loopkit.machine.flow import ANY_REPORT, Token
from loopkit.machine.graph import Graph, names_in_templates, names_needed
from loopkit.machine.item_list import same_as, step_into, values_at
from loopkit.machine.scope import over, shape_of, with_items
from loopkit.proof.outcomes.analysis import PlacedRule
from loopkit.validators.data import NoData, data_in, is_meant_as_json, place
from loopkit.values import Value

Names = Mapping[str, Shape]
REPORT_NAMES = frozenset({"report", "reports"})

OF_MESSAGES: Names = {
    "item": Anything(),
    "index": Scalar(),
    "value": Anything(),
    "parent": Anything(),
}
OF_COMMANDS: Names = {"prompt": Scalar(), "session": Scalar()}
OF_PROGRAMS: Names = {INPUT_FILE: Scalar()}
OF_AGENTS: Names = {"system": Scalar(), "agent": Fields({"tools": Items(Scalar())})}
"""Names of the agent itself that its templates know, if it has them."""

KNOWN_TO = {
    "only the feedback of `human` states knows it; elsewhere write `STATE.comment`": (
        "choice", "comment",
    ),
    "only the `message:` of a rule that may find several things knows it": OF_MESSAGES,
    "only rules and judges know it; elsewhere write the artifact's own name": ("artifact",),
    "only the command of an agent knows it": OF_COMMANDS,
    "only the command of an agent or of a rule knows it": OF_PROGRAMS,
    "only the command of an agent with `file`, `system` or `tools` knows it": OF_AGENTS,
}  # fmt: skip


class Use(Value, frozen=True):
    path: DocPath
    text: str
    names: Names | None
    """None if nothing ever fills it, so that only its syntax can be checked."""
    state: str | None = None
    used_at: DocPath | None = None
    """The place that fills it, if it is written elsewhere."""


@of_machine()
def check_templates(subject: Subject) -> Found:
    for use in uses(subject):
        try:
            template = parse(use.text)
        except TemplateError as error:
            yield subject.fault(use.path, error)
            continue
        if use.names is not None:
            for fault in check(template, use.names):
                problem = subject.fault(use.path, explain(subject, use, fault))
                yield problem if use.used_at is None else subject.with_use(problem, use.used_at)


def explain(subject: Subject, use: Use, error: TemplateError) -> TemplateError:
    """The error with the path on which a name is missing, or the place where it is known."""
    name, _, field = error.message.partition("`")[2].partition("`")[0].partition(".")
    remedy = error.help
    empty = subject.scope.always_empty(use.state) if use.state is not None else {}
    if error.code == "unknown-name" and name in empty:
        return replace(error, message=f"`{name}` never has a value here", help=empty[name])
    if error.code == "unknown-name":
        remedy = _remedy_for_unknown(subject, use, name) or remedy
    elif error.code == "may-be-missing" and use.state is not None:
        reason = _missing_on(subject, use.state, name, field)
        remedy = "\n".join(filter(None, (remedy, reason)))
    return replace(error, help=remedy)


def _missing_on(subject: Subject, state: str, name: str, field: str) -> str:
    """Why a name may be missing when a state works: a path without it, or a faulty answer."""
    if name not in (*subject.graph.artifacts, *subject.states, *REPORT_NAMES):
        return ""
    token: Token = ANY_REPORT if name in REPORT_NAMES else ("artifact", name)
    if name in subject.states and name not in subject.graph.artifacts:
        token = ("facts", name)
    way = subject.way_without(token, state)
    if way is not None:
        return f"it is missing {on_path(way)}"
    authors = [subject.states[author] for author in subject.graph.artifacts.get(name, ())]
    if field and any(author.child is not None for author in authors):
        return "what another machine leaves depends on where it ends"
    if field and authors:
        told = "an answer that violates its schema has no fields; use them after `guard: valid`,"
        return told + " or catch such answers with `on_error: {content: STATE}`"
    return ""


def _remedy_for_unknown(subject: Subject, use: Use, name: str) -> str:
    if use.path[2:3] == ("tools",):
        known = ", ".join(f"`{field}`" for field in use.names or ())
        only = f"it has {known}" if known else "it has none"
        return "" if closest(name, use.names or ()) else f"a tool sees only its `input`; {only}"
    if use.path[0] == "artifacts":
        return "what an artifact is at first can be made of `input` alone"
    if told := next((text for text, names in KNOWN_TO.items() if name in names), ""):
        return told
    if meant := subject.meant(name, use.names or ()):
        return meant
    if closest(name, use.names or ()) is not None:
        return ""
    if use.names is not None and use.names.keys() >= OF_COMMANDS.keys() and use.state is None:
        *names, last = (f"`{known}`" for known in sorted(use.names))
        return f"here only {', '.join(names)} and {last} are known"
    state = subject.states.get(name)
    is_state = state is not None and (state.waits or name in subject.graph.written)
    if is_state or name in subject.graph.artifacts:
        return f"it is created later: no path leads from `{name}` to here"
    return "nothing has been judged on any path to here" if name in REPORT_NAMES else ""


def uses(subject: Subject) -> Iterator[Use]:
    """Every template of a machine, in each place that fills it."""
    every = (_of_states, _of_workspaces, _of_feedback, _of_events, _of_rules, _of_agents, _of_tools)
    for of in every:
        yield from of(subject)


def _of_states(subject: Subject) -> Iterator[Use]:
    given = {"input": shape_of(subject.scope.input)}
    for artifact, first in subject.machine.first_values.items():
        known = with_items(first.lists, given, numbered=True)
        is_text = isinstance(subject.machine.artifacts[artifact], str)
        for path, text in first.texts:
            yield Use(("artifacts", artifact, *(() if is_text else path)), text, known)
    for name, state in subject.states.items():
        for path, text in state.templates:
            yield Use(("states", name, *path), text, subject.entering[name], name)
        for path, text in state.emits.templates if state.emits is not None else ():
            yield Use(("states", name, "emit", *path), text, subject.entering[name], name)


def _of_workspaces(subject: Subject) -> Iterator[Use]:
    """The paths of workspaces, which are filled whenever a state or a judge works there."""
    for name, state in subject.states.items():
        if state.works_outside:
            for path, text in workspace_of(subject, name):
                yield Use(path, text, subject.entering[name], name)
    for placed in subject.rules_of(JudgeRule):
        for path, text in _workspace(subject, placed.rule.judge):
            yield from (Use(path, text, subject.entering[name], name) for name in placed.judged_at)


def workspace_of(subject: Subject, name: str) -> Texts:
    """The path of the workspace in which a state works: its own, its agent's or the machine's."""
    state = subject.states[name]
    if state.own_workspace is not None:
        yield ("states", name, "workspace", "path"), state.own_workspace.path
    else:
        asked = (_workspace(subject, agent) for agent in state.asks or ("",))
        yield from dict.fromkeys(chain.from_iterable(asked))


def _workspace(subject: Subject, asked: str) -> Texts:
    agent = subject.machine.agents.get(asked)
    if agent is not None and agent.workspace is not None:
        yield ("agents", asked, "workspace", "path"), agent.workspace.path
    elif subject.machine.workspace is not None:
        yield ("workspace", "path"), subject.machine.workspace.path


def _of_feedback(subject: Subject) -> Iterator[Use]:
    named = subject.machine.feedback
    for edge in subject.graph.edges:
        at, written = (*edge.path, "feedback"), edge.feedback or ""
        if written in named:
            names = subject.scope.taking(edge)
            yield Use(("feedback", written), named[written], names, edge.source, at)
        elif written and not is_plain_id(written):
            yield Use(at, written, subject.scope.taking(edge), edge.source)
    for name in sorted(named.keys() - {edge.feedback for edge in subject.graph.edges}):
        yield Use(("feedback", name), named[name], None)


def _of_events(subject: Subject) -> Iterator[Use]:
    """The texts of events that are stored when edges are taken and when tools find something."""
    for holder, tool in subject.tools_of(ToolBase):
        for path, text in tool.emits.templates if tool.emits is not None else ():
            for state, agents in subject.machine.authoring.items():
                if holder[1] in agents:
                    at: DocPath = ("states", state, "agent")
                    yield Use((*holder, "emit", *path), text, subject.entering[state], state, at)
    for edge in subject.graph.edges:
        for path, text in edge.emit.templates if edge.emit is not None else ():
            yield Use((*edge.path, "emit", *path), text, subject.scope.taking(edge), edge.source)
        of_verdicts = subject.states[edge.source].emits_of_verdicts
        for verdict, emission in of_verdicts.items() if edge.emit is None else ():
            for path, text in emission.templates:
                at = ("states", edge.source, "emit", verdict, *path)
                yield Use(at, text, subject.scope.taking(edge), edge.source)


def _of_rules(subject: Subject) -> Iterator[Use]:
    for placed in subject.rules:
        rule = placed.rule
        # What finds one thing finds it in the whole artifact, and not at an item.
        told = OF_MESSAGES if rule.most_findings > 1 else {"value": OF_MESSAGES["value"]}
        own = OF_PROGRAMS if rule.program else {}
        texts = [(told, *placed_text) for placed_text in rule.finding_templates]
        for known, at, text in (*texts, *((own, *placed_text) for placed_text in rule.templates)):
            path = (*placed.path, *at)
            if not placed.used_at:
                yield Use(path, text, None)
            for state in placed.used_at:
                names = over(known, subject.judging[state])
                yield Use(path, text, names, state, _item_at(subject, placed, state))


def _item_at(subject: Subject, placed: PlacedRule[Rule], state: str) -> DocPath | None:
    """Where a state, or a tool of its agent, names the validator of a rule that is not inline."""
    if placed.path[0] == "states":
        return None
    if state in subject.judges:
        return ("states", state, "by", subject.judges[state].by.index(placed.path[1]))
    tools = chain.from_iterable(map(subject.validators_of_tools, subject.states[state].asks))
    return next(at for at, name in tools if name == placed.path[1])


def _of_tools(subject: Subject) -> Iterator[Use]:
    """The templates of tools, which see only the arguments of the tool."""
    for path, tool in subject.tools_of(ToolBase):
        shape = Anything() if tool.accepts is None else shape_of(tool.accepts)
        fields = shape.fields if isinstance(shape, Fields) else {}
        yield from (Use((*path, *at), text, fields) for at, text in tool.templates)


def _of_agents(subject: Subject) -> Iterator[Use]:
    """The arguments and the input of command agents, for each state that asks one."""
    asking, judging = defaultdict[str, list[str]](list), defaultdict[str, list[DocPath]](list)
    for name, agents in subject.machine.authoring.items():
        for agent in dict.fromkeys(agents):
            asking[agent].append(name)
    for placed in subject.rules_of(JudgeRule):
        judging[placed.rule.judge].append((*placed.path, "judge"))
    for agent, declared in subject.machine.agents.items():
        known = {**OF_COMMANDS, **{own: OF_AGENTS[own] for own in declared.own_names}}
        own = {**known, **OF_PROGRAMS}
        for at, text in declared.templates:
            path: DocPath = ("agents", agent, *at)
            if at[0] == "resume":
                yield Use(path, text, known)
                continue
            for name in asking[agent]:
                names = over(own, subject.entering[name])
                yield Use(path, text, names, name, ("states", name, "agent"))
            for judge in judging[agent]:
                # A judge's command is filled with its request and with what the run was given.
                given = {"input": subject.entering[subject.machine.start]["input"]}
                yield Use(path, text, {**own, **given}, None, judge)


@of_machine()
def check_baselines(subject: Subject) -> Found:
    places: dict[DocPath, str] = {}
    for placed in subject.rules_of(CommandRule):
        if placed.rule.baseline:
            places.update(((*placed.path, *at), text) for at, text in placed.rule.templates)
            for name in placed.judged_at:
                places.update(workspace_of(subject, name))
    for path, text in places.items():
        template = parse_if_valid(text)
        named = frozenset[str]() if template is None else template.names
        for name in sorted(named - {"input", INPUT_FILE}):
            message = f"`{name}` does not exist yet where this is filled in for the `baseline`"
            remedy = "it runs before the first work, when there is nothing but `input`"
            yield subject.source.problem_inside(path, "before-first-work", message, help=remedy)


@of_edges("paths")
def check_feedback(subject: Subject, edge: Edge) -> Found:
    if not edge.back or edge.judges_again(subject.states):
        return
    source = subject.states[edge.source]
    # Findings that go to an origin were made before.
    if edge.feedback is None and source.judges is None and edge.origin is None:
        example = '"{{ comment }}"' if source.waits else '"What has to change: …"'
        message = f"`{edge.source}` judges nothing, so it has no findings to send back"
        remedy = f"say what has to change: `feedback: {example}`"
        yield subject.problem(target_path(edge), "missing-feedback", message, remedy)
    target = subject.states.get(edge.target)
    if isinstance(target, ChildrenState) and Graph(target.child).first_author is None:
        message = f"no state of `{target.machine.file}` that reads feedback is on all of its paths"
        path, remedy = target_path(edge), "a child that runs again is not told why"
        yield subject.problem(path, "undelivered-feedback", message, remedy, severity="warning")
    # Only agents and templates read feedback; else it waits for the artifact's author.
    if target is not None and not target.reads_feedback and not target.ends:
        for message, remedy in islice(_undelivered(subject, edge, source.judges), 1):
            yield subject.problem(target_path(edge), "undelivered-feedback", message, remedy)


def _undelivered(subject: Subject, edge: Edge, judged: str | None) -> Iterator[tuple[str, str]]:
    authors = subject.graph.artifacts.get(judged or "")
    # A first value that no state writes anew has no author.
    if judged is None or (authors is not None and not authors):
        readers = [
            f"`{name}`"
            for name, state in subject.states.items()
            if state.reads_feedback and edge.source in subject.graph.reachable(name, back=False)
        ]
        message = f"`{edge.target}` reads no feedback: it is neither an agent nor a template"
        listed = f": {', '.join(readers[:5])}" if readers else ""
        yield message, f"revise the state that has to change something{listed}"
    for author in authors or ():
        way = subject.forward_path(edge.target, edge.source, without=author)
        if way is not None and author != edge.target:
            message = f"the feedback is for `{author}`, which does not work on every path"
            yield f"{message} from there", f"not on {arrows(way)}; revise `{author}` itself"


@of_machine()
def check_needs(subject: Subject) -> Found:
    for name, state in subject.states.items():
        yield from _missing(subject, name, state)
        if state.needed is None or name in subject.graph.keeping:
            continue
        # What the texts of a state do not name of it would count for `stalled`.
        if names_needed(subject.graph, name) <= names_in_templates(subject.graph, name):
            yield subject.no_effect(("states", name, "needs"), _why_not(subject, name, state))


def _missing(subject: Subject, name: str, state: State) -> Found:
    if not state.needed:
        # Testing every artifact for each state would take time quadratic in the states.
        return
    entering = subject.entering[name]
    artifacts = {one: entering[one] for one in subject.graph.artifacts if one in entering}
    for index, needed in enumerate(state.needed):
        path = ("states", name, "needs", index)
        text = f"{{{{ {needed} }}}}"
        for fault in check(parse(text), artifacts):
            # A template can test for a missing name; `needs` can't.
            bare = replace(fault, help="") if fault.code == "may-be-missing" else fault
            error = explain(subject, Use(path, text, artifacts, name), bare)
            remedy = "`needs` names artifacts or fields of them"
            remedy = error.help or (remedy if error.code == "unknown-name" else "")
            yield subject.problem(path, error.code, error.message, remedy)


def _why_not(subject: Subject, name: str, state: State) -> str:
    if not state.may_be_kept:
        return "who else writes to a file is not known, so this state always works"
    if not subject.machine.may_be_kept(name):
        return "a program may depend on more than it is told, so this state always works"
    return "no way leads here again but by a revision, so there is nothing to keep"


@of_machine()
def check_plain_texts(subject: Subject) -> Found:
    remedy = "move the variable part into the prompt"
    message = "this is not a template; it is sent as written"
    fault = TemplateError("not-a-template", message, help=remedy, length=2)
    for path, text in plain_texts(subject):
        for number, line in enumerate(text.split("\n"), 1):
            if "{{" in line and "}}" in line:
                here = replace(fault, line=number, column=line.index("{{") + 1)
                yield subject.fault(path, here).replace(severity="warning")


def plain_texts(subject: Subject) -> Texts:
    for name, agent in subject.machine.agents.items():
        yield from ((("agents", name, *at), text) for at, text in agent.plain_texts)
    for placed in subject.rules_of(JudgeRule):
        for index, criterion in enumerate(placed.rule.rubric):
            yield (*placed.path, "rubric", index), criterion
    for mapping in subject.rules:
        read = mapping.rule.report_map
        for at, met in read.checks.items() if read is not None else ():
            yield (*mapping.path, "map", "checks", at, "message"), met.message or ""


@of_rules(RuleBase)
def check_sees(subject: Subject, placed: PlacedRule[Rule]) -> Found:
    for index, seen in enumerate(placed.rule.shown):
        for state in placed.used_at:
            yield from unseen(subject, (*placed.path, "sees", index), seen, subject.judging[state])


def unseen(subject: Subject, path: DocPath, seen: str, names: Mapping[str, Shape]) -> Found:
    """A problem if a dotted name, written at `path`, is not among the names or their fields."""
    shape: Shape = Fields(names)
    holder = ""
    for step in seen.split("."):
        if isinstance(shape, Anything):
            return
        known, fields = member(shape, step), shape.fields if isinstance(shape, Fields) else {}
        if known is None and not holder:
            yield subject.unknown(path, "unknown-name", "unknown name", step, fields)
            return
        if known is None:
            remedy = did_you_mean(seen, [f"{holder}.{name}" for name in fields])
            remedy = remedy or "it is a list or a single value"
            message = f"`{holder}` has no field `{step}`"
            yield subject.problem(path, "unknown-field", message, remedy)
            return
        shape, holder = known, f"{holder}.{step}" if holder else step


MOST_SHOWN = 12
"""The most fields that are named of a place without values."""


@of_rules(AcyclicRule)
def check_given(subject: Subject, placed: PlacedRule[AcyclicRule]) -> Found:
    if (name := placed.rule.acyclic.given) is not None:
        for state in placed.used_at:
            yield from _unusable(subject, (*placed.path, "acyclic", "given"), name, state)


@of_rules(LookupRule)
def check_lookups(subject: Subject, placed: PlacedRule[LookupRule]) -> Found:
    lookup, path = placed.rule.lookup, (*placed.path, "lookup")
    try:
        for written in (*lookup.path, lookup.at or ITEMS):
            parse_path(written)
    except GuardError:
        # A path that can't be parsed is reported by another check.
        return
    if isinstance(lookup.in_, DataFile):
        yield from _of_file(subject, path, lookup, lookup.in_)
        return
    name = lookup.in_
    for state in placed.used_at:
        names = subject.judging[state]
        problems = [*_unusable(subject, (*path, "in"), name, state)]
        if problems:
            is_known = problems[0].code == "may-be-missing"
            remedy = "" if lookup.at or is_known else _split(name, names)
            yield from (p.replace(help=remedy or p.help) for p in problems)
        elif not _may_be_text(subject, name):
            yield from _check_types(subject, path, lookup, _shape_at(name, names))


def _of_file(subject: Subject, path: DocPath, lookup: Lookup, file: DataFile) -> Found:
    data = data_in(file)
    if isinstance(data, NoData):
        yield from _unreadable(subject, (*path, "in"), file, data)
    elif not any(same_as(value) for _, value in values_at(lookup.at, data)):
        heads = [str(key) for key in data] if isinstance(data, Mapping) else []
        yield _without_values(subject, (*path, "at" if lookup.at else "in"), place(lookup), heads)


def _unreadable(subject: Subject, path: DocPath, file: DataFile, data: NoData) -> Found:
    """The fault in a data file: at its place in YAML, with its reason in JSON."""
    included = subject.source.included.get(path)
    if included is not None and file.text.strip() and not is_meant_as_json(file.file, file.text):
        try:
            read(included.text, included.file)
        except ProblemsFound as found:
            yield from found.problems
            return
    reason = data.reason.replace("the artifact", f"`{file}`", 1)
    yield subject.problem(path, "unreadable-data", reason, "correct the file")


def _without_values(
    subject: Subject, path: DocPath, where: str, fields: list[str], at: str = ""
) -> Problem:
    example = f'"{at}{fields[0]}"' if at and fields else '"items[].id"'
    remedy = f"write `at:` with the path to them, such as `at: {example}`"
    if fields:
        remedy += f"; it has {', '.join(f'`{name}`' for name in fields[:MOST_SHOWN])}"
    return subject.problem(path, "no-known-values", f"{where} has no values to look up", remedy)


def _unusable(subject: Subject, path: DocPath, name: str, state: str) -> Found:
    names = subject.judging[state]
    problems = [*unseen(subject, path, name, names)]
    yield from problems
    if not problems and _shape_at(name, names).optional:
        is_artifact = name in subject.graph.artifacts
        way = subject.way_without(("artifact", name), state) if is_artifact else None
        remedy = f"it is missing {on_path(way)}" if way is not None else "give it a default"
        message = f"`{name}` may be missing at `{state}`"
        yield subject.problem(path, "may-be-missing", message, remedy)


def _split(name: str, names: Mapping[str, Shape]) -> str:
    """The right form of a name with a path into a list; empty if it has none."""
    parts = name.split(".")
    for count, part in enumerate(parts, 1):
        inside = ".".join([*parts[: count - 1], part.removesuffix(ITEMS)])
        if isinstance(_shape_at(inside, names), Items):
            at = ".".join([ITEMS, *parts[count:]])
            return f'write `in: {inside}, at: "{at}"`' if at != ITEMS else f"write `in: {inside}`"
    return ""


def _shape_at(name: str, names: Mapping[str, Shape]) -> Shape:
    shape: Shape = Fields(names)
    optional = False
    for step in name.split("."):
        shape = member(shape, step) or Anything()
        optional = optional or shape.optional
    return Anything(optional=True) if optional else shape


def _may_be_text(subject: Subject, name: str) -> bool:
    """Whether a name may stand for a text, whose data is unknown before it exists."""
    if name == "artifact":
        return True
    for author in subject.graph.artifacts.get(name, ()):
        agents = subject.machine.agents_at(author)
        is_data = isinstance(subject.states[author], MadeData)
        if not (agents or is_data) or any(agent.schema_ is None for agent in agents):
            return True
    return isinstance(subject.machine.first_values.get(name), FirstText)


def _check_types(subject: Subject, path: DocPath, lookup: Lookup, shape: Shape) -> Found:
    """A problem if the types show that there can be no values at the place."""
    for step in parse_path(lookup.at) if lookup.at else ():
        inner = step_into(shape, step)
        if inner is None:
            heads = list(shape.fields) if isinstance(shape, Fields) else []
            yield _without_values(subject, (*path, "at"), place(lookup), heads)
            return
        shape = inner
    item = shape.item if isinstance(shape, Items) else None
    is_single = isinstance(shape, Scalar) and ITEMS not in parse_path(lookup.at or "none")
    if is_single or isinstance(item, Fields | Items):
        heads = list(item.fields) if isinstance(item, Fields) else []
        at = "" if lookup.at else "[]."
        yield _without_values(subject, (*path, "in" if at else "at"), place(lookup), heads, at)


@of_rules(RequireRule)
def check_fields_as_data(subject: Subject, placed: PlacedRule[RequireRule]) -> Found:
    """A warning for each `require` of whose artifact every author makes such a text.

    The text may hold data as well, under other names; what it has a pattern for is hardly that.
    """
    rule = placed.rule
    try:
        # Another check reports its syntax.
        parse_path(rule.each or "x")
        read = parse_requirement(rule.require).names if rule.each is None else ()
    except GuardError:
        return
    paths = read if rule.each is None else (rule.each.partition("[")[0],)
    heads = {path.partition(".")[0] for path in paths}
    for state in placed.used_at:
        artifact = subject.states[state].judges or ""
        for field in sorted(heads & _fields(subject, artifact))[:1]:
            message = f"`{field}` is a field of the text of `{artifact}`, and `require` reads only"
            message += " data, JSON or YAML"
            remedy = "judge the text itself, with `section`, `matches` or `count`"
            path = (*placed.path, "require")
            yield subject.problem(path, "fields-as-data", message, remedy)


def _fields(subject: Subject, artifact: str) -> frozenset[str]:
    """The fields that every author of an artifact extracts from its text."""
    machine = subject.machine
    each = []
    for author in subject.graph.artifacts.get(artifact, ()):
        output = machine.states[author].output_at(author)
        is_data = any(agent.schema_ is not None for agent in machine.agents_at(author))
        each.append(frozenset() if output is None or is_data else frozenset(output.fields))
    if (first := machine.first_values.get(artifact)) is not None:
        each.append(frozenset(first.fields if isinstance(first, FirstText) else ()))
    return frozenset.intersection(*each) if each else frozenset()


OF_TOOLS = ("max_tool_calls", "tool_use")


@of_machine()
def check_tools(subject: Subject) -> Found:
    authors = {agent for asked in subject.machine.authoring.values() for agent in asked}
    judges = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    for name, agent in subject.machine.model_agents.items():
        path = ("agents", name)
        for key in OF_TOOLS if not agent.tools else ():
            if key in agent.model_fields_set:
                yield subject.no_effect((*path, key), "the agent has no `tools`")
        if "reask" in agent.model_fields_set:
            message = "with `tool_use: runner` it is asked again up to `max_tool_calls`"
            if agent.require_tool is None:
                message = "an agent without `require_tool` is never asked again for its answer"
            if agent.require_tool is None or agent.leaves_tools_alone:
                yield subject.no_effect((*path, "reask"), message)
        if agent.tools and name in judges - authors:
            message = f"`{name}` only judges, and judges call no tools"
            yield subject.no_effect((*path, "tools"), message)
            continue
        others = [tool for tool in agent.tools if tool != agent.require_tool]
        if others and (reason := _no_tools(agent)) is not None:
            message = f"nobody calls it: {reason[0]}, and loopkit only the one of `require_tool`"
            for tool in others:
                yield subject.no_effect((*path, "tools", tool), message, reason[1])
        yield from _finding_nothing(subject, name, agent)


def _no_tools(agent: ModelAgent) -> tuple[str, str] | None:
    """Why an agent's model calls no tools, and the remedy; None if it may call some."""
    if agent.leaves_tools_alone:
        return "with `tool_use: runner` the model calls no tools", "delete it"
    # Only an agent with tools needs the table of models, which is long.
    from loopkit.agents.model.pricing import provider_of  # noqa: PLC0415 - see above
    from loopkit.agents.model.reply import NO_TOOLS, has_tools  # noqa: PLC0415 - see above

    if any(has_tools(one, model) for one in agent.in_turn for model in one.model):
        return None
    told = f"LiteLLM says that `{agent.model[0]}` calls no tools"
    if provider_of(agent.model[0]) in NO_TOOLS:
        return told, "take another model; those of Ollama call tools as `ollama_chat/…`"
    return told, "take another model, or write `tool_use: native` if it does call tools"


def _finding_nothing(subject: Subject, name: str, agent: ModelAgent) -> Found:
    """Validators whose judges no tool asks, and tools for drafts of what is not a text."""
    for path, validator in subject.validators_of_tools(name):
        rules = rules_of(subject.machine.validators.get(validator, ()))
        judge = next((rule.asks for rule in rules if rule.asks is not None), None)
        if judge is None:
            continue
        has_others = any(rule.asks is None for rule in rules)
        left = "only its other rules are used" if has_others else "so it finds nothing"
        message = f"`{validator}` asks `{judge}`, but a tool asks no judges; {left}"
        remedy = "name a validator without judges, and let the validate state ask them"
        yield subject.no_effect(path, message, remedy)
    for state, asked in subject.machine.authoring.items():
        output = subject.states[state].output_at(state)
        if name in asked and output is not None and output.may_be_missing:
            where = output.file or output.folder
            message = f"a draft is a text, and `{state}` leaves `{where}`: each draft is rejected"
            for tool, one in agent.tools.items():
                if one.validators:
                    at: DocPath = ("agents", name, "tools", tool, "by")
                    yield subject.no_effect(at, message, "add `else: reply` to its `output`")
