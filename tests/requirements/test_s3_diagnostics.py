"""S3, diagnostics: what is said of a defect besides its message is kept wherever it is told."""

from __future__ import annotations

import json
import sys

import pytest

from loopkit.engine.events import Emitted
from loopkit.language.load import load
from loopkit.machine.program import Program
from loopkit.views.review import report_lines
from tests.support import Desk, Played, scenario

MACHINE = """
loopkit: 1
limits: {revisions: 1}
agents:
  planner:
    command: [none]
    schema: {nodes: [{id: str, capability: str}]}
validators:
  graph: RULE
states:
  plan:
    agent: planner
    prompt: Plan.
    next: check
  check:
    validate: plan
    by: [graph]
    transitions:
      - {guard: valid, target: done, emit: plan_generated}
      - {revise: plan, feedback: diagnostics, emit: plan_rejected}
      - {target: failed}
  done: {final: success, result: plan}
  failed: {final: failure}
feedback:
  diagnostics: |
    {% for f in findings %}
    {{ f.code }} at {{ f.location }} ({{ f.item.nodeStage | default("") }},
    {{- " " }}{{ f.item.capabilityId | default("") }}): {{ f.message }}
    {% endfor %}
"""
PLUGIN = """
from loopkit.plugins import Finding

def check(plan, context):
    for index, node in enumerate(plan["nodes"]):
        if node["capability"] == "fax":
            more = {"nodeStage": "structuring", "capabilityId": "fax"}
            where = f"nodes[{index}].capability"
            yield Finding("No fax.", code="UNKNOWN", location=where, fields=more)
        if node["capability"] == "mail":
            yield {"message": "Slow.", "severity": "warning", "fields": {"facet": "speed"}}
"""
PROGRAM = """
import json, sys

plan, found = json.load(sys.stdin), []
for index, node in enumerate(plan["nodes"]):
    if node["capability"] == "fax":
        found.append({"code": "UNKNOWN", "message": "No fax.", "severity": "error",
                      "location": f"nodes[{index}].capability",
                      "nodeStage": "structuring", "capabilityId": "fax"})
    if node["capability"] == "mail":
        found.append({"message": "Slow.", "severity": "warning", "facet": "speed"})
worst = "fail" if any(f["severity"] == "error" for f in found) else "warn" if found else "pass"
print(json.dumps({"verdict": worst, "ok": worst != "fail", "findings": found}))
"""
RULES = {
    "a plug-in": '{python: "graph:check"}',
    "a program": f"{{command: [{sys.executable}, PROGRAM], parse: report}}",
    "a program with a report of its own shape": (
        f"{{command: [{sys.executable}, PROGRAM], parse: report, map: {{verdict: ok, "
        'verdicts: {"true": pass, "false": fail}, severity: severity}}'
    ),
    "rules of the language": (
        '[{require: \'capability != "fax"\', each: "nodes[]", code: UNKNOWN, message: No fax.,'
        ' fields: {nodeStage: structuring, capabilityId: "{{ item.capability }}"}},'
        ' {require: \'capability != "mail"\', each: "nodes[]", severity: warning, message: Slow.,'
        " fields: {facet: speed}}]"
    ),
}


@pytest.fixture(params=RULES, ids=list(RULES))
def played(desk: Desk, request: pytest.FixtureRequest) -> Played:
    """A plan with one bad node, and then a good one with a slow node."""
    desk.write("graph.py", PLUGIN)
    program = desk.write("program.py", PROGRAM)
    rule = RULES[request.param].replace("PROGRAM", json.dumps(str(program)))
    drafts = [{"nodes": [{"id": i, "capability": c} for i, c in ids]} for ids in BOTH]
    script = scenario(agents={"planner": [{"data": draft} for draft in drafts]})
    return desk.play(MACHINE.replace("RULE", rule), script)


BOTH = [[("a", "mail"), ("b", "fax")], [("a", "mail")]]


def test_a_diagnostic_keeps_its_further_fields(played: Played) -> None:
    """S3.2: in the report, whoever found it, beside code, message, severity and location."""
    assert played.outcome == "done"
    [found] = [f for f in played.reports[0].findings if f.blocking]
    assert (found.code, found.severity) == ("UNKNOWN", "error")
    assert found.message.endswith("No fax.")
    assert found.location.startswith("nodes[1]")
    assert (found.item["nodeStage"], found.item["capabilityId"]) == ("structuring", "fax")


def test_the_author_is_told_the_further_fields(played: Played) -> None:
    """S3.10: the diagnostics of attempt n are in the prompt of n + 1, all of them."""
    told = played.prompts("planner")[1].splitlines()[-1]
    assert told.startswith("UNKNOWN at nodes[1]")
    assert "(structuring, fax): " in told


def test_feedback_that_nobody_words_tells_them_as_well(desk: Desk) -> None:
    """S3.10: beside the code, what is short; what a `map` reads is not told twice."""
    desk.write("graph.py", PLUGIN)
    program = desk.write("program.py", PROGRAM)
    for name, told in (
        ("a plug-in", "(at `nodes[1].capability`, code `UNKNOWN`, nodeStage `structuring`, "),
        ("a program with a report of its own shape", "code `UNKNOWN`, nodeStage `structuring`, "),
    ):
        rule = RULES[name].replace("PROGRAM", json.dumps(str(program)))
        machine = MACHINE.replace("RULE", rule).replace("feedback: diagnostics, ", "")
        machine = machine.partition("feedback:\n")[0]
        drafts = [{"nodes": [{"id": i, "capability": c} for i, c in ids]} for ids in BOTH]
        played = desk.play(machine, scenario(agents={"planner": [{"data": d} for d in drafts]}))
        assert f"{told}capabilityId `fax`)" in played.prompts("planner")[1]
        items = Program(load(desk.folder / "machine.yaml").machine, "digest").report_items
        [_, shown, _] = report_lines(played.reports[0], items=items)
        assert "(nodeStage `structuring`, capabilityId `fax`)" in shown


def test_events_carry_the_further_fields_of_warnings_as_well(played: Played) -> None:
    """S3.2, S3.21 and S3.31."""
    rejected, generated = played.of(Emitted)
    told = [{**f.item, "code": f.code} for f in rejected.findings if f.blocking]
    assert told[0] | {"nodeStage": "structuring", "capabilityId": "fax"} == told[0]
    assert [(f.severity, f.item["facet"]) for f in generated.findings] == [("warning", "speed")]
    assert json.loads(generated.to_json())["findings"][0]["item"]["facet"] == "speed"
