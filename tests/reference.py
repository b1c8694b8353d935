"""A second opinion: what a machine does, in twenty lines that share no code with the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

HOLDS: dict[str | None, Callable[[Mapping[str, Any]], bool]] = {
    None: lambda f: True,
    "exit_code == 0": lambda f: f["exit_code"] == 0,
    "exit_code > 1": lambda f: f["exit_code"] > 1,
    "cap_reached": lambda f: f["cap_reached"],
    "not cap_reached and exit_code != 0": lambda f: not f["cap_reached"] and f["exit_code"] != 0,
    "attempt >= 2": lambda f: f["attempt"] >= 2,
    "attempt < 3 or exit_code in [0, 2]": lambda f: f["attempt"] < 3 or f["exit_code"] in (0, 2),
}
"""The guards that generated machines use, and what they mean."""


def interpret(
    machine: Mapping[str, Any], inputs: Mapping[str, int], exit_codes: list[int]
) -> list[str]:
    """The edges that a machine of `run` states takes when its commands exit with these codes."""
    limits, states, path = machine["limits"], machine["states"], []
    used: Counter[str] = Counter()
    worked: Counter[str] = Counter()
    state, codes = next(iter(states)), iter(exit_codes)

    def number(bound: int | str) -> int:
        return inputs[bound.removeprefix("input.")] if isinstance(bound, str) else bound

    def is_open(edge_id: str, edge: Mapping[str, Any]) -> bool:
        own, budget = edge.get("max"), edge.get("budget")
        caps = {"total": limits["total_revisions"]} if "total_revisions" in limits else {}
        caps |= {budget: limits["budgets"][budget]} if budget else {}
        caps |= (
            {edge_id: limits["revisions"] if own is None else own}
            if own is not None or not budget
            else {}
        )
        return all(used[counter] < number(cap) for counter, cap in caps.items())

    while "final" not in states[state]:
        worked[state] += 1
        edges = [(f"{state}[{i}]", edge) for i, edge in enumerate(states[state]["transitions"])]
        capped = not any(is_open(i, e) for i, e in edges if "revise" in e)
        facts = {"exit_code": next(codes), "attempt": worked[state], "cap_reached": capped}
        edge_id, edge = next(
            (i, e)
            for i, e in edges
            if HOLDS[e.get("guard")](facts) and ("target" in e or is_open(i, e))
        )
        path.append(edge_id)
        for other, its in (
            (f"{s}[{i}]", e) for s in states for i, e in enumerate(states[s].get("transitions", []))
        ):
            if other != edge_id and its.get("revise") in edge.get("resets", []):
                used[its.get("budget") or other] = used[other] = 0
        if "revise" in edge:
            used.update({edge_id, "total", edge.get("budget") or edge_id})
        state = edge.get("target") or edge["revise"]
    return path
