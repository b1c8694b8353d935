"""Scenarios with cases that no machine expects: faults, times, counts, names and diffs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.hostile.data import NUMBERS, reply, value
from tests.hostile.texts import mutated, text

MACHINE = """
loopkit: 1
input: {x: {type: str, default: y}}
limits: {cost_usd: 5, revisions: 3}
agents:
  writer: {model: openai/gpt-5-mini}
  critic: {model: openai/gpt-5}
validators:
  tests: [{command: [make, test]}]
  quality: {judge: critic, rubric: [It is good.]}
states:
  draft: {agent: writer, prompt: "Write {{ input.x }}.", output: plan, next: build}
  build: {run: [make], output: log, next: check}
  check:
    validate: plan
    by: [{min_chars: 3}, tests, quality]
    transitions:
      - {guard: valid, target: ask}
      - {revise: draft}
      - {target: dropped}
  ask:
    human: Start?
    choices: [start, change, drop]
    form: {note: {type: str, default: z}}
    edit: plan
    transitions:
      - {guard: choice == "start", target: done}
      - {guard: choice == "change", revise: draft, feedback: "{{ comment }}"}
      - {target: dropped}
  done: {final: success, result: plan}
  dropped: {final: failure, result: plan}
"""

FAULTS = (
    "rate_limit", "timeout", "server_error", "connection", "authentication", "quota", "refusal",
    "context_too_long", "session_lost", "content_policy", "cut_off", "invalid_json", "crash",
    "none", "",
)  # fmt: skip
TIMES = ("0s", "1ms", "90s", "99999999h", "9" * 30 + "h", "-1s", "1", "1e3s", "", 5, None)
PATHS = ("m.yaml", "m.scenario.yaml", "../x", "/etc/passwd", ".", "", "no.txt", "\u0000", "a" * 300)
NAMES = ("draft", "build", "check", "ask", "done", "…", "...", "*", "nowhere", "", "a" * 2_000, 3)


def cases(random: Random) -> str:
    """A scenario with some cases, a part of it replaced sometimes."""
    many = random.choice((1, 1, 2, 5, 60))
    whole: dict[str, Any] = {"scenario": 1, "machine": "m.yaml"}
    whole |= _parts(random) if random.random() < 0.5 else {}
    whole["cases"] = {f"case {number}": _case(random) for number in range(many)}
    made = json.dumps(whole, indent=1)
    return mutated(random, made) if random.random() < 0.3 else made


def tested(random: Random, machine: str, name: str) -> Sequence[str]:
    """A command that reads cases."""
    names = random.choice(("case 0", "(" * 3_000, "\n", ""))
    return random.choice(
        (
            ("test", name),
            ("test", ".", "--coverage", "--junitxml", "junit.xml"),
            ("test", name, "-k", names),
            ("test", name, "--fail-under", random.choice(("100", "nan", "-1", "1e999"))),
            ("diagram", machine, "--cases", name),
        )
    )


def _case(random: Random) -> dict[str, Any]:
    case = _parts(random)
    case["expect"] = {
        key: make(random) for key, make in EXPECTED.items() if random.random() < 0.4
    } or {"outcome": "done"}
    if random.random() < 0.2:
        case["limits"] = {"cost_usd": random.choice(NUMBERS), "time": random.choice(TIMES)}
    if random.random() < 0.2:
        case["resumes"] = [{"after": random.choice(TIMES)}] * random.choice((1, 3, 500))
    if random.random() < 0.2:
        case["input"] = {"x": _file(random)}
    return case


def _parts(random: Random) -> dict[str, Any]:
    return {
        "agents": {
            "writer": [_attempt(random) for _ in range(random.choice((1, 2, 4)))],
            "critic": [_attempt(random) for _ in range(random.choice((1, 2)))],
        },
        "commands": {"build": [_result(random)] * 4, "tests": [_result(random)] * 4},
        "answers": {"ask": [_answer(random)] * random.choice((1, 4))},
    }


def _attempt(random: Random) -> Any:
    calls = [_call(random) for _ in range(random.choice((1, 1, 2, 30)))]
    return calls if len(calls) > 1 else calls[0]


def _call(random: Random) -> Any:
    kind = random.randrange(6)
    if kind < 2:
        verdict = {"verdict": random.choice(("pass", "fail", "warn", 3)), "findings": []}
        return {"data": random.choice((verdict, verdict, value(random)))}
    if kind == 2:
        return {"fault": random.choice(FAULTS), "retry_after": random.choice(TIMES)}
    if kind == 3:
        files = {random.choice(PATHS): text(random, 500)}
        return {"reply": _file(random), "files": files, "delay": random.choice(TIMES)}
    if kind == 4:
        cost = {"cost_usd": random.choice(NUMBERS), "usage": {"input": random.choice(NUMBERS)}}
        return {"reply": "A text.", **cost}
    return random.choice(("A text.", text(random, 3_000), reply(random)[:20_000]))


def _result(random: Random) -> Any:
    result: dict[str, Any] = {
        "exit_code": random.choice((0, 0, 1, -9, 255, 2**70)),
        "stdout": _file(random),
        "fault": random.choice(("timeout", "not_found")),
        "files": {random.choice(PATHS): "x"},
    }
    last = {key: part for key, part in result.items() if random.random() < 0.3}
    return last if random.random() < 0.7 else [*[{"exit_code": 1}] * 50, last]


def _answer(random: Random) -> Any:
    choice = random.choice(("start", "start", "change", "drop", "else"))
    whole = {
        "choice": choice,
        "after": random.choice(TIMES),
        "comment": text(random, 500),
        "form": value(random, 2),
        "edit": text(random, 2_000),
    }
    return {key: part for key, part in whole.items() if random.random() < 0.5} or choice


def _file(random: Random) -> Any:
    return random.choice(("x", text(random, 2_000), {"file": random.choice(PATHS)}))


def _names(random: Random) -> list[Any]:
    """Of a path: also one with so many gaps that matching could take for ever."""
    gaps = ["…", "check"] * random.choice((1, 30, 400))
    return random.choice((gaps, random.choices(NAMES, k=random.choice((1, 3, 40)))))


def _count(random: Random) -> dict[str, Any]:
    return {random.choice(("writer", "critic", "draft", "x")): random.choice(NUMBERS)}


def _pieces(random: Random) -> list[dict[str, Any]]:
    return [
        {"to": "draft", "attempt": random.choice(NUMBERS), "contains": [text(random, 300)]},
        {"agent": "writer", "attempt": 1, "lacks": text(random, 300)},
        {"state": "check", "count": random.choice(NUMBERS), "message": text(random, 300)},
    ][: random.choice((1, 3))]


EXPECTED: dict[str, Callable[[Random], Any]] = {
    "outcome": lambda random: random.choice(("done", "dropped", "waiting", "suspended", "else", 3)),
    "reason": lambda random: random.choice(("limit", "transient", "fatal", "else")),
    "says": lambda random: text(random, 3_000),
    "path": _names,
    "verdicts": lambda random: {"check": random.choices(("pass", "fail", "…", 3), k=30)},
    "findings": _pieces,
    "feedback": _pieces,
    "prompts": _pieces,
    "revisions": _count,
    "calls": _count,
    "calls_at_most": _count,
    "cost_usd_at_most": lambda random: random.choice(NUMBERS),
    "events": _names,
    "artifacts": lambda random: {"plan": {"equals": text(random, 9_000), "data": value(random)}},
}
