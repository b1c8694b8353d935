"""Checks of templates, with the list of all templates and the names that each may read.

`unknown-name`, `may-be-missing`, `no-effect`, `unknown-field`, `before-first-work`,
`missing-feedback`, `undelivered-feedback`, `not-a-template`.
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
from loopkit.document.problems import closest, did_you_mean
from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.tools import ToolBase
from loopkit.language.section import INPUT_FILE
from loopkit.language.states import State
from loopkit.language.states.each import ChildrenState
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.grammar import Anything, Fields, Items, Scalar, Shape, member
from loopkit.language.template.rendering import check, parse, parse_if_valid
from loopkit.language.validators import Rule
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.edges import Edge
from loopkit.machine.flow import ANY_REPORT, Token
from loopkit.machine.graph import Graph, names_in_templates, names_needed
from loopkit.machine.scope import over, shape_of, with_items
from loopkit.proof.outcomes.analysis import PlacedRule
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
    for of in (_of_states, _of_workspaces, _of_feedback, _of_events):
        yield from of(subject)
    for of in (_of_rules, _of_agents, _of_tools):
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
        emission = state.emits
        for path, text in emission.templates if emission is not None else ():
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
    own: DocPath = ("states", name)
    agents = state.asks or (None,)
    found = (_workspace(subject, asked, (own, state.own_workspace)) for asked in agents)
    yield from dict.fromkeys(chain.from_iterable(found))


def _workspace(
    subject: Subject, asked: str | None, *own: tuple[DocPath, Workspace | None]
) -> Texts:
    agent = subject.machine.agents.get(asked or "")
    of_agent = agent.workspace if agent is not None else None
    of_all: tuple[DocPath, Workspace | None] = ((), subject.machine.workspace)
    for path, workspace in (*own, (("agents", asked or ""), of_agent), of_all):
        if workspace is not None:
            yield (*path, "workspace", "path"), workspace.path
            return


def _of_feedback(subject: Subject) -> Iterator[Use]:
    unused = dict(subject.machine.feedback)
    for edge in subject.graph.edges:
        written = edge.feedback
        if written is None:
            continue
        at: DocPath = (*edge.path, "feedback")
        names = subject.scope.taking(edge)
        if written in subject.machine.feedback:
            unused.pop(written, None)
            text = subject.machine.feedback[written]
            yield Use(("feedback", written), text, names, edge.source, at)
        elif not is_plain_id(written):
            yield Use(at, written, names, edge.source)
    for name, text in unused.items():
        yield Use(("feedback", name), text, None)


def _of_events(subject: Subject) -> Iterator[Use]:
    """The texts of events that are stored when edges are taken and when tools find something."""
    for state, agents in subject.machine.authoring.items():
        for agent in agents:
            asked = subject.machine.agents.get(agent)
            for name, tool in asked.callable_tools.items() if asked is not None else ():
                for path, text in tool.emits.templates if tool.emits is not None else ():
                    at: DocPath = ("agents", agent, "tools", name, "emit", *path)
                    yield Use(at, text, subject.entering[state], state, ("states", state, "agent"))
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
    """The place where a state, or a tool of its agent, names the validator of a rule; None for an
    inline rule."""
    if placed.path[0] == "states":
        return None
    if state in subject.judges:
        return ("states", state, "by", subject.judges[state].by.index(placed.path[1]))
    tools = (
        tool for one in subject.states[state].asks for tool in subject.validators_of_tools(one)
    )
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
