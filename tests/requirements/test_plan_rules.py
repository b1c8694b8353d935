"""Plans as data: names in a catalogue, graphs without cycles, and checks in a small plug-in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import Desk, Played, scenario

CATALOGUE = """
capabilities:
  - {id: fetch, status: active, inputs: [], outputs: [page]}
  - {id: summarise, status: active, inputs: [page], outputs: [summary]}
  - {id: translate, status: retired, inputs: [summary], outputs: [summary]}
active: [fetch, summarise]
"""
MACHINE = """
loopkit: 1
limits: {revisions: 3}
agents:
  planner:
    command: [none]
    schema:
      nodes: [{id: str, kind: task|note, capability: optional str, needs: [str], covers: [str]}]
validators:
  catalogue:
    - lookup: {path: "nodes[].capability", in: {file: catalogue.yaml}, at: "capabilities[].id"}
      code: unknown
    - lookup: {path: "nodes[].capability", in: {file: catalogue.yaml}, at: active}
      code: retired
    - {require: 'kind == "note" or capability != none', each: "nodes[]", code: unnamed}
  graph:
    - {acyclic: {nodes: "nodes[].id", edges: "nodes[].needs[]"}, code: graph}
  producers:
    - {python: "producers:check", with: {catalogue: catalogue.yaml}, timeout: 20s}
states:
  plan: {agent: planner, prompt: Plan., next: check}
  check:
    validate: plan
    by: BY
    transitions: [{guard: valid, target: done}, {revise: plan}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""
PRODUCERS = '''
"""Every input that a node requires comes from a node that it needs, directly or not."""

from loopkit.plugins import Context, Finding

TAKES = {"fetch": [], "summarise": ["page"], "translate": ["summary"]}
GIVES = {"fetch": "page", "summarise": "summary", "translate": "summary"}


def check(plan, context: Context):
    nodes = {node["id"]: node for node in plan["nodes"]}
    for number, node in enumerate(plan["nodes"]):
        given = {GIVES[nodes[other]["capability"]] for other in node["needs"]}
        for wanted in TAKES[node["capability"]]:
            if wanted not in given:
                message = f"nothing that `{node['id']}` needs produces `{wanted}`"
                yield Finding(message, code="no-producer", location=f"nodes[{number}]")
'''
GOOD = {
    "nodes": [
        {"id": "a", "kind": "task", "capability": "fetch", "needs": [], "covers": ["u1"]},
        {"id": "b", "kind": "task", "capability": "summarise", "needs": ["a"], "covers": ["u2"]},
    ]
}


def changed(number: int, **fields: Any) -> dict[str, Any]:
    """The good plan with one node changed; none takes a field out."""
    nodes = [dict(node) for node in GOOD["nodes"]]
    nodes[number].update(fields)
    kept = [{key: value for key, value in node.items() if value is not None} for node in nodes]
    return {"nodes": kept}


def play(desk: Desk, by: str, *plans: dict[str, Any], machine: str = MACHINE) -> Played:
    desk.write("catalogue.yaml", CATALOGUE)
    desk.write("producers.py", PRODUCERS)
    calls = [{"data": plan} for plan in plans]
    return desk.play(machine.replace("BY", by), scenario(agents={"planner": calls}))


@pytest.mark.parametrize(
    ("plan", "codes", "said"),
    [
        (changed(1, capability="sumarise"), {"unknown", "retired"}, "did you mean `summarise`?"),
        (changed(1, capability="translate"), {"retired"}, "nodes[1].capability: `translate`"),
        (changed(1, capability=None), {"unnamed"}, "is required"),
        (changed(1, capability=None, kind="note"), set(), ""),
    ],
    ids=["unknown", "retired", "unnamed", "optional"],
)
def test_capabilities_of_a_plan_are_held_against_a_data_file(
    desk: Desk, plan: dict[str, Any], codes: set[str], said: str
) -> None:
    """S3.17 and S3.19: known ids, active ones, required but for one kind; without Python."""
    played = play(desk, "[catalogue]", plan, GOOD)
    assert {finding.code for finding in played.reports[0].findings} == codes
    assert played.route == ["plan", "check", *(["plan", "check"] if codes else []), "done"]
    assert said in (played.prompts("planner")[1] if codes else "")


def test_the_catalogue_is_the_one_that_the_run_started_with(durable: Desk) -> None:
    """S3.17: a resumed run judges by the catalogue of its definition."""
    durable.write("catalogue.yaml", CATALOGUE)
    durable.write("producers.py", PRODUCERS)
    calls: list[Any] = [[{"fault": "authentication"}, {"data": GOOD}]]
    script = scenario(agents={"planner": calls})
    stopped = durable.play(MACHINE.replace("BY", "[catalogue]"), script)
    assert stopped.state.status == "suspended"
    durable.write("catalogue.yaml", "capabilities: [{id: nothing}]\nactive: [nothing]\n")
    assert durable.resume(stopped.state.run).outcome == "done"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (changed(0, needs=["b"]), "the nodes form a cycle: a → b → a"),
        (changed(1, needs=["a", "aa"]), "nodes[1].needs[1]: there is no node `aa`"),
        (changed(1, id="a", needs=[]), "nodes[1].id: `a` is taken already, at nodes[0].id"),
    ],
    ids=["circle", "nowhere", "taken"],
)
def test_the_graph_of_a_plan_has_no_circle_and_its_edges_lead_to_nodes(
    desk: Desk, plan: dict[str, Any], said: str
) -> None:
    """S3.18, and the circles of S2.34."""
    played = play(desk, "[graph]", plan, GOOD)
    assert played.outcome == "done"
    (finding,) = played.reports[0].findings
    assert said in finding.message
    assert said in played.prompts("planner")[1]


def test_every_required_input_of_a_plan_has_its_producer(desk: Desk) -> None:
    """S3.18: a small plug-in beside the machine."""
    played = play(desk, "[producers]", changed(1, needs=[]), GOOD)
    (finding,) = played.reports[0].findings
    assert (finding.code, finding.location) == ("no-producer", "nodes[1]")
    assert "nothing that `b` needs produces `page`" in played.prompts("planner")[1]
    assert played.outcome == "done"


def test_units_of_meaning_are_all_covered_by_components(desk: Desk) -> None:
    """S2.34: each unit that was given is covered, and what is covered was given."""
    machine = MACHINE.replace(
        "limits:", "input: {units: {type: [str], default: [u1, u2]}}\nlimits:"
    ).replace(
        "  producers:",
        """  units:
    - {lookup: {path: "nodes[].covers[]", in: input.units}, code: invented}
    - {python: "units:covered", code: uncovered}
  producers:""",
    )
    desk.write(
        "units.py",
        "def covered(plan, context):\n"
        "    named = {unit for node in plan['nodes'] for unit in node['covers']}\n"
        "    units = context.input['units']\n"
        "    return [f'no component covers {unit}' for unit in units if unit not in named]\n",
    )
    played = play(desk, "[units, graph]", changed(1, covers=["u3"]), GOOD, machine=machine)
    assert [(f.code, f.message.partition(";")[0]) for f in played.reports[0].findings] == [
        ("invented", "nodes[1].covers[0]: `u3` is not known in `input.units`"),
        ("uncovered", "no component covers u2"),
    ]
    assert played.outcome == "done"
    assert json.loads(json.dumps(played.result["plan"])) == GOOD
