"""The children of a run: a table in the order of their lists; a long list is cut."""

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
    """A child, whether it has begun or not."""

    place: str
    run: str
    """Empty if it never began."""
    outcome: str
    """Empty if it has not ended."""
    success: bool
    result: Mapping[str, Any]


def rows_of(state: RunState) -> Iterator[tuple[str, list[Row]]]:
    """The children of each state of a run, in the order of their lists."""
    for name, children in state.children.items():
        begun = sorted(children.values(), key=lambda child: child.started.index)
        rows = [_row(child) for child in begun]
        if name != state.state and name in state.artifacts and begun[0].started.key:
            # Children that never began are known from the results alone.
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


def rows_to_show(rows: Sequence[Row]) -> list[Row]:
    """All rows, or if there are many, the first that have not succeeded."""
    if len(rows) <= MOST_SHOWN:
        return list(rows)
    return [row for row in rows if not row.success][:MOST_SHOWN]


def child_lines(
    state: RunState, name: str, rows: Sequence[Row], known: Mapping[str, RunState], driven: bool
) -> Iterator[str]:
    """The children of a state; `known` has the states of those shown that have not ended."""
    children = list(state.children[name].values())
    total = children[0].started.of
    if total > 1 or children[0].started.key:
        yield f"{name}: {', '.join(_counts_by_outcome(rows, total))}"
    shown = rows_to_show(rows)
    table = [_cells(row, known.get(row.run), driven) for row in shown]
    if table:
        for line in columns([("item", "status", "rounds", "calls", "cost"), *table], "<<>>>"):
            yield f"  {line}"
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown):,} more: loopkit runs ls {state.run}"


def _counts_by_outcome(rows: Sequence[Row], total: int) -> Iterator[str]:
    yield plural(total, "item", ",")
    counts = Counter(row.outcome or BEGUN for row in rows)
    yield from (f"{count:,} {outcome}" for outcome, count in counts.items())
    if (missing := total - len(rows)) > 0:
        yield f"{missing:,} not begun"


def _cells(row: Row, state: RunState | None, driven: bool) -> tuple[str, ...]:
    if row.outcome:
        result = row.result
        status = f"{row.outcome} ({'success' if row.success else 'failure'})"
        amounts = (str(result["rounds"]), str(result["calls"]), cost_of(result["cost"]))
        return row.place, status, *(amounts if row.run else ("", "", ""))
    if state is None:
        return row.place, "new", "", "", ""
    status = status_of(state, is_driven=driven)
    if state.state:
        status = f"{status} at {state.state}"
    usage, rounds = state.usage, str(len(state.rounds))
    return row.place, status, rounds, str(usage.agent_calls), cost_of(usage.cost_usd)
