"""`never-judged`, `not-restored`, `last-shown`: revise edges with `from: best` that can't work.

`folders` reports a folder in a workspace that is not isolated.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.state_paths import leading_to
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import CommandRule
from loopkit.machine.edges import Edge


def check_from_best(subject: Subject) -> Iterator[Problem]:
    """Each edge with `from: best`, and all that has to go back to the best version with it."""
    for edge in subject.graph.edges:
        if edge.from_best and edge.target in subject.machine.states:
            yield from _never_judged(subject, edge)
            yield from _last_shown(subject, edge)
            for author in rewriting_authors(subject, edge):
                yield from _not_restored(subject, edge, author)


def from_path(edge: Edge) -> DocPath:
    return (*edge.path, "from")


def rewriting_authors(subject: Subject, edge: Edge) -> Iterator[str]:
    """The authors before an edge that may have worked again since an earlier version."""
    before = leading_to(subject.graph, {edge.source})
    yield from sorted(subject.graph.authors & subject.repeated & before)


def _never_judged(subject: Subject, edge: Edge) -> Iterator[Problem]:
    if not subject.judges.keys().isdisjoint(leading_to(subject.graph, {edge.source})):
        return
    message = f"no `validate` state comes before `{edge.source}`, so no version is the best"
    remedy = "judge the artifact on the way, or delete `from`"
    yield subject.source.problem(from_path(edge), "never-judged", message, help=remedy)


def _last_shown(subject: Subject, edge: Edge) -> Iterator[Problem]:
    state = subject.machine.states[edge.source]
    if state.waits and not state.picks_best and any(state.shown):
        message = f"`{edge.source}` shows the last version, and the author would get the best one"
        remedy = "add `pick: best` to the state, or delete `from`"
        path = from_path(edge)
        yield subject.source.problem(path, "last-shown", message, help=remedy, severity="warning")


def _not_restored(subject: Subject, edge: Edge, author: str) -> Iterator[Problem]:
    machine, path = subject.machine, from_path(edge)
    state, output = machine.states[author], machine.states[author].output_at(author)
    if state.child is not None:
        message = f"`{author}` runs other machines, and what these have done can't be taken back"
        remedy = "delete `from`, or go back to the best version inside of the other machine"
        yield subject.source.problem(path, "not-restored", message, help=remedy)
    elif output is not None and output.file is not None:
        message = f"the file that `{author}` writes stays as the last attempt has left it"
        remedy = "make its folder the artifact, in an isolated workspace: `output: {name: …, "
        yield subject.source.problem(path, "not-restored", message, help=f"{remedy}folder: …}}`")
    elif _is_judged_by_files(subject, author):
        message = f"the files that `{author}` leaves stay as the last attempt has left them"
        remedy = "make the folder its artifact: `output: {name: …, folder: …}`"
        yield subject.source.problem(path, "not-restored", message, help=remedy, severity="warning")


def _is_judged_by_files(subject: Subject, author: str) -> bool:
    """Whether an author changes files that a rule judges, and only its reply is the artifact."""
    output = subject.machine.states[author].output_at(author)
    agents = subject.machine.agents_at(author)
    if output is None or output.is_left or not any(agent.works_on_files for agent in agents):
        return False
    judging = {name for placed in subject.rules_of(CommandRule) for name in placed.judged_at}
    return not judging.isdisjoint(subject.graph.judged.get(output.name, ()))
