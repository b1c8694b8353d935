"""Repairs of generated machines: whatever fits is never stuck and stays within every cap.

Each machine is made from a number. The ordinary run takes some of them, the long one (`-m long`)
the others.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loopkit.checks import check
from loopkit.document.problems import ProblemsFound
from loopkit.drive.repair import Definition, counters_of_route, repair, same_edges
from loopkit.engine.changes import apply
from loopkit.engine.state import RunState
from loopkit.language.load import load_text
from loopkit.language.machine import Machine
from loopkit.machine.graph import Graph, cap_value
from tests.generated import generated
from tests.replay import Replay, TooLong

BATCH = 25
LONG = pytest.mark.long
LARGE = {16, 18}
"""Machines whose checks alone take seconds."""


def sound(plain: Any) -> Machine | None:
    try:
        loaded = load_text(json.dumps(plain), "m.yaml", Path())
    except ProblemsFound:
        return None
    is_wrong = any(problem.severity == "error" for problem in check(loaded))
    return None if is_wrong else loaded.machine


def changed(plain: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The machine with a few things said otherwise: ways out, their order, guards, caps."""
    plain = json.loads(json.dumps(plain))
    for _ in range(chance.randint(1, 3)):
        deciding = [state for state in plain["states"].values() if "transitions" in state]
        ways = chance.choice(deciding)["transitions"] if deciding else []
        match chance.randrange(6) if ways else 5:
            case 0:
                extra = dict(chance.choice(ways))
                extra.pop("guard", None)
                ways.insert(0, {"guard": f"attempt > {chance.randint(1, 4)}", **extra})
            case 1 if len(ways) > 1:
                del ways[chance.randrange(len(ways))]
            case 2:
                chance.choice(ways)["guard"] = f"attempt < {chance.randint(1, 4)}"
            case 3:
                chance.shuffle(ways)
            case 4:
                for way in ways:
                    if "revise" in way:
                        way["max"] = chance.randint(0, 4)
            case _:
                limits = plain.setdefault("limits", {})
                limits[chance.choice(("total_revisions", "revisions"))] = chance.randint(0, 5)
    return plain


def on_its_way(machine: Machine, chance: random.Random) -> RunState:
    """A run some steps into a machine; those that revise are likelier."""
    replay = Replay(machine, 5_000)
    run = chance.choice(list(replay.starts()))
    for _ in range(chance.randint(1, 10)):
        ahead = [step.run for step in replay.steps(run)]
        going = [one for one in ahead if one.status not in ("finished", "suspended")]
        if not going:
            break
        run = max(going, key=lambda one: (sum(one.counters.values()), chance.random()))
    return run


@pytest.mark.parametrize("batch", [0, *(pytest.param(n, marks=LONG) for n in range(1, 6))])
def test_a_repaired_run_is_never_stuck_and_spends_no_more_than_its_caps(batch: int) -> None:
    seen: Counter[str] = Counter()
    for number in {*range(batch * BATCH, batch * BATCH + BATCH)} - LARGE:
        chance = random.Random(number)
        plain = generated(number)
        old, new = sound(plain), sound(changed(plain, chance))
        if old is None or new is None:
            seen["unsound"] += 1
            continue
        run = on_its_way(old, chance)
        try:
            repaired = repair(run, old, Definition(new, ""), {})
        except ProblemsFound:
            seen["refused"] += 1
            continue
        ahead = run.copy()
        apply(ahead, repaired)
        graph = Graph(new)
        assert set(ahead.route) <= set(graph.by_id)
        for counter, spent in ahead.counters.items():
            assert spent <= cap_value(graph.caps[counter], ahead.input), number
        try:
            # It raises where a run is stuck, or a guard reads what is not there.
            Replay(new, 3_000).all_paths(ahead)
        except TooLong:
            seen["long"] += 1
        seen["moved"] += bool(repaired.edges)
        seen["fits"] += 1
    assert seen["fits"] > BATCH / 5, seen
    assert seen["refused"], seen


@pytest.mark.parametrize("batch", [0, *(pytest.param(n, marks=LONG) for n in (1, 2)), 3])
def test_what_edges_have_spent_is_the_same_by_decisions_and_by_the_route(batch: int) -> None:
    counted = 0
    for number in {*range(batch * 15, batch * 15 + 15)} - LARGE:
        machine = sound(generated(number))
        assert machine is not None
        graph = Graph(machine)
        assert same_edges(graph, graph) == {edge.id: edge.id for edge in graph.edges}
        run = on_its_way(machine, random.Random(number))
        assert counters_of_route(run.route, graph) == run.counters, number
        counted += sum(run.counters.values()) > 0
    assert counted > 1
