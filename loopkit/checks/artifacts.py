"""Checks of artifacts: that they exist where they are used, and how they are judged and kept.

`unknown-artifact`, `may-be-missing`, `content-unhandled`, `bad-path`, `folder-as-text`,
`not-isolated`, `judged-before`, `judged-elsewhere`, `never-judged`, `not-restored`, `last-shown`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from loopkit.checks.scripts import is_hidden
from loopkit.checks.subject import Found, Subject, arrows, either, of_machine, of_states, on_path
from loopkit.document.document import DocPath
from loopkit.document.problems import did_you_mean
from loopkit.language.facts import VERDICT, of_verdict
from loopkit.language.guard.evaluate import truth
from loopkit.language.states import State
from loopkit.language.states.kinds import FilledState, ValidateState
from loopkit.language.states.state import StateBase
from loopkit.language.template.rendering import parse_if_valid
from loopkit.language.validators import Rule, rules_of
from loopkit.language.validators.command import CommandRule
from loopkit.machine.cycles import Step, on_every_path
from loopkit.machine.edges import Edge
from loopkit.machine.flow import ANY_REPORT
from loopkit.machine.scope import own_names
from loopkit.proof.outcomes.analysis import levels_at
from loopkit.text import flaw_of_path

REPORT = "report"
"""In `show:`, the last report instead of an artifact."""


@of_machine("paths")
def check_existence(subject: Subject) -> Found:
    """What is judged, shown, edited, and what a run ends with, is written before.

    After an error or a limit what is shown may be absent, and is marked as absent. So may it be in
    a machine with origins, where one state serves several phases.
    """
    for name, state in subject.states.items():
        path: DocPath = ("states", name)
        if state.judges is not None:
            yield from _check_artifact(subject, (*path, "validate"), state.judges, on_errors=True)
        possibly = subject.scope.flow.entering[name].possibly if subject.graph.origins else ()
        for at, shown in state.shown:
            if (ANY_REPORT if shown == REPORT else ("artifact", shown)) not in possibly:
                yield from _check_artifact(subject, (*path, *at), shown, on_errors=False)
        if state.edits is not None:
            yield from _check_artifact(subject, (*path, "edit"), state.edits, on_errors=False)


def _check_artifact(subject: Subject, path: DocPath, artifact: str, *, on_errors: bool) -> Found:
    is_report = artifact == REPORT and path[2] == "show"
    written, state = subject.graph.artifacts, str(path[1])
    if not is_report and artifact in subject.states and artifact not in written:
        message = f"`{artifact}` is a state that writes no artifact of this name"
        remedy = subject.meant(artifact, written) or did_you_mean("", written)
        remedy = remedy or "no state writes an artifact"
        yield subject.problem(path, "unknown-artifact", message, remedy)
    elif not is_report and artifact not in written:
        what = "no state writes an artifact"
        yield subject.unknown(path, "unknown-artifact", what, artifact, written)
    else:
        token = ANY_REPORT if is_report else ("artifact", artifact)
        if way := subject.way_without(token, state, on_errors=on_errors):
            remedy = f"nothing {'judges anything' if is_report else 'writes it'} {on_path(way)}"
            message = f"`{artifact}` may be missing in `{state}`"
            yield subject.problem(path, "may-be-missing", message, remedy)


@of_machine("paths")
def check_content(subject: Subject) -> Found:
    if not all(judge.validate_ in subject.graph.artifacts for judge in subject.judges.values()):
        # An unknown artifact may be a misspelt one that is judged; it is reported first.
        return
    for name, state in subject.states.items():
        if not state.may_leave_none or subject.graph.on(name, "content"):
            continue
        if not subject.graph.judging_follows(name):
            message = f"an empty or unusable answer of `{name}` would be treated like a good one"
            message += _path_without_judge(subject, name)
        elif read := sorted(own_names(subject.graph, name).keys() & subject.names_read(name)):
            message = f"the guards read {' and '.join(f'`{field}`' for field in read)},"
            message += " and an answer that violates its schema has no fields"
        else:
            continue
        remedy = "add `on_error: {content: STATE}`"
        yield subject.problem(("states", name), "content-unhandled", message, remedy)


def _path_without_judge(subject: Subject, name: str) -> str:
    artifact = subject.graph.written.get(name)
    judges = subject.graph.judged.get(artifact or "", ())
    way = subject.shortest_path(
        name,
        lambda state: subject.states[state].ends,
        lambda edge: edge.event == "done" and not edge.back and edge.target not in judges,
    )
    return f": nothing judges `{artifact}` on the path {arrows(way)}" if way else ""


@of_machine()
def check_files(subject: Subject) -> Found:
    outputs = ((name, state.output_at(name)) for name, state in subject.states.items())
    files: list[tuple[DocPath, str | None]] = [
        *((("states", name, "output"), output.file) for name, output in outputs if output),
        *((placed.path, placed.rule.file) for placed in subject.rules_of(CommandRule)),
    ]
    for path, file in files:
        template = parse_if_valid(file or "")
        parts = template.parts or () if template is not None else ()
        literal = "".join(part if isinstance(part, str) else "x" for part in parts).strip()
        if not literal:
            continue
        if (flaw := flaw_of_path(literal)) is not None:
            remedy = "write a path that starts at the workspace and stays inside it"
            yield subject.problem((*path, "file"), "bad-path", f"the path `{file}` {flaw}", remedy)


@of_states(StateBase)
def check_folders(subject: Subject, name: str, state: State) -> Found:
    path: DocPath = ("states", name, "output", "folder")
    agents = subject.machine.agents_at(name)
    if _writes_folder(subject, name) and isinstance(state, FilledState):
        message, remedy = f"a `{state.kind}` state changes no folder", "write `output: NAME` alone"
        yield subject.problem(path, "folder-as-text", message, remedy)
    elif _writes_folder(subject, name) and any(agent.schema_ is not None for agent in agents):
        message = f"the answer of {either(state.asks)} is data, by its `schema`,"
        message += " and a folder is none"
        yield subject.problem(path, "folder-as-text", message, "delete `schema`, or `folder`")
    authors = subject.graph.artifacts.get(state.edits or "", ())
    if any(_writes_folder(subject, author) for author in authors):
        message = f"`{state.edits}` is a folder, which a person can't edit as a text"
        remedy = "let the person comment, and revise with that"
        yield subject.problem(("states", name, "edit"), "folder-as-text", message, remedy)


@of_machine()
def check_best_folders(subject: Subject) -> Found:
    for path, authors in _going_back(subject):
        written = (author for author in authors if _writes_folder(subject, author))
        if author := next(filter(subject.machine.works_in_sight, written), None):
            message = f"the best version of the folder that `{author}` writes can't be restored"
            remedy = "let it work in a tree of its own: `workspace: {path: ., isolate: copy}`"
            yield subject.problem(path, "not-isolated", message, remedy)


def _going_back(subject: Subject) -> Iterator[tuple[DocPath, Iterator[str]]]:
    """Every `pick: best` and `from: best`, with the authors of the artifacts that go back."""
    artifacts = subject.graph.artifacts
    for name, state in subject.states.items():
        if state.picks_best:
            # A person's pick makes the whole round the current one, also what is not shown.
            picked = (shown for _, shown in state.shown) if state.ends else artifacts
            path: DocPath = ("states", name, "pick")
            yield path, (a for artifact in picked for a in artifacts.get(artifact, ()))
    for edge in subject.graph.edges:
        if edge.from_best and edge.target in subject.states:
            yield from_path(edge), rewriting_authors(subject, edge)


def _writes_folder(subject: Subject, name: str) -> bool:
    output = subject.states[name].output_at(name)
    return output is not None and output.folder is not None


@of_machine()
def check_from_best(subject: Subject) -> Found:
    for edge in subject.graph.edges:
        if not edge.from_best or edge.target not in subject.states:
            continue
        source, state = edge.source, subject.states[edge.source]
        if subject.judges.keys().isdisjoint(subject.leading_to({source})):
            message = f"no `validate` state comes before `{source}`, so no version is the best"
            remedy = "judge the artifact on the way, or delete `from`"
            yield subject.problem(from_path(edge), "never-judged", message, remedy)
        if state.waits and not state.picks_best and any(state.shown):
            message = f"`{source}` shows the last version, and the author would get the best one"
            remedy = "add `pick: best` to the state, or delete `from`"
            yield subject.problem(from_path(edge), "last-shown", message, remedy)
        for author in rewriting_authors(subject, edge):
            yield from _not_restored(subject, edge, author)


def from_path(edge: Edge) -> DocPath:
    return (*edge.path, "from")


def rewriting_authors(subject: Subject, edge: Edge) -> Iterator[str]:
    """The authors before an edge that may have worked again since an earlier version."""
    before = subject.leading_to({edge.source})
    yield from sorted(subject.graph.written.keys() & subject.graph.repeated & before)


def _not_restored(subject: Subject, edge: Edge, author: str) -> Found:
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
        yield subject.problem(path, "not-restored", message, remedy, severity="warning")


def _is_judged_by_files(subject: Subject, author: str) -> bool:
    """Whether an author changes files that a rule judges, and only its reply is the artifact."""
    output = subject.states[author].output_at(author)
    agents = subject.machine.agents_at(author)
    if output is None or output.is_left or not any(agent.works_on_files for agent in agents):
        return False
    judging = {name for placed in subject.rules_of(CommandRule) for name in placed.judged_at}
    return not judging.isdisjoint(subject.graph.judged.get(output.name, ()))


TOLD = {"message", "severity", "code", "guard"}
"""Keys that do not change what a rule demands."""
_Passed = frozenset[tuple[str, str]]
"""(artifact, demand of a rule that its present version meets)."""


@of_machine("unneeded")
def check_judged_before(subject: Subject) -> Found:
    if not any(len(states) > 1 for states in subject.graph.judged.values()):
        return
    entering = _entering(subject)
    for name, state in subject.judges.items():
        for index, item in enumerate(state.by):
            rules = subject.machine.validators[item] if isinstance(item, str) else item
            for rule in rules_of(rules):
                if _demand(subject, state, rule) in entering[name]:
                    message = f"the rule `{rule.kind}` finds nothing here: an earlier state lets no"
                    message += f" `{state.validate_}` pass that breaks it"
                    remedy = "delete it here, or there if this state should send the artifact back"
                    path: DocPath = ("states", name, "by", index)
                    yield subject.problem(path, "judged-before", message, remedy)


def _entering(subject: Subject) -> Mapping[str, _Passed]:
    """The demands that surely hold when each state is entered, on every path."""
    edges = [edge for edge in subject.graph.edges if edge.target in subject.states]
    gains = {edge: _gains(subject, edge) for edge in edges}
    bits = {fact: 1 << at for at, fact in enumerate(_Passed().union(*gains.values()))}
    steps = []
    for edge in edges:
        state = subject.states[edge.source]
        written = subject.graph.written.get(edge.source) or state.edits
        is_older = state.picks_best or edge.from_best
        lost = sum(bit for fact, bit in bits.items() if is_older or fact[0] == written)
        steps.append(Step(edge.source, edge.target, lost, sum(bits[fact] for fact in gains[edge])))
    holds = on_every_path(subject.graph.last_first[::-1], subject.machine.start, steps)
    return {
        name: _Passed(f for f, bit in bits.items() if held & bit) for name, held in holds.items()
    }


def _gains(subject: Subject, edge: Edge) -> _Passed:
    """What an edge that only a report without blocking findings takes says of the artifact."""
    state = subject.judges.get(edge.source)
    guard = subject.guards.whole(edge.guard) if edge.event == "done" and edge.guard else None
    if state is None or state.settle_after is not None or guard is None:
        return frozenset()
    failing = ({VERDICT: v, **of_verdict(v)} for v in ("fail", "incomplete", "infeasible"))
    if any(truth(guard.tree, report) is not False for report in failing):
        return frozenset()
    levels = levels_at(subject.machine, state)
    return frozenset(
        _demand(subject, state, rule)
        for rule in subject.rules_at[edge.source]
        if rule.sees_only_artifact
        and rule.guard is None
        and levels.blocks(rule.severity or levels.ungraded)
    )


def _demand(subject: Subject, state: ValidateState, rule: Rule) -> tuple[str, str]:
    demand = rule.model_dump(mode="json", by_alias=True, exclude=TOLD)
    patterns = subject.machine.patterns
    if rule.sees_only_artifact:
        demand |= {str(at[-1]): patterns.get(text, text) for at, text in rule.patterns}
    return state.validate_, json.dumps(demand, sort_keys=True, default=str)


@of_machine()
def check_judged_elsewhere(subject: Subject) -> Found:
    """A warning where a program cannot see what it judges, because that is isolated."""
    machine = subject.machine
    judging = {name for placed in subject.rules_of(CommandRule) for name in placed.judged_at}
    for name in sorted(judging):
        [judges_in] = machine.workspaces_at(name)
        for author in subject.graph.artifacts.get(machine.states[name].judges or "", ()):
            hidden = (own for own in machine.workspaces_at(author) if is_hidden(own, judges_in))
            if (own := next(hidden, None)) is not None:
                message = f"the programs that judge in `{name}` don't see what `{author}` changes"
                message += " in a tree of its own before it is merged"
                written = f"workspace: {{path: {own.path}, isolate: {own.isolate}}}"
                remedy = f"write `{written}` for the whole machine, or for `{name}` as well"
                yield subject.problem(("states", name), "judged-elsewhere", message, remedy)
                break
