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

    def caps_of(edge_id: str, edge: Mapping[str, Any]) -> dict[str, int | str]:
        caps = {"total": limits["total_revisions"]} if "total_revisions" in limits else {}
        caps |= {edge["budget"]: limits["budgets"][edge["budget"]]} if "budget" in edge else {}
        caps |= {edge_id: edge["max"]} if "max" in edge else {}
        is_of_author = "revisions" in limits or not {"max", "budget"} & edge.keys()
        return caps | ({"of " + edge["revise"]: limits.get("revisions", 2)} if is_of_author else {})

    def is_open(edge_id: str, edge: Mapping[str, Any]) -> bool:
        return all(used[c] < number(cap) for c, cap in caps_of(edge_id, edge).items())

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
        spent = caps_of(edge_id, edge) if "revise" in edge else {}
        for other, its in (
            (f"{s}[{i}]", e) for s in states for i, e in enumerate(states[s].get("transitions", []))
        ):
            if other != edge_id and its.get("revise") in edge.get("resets", []):
                of_author = "of " + its["revise"]
                kept = {"total"} | (
                    {of_author} if "revisions" in limits or of_author in spent else set()
                )
                used.update(dict.fromkeys(caps_of(other, its).keys() - kept, 0))
        used.update(spent.keys())
        state = edge.get("target") or edge["revise"]
    return path
