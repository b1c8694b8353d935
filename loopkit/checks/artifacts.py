"""Checks of artifacts: that they exist where they are used, and how they are judged and kept.

`unknown-artifact`, `may-be-missing`: used where not every path has written it.
`content-unhandled`: an empty or unreadable answer goes on without being judged.
`bad-path`: a `file` that can't be one of the workspace.
`folder-as-text`, `not-isolated`: folders that can't be artifacts here, or can't go back.
`judged-before`: a rule finds nothing, because an earlier state enforces it already.
`judged-elsewhere`: programs judge in another folder than the tree in which the author works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from loopkit.checks.limits import from_path, rewriting_authors
from loopkit.checks.subject import StatePath, Subject, arrows, on_path, shortest_path
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language.agents.agent import Workspace
from loopkit.language.facts import VERDICT, of_verdict
from loopkit.language.guard.kleene import truth
from loopkit.language.states.kinds import FilledState, ValidateState
from loopkit.language.template.rendering import parse_if_valid
from loopkit.language.validators import Rule, rules_of
from loopkit.language.validators.command import CommandRule
from loopkit.machine.cycles import Step, on_every_path
from loopkit.machine.edges import Edge
from loopkit.machine.flow import ANY_REPORT, Token
from loopkit.machine.scope import own_names
from loopkit.proof.outcomes.analysis import levels_at

REPORT = "report"
"""In `show:`, the last report instead of an artifact."""


def check_judged(subject: Subject) -> Iterator[Problem]:
    for name, state in subject.judges.items():
        path = ("states", name, "validate")
        yield from _check_artifact(subject, path, state.validate_, name, on_errors=True)


def check_shown(subject: Subject) -> Iterator[Problem]:
    """The artifacts that a person sees or edits and that a run ends with are written before.

    After an error or a limit an artifact may be absent, and is marked as absent. So may it be in a
    machine with origins, where one state serves several phases.
    """
    for name, state in subject.states.items():
        possibly = subject.scope.flow.entering[name].possibly if subject.graph.origins else ()
        for at, shown in state.shown:
            if (ANY_REPORT if shown == REPORT else ("artifact", shown)) not in possibly:
                path: DocPath = ("states", name, *at)
                yield from _check_artifact(subject, path, shown, name, on_errors=False)
        if state.edits is not None:
            path = ("states", name, "edit")
            yield from _check_artifact(subject, path, state.edits, name, on_errors=False)


def _check_artifact(
    subject: Subject, path: DocPath, artifact: str, state: str, *, on_errors: bool
) -> Iterator[Problem]:
    is_report = artifact == REPORT and path[2] == "show"
    if not is_report and artifact not in subject.graph.artifacts:
        yield _unknown(subject, path, artifact)
        return
    token = ANY_REPORT if is_report else ("artifact", artifact)
    way = way_without(subject, token, state, on_errors=on_errors)
    if way is not None:
        verb = "judges anything" if is_report else "writes it"
        message = f"`{artifact}` may be missing in `{state}`"
        remedy = f"nothing {verb} {on_path(way)}"
        yield subject.problem(path, "may-be-missing", message, remedy)


def way_without(
    subject: Subject, token: Token, state: str, *, on_errors: bool = True
) -> StatePath | None:
    """A path from the start to a state that does not bring a token into being, if there is one."""
    flow = subject.scope.flow
    if token in (flow.entering if on_errors else flow.entering_as_done)[state].surely:
        # Searching a path for each name would take time quadratic in the states.
        return None

    def follows(edge: Edge) -> bool:
        counts = on_errors or edge.event == "done"
        return counts and not flow.brings(edge, token)

    start = subject.machine.start
    return shortest_path(subject.graph, start, lambda name: name == state, follows)


def _unknown(subject: Subject, path: DocPath, artifact: str) -> Problem:
    written = subject.graph.artifacts
    if artifact in subject.states:
        message = f"`{artifact}` is a state that writes no artifact of this name"
        remedy = did_you_mean("", written) or "no state writes an artifact"
    else:
        message = f"no state writes an artifact `{artifact}`"
        remedy = did_you_mean(artifact, written)
    return subject.problem(path, "unknown-artifact", message, remedy)


def check_content(subject: Subject) -> Iterator[Problem]:
    if not all(judge.validate_ in subject.graph.artifacts for judge in subject.judges.values()):
        # An unknown artifact may be a misspelt one that is judged; it is reported first.
        return
    for name, state in subject.states.items():
        if state.may_leave_none and not subject.graph.on(name, "content"):
            yield from _check_author(subject, name)


def _check_author(subject: Subject, name: str) -> Iterator[Problem]:
    if not subject.graph.judging_follows(name):
        message = f"an empty or unusable answer of `{name}` would be treated like a good one"
        message += _path_without_judge(subject, name)
    elif read := sorted(own_names(subject.graph, name).keys() & subject.names_read(name)):
        fields = " and ".join(f"`{field}`" for field in read)
        message = f"the guards read {fields}, and an answer that violates its schema has no fields"
    else:
        return
    remedy = "add `on_error: {content: STATE}`"
    path = ("states", name)
    yield subject.problem(path, "content-unhandled", message, remedy, key=True)


def _path_without_judge(subject: Subject, name: str) -> str:
    artifact = subject.graph.written.get(name)
    judges = subject.graph.judged.get(artifact or "", ())
    way = shortest_path(
        subject.graph,
        name,
        lambda state: subject.states[state].ends,
        lambda edge: edge.event == "done" and not edge.back and edge.target not in judges,
    )
    return f": nothing judges `{artifact}` on the path {arrows(way)}" if way else ""


def check_files(subject: Subject) -> Iterator[Problem]:
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
        from loopkit.outside.workspace import flaw_of_path  # noqa: PLC0415 - most have no file

        if (flaw := flaw_of_path(literal)) is not None:
            remedy = "write a path that starts at the workspace and stays inside it"
            message = f"the path `{file}` {flaw}"
            yield subject.problem((*path, "file"), "bad-path", message, remedy)


def check_folders(subject: Subject) -> Iterator[Problem]:
    machine = subject.machine
    for name, state in machine.states.items():
        at: DocPath = ("states", name, "output", "folder")
        if _writes_folder(subject, name):
            if isinstance(state, FilledState):
                message = f"a `{state.kind}` state changes no folder"
                remedy = "write `output: NAME` alone"
                yield subject.problem(at, "folder-as-text", message, remedy)
            elif any(agent.schema_ is not None for agent in machine.agents_at(name)):
                asked = " or ".join(map("`{}`".format, state.asks))
                message = f"the answer of {asked} is data, by its `schema`, and a folder is none"
                remedy = "delete `schema`, or `folder`"
                yield subject.problem(at, "folder-as-text", message, remedy)
        authors = subject.graph.artifacts.get(state.edits or "", ())
        if any(_writes_folder(subject, author) for author in authors):
            message = f"`{state.edits}` is a folder, which a person can't edit as a text"
            remedy = "let the person comment, and revise with that"
            yield subject.problem(("states", name, "edit"), "folder-as-text", message, remedy)


def check_best_folders(subject: Subject) -> Iterator[Problem]:
    for path, authors in _going_back(subject):
        for author in authors:
            if _writes_folder(subject, author) and subject.machine.works_in_sight(author):
                message = f"the best version of the folder that `{author}` writes can't be restored"
                remedy = "let it work in a tree of its own: `workspace: {path: ., isolate: copy}`"
                yield subject.problem(path, "not-isolated", message, remedy)
                break


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


TOLD = {"message", "severity", "code", "guard"}
"""Keys that do not change what a rule demands."""
_Passed = frozenset[tuple[str, str]]
"""(artifact, demand of a rule that its present version meets)."""


def check_judged_before(subject: Subject) -> Iterator[Problem]:
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
                    yield subject.problem(path, "judged-before", message, remedy, severity="note")


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
    state = subject.judges.get(edge.source)
    if state is None or not _is_for_valid(subject, edge):
        return frozenset()
    levels = levels_at(subject.machine, state)
    rules = subject.rules_at[edge.source] if state.settle_after is None else ()
    return frozenset(
        _demand(subject, state, rule)
        for rule in rules
        if rule.sees_only_artifact
        and rule.guard is None
        and levels.blocks(rule.severity or levels.ungraded)
    )


def _is_for_valid(subject: Subject, edge: Edge) -> bool:
    """Whether only a report without blocking findings takes an edge."""
    guard = subject.guards.whole(edge.guard) if edge.event == "done" and edge.guard else None
    if guard is None:
        return False
    facts = ({VERDICT: v, **of_verdict(v)} for v in ("fail", "incomplete", "infeasible"))
    return all(truth(guard.tree, report) is False for report in facts)


def _demand(subject: Subject, state: ValidateState, rule: Rule) -> tuple[str, str]:
    demand = rule.model_dump(mode="json", by_alias=True, exclude=TOLD)
    patterns = subject.machine.patterns
    if rule.sees_only_artifact:
        demand |= {str(at[-1]): patterns.get(text, text) for at, text in rule.patterns}
    return state.validate_, json.dumps(demand, sort_keys=True, default=str)


def check_judged_elsewhere(subject: Subject) -> Iterator[Problem]:
    """A warning where a program cannot see what it judges, because that is isolated."""
    machine = subject.machine
    judging = {name for placed in subject.rules_of(CommandRule) for name in placed.judged_at}
    for name in sorted(judging):
        [judges_in] = machine.workspaces_at(name)
        for author in subject.graph.artifacts.get(machine.states[name].judges or "", ()):
            hidden = (own for own in machine.workspaces_at(author) if _is_hidden(own, judges_in))
            if (own := next(hidden, None)) is not None:
                message = f"the programs that judge in `{name}` don't see what `{author}` changes"
                message += " in a tree of its own before it is merged"
                written = f"workspace: {{path: {own.path}, isolate: {own.isolate}}}"
                remedy = f"write `{written}` for the whole machine, or for `{name}` as well"
                path: DocPath = ("states", name)
                yield subject.warning(path, "judged-elsewhere", message, remedy)
                break


def _is_hidden(own: Workspace | None, judges_in: Workspace | None) -> bool:
    if own is None or own.isolate == "none":
        return False
    return judges_in is None or judges_in.isolate == "none" or judges_in.path != own.path
