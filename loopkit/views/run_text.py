"""A view of a run in lines, as `runs show` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from loopkit.engine.payloads import Artifact
from loopkit.engine.state import RunState
from loopkit.journal.contents import Contents, TooLong
from loopkit.journal.errors import LostContent
from loopkit.outside.trees import changed_files, printable_path
from loopkit.text import columns, indent_lines, item, one_line, or_empty, plural
from loopkit.text.editing import changed_lines
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import is_child, root_of
from loopkit.views.amounts import cost_of, duration, usage_text
from loopkit.views.review import artifact_lines, conflicts_of, report_lines, version_suffix
from loopkit.views.run_data import (
    Row,
    call_title,
    filled_in,
    in_words,
    rows_of,
    rows_to_show,
    status_of,
)
from loopkit.views.run_view import RunView
from loopkit.views.steps import Call, KeptVersion, Step, Steps


def summary(view: RunView) -> Iterator[str]:
    """A run in lines, each a paragraph, without what it asks and its children."""
    state, status, place = view.state, view.status, view.standing
    yield f"{view.run}: {status} at {place}" if place else f"{view.run}: {status}"
    yield f"spent: {usage_text(view.usage)}, {duration(view.usage.time_s)} of work"
    yield from _by_state(view.steps)
    yield from _answers(state)
    for name, value in state.input.items():
        yield f"input {name}: {one_line(or_empty(text_or_json(value)), 80)}"
    if state.status != "waiting":
        entered = (edge.partition("[")[0].partition(".")[0] for edge in state.route)
        yield "route: " + " → ".join((*entered, state.state))
        yield from report_lines(state.last_report, items=view.engine.program.report_items)
    if state.suspended is not None and not state.waits_for_children:
        yield f"suspended ({state.suspended.reason}): {view.stopped[0]}"
        yield from view.stopped[1:]
    else:
        yield from view.stopped
    if state.finished is not None and state.error:
        yield f"ended after an error: {state.error}"
    yield from _trees(state)
    yield from result_lines(state)
    yield from fresh_session_lines(view.steps)


def _answers(state: RunState) -> Iterator[str]:
    for name, answer in state.answers.items():
        filled = ", ".join(f"{field} {value}" for field, value in filled_in(answer.form).items())
        edited = "edited" if answer.edit is not None else ""
        details = "; ".join(part for part in (one_line(answer.comment), filled, edited) if part)
        more = f": {details}" if details else ""
        yield f"answer {name}: {answer.choice} (by {answer.by}){more}"


def _trees(state: RunState) -> Iterator[str]:
    if conflicts := state.finished.conflicts if state.finished else ():
        files = one_line(", ".join(conflicts), 1_000)
        yield f"not merged, because they have changed in the workspace as well: {files}"
    verb = "left its work" if state.is_over else "works"
    for isolated in state.isolated.values():
        if isolated.source not in state.merged:
            yield f"{verb} in {isolated.place}, not in {isolated.source}"


def result_lines(state: RunState) -> Iterator[str]:
    if state.finished is None:
        return
    for name, value in state.finished.result.items():
        label = version_suffix(state.finished.picked[name])
        shown = or_empty(text_or_json(value))
        yield f"result {name}{label}:\n{indent_lines(shown, '  ')}"


LONGEST_DIFF = 1_000_000


def difference(contents: Contents, before: Artifact, after: Artifact) -> str | None:
    """How the files of two folders differ; None where they are none, or are not kept."""
    if not (before.tree and after.tree):
        return None
    try:
        sides = contents.tree(before.tree), contents.tree(after.tree)
        return contents.diff(*sides, LONGEST_DIFF)
    except LostContent:
        return None
    except TooLong:
        changed = map(printable_path, changed_files(*sides))
        return "\n".join(f"{path} differs" for path in changed)


def diff_lines(
    before: KeptVersion,
    after: KeptVersion,
    changed: Sequence[str] | None = None,
    runs: tuple[str, str] = ("", ""),
) -> Iterator[str]:
    """How two versions differ; `runs` are named where they are those of different ones."""
    first, last = (f"{run}: " if run else "" for run in runs)
    yield f"--- {first}{before.title}"
    yield f"+++ {last}{after.title}"
    texts = artifact_lines(before.artifact), artifact_lines(after.artifact)
    yield from changed_lines(*texts) if changed is None else changed
    for run, here, there in ((first, before, after), (last, after, before)):
        known = {finding.id for finding in there.findings}
        if only := [finding for finding in here.findings if finding.id not in known]:
            yield f"Found only in {run}{here.artifact.name} {here.number}:"
            yield from (item(finding.message) for finding in only)


MOST_OF_TEXT = 600
"""Characters of a prompt or a reply in the list of all calls."""


def call_lines(run: str, step: Step, call: Call, most: int | None = None) -> Iterator[str]:
    """A call with its texts, each cut to at most `most` characters."""
    yield f"call {call.number} of {call_title(call, step)}"
    for title, text, about, _ in call.texts:
        yield f"{title}{f' ({about})' if about else ''}:"
        cut = text[:most]
        yield indent_lines(or_empty(cut.strip("\n")), "  ")
        if (more := len(text) - len(cut)) > 0:
            rest = plural(more, "more character", ",")
            yield f"  … {rest}: loopkit runs call {run} {call.number}"


def _by_state(steps: Steps) -> Iterator[str]:
    spent = {name: usage for name, usage in steps.usage_by_state().items() if usage.agent_calls}
    if len(spent) > 1:
        yield from (f"  {name}: {usage_text(usage)}" for name, usage in spent.items())


def child_lines(view: RunView) -> Iterator[str]:
    """The children of each state that has begun any, and the run that has begun this one."""
    for name, rows in rows_of(view.state):
        yield from _child_lines(view, name, rows)
    if is_child(view.run):
        yield f"part of: loopkit runs show {root_of(view.run)}"


def _child_lines(view: RunView, name: str, rows: Sequence[Row]) -> Iterator[str]:
    first = next(iter(view.state.children[name].values())).started
    total = first.of
    if total > 1 or first.key:
        counts = Counter(row.outcome or "not ended" for row in rows)
        words = [plural(total, "item", ",")]
        words += [f"{count:,} {outcome}" for outcome, count in counts.items()]
        words += [f"{total - len(rows):,} not begun"] if total > len(rows) else []
        yield f"{name}: {', '.join(words)}"
    shown = rows_to_show(rows)
    if table := [_cells(row, view) for row in shown]:
        for line in columns([("item", "status", "rounds", "calls", "cost"), *table], "<<>>>"):
            yield f"  {line}"
    for row in shown:
        if row.outcome:
            yield from (f"  {row.place}: {told}" for told in conflicts_of(row.result))
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown):,} more: loopkit runs ls {view.run}"


def _cells(row: Row, view: RunView) -> tuple[str, ...]:
    if row.outcome:
        result = row.result
        amounts = (str(result["rounds"]), str(result["calls"]), cost_of(result["cost"]))
        status = in_words(row.outcome, row.success)
        return row.place, status, *(amounts if row.run else ("", "", ""))
    if (state := view.open_children.get(row.run)) is None:
        return row.place, "new", "", "", ""
    status = status_of(state, is_driven=view.row.is_driven)
    if state.state:
        status = f"{status} at {state.state}"
    usage, rounds = state.usage, str(len(state.rounds))
    return row.place, status, rounds, str(usage.agent_calls), cost_of(usage.cost_usd)


MOST_REASON = 200
"""Characters of the reason of a failure."""


def fresh_session_lines(steps: Steps) -> Iterator[str]:
    """A line for each kept session that was begun anew, and why."""
    for step, call in steps.every_call():
        if call.failure is not None and call.failure.begins_anew:
            why = one_line(call.failure.message, MOST_REASON)
            yield f"fresh session of {call.intent.agent} at {step.state}, visit {step.visit}: {why}"
