"""Feedback: what a decision tells each state that has to work again.

The text of an edge; without one, the mistakes to avoid in a new answer, or, where the version that
has them is shown, what has to be fixed, what is fixed, and how to reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopkit.engine.events import Worked
from loopkit.engine.findings import (
    NOT_NAMED_AGAIN,
    OF_ARTIFACT,
    REPEATED,
    Finding,
    Report,
    points_into,
)
from loopkit.engine.payloads import Deferral, Feedback
from loopkit.engine.revisions import after_edge, revision_of
from loopkit.engine.state import RunState
from loopkit.engine.template_values import (
    LISTS,
    blocking_for,
    choose_agent,
    finding_in_words,
    part_for,
    plain_answer,
    plain_findings,
    plain_report,
    render,
    waiting_reports,
)
from loopkit.language.states.kinds import AgentState
from loopkit.machine.edges import Edge
from loopkit.machine.graph import ECHO
from loopkit.machine.program import Program
from loopkit.machine.scope import ReportItems


def feedback_for(
    program: Program, run: RunState, work: Worked, edge: Edge, attempt: object
) -> tuple[tuple[Feedback, ...], tuple[Deferral, ...]]:
    """The feedback for the states after an edge, and the deferrals for later ones.

    `attempt` is the value that guards of the source read under that name. Raises TemplateError.
    """
    if edge.judges_again(program.machine.states):
        return (), ()
    if not edge.back:
        return (tuple(_waiting_feedback(program, run, edge.target)) if run.deferred else ()), ()
    spent = after_edge(run.counters, edge.counters, edge.resets)
    revision = revision_of(program, run, edge, spent)
    answer = plain_answer(program, edge.source, work.answer) if work.answer else {}
    to, report = addressee(program, run, edge), run.last_report
    names = {**answer, "attempt": attempt}
    about = report and part_for(program, report, to)
    otherwise = work.error or "Please revise."
    if work.answer is not None:
        otherwise = f"The reviewer chose `{work.answer.choice}` without a comment."
    own, is_worded = _feedback(program, run, edge, about, to, revision, names, otherwise)
    if about and program.graph.notes_told and _tells_findings(program, edge, to, is_worded):
        own = own.replace(tells=_deferral(about, to, edge.id, revision, answer))
    waited: Iterable[Feedback] = ()
    if run.deferred:
        known = own.tells.findings if own.tells else ()
        waited = _waiting_feedback(program, run, edge.target, known)
    if not program.graph.has_origins:
        return (own, *waited), ()
    return (own, *waited), tuple(_deferrals(program, report, edge, revision, answer))


def addressee(program: Program, run: RunState, edge: Edge) -> str:
    """The state that gets the feedback of an edge: its target, or the author of what was judged."""
    if program.plans[edge.target].state.reads_feedback:
        return edge.target
    if (judged := program.machine.states[edge.source].judges) is not None:
        return program.graph.author_of(judged, run.artifacts[judged].author)
    return run.last_report.author if run.last_report else edge.target


def _tells_findings(program: Program, edge: Edge, to: str, is_worded: bool) -> bool:
    """Whether the feedback of an edge is about findings, and not what a person or an error says."""
    graph = program.graph
    is_judging = program.plans[edge.source].state.judges is not None
    names = program.template(program.feedback_of(edge)).names
    is_of_findings = edge.event == "done" and (is_judging or not is_worded or "findings" in names)
    return is_of_findings and (not graph.has_origins or to in graph.origins)


SHORT_BYTES = 1_200
"""The longest version that is written anew, some 200 words. In a longer one its author would lose
what nobody has found fault with; a shorter one in view is given again as it is."""
UNSHOWN = (REPEATED, ECHO)
"""The codes of answers that are never shown to their author again."""


def hides_previous(
    program: Program, run: RunState, edge: Edge | None, report: Report | None, to: str, is_own: bool
) -> bool:
    """Whether a state is told of the findings without its version; `is_own` if an edge has words.

    A long version, and one in which findings name a place, has to be seen; one that repeats the
    version before, or the feedback, never.
    """
    if report is None and (edge is None or edge.previous == "auto"):
        return False
    asked = choose_agent(program, run, to)
    found = report.findings if report else ()
    is_repeat = any(one.code in UNSHOWN and one.validator == OF_ARTIFACT for one in found)
    hides = asked is not None and program.hides_previous(edge, to, asked, is_own, is_repeat)
    if hides is not None or report is None:
        return bool(hides)
    version = run.artifacts.get(program.graph.written[to])
    if version is None or version.edited or version.name != report.artifact:
        return False
    is_last = (version.author, version.attempt) == (to, run.attempts.get(to))
    is_short = len(version.text.encode()) <= SHORT_BYTES
    is_text = program.type_from(to) is None
    has_places = is_text and any(points_into(found, version.text) for found in report.blocking)
    return is_last and is_short and not has_places


def _feedback(
    program: Program,
    run: RunState,
    edge: Edge | None,
    about: Report | None,
    to: str,
    revision: tuple[int, int],
    names: Mapping[str, Any],
    otherwise: str,
) -> tuple[Feedback, bool]:
    """What a state is told, and whether in the words of the edge.

    Without any it is told of what blocks, or `otherwise`.
    """
    text = "" if edge is None else _fill_template(program, run, edge, about, revision, names)
    is_worded = bool(text.strip())
    hides = hides_previous(program, run, edge, about, to, is_worded)
    if not is_worded:
        asked = choose_agent(program, run, to) if about else None
        text = default_feedback(program, about, to, revision, asked, hides) if about else ""
        text = text or otherwise
    (now, most), text = revision, text.strip("\n")
    told = Feedback(to=to, text=text, revision=now, max_revisions=most, hides_previous=hides)
    return told, is_worded


def _fill_template(
    program: Program,
    run: RunState,
    edge: Edge,
    about: Report | None,
    revision: tuple[int, int],
    names: Mapping[str, Any],
) -> str:
    of_report: dict[str, object] = {}
    if program.graph.notes_told and about is not None:
        most = program.machine.limits.feedback_items
        items = program.report_items
        of_report = {
            "findings": plain_findings(about.blocking[:most], items),
            **{name: plain_findings(getattr(about, name), items) for name in LISTS},
        }
    extra = {**of_report, **names, "revision": revision[0], "max_revisions": revision[1]}
    return render(program, run, program.feedback_of(edge), extra)


def _deferrals(
    program: Program,
    report: Report | None,
    edge: Edge,
    revision: tuple[int, int],
    answer: Mapping[str, Any],
) -> Iterator[Deferral]:
    origins = program.graph.origins
    if report is None or edge.event != "done":
        return
    named = origins.in_order(name for found in report.blocking for name in found.origins)
    wording = _edges_to_origins(program, report.state, edge)
    for to in origins.ahead_of(edge.target, named):
        yield _deferral(report, to, wording.get(to), revision, answer)


def _deferral(
    report: Report, to: str, edge: str | None, revision: tuple[int, int], answer: Mapping[str, Any]
) -> Deferral:
    return Deferral(
        to=to,
        by=report.state,
        findings=tuple(found.id for found in report.findings if found.is_for(to)),
        edge=edge,
        revision=revision[0],
        max_revisions=revision[1],
        answer=dict(answer),
    )


def _edges_to_origins(program: Program, judge: str, taken: Edge) -> dict[str, str]:
    """By origin, the edge with its feedback: of the transition taken, else of the judging state."""
    written_with = [e for e in program.graph.on(taken.source, "done") if e.path == taken.path]
    edges = (*program.graph.on(judge, "done"), *written_with)
    return {edge.origin: edge.id for edge in edges if edge.origin}


def _waiting_feedback(
    program: Program, run: RunState, state: str, known_ids: Iterable[str] = ()
) -> Iterator[Feedback]:
    """The feedback with findings that waited for a state, are still open and not in `known_ids`."""
    deferrals = run.deferred.get(state, ())
    for deferral, report in waiting_reports(program, run, deferrals, known_ids):
        revision = (deferral.revision, deferral.max_revisions)
        edge = program.graph.by_id.get(deferral.edge or "")
        whole = plain_report(run.reports[deferral.by], program.report_items)
        names = {**deferral.answer, "attempt": report.attempt, "report": whole}
        told, _ = _feedback(program, run, edge, report, state, revision, names, "")
        findings = tuple(found.id for found in report.findings)
        yield told.replace(tells=deferral.replace(findings=findings))


WHOLE_VERSION = "Reply with the complete new version, not only with what changed."
IN_THE_FILES = "Fix this in the files, and leave everything else in them as it is."
EARLIER_ANSWERS = "Earlier answers to this task were wrong"
"""How the feedback begins that is sent before the prompt, without the version. A sentence more,
such as to avoid the mistakes, and a model does worse."""
_LEAD = re.compile(
    r"earlier answers to this task were wrong.*:|revision \d+ of \d+(, the last one)?\. fix th"
)
FEWEST_WORDS = 4
"""The words of the shortest finding that nobody writes by chance."""


def default_feedback(
    program: Program,
    report: Report,
    to: str,
    revision: tuple[int, int],
    asked: str | None,
    hides: bool,
) -> str:
    """A whole message for the agent of the state `to`; empty if nothing in the report blocks.

    `revision` is this revision's number and the maximum. With `hides` it is about a version that
    the agent is not shown.
    """
    blocking = report.blocking
    if not blocking:
        return ""
    most = program.machine.limits.feedback_items
    is_of_later_work = to in program.graph.origins and to != report.author
    where = f", found by `{report.state}` in `{report.artifact}`" if is_of_later_work else ""
    items = program.report_items
    request = _request(program, to, asked)
    if hides:
        # What was found, and what nobody has found to be mended since.
        told = (*report.findings, *report.unnamed, *report.unseen)
        known = [one.replace(status="new") for one in told if one.blocking and one.is_for(to)]
        listed = f"{EARLIER_ANSWERS}{where}:\n{_list_findings(known, most, items)}"
        return f"{listed}\n\n{request}" if request == IN_THE_FILES else listed
    lists: dict[str, Sequence[Finding]] = {
        _heading(len(blocking), where, *revision): blocking,
        "Also:": [note for note in report.warnings if note.validator == OF_ARTIFACT],
        "Fixed since the version before:": report.resolved,
        f"Found in the version before, and {NOT_NAMED_AGAIN}:": report.unnamed,
    }
    parts = [f"{title}\n\n{_list_findings(f, most, items)}" for title, f in lists.items() if f]
    return "\n\n".join([*parts, request] if request else parts)


def _heading(count: int, where: str, revision: int, most: int) -> str:
    last = ", the last one" if revision == most else ""
    these = "this problem" if count == 1 else f"these {count} problems, the most severe first"
    return f"Revision {revision} of {most}{last}. Fix {these}{where}:"


def _list_findings(findings: Sequence[Finding], most: int, items: ReportItems | None) -> str:
    lines = [f"- {finding_in_words(finding, items)}" for finding in findings[:most]]
    if len(findings) > most:
        lines.append(f"- … and {len(findings) - most} more")
    return "\n".join(lines)


def is_echo(program: Program, run: RunState, name: str, text: str) -> bool:
    """Whether an author gives back the feedback instead of doing what the prompt asks for.

    It does if a line begins as default feedback does, or if most lines are findings that it was
    told. What the prompt has as well is no sign of that, nor are findings that the work quotes.
    """
    feedback = run.feedback_for(name)
    if not feedback or not (lines := _lines(text)):
        return False
    prompt = program.machine.states_of(AgentState)[name].prompt
    known = _lines(render(program, run, prompt, {"feedback": "", "previous": ""}))
    texts = lines, known, _lines(feedback)
    has_lead, is_asked, was_told = (any(map(_LEAD.match, some)) for some in texts)
    if has_lead and was_told and not is_asked:
        return True
    items = [line for line in feedback.splitlines() if line.startswith("- ")] if was_told else ()
    found = (one.message.strip().partition("\n")[0] for one in blocking_for(program, run, name))
    told = {*map(_unmarked, _lines("\n".join((*items, *found))))}.difference(map(_unmarked, known))
    repeated = [line for line in map(_unmarked, lines) if line in told]
    return 2 * sum(len(line.split()) >= FEWEST_WORDS for line in repeated) > len(lines)


def _unmarked(line: str) -> str:
    """A line without what stands in brackets behind a finding."""
    return line.partition(" (")[0]


def _lines(text: str) -> list[str]:
    """The lines with something in them, without marks of lists, case and further white space."""
    squeezed = (" ".join(line.strip("\t >*#-•`").split()).casefold() for line in text.splitlines())
    return [line for line in squeezed if line]


def _request(program: Program, to: str, asked: str | None) -> str:
    """How an agent has to reply; empty for a state that only fills in a template."""
    if asked is None:
        return ""
    works = program.machine.agents[asked].works_on_files and program.works_in_files(to, asked)
    return IN_THE_FILES if works else WHOLE_VERSION
