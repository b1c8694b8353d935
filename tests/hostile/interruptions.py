"""Signals at any moment of a run, whatever it is busy with."""

from __future__ import annotations

import json
from random import Random
from signal import SIGINT, SIGTERM
from typing import Any

LONGEST_S = 0.5
"""After this all but the slowest runs are over."""


def signals(random: Random) -> list[tuple[float, int]]:
    """One, two or three, soon after another or not."""
    first = (random.uniform(0, LONGEST_S), random.choice((SIGINT, SIGTERM)))
    rest = random.choices((0.0, 0.001, 0.02, 0.1, 0.3), k=random.choice((0, 0, 1, 1, 2)))
    return [first, *((after_s, random.choice((SIGINT, SIGTERM))) for after_s in rest)]


def slow_machine(random: Random) -> str:
    """A machine whose author or rules take their time, and that ends in success."""
    whole = {
        "loopkit": 1,
        "agents": {
            "writer": {"command": _command(random, "A text."), **_doubt(random)},
            "critic": {"command": _command(random, _PASS), **_doubt(random)},
        },
        "states": {
            "start": {"run": _command(random, "x"), **_doubt(random), "next": "draft"},
            "draft": {"agent": "writer", "prompt": "Write.", "output": "plan", "next": "check"},
            "check": {
                "validate": "plan",
                "by": [_rule(random), {"judge": "critic"}],
                "transitions": [
                    {"guard": "valid", "target": "done"},
                    {"revise": "draft"},
                    {"target": "failed"},
                ],
            },
            "done": {"final": "success", "result": "plan"},
            "failed": {"final": "failure"},
        },
    }
    return json.dumps(whole)


_PASS = json.dumps({"verdict": "pass", "findings": []})


def _command(random: Random, says: str) -> list[str]:
    """A program that says this after a while; one that no signal ends, sometimes."""
    seconds = random.choice((0, 0, 0.02, 0.1))
    before = random.choice(("", "", "trap '' TERM INT; "))
    return ["sh", "-c", f"{before}sleep {seconds}; echo '{says}'"]


def _rule(random: Random) -> dict[str, Any]:
    return random.choice(
        (
            {"max_chars": 100},
            {"command": _command(random, "x")},
            {"not_matches": "(?:a|aa|aaa)+$b"},
        )
    )


def _doubt(random: Random) -> dict[str, Any]:
    return random.choice(({}, {"on_in_doubt": "retry"}))
