"""How configurations and the time for them grow: `python benchmarks/bounds.py`."""

from __future__ import annotations

import os
import time
from typing import Any

from loopkit.language.machine import Machine
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis

ROUNDS = 5
PHASES = ("plan", "design", "code")


def main() -> None:
    load = os.getloadavg()[2]
    print(f"{ROUNDS} rounds, {os.cpu_count()} cores, load over 15 minutes {load:.1f}\n")
    print("| states in a row | configurations | CPU ms: minimum, median |\n|---|---|---|")
    for states in (10, 50, 100, 200, 400):
        print(f"| {states} | {measured(row_of(states))} |")
    caps = (1, 2, 3, 4, 5)
    print(f"\n| revise pairs | {' | '.join(f'caps of {cap}' for cap in caps)} |")
    print("|---" * (len(caps) + 1) + "|")
    for pairs in range(1, 7):
        cells = (measured(pipeline(pairs, cap)).replace(" | ", "; ") for cap in caps)
        print(f"| {pairs} | {' | '.join(cells)} |")


def measured(raw: dict[str, Any]) -> str:
    """Configurations and CPU time of one machine, from its definition to its bounds."""
    machine = Machine.model_validate(raw)
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        bounds = explore(Analysis.of_machine(machine), price=lambda *_: 0.01)
        times.append(1000 * (time.process_time() - started))
    found = "over 50,000" if bounds.configurations is None else f"{bounds.configurations:,}"
    return f"{found} | {min(times):.0f}, {sorted(times)[ROUNDS // 2]:.0f}"


def row_of(count: int) -> dict[str, Any]:
    """Pairs of a draft and a check in a row, `count` working states in all."""
    states: dict[str, Any] = {}
    for index in range(count // 2):
        onward = f"draft_{index + 1}" if index + 1 < count // 2 else "done"
        states |= pair(f"draft_{index}", f"check_{index}", [{"guard": "valid", "target": onward}])
    return machine_of(states, {})


def pipeline(pairs: int, cap: int) -> dict[str, Any]:
    """Three phases; one pair revises each by itself, three more revise earlier phases.

    Those share a budget, and all share a total that leaves room for most of them.
    """
    back: dict[str, list[dict[str, Any]]] = {phase: [] for phase in PHASES}
    ways = [("plan", "plan"), ("design", "design"), ("code", "code"),
            ("design", "plan"), ("code", "design"), ("code", "plan")]  # fmt: skip
    for index, (source, target) in enumerate(ways[:pairs]):
        guard = f"error_count > {len(ways) - index}" if source == target else "warning_count > 1"
        edge = {"revise": target, "max": cap, "feedback": "Again."}
        shared = {} if source == target else {"budget": "earlier", "guard": f'"{target}" in codes'}
        back[source].insert(0, {"guard": guard, **edge, **shared})
    states: dict[str, Any] = {}
    for index, phase in enumerate(PHASES):
        onward = PHASES[index + 1] if index + 1 < len(PHASES) else "done"
        edges = [{"guard": "valid", "target": onward}, *back[phase]]
        states |= pair(phase, f"check_{phase}", edges)
    limits = {"budgets": {"earlier": 2 * cap}, "total_revisions": 3 * cap}
    return machine_of(states, limits)


def pair(draft: str, check: str, edges: list[dict[str, Any]]) -> dict[str, Any]:
    by = [{"min_chars": 9}, {"judge": "critic", "rubric": ["It is right."]}]
    has_own = any("revise" in edge for edge in edges)
    own = [] if has_own else [{"revise": draft, "max": 2}]
    transitions = [*edges, *own, {"target": "failed"}]
    return {
        draft: {"agent": "writer", "prompt": "Write.", "next": check},
        check: {"validate": draft, "by": by, "transitions": transitions},
    }


def machine_of(states: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    ends = {"done": {"final": "success"}, "failed": {"final": "failure"}}
    agents = {"writer": {"model": "some/writer"}, "critic": {"model": "some/critic"}}
    return {"loopkit": 1, "agents": agents, "limits": limits, "states": states | ends}


if __name__ == "__main__":
    main()
