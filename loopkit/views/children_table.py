"""The children of a run: a table in the order of their lists, of a long one what matters most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loopkit.engine.state import RunState
from loopkit.engine.tasks import Child
from loopkit.text import columns, plural
from loopkit.text.run_ids import place_of
from loopkit.views.amounts import cost_of
from loopkit.views.summary import status_of

MOST_SHOWN = 20
BEGUN = "not ended"


class Row(NamedTuple):
    """A child, begun or not."""

    place: str
    run: str
    """Empty where it was never begun."""
    outcome: str
    """Empty where it has not ended."""
    success: bool
    result: Mapping[str, Any]


def rows_of(state: RunState) -> Iterator[tuple[str, list[Row]]]:
    """The children of each state of a run, in the order of their lists."""
    for name, children in state.children.items():
        begun = sorted(children.values(), key=lambda child: child.started.index)
        rows = [_row(child) for child in begun]
        if name != state.state and name in state.artifacts and begun[0].started.key:
            # Of those that were never begun, only the results tell.
            rows += [
                Row(place_of(name, key), "", one["outcome"], False, one)
                for key, one in state.artifacts[name].data.items()
                if key not in children
            ]
        yield name, rows


def _row(child: Child) -> Row:
    place, run = place_of(child.started.state, child.started.key), child.started.child
    if child.ended is None:
        return Row(place, run, "", False, {})
    result = child.ended.result
    return Row(place, run, result["outcome"], result["success"], result)


def shown_of(rows: Sequence[Row]) -> list[Row]:
    """All rows, or of many those that have not succeeded."""
    if len(rows) <= MOST_SHOWN:
        return list(rows)
    return [row for row in rows if not row.success][:MOST_SHOWN]


def child_lines(
    state: RunState, name: str, rows: Sequence[Row], known: Mapping[str, RunState], driven: bool
) -> Iterator[str]:
    """The children of a state; of those shown that have not ended, `known` says where they are."""
    children = list(state.children[name].values())
    total = children[0].started.of
    if total > 1 or children[0].started.key:
        yield f"{name}: {', '.join(_counted(rows, total))}"
    shown = shown_of(rows)
    table = [_cells(row, known.get(row.run), driven) for row in shown]
    if table:
        for line in columns([("item", "status", "rounds", "calls", "cost"), *table], "<<>>>"):
            yield f"  {line}"
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown):,} more: loopkit runs ls {state.run}"


def _counted(rows: Sequence[Row], total: int) -> Iterator[str]:
    yield plural(total, "item", ",")
    counts = Counter(row.outcome or BEGUN for row in rows)
    yield from (f"{count:,} {outcome}" for outcome, count in counts.items())
    if (waits := total - len(rows)) > 0:
        yield f"{waits:,} not begun"


def _cells(row: Row, state: RunState | None, driven: bool) -> tuple[str, ...]:
    if row.outcome:
        result = row.result
        told = f"{row.outcome} ({'success' if row.success else 'failure'})"
        amounts = (str(result["rounds"]), str(result["calls"]), cost_of(result["cost"]))
        return row.place, told, *(amounts if row.run else ("", "", ""))
    if state is None:
        return row.place, "new", "", "", ""
    status = status_of(state, is_driven=driven)
    told = f"{status} at {state.state}" if state.state else status
    usage = state.usage
    return row.place, told, str(len(state.rounds)), str(usage.agent_calls), cost_of(usage.cost_usd)
