"""Records of which one was changed at a random place."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

ODD: Sequence[Any] = (
    None, True, 0, 1, -1, 7, 10**30, 0.5, 1e308, float("inf"), "", "x", "ask[0]", "\0", "é" * 500,
    [], [None], [[]], ["x"], {}, {"x": 1}, {"agent_calls": -5},
)  # fmt: skip


def places(value: object, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to every value inside a JSON value."""
    children: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, dict):
        children = iter(value.items())
    elif isinstance(value, list):
        children = iter(enumerate(value))
    for key, child in children:
        yield (*way, key)
        yield from places(child, (*way, key))


def changed(data: str, chance: random.Random) -> str:
    """A record's text with one value replaced, taken out or put in."""
    value = json.loads(data)
    way = chance.choice([*places(value), ("added",)])
    holder = value
    for key in way[:-1]:
        holder = holder[key]
    if chance.random() < 0.25 and way[-1] != "added":
        del holder[way[-1]]
    else:
        holder[way[-1]] = chance.choice(ODD)
    return json.dumps(value)


def bytes_changed(data: str, chance: random.Random) -> str:
    at = chance.randrange(len(data) + 1)
    return (
        data[:at] + chance.choice(["", '"', "}", "\0", "9", "ÿ"]) + data[at + chance.randrange(3) :]
    )


Row = tuple[int, int, float, str, str]


def damaged(rows: Sequence[Row], chance: random.Random) -> list[Row]:
    """The records of a run after something happened to them."""
    rows = list(rows)
    at = chance.randrange(len(rows))
    seq, epoch, time, kind, data = rows[at]
    match chance.randrange(8):
        case 0:
            del rows[at]
        case 1:
            rows.insert(at, rows[chance.randrange(len(rows))])
        case 2:
            other = chance.randrange(len(rows))
            rows[at], rows[other] = rows[other], rows[at]
        case 3:
            rows[at] = (seq, epoch, time, chance.choice(rows)[3], data)
        case 4:
            rows[at] = (seq, epoch, time, kind, bytes_changed(data, chance))
        case _:
            rows[at] = (seq, epoch, time, kind, changed(data, chance))
    return [(n, epoch, *rest) for n, (_, epoch, *rest) in enumerate(rows, 1)]  # type: ignore[misc]


COMMANDS: Sequence[Sequence[str]] = (
    ("runs", "ls"),
    ("runs", "show", "RUN"),
    ("runs", "logs", "RUN"),
    ("stats", "RUN"),
    ("stats", "--format", "json"),
    ("runs", "logs", "--jsonl", "RUN"),
    ("diagram", "--run", "RUN"),
    ("runs", "record", "RUN", "recorded.scenario.yaml"),
    ("resume", "RUN"),
    ("answer", "RUN", "approve"),
    ("cancel", "RUN"),
)
"""What looks at a run, or goes on with it."""
