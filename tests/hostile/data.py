"""Data as no agent should send it: deep, wide, colliding, half broken."""

from __future__ import annotations

import json
import sys
from random import Random
from typing import Any

from tests.hostile.texts import text

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, True, False, None, 1.0, 1.5, -0.0, 1e308, -1e308, 5e-324, 2**53, 2**63, 2**64,
    10**30, 10**400, 0.1, 0.3,
)  # fmt: skip
KEYS = (
    "a", "b", "id", "nodes", "needs", "items", "type", "$ref", "__proto__", "", " ", "\u0000", "é",
)  # fmt: skip


def value(random: Random, depth: int = 4) -> Any:
    """Data of any shape."""
    kind = random.randrange(8 if depth else 4)
    if kind < 2:
        return random.choice(NUMBERS)
    if kind == 2:
        return text(random, random.choice((10, 200, 5_000)))
    if kind == 3:
        return random.choice(KEYS)
    if kind < 6:
        return [value(random, depth - 1) for _ in range(random.choice((0, 1, 2, 5, 30)))]
    return {
        random.choice(KEYS): value(random, depth - 1) for _ in range(random.choice((0, 1, 3, 8)))
    }


def graph(random: Random) -> dict[str, Any]:
    """Nodes that lead to each other, with ids that are alike, colliding or none."""
    size = random.choice((0, 1, 5, 100, 3_000))
    ids: list[Any] = random.choice(
        (
            [f"n{number}" for number in range(size)],
            [f"n{number}" + "y" * 90 for number in range(size)],
            [number * sys.hash_info.modulus for number in range(size)],
            [random.choice((*NUMBERS, "n", [], {})) for _ in range(size)],
        )
    )
    step = random.choice((1, 1, 7, 0))
    nodes = [
        {"id": id_, "needs": [ids[(number + step) % size], *random.choices(ids, k=number % 2)]}
        for number, id_ in enumerate(ids)
    ]
    return {"nodes": nodes, "known": random.choices(ids, k=size // 2) if ids else []}


def reply(random: Random) -> str:
    """What an agent says where data is expected."""
    return random.choice((_whole, _deep, _many, _broken, _prose, _long))(random)


def _whole(random: Random) -> str:
    return json.dumps(value(random), ensure_ascii=random.choice((True, False)))


def _deep(random: Random) -> str:
    opening = random.choice(("[", '{"a":', "[[", '[{"a":', "[ ", "{"))
    closing = {"[": "]", "{": "}"}
    depth = random.choice((10, 63, 64, 65, 500, 20_000))
    signs = [sign for sign in opening * depth if sign in closing]
    ends = "".join(closing[sign] for sign in reversed(signs))
    return opening * depth + random.choice(("", "1" + ends, ends))


def _many(random: Random) -> str:
    fence = '```json\n{"a": 1}\n```\n'
    one = random.choice(('{"a": 1} ', "[] ", "[{}]\n", fence, "{} [x] ", "[1, 2] "))
    return text(random, random.choice((0, 5_000, 100_000))) + one * random.choice((2, 100, 12_000))


def _broken(random: Random) -> str:
    whole = _whole(random)
    cut = whole[: random.randrange(len(whole) + 1)]
    return random.choice((cut, whole + cut, cut * 3, f"```json\n{cut}", whole.replace('"', "'")))


def _prose(random: Random) -> str:
    return f"{text(random, 2_000)}\n{_whole(random)}\n{text(random, 2_000)}"


def _long(random: Random) -> str:
    digits = "1" * random.choice((300, 4_000, 5_000, 50_000))
    return random.choice(
        (
            f"[{digits}]",
            f"[{digits}.5]",
            f"[1e{digits}]",
            f'{{"{digits}": 1, "{digits}": 2}}',
            '["' + "\\ud800" * 2_000 + '"]',
            '{"a": "' + "\\u0000" * 5_000 + '"}',
            "[" + "1," * 30_000 + "]",
            "{" + ",".join(f'"k{number % 50}": 1' for number in range(3_000)) + "}",
        )
    )
