"""Machines made from a number: every kind of state, budget, error edge and guard.

They pass the checks by construction. A machine is a row of units, each with one way in; revise
edges lead to the authors of this unit or of earlier ones.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from loopkit.checks.subject import RULES, Subject
from loopkit.language.load import load_text
from loopkit.machine.graph import Graph

KINDS = ("agent", "validate", "run", "render", "human", "choice", "final")


@dataclass
class Unit:
    """Some states in a row: the first is entered from outside, the last one decides."""

    kind: str
    states: list[str]

    @property
    def first(self) -> str:
        return self.states[0]

    @property
    def last(self) -> str:
        return self.states[-1]


@dataclass
class Making:
    """One machine in the making."""

    chance: random.Random
    states: dict[str, Any] = field(default_factory=dict)
    units: list[Unit] = field(default_factory=list)
    agents: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    input: dict[str, Any] = field(default_factory=dict)

    def likely(self, probability: float) -> bool:
        return self.chance.random() < probability

    def pick(self, *items: Any) -> Any:
        return self.chance.choice(items)


def generated(number: int) -> dict[str, Any]:
    """The machine of a number, as data."""
    making = Making(random.Random(number))
    _surroundings(making)
    kinds = [making.pick("work", "work", "loop", "loop", "loop", "run", "render", "human", "choice")
             for _ in range(making.chance.randint(1, 4))]  # fmt: skip
    for index, kind in enumerate(kinds):
        _unit(making, index, kind)
    for index in range(len(making.units)):
        _decide(making, index)
    for index in range(len(making.units)):
        _errors(making, index)
    _ends(making)
    raw = {
        "loopkit": 1, "name": "m", "input": making.input, "limits": making.limits,
        "agents": making.agents, "states": making.states,
    }  # fmt: skip
    _later_facts(making, raw)
    _scores(random.Random(f"score {number}"), raw)
    _codes(random.Random(f"code {number}"), raw)
    _guarded_scores(random.Random(f"guarded score {number}"), raw)
    _quorums(random.Random(f"quorum {number}"), raw)
    _ratings(random.Random(f"rating {number}"), raw)
    _many(random.Random(f"many {number}"), raw)
    _wide(random.Random(f"wide {number}"), raw)
    _needs(random.Random(f"need {number}"), raw)
    _best_versions(random.Random(f"best {number}"), raw)
    _origins(random.Random(f"origin {number}"), raw)
    return raw


def _origins(chance: random.Random, raw: dict[str, Any]) -> None:
    """Let what some states find go back to those that made it, where these work one by one."""
    if chance.random() < 0.5:
        return
    order = _authors_in_a_row(raw)
    if not order:
        return
    before = deepcopy(raw)
    raw["origins"] = order
    for state in raw["states"].values():
        if re.search("error_count|codes", repr(raw["states"])):
            # How many findings have which origin is more than the paths are told apart by.
            continue
        for rule in state.get("by", []):
            if "judge" not in rule and chance.random() < 0.6:
                rule["origin"] = chance.sample(order, chance.randint(1, min(2, len(order))))
        for edge in state.get("transitions", []):
            is_judged, is_asked = "validate" in state, "human" in state
            if edge.get("revise") in order and (is_judged or is_asked) and chance.random() < 0.7:
                upto = order[: order.index(edge["revise"]) + 1]
                edge["revise"] = {"origin": sorted(upto, key=order.index)}
    subject = Subject.of(load_text(json.dumps(raw), "m.yaml", Path()))
    if any(problem.code == "unknown-name" for rule in RULES["parts"] for problem in rule(subject)):
        # With no way back past a report, a guard that reads it comes too early.
        raw.clear()
        raw.update(before)


def _authors_in_a_row(raw: dict[str, Any]) -> list[str] | None:
    """The states that write what is judged, in their order; none where two exclude each other."""
    machine = load_text(json.dumps(raw), "m.yaml", Path()).machine
    graph = Graph(machine)
    authors = {a for state in graph.judges.values() for a in graph.artifacts[state.validate_]}
    order = [name for name in reversed(graph.last_first) if name in authors]
    if any(not machine.states[name].reads_feedback for name in order):
        return None
    in_a_row = (b in graph.reachable(a, back=False) for a, b in pairwise(order))
    return order if all(in_a_row) else None


def _best_versions(chance: random.Random, raw: dict[str, Any]) -> None:
    """Let some edges of states that judge go back to the best version."""
    for state in raw["states"].values():
        for edge in state.get("transitions", []) if "validate" in state else []:
            if "revise" in edge and chance.random() < 0.3:
                edge["from"] = "best"


def _needs(chance: random.Random, raw: dict[str, Any]) -> None:
    """Let some states need what others have written on every way to them."""
    if chance.random() < 0.5:
        return
    authors = [name for name in raw["states"] if re.fullmatch(r"[wart]\d", name)]
    for name in authors:
        needed = [one for one in authors if one != name and _is_sure(raw, one, name)]
        if needed and name[0] != "r" and chance.random() < 0.7:
            raw["states"][name]["needs"] = chance.sample(needed, chance.randint(1, len(needed)))


def _scores(chance: random.Random, raw: dict[str, Any]) -> None:
    """Let some judges give a score that some guards of their state read."""
    for state in raw["states"].values():
        judges = [rule for rule in state.get("by", []) if "judge" in rule]
        if not judges or chance.random() > 0.25:
            continue
        judges[0]["score"] = {"min": 0, "max": 10}
        guarded = [edge for edge in state["transitions"] if "guard" in edge]
        if guarded:
            edge = chance.choice(guarded)
            wanted = chance.choice(["score != none and score >= 5", "score == none or score < 3"])
            edge["guard"] = f"({edge['guard']}) {chance.choice(['and', 'or'])} ({wanted})"


def _codes(chance: random.Random, raw: dict[str, Any]) -> None:
    """Let rules give the codes that guards of their state look for, some of them several."""
    for state in raw["states"].values():
        fixed = [rule for rule in state.get("by", []) if "judge" not in rule]
        names = any("in codes" in edge.get("guard", "") for edge in state.get("transitions", []))
        if names and len(fixed) == len(state["by"]) and not any("code" in rule for rule in fixed):
            chance.choice(fixed)["code"] = "lint"
        if fixed and chance.random() < 0.2:
            _told_by_code(chance, state, fixed)


def _told_by_code(chance: random.Random, state: dict[str, Any], fixed: list[Any]) -> None:
    """A state whose rules each have a code, and a judge only such as its `map` knows."""
    for number, rule in enumerate(fixed):
        rule.setdefault("code", f"c{number}")
    if chance.random() < 0.3:
        state["by"].append({"not_matches": "TODO", "code": "todo"})
    # What a report of another shape finds anew has to have a key.
    if chance.random() < 0.8 and "settle_after" not in state:
        for rule in state["by"]:
            if "judge" in rule:
                # All that its state looks for, its own and one of a fixed rule.
                rule["map"] = {"codes": {"odd": "lint", "long": fixed[0]["code"]}}
                rule["prompt"] = "Judge {{ artifact }}."
                del rule["rubric"]
    codes = [rule["code"] for rule in state["by"] if "code" in rule]
    wanted = [
        f'"{codes[0]}" in codes', f'"{codes[-1]}" not in codes and not valid',
        f'"{codes[0]}" in codes and "{codes[-1]}" in codes',
        f'"{codes[0]}" in codes and error_count > 1', f'"{codes[-1]}" in codes and valid',
        f'error_count == 1 and warning_count == 0 and "{codes[0]}" not in codes',
        "error_count >= 3", "warning_count >= 2 or error_count >= 2",
    ]  # fmt: skip
    _added(chance, state, chance.choice(wanted))


def _added(chance: random.Random, state: dict[str, Any], guard: str) -> None:
    """Let some transition of a state that has a guard read something more."""
    guarded = [edge for edge in state["transitions"] if "guard" in edge]
    for edge in guarded and [chance.choice(guarded)]:
        edge["guard"] = f"({edge['guard']}) {chance.choice(['and', 'or'])} ({guard})"


def _guarded_scores(chance: random.Random, raw: dict[str, Any]) -> None:
    """Ask some of the judges that give a score under a condition only."""
    for state in raw["states"].values():
        for rule in state.get("by", []):
            if "score" in rule and chance.random() < 0.5:
                rule["guard"] = chance.choice(["attempt > 1", "input.flag", "attempt > 9"])
                _added(chance, state, chance.choice(["score == none", "score != none"]))


def _quorums(chance: random.Random, raw: dict[str, Any]) -> None:
    """Let some panels do without one of their judges."""
    for state in raw["states"].values():
        judges = [rule for rule in state.get("by", []) if "judge" in rule]
        if judges and chance.random() < 0.25:
            more = [{"judge": "critic", "rubric": ["It is short."], "confirm": "fail"}]
            state["by"] += more * chance.choice([0, 1, 1])
            judges = [rule for rule in state["by"] if "judge" in rule]
            state["quorum"] = chance.randint(1, len(judges))
            _added(chance, state, chance.choice(['verdict == "pass"', 'verdict != "pass"']))


def _ratings(chance: random.Random, raw: dict[str, Any]) -> None:
    """Let some people give a number between bounds, and transitions read it."""
    for state in raw["states"].values():
        if "human" in state and "choices" in state and chance.random() < 0.5:
            low = chance.choice([0, 1, 2])
            rating = {"type": "int", "minimum": low, "maximum": low + chance.choice([0, 2, 3])}
            state["form"] = {**state.get("form", {}), "rating": rating}
            wanted = f"rating {chance.choice(['<', '==', '>='])} {chance.randint(0, 4)}"
            for edge in state["transitions"][1:-1]:
                if chance.random() < 0.7:
                    edge["guard"] = f"({edge.get('guard', wanted)}) and {wanted}"


def _many(chance: random.Random, raw: dict[str, Any]) -> None:
    """States with more exit codes, or booleans, than all of whose combinations can be listed."""
    for name, state in list(raw["states"].items()):
        ways = [edge["target"] for edge in state.get("transitions", []) if "target" in edge]
        if "run" in state and ways and chance.random() < 0.25:
            codes = chance.sample(range(60), 22)
            more = [
                {"guard": f"exit_code == {code}", "target": chance.choice(ways)} for code in codes
            ]
            state["transitions"] = more + state["transitions"]
        is_rated = "rating" in state.get("form", {})
        if "human" in state and ways and not is_rated and chance.random() < 0.4:
            names = [f"b{number}" for number in range(12)]
            state["form"] = {**state.get("form", {}), **dict.fromkeys(names, "bool")}
            more = [
                {
                    "guard": f'choice == "{state["choices"][-1]}" and {name}',
                    "target": chance.choice(ways),
                }
                for name in names
            ]
            state["transitions"][1:1] = more


def _wide(chance: random.Random, raw: dict[str, Any]) -> None:
    """An input of a thousand values, which caps are taken from and guards compare."""
    revising = [
        edge for state in raw["states"].values() for edge in state.get("transitions", [])
        if "revise" in edge
    ]  # fmt: skip
    if chance.random() > 0.15 or not revising:
        return
    raw["input"]["wide"] = {"type": "int", "minimum": 0, "maximum": 1000, "default": 2}
    chance.choice(revising)["max"] = "input.wide"
    if chance.random() < 0.3:
        raw["limits"]["revisions"] = "input.wide"
    # One in seven goes on for a thousand rounds.
    raw["limits"]["total_revisions"] = chance.choice([1, 1, 2, 2, 3, 3, "input.wide"])
    for state in raw["states"].values():
        if chance.random() < 0.4 and "transitions" in state:
            wanted = [
                "input.wide > 3", "attempt < input.wide", "input.wide == 0", "input.wide >= 500",
                "input.wide != 2 and attempt >= input.wide", "input.n < input.wide",
            ]  # fmt: skip
            _added(chance, state, chance.choice(wanted))


def _surroundings(making: Making) -> None:
    making.input = {
        "n": {"type": "int", "minimum": 0, "maximum": making.chance.randint(1, 3), "default": 1},
        "flag": {"type": "bool", "default": True},
        "size": {"type": "small|large", "default": "small"},
        "note": "optional str",
    }
    if (most := making.pick(None, 1, None, 2, 3, "input.n")) is not None:
        making.limits["revisions"] = most
    if making.likely(0.4):
        making.limits["total_revisions"] = making.pick(1, 2, 3, 4, "input.n")
    if making.likely(0.5):
        making.limits["budgets"] = {"shared": making.pick(0, 1, 2, 3, "input.n")}
    tries = making.pick(1, 2, 5)
    making.agents["critic"] = {"model": "a/critic", "retry": {"attempts": tries}}


def _unit(making: Making, index: int, kind: str) -> None:
    names = {
        "work": [f"w{index}"],
        "loop": [f"a{index}", f"v{index}"],
        "run": [f"r{index}"],
        "render": [f"t{index}"],
        "human": [f"h{index}"],
        "choice": [f"c{index}"],
    }[kind]
    making.units.append(Unit(kind, names))
    for name in names:
        making.states[name] = STATES[name[0]](making, name)
    if kind == "loop":
        making.states[names[0]]["next"] = names[1]
        if making.likely(0.25):
            _second_author(making, names[0], names[1])


def _agent(making: Making, name: str) -> dict[str, Any]:
    agent: dict[str, Any] = {"model": f"a/{name}", "retry": {"attempts": making.pick(1, 2, 3)}}
    if name.startswith("w"):
        agent["schema"] = {"ready": "bool", "points": "int"}
    elif making.likely(0.15):
        agent |= {"schema": {"impossible": "bool", "text": "str"}, "infeasible": "impossible"}
    if making.likely(0.1):
        agent = {"command": ["program"], "retry": agent["retry"], **_without(agent, "model")}
    making.agents[f"of_{name}"] = agent
    return {"agent": f"of_{name}", "prompt": "Do it."}


def _without(mapping: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in (*names, "retry")}


def _validate(making: Making, name: str) -> dict[str, Any]:
    by: list[dict[str, Any]] = []
    if making.likely(0.6):
        by.append({"min_chars": 5})
    if making.likely(0.3):
        by.append({"max_chars": 900, "severity": "warning"})
    if making.likely(0.15):
        by.append({"command": ["lint"], "code": "lint"})
    if making.likely(0.6) or not by:
        judge = {"judge": "critic", "rubric": ["It is right."], "reask": making.pick(0, 1, 2)}
        by.append(judge | ({"always": True} if making.likely(0.3) else {}))
    if making.likely(0.15):
        by.append({"judge": "critic", "rubric": ["It is kind."], "severity": "warning"})
    for rule in by:
        if "judge" in rule and making.likely(0.2):
            rule["samples"] = making.pick(2, 3)
        if "judge" in rule and making.likely(0.3):
            rule["confirm"] = "fail"
        if making.likely(0.2):
            rule["guard"] = making.pick("attempt > 1", "input.flag", "input.n >= 1")
    state: dict[str, Any] = {"validate": f"a{name[1:]}", "by": by}
    state |= {"stop": "first"} if making.likely(0.2) else {}
    state |= {"block": "warning"} if making.likely(0.15) else {}
    state |= {"settle_after": making.pick(1, 2)} if making.likely(0.15) else {}
    return state | ({"combine": "majority"} if making.likely(0.15) else {})


def _human(making: Making, name: str) -> dict[str, Any]:
    state: dict[str, Any] = {"human": "Go on?", "choices": ["go", "again", "stop"]}
    if making.likely(0.3):
        state["form"] = {"sure": "bool"}
    return state


STATES: dict[str, Any] = {
    "w": _agent,
    "a": _agent,
    "v": _validate,
    "r": lambda making, name: {"run": ["true"]},
    "t": lambda making, name: {"render": "A text."},
    "h": _human,
    "c": lambda making, name: {},
}


def _second_author(making: Making, author: str, judge: str) -> None:
    """A render state that writes the artifact where its author fails."""
    name = f"f{author[1:]}"
    making.states[name] = {
        "render": "A fallback.",
        "output": author,
        "fallback": True,
        "next": judge,
    }
    making.states[author]["on_error"] = {making.pick("transient", "fatal"): name}


# -- transitions -------------------------------------------------------------------------------


def _decide(making: Making, index: int) -> None:
    """The transitions of a unit's last state."""
    unit = making.units[index]
    state = making.states[unit.last]
    onward = [unit.first for unit in making.units[index + 1 :]] + ["done", "failed"]
    targets = _authors_before(making, index)
    edges = [
        _revision(making, unit, targets)
        for _ in range(making.pick(0, 1, 1, 2))
        if targets and unit.kind != "render"
    ]
    if unit.kind == "loop" and not edges and making.likely(0.8):
        edges = [_revision(making, unit, targets)]
    edges += [{"target": making.chance.choice(onward[:3])} for _ in range(making.pick(0, 1, 1, 2))]
    making.chance.shuffle(edges)
    for edge in edges:
        if guard := _guard(making, unit, sum("revise" in e for e in edges)):
            edge["guard"] = guard
    edges = _taken(edges)
    if unit.kind == "loop":
        edges.insert(0, {"guard": "valid", "target": onward[0]})
    if unit.kind == "human":
        edges.insert(0, {"guard": 'choice == "go"', "target": onward[0]})
    state["transitions"] = [*edges, {"target": onward[0] if making.likely(0.5) else "failed"}]
    if making.likely(0.5) and not edges:
        state["transitions"] = [{"target": onward[0]}]
    if not any(edge.get("target") == onward[0] for edge in state["transitions"]):
        state["transitions"][-1] = {"target": onward[0]}


def _taken(edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The edges up to the first one that is always taken, with names that are still known."""
    always = [i for i, edge in enumerate(edges) if "guard" not in edge and "target" in edge]
    kept = edges[: always[0]] if always else edges
    revisions = sum("revise" in edge for edge in kept)
    for edge in kept:
        guard = edge.get("guard", "")
        if ("revisions" in guard and revisions != 1) or ("cap_reached" in guard and not revisions):
            edge["guard"] = "attempt >= 2"
    return kept


def _authors_before(making: Making, index: int) -> list[str]:
    """The states of this unit and earlier ones that take feedback and lead back here."""
    firsts = [unit.first for unit in making.units[: index + 1]]
    return [name for name in firsts if name[0] in "wat"]


def _revision(making: Making, unit: Unit, targets: list[str]) -> dict[str, Any]:
    edge: dict[str, Any] = {"revise": making.chance.choice(targets), "feedback": "Again."}
    if making.likely(0.4):
        edge["max"] = making.pick(0, 1, 2, 3, "input.n")
    if "budgets" in making.limits and making.likely(0.5):
        edge["budget"] = "shared"
    if "total_revisions" in making.limits and making.likely(0.4):
        edge["resets"] = [making.chance.choice(targets)]
    return edge


def _guard(making: Making, unit: Unit, revisions: int) -> str | None:
    common = ["input.flag", "input.n > 1", 'input.size == "small"', "input.note != none", None]
    counted = ["attempt >= 2", "attempt < 3"]
    own = {
        "work": ["ready", "points > 2", "not ready and points < 1"],
        "loop": [
            "not valid", "error_count > 1", "valid and warning_count == 0", 'verdict == "warn"',
            "incomplete", "infeasible", "stalled", "regressed", "stalled or attempt >= 3",
            '"lint" in codes', None, None,
        ],
        "run": ["exit_code == 0", "exit_code > 1", "exit_code in [0, 2]"],
        "render": ["attempt >= 2"],
        "human": ['choice == "again"', 'choice != "stop"'],
        "choice": ["input.flag or input.n == 0"],
    }[unit.kind]  # fmt: skip
    if unit.kind == "human" and "form" in making.states[unit.last]:
        own.append('choice == "again" and sure')
    if revisions:
        counted += ["cap_reached", "not cap_reached"]
    if revisions == 1:
        counted += ["revisions >= max_revisions", "revisions < 1"]
    pool = own * 3 + counted + common
    guard: str | None = making.chance.choice(pool)
    if guard and making.likely(0.2):
        other = making.chance.choice([g for g in pool if g and g != guard])
        guard = f"({guard}) {making.pick('and', 'or')} ({other})"
    return guard


# -- errors and ends ---------------------------------------------------------------------------


def _errors(making: Making, index: int) -> None:
    unit = making.units[index]
    onward = [unit.first for unit in making.units[index + 1 :]] + ["failed"]
    for name in unit.states:
        state = making.states[name]
        if name[0] in "hc" or "on_error" in state:
            continue
        needs_content = name[0] == "w"
        if making.likely(0.35):
            classes = {c: making.chance.choice(onward) for c in ("transient", "content", "fatal")
                       if making.likely(0.5)}  # fmt: skip
            targets = _authors_before(making, index)
            if classes and targets and making.likely(0.4):
                edge = {
                    "revise": making.chance.choice(targets),
                    "max": making.pick(0, 1, 2),
                    "feedback": "Again.",
                }
                classes[making.chance.choice(list(classes))] = edge
            if classes:
                state["on_error"] = classes
            elif not needs_content:
                state["on_error"] = making.chance.choice(onward)
        if needs_content:
            written = state.setdefault("on_error", {})
            written.setdefault("content", making.chance.choice(onward))


def _ends(making: Making) -> None:
    if making.likely(0.3) and any(unit.kind in ("work", "loop", "run") for unit in making.units):
        making.limits |= {"then": "limited", "cost_usd": 1}
        ways = [{"guard": 'choice == "take"', "target": "done"}, {"target": "failed"}]
        making.states["limited"] = making.pick(
            {"final": "failure"},
            {"human": "Take it?", "choices": ["take", "drop"], "transitions": ways},
        )
    making.states["done"] = {"final": "success"}
    if "'failed'" in repr(making.states):
        making.states["failed"] = {"final": "failure"}


def _later_facts(making: Making, raw: dict[str, Any]) -> None:
    """Guards over facts of states that lie on every path to where they stand."""
    for index, unit in enumerate(making.units):
        known = [
            guard
            for earlier in making.units[:index]
            if _is_sure(raw, earlier.last, unit.last)
            for guard in _told_by(earlier)
        ]
        # The first choice of a person stays open whatever the facts are.
        start = 1 if unit.kind == "human" else 0
        for edge in raw["states"][unit.last]["transitions"][start:-1]:
            if known and making.likely(0.4):
                fact = making.chance.choice(known)
                edge["guard"] = f"{edge['guard']} and {fact}" if "guard" in edge else fact


def _told_by(unit: Unit) -> list[str]:
    name = unit.last
    return {
        "work": [f"{name}.ready"],
        "loop": [f"{name}.valid", f'reports.{name}.verdict == "warn"', f"{name}.error_count > 1"],
        "run": [f"{name}.exit_code == 0"],
        "human": [f'{name}.choice == "again"'],
    }.get(unit.kind, [])


def _is_sure(raw: dict[str, Any], name: str, goal: str) -> bool:
    """Whether every way to a state completes another one before."""
    front, seen = [next(iter(raw["states"]))], set()
    while front:
        here = front.pop()
        if here in seen:
            continue
        seen.add(here)
        if here == goal:
            return False
        state = raw["states"][here]
        errors = re.findall(
            r"'(?:transient|content|fatal|revise|on_error)': '(\w+)'",
            repr({"on_error": state.get("on_error")}),
        )
        ways = errors + ([raw["limits"]["then"]] if "then" in raw["limits"] else [])
        if here != name:
            ways += [state["next"]] if "next" in state else []
            ways += [e.get("target") or e["revise"] for e in state.get("transitions", [])]
        front += ways
    return True


# -- what occurred -----------------------------------------------------------------------------


def features(raw: dict[str, Any]) -> Counter[str]:
    """How often each part of the language occurs in a machine."""
    found: Counter[str] = Counter()
    for state in raw["states"].values():
        kind = next((k for k in KINDS if k in state), "choice")
        found[f"kind {kind}"] += 1
        found["quorum"] += "quorum" in state
        found["needs"] += "needs" in state
        found["form with bounds"] += "rating" in state.get("form", {})
        found["a dozen booleans"] += "b11" in state.get("form", {})
        found["many exit codes"] += repr(state.get("transitions")).count("exit_code ==") > 20
        error = state.get("on_error")
        found["error edge"] += bool(error)
        found["error edge that revises"] += "revise" in repr(error)
        for edge in state.get("transitions", []):
            if "revise" in edge:
                found["revise edge"] += 1
                found[f"cap {edge.get('max', 'default')}"] += 1
                found["shared budget"] += "budget" in edge
                found["resets"] += "resets" in edge
                found["from the best version"] += "from" in edge
                to_origins = isinstance(edge["revise"], dict)
                found["to origins"] += to_origins
                found["to origins by a person"] += to_origins and "human" in state
            for word in (
                "stalled",
                "regressed",
                "attempt",
                "cap_reached",
                "revisions >=",
                "reports.",
                "score",
                "codes",
            ):
                found[f"guard with {word}"] += word in edge.get("guard", "")
        for rule in state.get("by", []):
            found["judge"] += "judge" in rule
            found["judge always"] += "always" in rule
            found["judge with samples"] += "samples" in rule
            found["judge that confirms"] += "confirm" in rule
            found["judge with score"] += "score" in rule
            found["score behind a guard"] += "score" in rule and "guard" in rule
            found["judge with codes of its own"] += "map" in rule
            found["rule with code"] += "judge" not in rule and "code" in rule
            found["rule with guard"] += "guard" in rule
            found["rule with origin"] += "origin" in rule
    found["then"] += "then" in raw["limits"]
    found["a thousand values"] += "wide" in raw["input"]
    found["revisions of an author"] += "revisions" in raw["limits"]
    found["total"] += "total_revisions" in raw["limits"]
    found["bounded input as a cap"] += "input.n" in repr(raw["limits"]) + repr(raw["states"])
    found["two authors"] += any(name.startswith("f") and name != "failed" for name in raw["states"])
    found["nested revise edges"] += _nested(raw)
    return found


def _nested(raw: dict[str, Any]) -> int:
    """Revise edges that lead over another revise edge's target."""
    names = list(raw["states"])
    spans = [
        (names.index(edge["revise"]), names.index(name))
        for name, state in raw["states"].items()
        for edge in state.get("transitions", [])
        if isinstance(edge.get("revise"), str)
    ]
    return sum(a < c <= d < b for a, b in spans for c, d in spans)
