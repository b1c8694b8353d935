"""The summary of a run: its status, its usage, its last report, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopkit.engine.events import Usage
from loopkit.engine.state import RunState
from loopkit.machine.report_items import ReportItems
from loopkit.text import indent_lines, one_line, or_empty
from loopkit.text.command_lines import resume_line
from loopkit.text.json_text import text_or_json
from loopkit.views.amounts import duration, usage_text
from loopkit.views.review import report_lines
from loopkit.views.versions import version_suffix


def status_of(state: RunState, *, is_driven: bool) -> str:
    """The status in one word; `interrupted` if the process that drove the run is gone."""
    if state.waits_for_children:
        return "waiting"
    is_under_way = state.status in ("new", "running")
    return "interrupted" if is_under_way and not is_driven else state.status


def standing_of(state: RunState) -> str:
    """The active state of a run, or its outcome."""
    if state.finished is None:
        return state.state
    return f"{state.finished.outcome} ({'success' if state.finished.success else 'failure'})"


def summary(
    state: RunState,
    hints: Sequence[str],
    usage: Usage,
    *,
    is_driven: bool,
    items: ReportItems | None = None,
) -> Iterator[str]:
    """A run in lines, each a paragraph, without the open question, which has a view of its own.

    `hints` are the commands that continue a suspended run; `usage` is that of its family;
    `items` are the further fields of findings in its machine.
    """
    status, place = status_of(state, is_driven=is_driven), standing_of(state)
    yield f"{state.run}: {status} at {place}" if place else f"{state.run}: {status}"
    yield f"spent: {usage_text(usage)}, {duration(usage.time_s)} of work"
    yield from _answers(state)
    for name, value in state.input.items():
        yield f"input {name}: {one_line(or_empty(text_or_json(value)), 80)}"
    if state.status != "waiting":
        # The open question shows the route and its report itself.
        entered = (edge.partition("[")[0].partition(".")[0] for edge in state.route)
        yield "route: " + " → ".join((*entered, state.state))
        yield from report_lines(state.last_report, items=items)
    if state.suspended is not None:
        why = "" if state.waits_for_children else f"suspended ({state.suspended.reason}): "
        yield f"{why}{state.suspended.message}"
        yield from hints
    elif state.finished is not None and state.error:
        yield f"ended after an error: {state.error}"
    elif status == "interrupted":
        yield f"resume with: {resume_line(state.run)}"
    yield from _trees(state)
    yield from _results(state)


def filled_in(form: Mapping[str, object]) -> dict[str, str]:
    """What an answer says in each field of the form, but for those that are left empty."""
    return {name: text_or_json(value) for name, value in form.items() if value is not None}


def _answers(state: RunState) -> Iterator[str]:
    for name, answer in state.answers.items():
        filled = ", ".join(f"{field} {value}" for field, value in filled_in(answer.form).items())
        edited = "edited" if answer.edit is not None else ""
        details = "; ".join(part for part in (one_line(answer.comment), filled, edited) if part)
        more = f": {details}" if details else ""
        yield f"answer {name}: {answer.choice} (by {answer.by}){more}"


def _trees(state: RunState) -> Iterator[str]:
    """The folders in which the run works, or has left its work, instead of a workspace."""
    verb = "left its work" if state.is_over else "works"
    for isolated in state.isolated.values():
        if isolated.source not in state.merged:
            yield f"{verb} in {isolated.place}, not in {isolated.source}"


def _results(state: RunState) -> Iterator[str]:
    if state.finished is None:
        return
    for name, value in state.finished.result.items():
        label = version_suffix(state.finished.picked[name])
        shown = text_or_json(value)
        yield f"result {name}{label}:\n{indent_lines(or_empty(shown), '  ')}"
