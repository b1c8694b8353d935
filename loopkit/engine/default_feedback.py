"""The feedback of an edge without a text: what has to be fixed, what is fixed, how to reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

from loopkit.engine.findings import Finding, Report
from loopkit.language import AuthorState
from loopkit.machine.program import Program
from loopkit.machine.report_items import ReportItems

WHOLE_VERSION = "Reply with the complete new version, not only with what changed."
IN_THE_FILES = "Fix this in the files, and leave everything else in them as it is."
_MARKS = {"recurring": "not fixed yet", "regressed": "came back"}


def default_feedback(
    program: Program, report: Report, to: str, revision: tuple[int, int], asked: str | None
) -> str:
    """A whole message for the agent of the state `to`; empty if nothing in the report blocks.

    `revision` is this revision's number and the maximum.
    """
    blocking = report.blocking
    if not blocking:
        return ""
    most = program.machine.limits.feedback_items
    is_of_later_work = to in program.graph.origins and to != report.author
    where = f", found by `{report.state}` in `{report.artifact}`" if is_of_later_work else ""
    items = program.report_items
    parts = [_heading(len(blocking), where, *revision), _list_findings(blocking, most, items)]
    if report.resolved:
        fixed = _list_findings(report.resolved, most, items)
        parts.append(f"Fixed since the version before:\n\n{fixed}")
    parts.append(_request(program, to, asked))
    return "\n\n".join([part for part in parts if part])


def _heading(count: int, where: str, revision: int, most: int) -> str:
    last = ", the last one" if revision == most else ""
    these = "this problem" if count == 1 else f"these {count} problems, the most severe first"
    return f"Revision {revision} of {most}{last}. Fix {these}{where}:"


def _list_findings(findings: Sequence[Finding], most: int, items: ReportItems | None) -> str:
    lines = [_item(finding, items) for finding in findings[:most]]
    if len(findings) > most:
        lines.append(f"- … and {len(findings) - most} more")
    return "\n".join(lines)


def _item(finding: Finding, items: ReportItems | None) -> str:
    marks = ", ".join(_marks(finding, items))
    message = indent(finding.message.strip(), "  ").strip()
    return f"- {message} ({marks})" if marks else f"- {message}"


def _marks(finding: Finding, items: ReportItems | None) -> Iterator[str]:
    """Its place, code, further fields and status, and whether its origin is assumed."""
    if finding.location:
        yield f"at `{finding.location}`"
    if finding.line is not None:
        yield f"line {finding.line}"
    if finding.code:
        yield f"code `{finding.code}`"
    if items is not None:
        yield from items.further(finding.item)
    if finding.status in _MARKS:
        yield _MARKS[finding.status]
    if finding.defaulted:
        yield "origin assumed"


def _request(program: Program, to: str, asked: str | None) -> str:
    """How an agent has to reply; empty for a state that only fills in a template."""
    if asked is None:
        return ""
    machine = program.machine
    agent = machine.agents[asked]
    author = machine.states_of(AuthorState)[to]
    folder = machine.workspace_at(to, agent)
    is_in_files = agent.works_on_files and (author.output_at(to).is_left or folder)
    return IN_THE_FILES if is_in_files else WHOLE_VERSION
