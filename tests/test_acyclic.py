"""`acyclic`: a graph in data has no cycle, and its edges lead to nodes."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopkit.engine.findings import Answer
from loopkit.language.validators import AcyclicRule
from loopkit.machine.cycles import shortest_cycles
from loopkit.machine.item_list import PAIR
from tests.judging import judge_by, told_in

NEEDS = {"nodes": "nodes[].id", "edges": "nodes[].needs[]"}
PAIRS = {"nodes": "nodes", "edges": "edges[]"}
IDS = "abcdef"
Needs = Mapping[str, Sequence[str]]

graphs = st.dictionaries(
    st.sampled_from(IDS), st.lists(st.sampled_from(IDS), max_size=4), max_size=6
).map(lambda needs: {node: [n for n in to if n in needs] for node, to in needs.items()})


def nodes(needs: Needs) -> dict[str, Any]:
    return {"nodes": [{"id": name, "needs": list(others)} for name, others in needs.items()]}


async def judge(data: object, paths: Mapping[str, str] = NEEDS, **names: object) -> Answer:
    return await judge_by(AcyclicRule.model_validate({"acyclic": paths}), data, **names)


async def told(data: object, paths: Mapping[str, str] = NEEDS, **names: object) -> list[str]:
    return told_in(await judge(data, paths, **names))


def reached_in(needs: Needs) -> dict[str, set[str]]:
    """All that each node can reach: by counting out."""
    reached = {node: set(others) for node, others in needs.items()}
    for _ in needs:
        for others in reached.values():
            others |= set[str]().union(*(reached[other] for other in others))
    return reached


def tied(needs: Needs) -> dict[str, set[str]]:
    """For each node on a cycle, all that it can reach and be reached from."""
    reached = reached_in(needs)
    return {
        node: {other for other in others if node in reached[other]}
        for node, others in reached.items()
        if node in others
    }


def length_of_shortest(needs: Needs, knot: set[str]) -> int:
    for length in range(1, len(knot) + 1):
        for way in permutations(sorted(knot), length):
            if all(b in needs[a] for a, b in pairwise((*way, way[0]))):
                return length
    raise AssertionError("the knot has no cycle")


@given(graphs, st.randoms(use_true_random=False))
@example({}, random.Random(1))
@example({"a": ["a"]}, random.Random(1))
@example({"a": ["b", "c"], "b": ["d", "e"], "c": ["d", "e"], "d": "a", "e": "a"}, random.Random(1))
@settings(max_examples=100)
def test_each_knot_gives_a_shortest_cycle_whatever_the_order(
    needs: Needs, chance: random.Random
) -> None:
    leads = {(node,): [(other,) for other in others] for node, others in needs.items()}
    found = [[name for (name,) in cycle] for cycle in shortest_cycles(leads, 50)]
    knots = {frozenset(knot) for knot in tied(needs).values()}
    assert {frozenset(tied(needs)[cycle[0]]) for cycle in found} == knots
    assert len(found) == len(knots)
    for cycle in found:
        assert all(b in needs[a] for a, b in pairwise((*cycle, cycle[0])))
        assert len(cycle) == length_of_shortest(needs, tied(needs)[cycle[0]])
        assert cycle[0] == min(cycle)
    shuffled = list(leads.items())
    chance.shuffle(shuffled)
    mixed = {node: chance.sample(to, len(to)) for node, to in shuffled}
    turned = {node: to[::-1] for node, to in reversed(leads.items())}
    for again in (shortest_cycles(mixed, 50), shortest_cycles(turned, 50)):
        assert [[name for (name,) in cycle] for cycle in again] == found


async def test_each_knot_is_one_finding_that_keeps_its_id_when_the_data_is_sorted() -> None:
    needs = {"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"], "e": ["d"]}
    first = await judge(nodes(needs))
    assert [f.message.rpartition(": ")[2] for f in first.findings] == ["a → b → a", "c → d → c"]
    turned = {node: needs[node] for node in reversed(needs)}
    assert [f.id for f in (await judge(nodes(turned))).findings] == [f.id for f in first.findings]


def listed(*edges: object, among: object = ("a", "b")) -> dict[str, Any]:
    """A graph whose edges stand by themselves."""
    return {"nodes": among, "edges": list(edges)}


async def test_edges_may_lead_out_of_an_open_graph() -> None:
    data = nodes({"boil": [], "brew": ["boil", "kettle"]})
    assert (await judge(data)).findings
    assert not (await judge(data, {**NEEDS, "open": True})).findings


A_AND_B = "the nodes form a cycle: a → b → a"
TAKEN = [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "a", "needs": ["b"]}]
PHASES = [{"tasks": [{"id": 1, "after": [2]}]}, {"tasks": [{"id": 2, "after": [1]}]}]
IN_PHASES = {"nodes": "phases[].tasks[].id", "edges": "phases[].tasks[].after[]"}


@pytest.mark.parametrize(
    ("data", "paths", "found"),
    [
        # A cycle is told in its order, from its first id.
        (nodes({"c": ["a"], "b": ["c"], "a": ["b"], "d": ["a"]}), NEEDS,
         ["the nodes form a cycle: a → b → c → a"]),
        (nodes({"a": ["a"]}), NEEDS, ["the nodes form a cycle: a → a"]),
        (nodes({"a": ["b", "c"], "b": ["c"], "c": []}), NEEDS, []),
        (nodes({"boil": [], "brew": ["boil", "biol"]}), NEEDS,
         ["nodes[1].needs[1]: there is no node `biol`; did you mean `boil`?"]),
        ({"nodes": TAKEN}, NEEDS,
         ["nodes[2].id: `a` is taken already, at nodes[0].id", A_AND_B]),
        # An id is a text or a number, and what is missing is none.
        ({"nodes": [{"needs": ["1"]}, {"id": 1, "needs": [1.0]}, {"id": "1"}]}, NEEDS,
         ["the nodes form a cycle: 1 → 1"]),
        (listed(among=[["x"], "y"]), {"nodes": "nodes[]", "edges": "edges[]"},
         ['nodes[0]: `["x"]` is not an id; a text or a number names a node']),
        # Edges may stand by themselves.
        (listed(["a", "b"], ["b", "a"]), PAIRS, [A_AND_B]),
        (listed({"from": "a", "to": "b"}, {"from": "b", "to": "a", "label": "x"}), PAIRS,
         [A_AND_B]),
        (listed({"source": "a", "target": "b"}, ["b", "a"]), PAIRS, [A_AND_B]),
        (listed(["a", "x"], ["y", "a"], among=["a"]), PAIRS,
         ["edges[0]: there is no node `x`; allowed: `a`",
          "edges[1]: there is no node `y`; allowed: `a`"]),
        (listed(["a"], None), PAIRS, [f'edges[0]: `["a"]` is not an edge; {PAIR}']),
        (listed({"from": "a"}), PAIRS, [f'edges[0]: `{{"from": "a"}}` is not an edge; {PAIR}']),
        # The keys of a mapping may be the nodes.
        (listed(["a", "b"], ["b", "c"], among={"a": 1, "b": 2}), PAIRS,
         ["edges[1]: there is no node `c`; allowed: `a`, `b`"]),
        # Items of lists in lists are nodes of one graph.
        ({"phases": PHASES}, IN_PHASES, ["the nodes form a cycle: 1 → 2 → 1"]),
    ],
)  # fmt: skip
async def test_a_cycle_and_what_is_no_node_or_edge_are_told_at_their_places(
    data: dict[str, Any], paths: dict[str, str], found: list[str]
) -> None:
    answer = await judge(data, paths)
    assert told_in(answer) == found
    places = ["" if "cycle" in message else message.partition(": ")[0] for message in found]
    assert [finding.location for finding in answer.findings] == places


async def test_data_that_is_none_is_a_finding() -> None:
    rule = AcyclicRule.model_validate({"acyclic": NEEDS, "message": "A circle."})
    assert "not JSON" in (await judge_by(rule, "[1,")).findings[0].message


FLOW = {
    "nodes": "nodes[].id",
    "edges": "edges[]",
    "needs": "nodes[].takes[]",
    "gives": "nodes[].makes[]",
}


def flow(*edges: tuple[str, str], **nodes: tuple[str, str]) -> dict[str, Any]:
    """Nodes with what each takes and makes, a letter each, and the edges between them."""
    listed = [
        {"id": n, "takes": [*takes], "makes": [*makes]} for n, (takes, makes) in nodes.items()
    ]
    return {"nodes": listed, "edges": [{"from": a, "to": b} for a, b in edges]}


async def test_what_a_node_needs_has_to_be_given_by_a_node_before_it() -> None:
    nodes = {"a": ("", "p"), "b": ("", ""), "c": ("pq", ""), "d": ("", "q")}
    assert await told(flow(("a", "b"), ("b", "c"), **nodes), FLOW) == [
        "nodes[2].takes[1]: no node before `c` gives `q`; `d` gives it, and does not come before"
    ]
    assert await told(flow(("a", "b"), ("b", "c"), ("d", "c"), **nodes), FLOW) == []
    assert len(await told(flow(("c", "a"), **nodes), FLOW)) == 2
    assert await told(flow(a=("x", "x")), FLOW) == [
        "nodes[0].takes[0]: no node before `a` gives `x`; `a` gives it, and does not come before"
    ]
    assert await told(flow(a=("x", "")), FLOW) == [
        "nodes[0].takes[0]: no node before `a` gives `x`"
    ]


async def test_without_edges_nodes_come_as_they_are_written() -> None:
    paths = {name: path.removesuffix("[]") for name, path in FLOW.items() if name != "edges"}
    data = flow(a=("pq", "x"), b=("x", "pq"), c=("pr", "r"))
    data["nodes"][2] |= {"id": "a", "takes": {"p": {}}}
    assert await told(data, {**paths, "given": "input.facts"}, input={"facts": {"q": None}}) == [
        "nodes[0].takes[0]: no node before `a` gives `p`; `b` gives it, and does not come before"
    ]
    with pytest.raises(ValueError, match="`edges` is missing"):
        AcyclicRule.model_validate({"acyclic": {"nodes": "nodes[].id"}})


async def test_a_node_that_names_others_comes_after_them() -> None:
    data = flow(a=("", "p"), b=("p", ""))
    paths = {**FLOW, "edges": "nodes[].after[]"}
    data["nodes"][1]["after"] = ["a"]
    assert await told(data, paths) == []
    data["nodes"][0]["after"], data["nodes"][1]["after"] = ["b"], []
    assert len(await told(data, paths)) == 1


async def test_on_a_circle_each_node_has_what_the_others_give_and_cycles_are_for_another_rule() -> (
    None
):
    data = flow(("a", "b"), ("b", "a"), ("b", "c"), a=("q", "p"), b=("p", "q"), c=("pqr", ""))
    assert await told(data, FLOW) == ["nodes[2].takes[2]: no node before `c` gives `r`"]


async def test_what_is_given_needs_no_node() -> None:
    rule = AcyclicRule.model_validate({"acyclic": {**FLOW, "given": "input.facts"}})
    verdicts = {}
    for name, facts in {"none": None, "list": ["p", "q"], "mapping": {"p": 1}}.items():
        answer = await judge_by(rule, flow(a=("pq", "")), input={"facts": facts})
        verdicts[name] = (answer.verdict, [finding.location for finding in answer.findings])
    assert verdicts == {
        "none": ("error", []),
        "list": ("pass", []),
        "mapping": ("fail", ["nodes[0].takes[1]"]),
    }


@given(graphs)
@settings(max_examples=60, deadline=None)
async def test_what_arrives_is_what_counting_out_says(needs: Needs) -> None:
    data = {"nodes": [{"id": n, "takes": [*IDS], "makes": [n]} for n in needs]}
    data["edges"] = [[a, b] for a, others in needs.items() for b in others]
    reached = reached_in(needs)
    wanted = {(n, x) for n in needs for x in IDS if x not in needs or n not in reached[x]}
    answer = await judge(data, FLOW)
    ids = [*needs]
    found = {(ids[int(f.location[6])], IDS[int(f.location[15])]) for f in answer.findings}
    assert found == wanted


async def test_a_graph_that_is_too_large_to_follow_is_not_judged() -> None:
    nodes = [{"id": n, "takes": [], "makes": [n]} for n in range(8_000)]
    answer = await judge({"nodes": nodes, "edges": []}, FLOW)
    assert answer.verdict == "error"
    assert "too large" in answer.reason
    chain = {"nodes": nodes[:5_000], "edges": [[n, n + 1] for n in range(4_999)]}
    chain["nodes"][-1] = {"id": 4_999, "takes": [0, "x"], "makes": []}
    begun = time.process_time()
    assert [f.location for f in (await judge(chain, FLOW)).findings] == ["nodes[4999].takes[1]"]
    assert time.process_time() - begun < 5
