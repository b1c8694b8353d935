"""Every kind of state is what it says: its docs, its schema, and its example through the runner."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.drive.states.performers import PERFORMERS
from loopkit.engine.events import Intended, Suspended
from loopkit.engine.template_values import plain_report
from loopkit.language.inclusion import INCLUDING
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import load, load_resolved
from loopkit.language.section import INCLUDED_SCHEMA
from loopkit.language.states import STATE_KINDS, STATE_NOUNS
from loopkit.language.states.each import ChildrenState
from loopkit.language.states.kinds import FilledState
from loopkit.language.states.state import AuthorState, StateBase, TemplateState, WorkingState
from loopkit.machine.graph import Graph, fault_codes
from loopkit.machine.inputs import complete_input
from loopkit.machine.scope import REPORT, Scope, own_names
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import faults_of, table_of
from loopkit.views.diagram.mermaid import mermaid
from loopkit.views.diagram.model import drawing
from loopkit.views.steps import Steps
from tests.support import KIND_EXAMPLES, Desk, Played, published_faults, scenario

EXAMPLES = KIND_EXAMPLES["states"]
KINDS = pytest.mark.parametrize("noun", STATE_NOUNS, ids=lambda noun: noun.kind)
WORKING = [noun for noun in STATE_NOUNS if issubclass(noun, WorkingState)]
FAILING = {"agent", "run", "render", "data", "machine", "set", "validate"}
"""The kinds whose examples can fail; the list of the one of `each` is given."""


@pytest.fixture(autouse=True)
def _beside(desk: Desk) -> None:
    for noun in STATE_NOUNS:
        for name, text in EXAMPLES[noun.kind].get("files", {}).items():
            desk.write(name, text)


def machine(noun: type[StateBase], **changes: Any) -> str:
    """A machine that writes a plan and comes to the example of a kind of state."""
    work = {**EXAMPLES[noun.kind].get("state", {}), **changes}
    states = {"draft": {"render": "Tea for two.", "output": "plan", "next": "work"}, "work": work}
    if noun in WORKING:
        work["next"] = "done"
        states["done"] = {"final": "success", "result": "plan"}
    if noun.kind in FAILING or "on_error" in changes:
        work["on_error"] = "failed"
        states["failed"] = {"final": "failure", "result": "plan"}
    given = {key: EXAMPLES[noun.kind].get(key, {}) for key in ("input", "agents")}
    return json.dumps({"loopkit": 1, **given, "states": states})


def played(noun: type[StateBase], desk: Desk) -> Played:
    answers = scenario(answers={"work": [EXAMPLES[noun.kind]["answer"]]}) if noun.waits else None
    return desk.play(machine(noun), answers)


def graph(noun: type[StateBase], desk: Desk, **changes: Any) -> Graph:
    return Graph(load(desk.write("machine.yaml", machine(noun, **changes))).machine)


@KINDS
def test_a_run_goes_through_a_state_or_ends_there(noun: type[StateBase], desk: Desk) -> None:
    run = played(noun, desk)
    assert run.outcome == ("work" if noun.ends else "done")
    assert run.route[1] == "work"


@KINDS
def test_what_does_the_work_of_a_state_is_found_by_its_kind(noun: type[StateBase]) -> None:
    """A person's answer is taken elsewhere, and where a run ends there is nothing to do."""
    if not (noun.ends or noun.waits):
        assert noun in PERFORMERS


@KINDS
def test_a_state_leaves_what_its_kind_says(noun: type[StateBase], desk: Desk) -> None:
    run, known = played(noun, desk), graph(noun, desk)
    state = known.states["work"]
    facts = own_names(known, "work").keys()
    assert run.state.facts.get("work", {}).keys() == facts
    assert (state.output_at("work") is not None) == ("work" in run.state.artifacts)
    assert (state.judges is not None) == ("work" in run.state.reports)
    assert {event.role for event in run.of(Intended)} == ({state.call} - {""})
    seen = Scope(known).entering("done").keys() if "done" in run.route else set()
    assert not state.said or "work" in seen


def test_templates_see_of_a_report_what_they_are_said_to(desk: Desk) -> None:
    [report] = played(STATE_KINDS["validate"], desk).reports
    assert plain_report(report).keys() == {*REPORT, "findings"}


@KINDS
def test_what_a_state_leaves_is_known_from_then_on(noun: type[StateBase], desk: Desk) -> None:
    known = graph(noun, desk)
    made = Scope(known).flow.completing("work").surely
    assert (("facts", "work") in made) >= bool(own_names(known, "work"))
    assert (("artifact", "work") in made) == (known.states["work"].output_at("work") is not None)
    assert (("report", "work") in made) == (known.states["work"].judges is not None)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("run", "{{ work.exit_code }}{{ work.stderr }}"),
        ("human", "{{ work.choice }}{{ work.comment }}{{ work.by }}"),
    ],
)
def test_templates_see_what_a_state_leaves_beside_its_artifact(
    kind: str, said: str, desk: Desk
) -> None:
    written = json.loads(machine(STATE_KINDS[kind]))
    written["states"]["work"]["next"] = "told"
    written["states"]["told"] = {"render": said, "next": "done"}
    assert [p.code for p in desk.problems(json.dumps(written)) if p.severity == "error"] == []


def test_data_keeps_its_kind_and_is_known_by_its_type(desk: Desk) -> None:
    machine = """
loopkit: 1
input: {plan: {title: str, tasks: [{id: int, done: optional bool}]}, more: any}
states:
  work:
    data: {plan: "{{ input.plan }}", count: "{{ input.plan.tasks | length }}", at: [1, null]}
    next: list
  list:
    for: {task: [input.plan.tasks, input.more]}
    data: "{{ task }} of {{ loop }}"
    next: pairs
  pairs:
    for: {task: work.plan.tasks}
    data: ["{{ task.id }}", "{{ task.done }}"]
    output: list
    next: passed
  passed: {render: "{{ input.plan }}", next: told}
  told:
    render: "{{ work.plan.title }}{{ work.at }}{{ work.count + 1 }}{{ list }}{{ work.plan.titel }}"
    transitions:
      - {guard: work.plan.title == passed.title, target: done}
      - {guard: work.count > 2, target: done}
      - {target: failed}
  done: {final: success, result: [work, list]}
  failed: {final: failure}
"""
    told = {(problem.code, problem.path) for problem in desk.problems(machine)}
    assert told == {
        ("unknown-name", "states.list.data"),
        ("unknown-field", "states.told.render"),
        ("unknown-name", "states.told.transitions.1.guard"),
    }
    right = machine.replace(" of {{ loop }}", "").replace("{{ work.plan.titel }}", "")
    right = right.replace("      - {guard: work.count > 2, target: done}\n", "")
    given = {"title": "T", "tasks": [{"id": 1}, {"id": 2, "done": True}]}
    run = desk.play(right, inputs={"plan": given, "more": [{"id": 3}]})
    assert run.state.artifacts["told"].text == "T[1, null]3[[1, null], [2, true]]"
    [failed] = desk.play(right, inputs={"plan": given, "more": 5}).of(Suspended)
    assert failed.message == "`input.more`: `5` is no list"


FIRST = """
loopkit: 1
input: {notes: any, names: {type: [str], default: [a]}}
agents: {writer: {model: openai/gpt-5-mini}}
artifacts:
  log: "{{ input.names | first }}:"
  found: {render: "{{ input.notes }}", fields: {failed: {all: 'FAIL (x+)'}}}
  parts: {for: {part: input.names}, data: {name: "{{ part }}", steps: []}}
states:
  check: {validate: parts, by: [{require: name != "z", each: "[]"}], transitions: [EXITS]}
  draft: {agent: writer, prompt: "Go on: {{ previous }}", output: log, next: told, on_error: failed}
  told: {render: "{{ log }} {{ found.failed }} {{ parts[0].steps }}", next: done}
  done: {final: success, result: [told, parts, found]}
  failed: {final: failure, result: log}
""".replace("EXITS", "{guard: valid, target: draft}, {target: failed}")


CORRECTED = """
loopkit: 1
artifacts: {plan: cold}
agents: {writer: {model: openai/gpt-5-mini}}
states:
  check:
    validate: plan
    by: [{matches: ^OK}]
    transitions: [{guard: valid, target: code}, {revise: look, max: 1}, {target: failed}]
  look: {run: ["true"], next: draft}
  draft: {agent: writer, prompt: "{{ feedback }}", output: plan, next: check}
  code: {agent: writer, prompt: "{{ plan }}", on_error: {content: failed}, next: done}
  done: {final: success}
  failed: {final: failure}
"""
BY_ORIGIN = (
    CORRECTED.replace("revise: look", "revise: {origin: draft}")
    .replace('  look: {run: ["true"], next: draft}\n', "")
    .replace("artifacts:", "origins: [draft, code]\nartifacts:")
)


@pytest.mark.parametrize("machine", [CORRECTED, BY_ORIGIN])
def test_a_first_value_is_corrected_by_the_state_that_writes_it_anew(
    desk: Desk, machine: str
) -> None:
    run = desk.play(machine, scenario(agents={"writer": ["OK", "code"]}))
    assert run.outcome == "done"
    assert "nothing in the text matches `^OK`" in run.prompts("writer")[0]


def test_an_artifact_has_its_first_value_before_any_state_works(durable: Desk) -> None:
    """It is version 1, outlives the process, and is judged like any other."""
    script = scenario(agents={"writer": [["a: tea", "a: tea"]]})
    run = durable.resume(durable.abort(FIRST, script, {"notes": "FAIL x, FAIL xx"}).state.run)
    assert run.prompts("writer")[-1] == "Go on: a:"
    assert run.result["told"] == 'a: tea ["x", "xx"] []'
    assert run.result["parts"] == [{"name": "a", "steps": []}]
    versions = Steps().after(run.stored).versions
    assert [one.title for one in versions["log"]] == [
        "log 1, from the start: not judged",
        "log 2, attempt 1 by draft: not judged",
    ]
    assert [one.title for one in versions["parts"]] == ["parts 1, from the start: pass"]
    refused = durable.play(FIRST, script, {"notes": "", "names": ["z"]})
    assert (refused.outcome, refused.result) == ("failed", {"log": "z:"})


def test_a_first_value_that_cannot_be_made_refuses_the_input(desk: Desk) -> None:
    machine = FIRST.replace("input.notes }}", "input.notes / 2 }}")
    with pytest.raises(InvalidInput, match=r"`artifacts.found`: .*does not fit its data"):
        complete_input(load(desk.write("machine.yaml", machine)).machine, {"notes": "x"})


def test_a_person_edits_an_artifact_that_is_there_and_has_no_fields_then(desk: Desk) -> None:
    written = json.loads(machine(STATE_KINDS["human"], edit="plan"))
    states = written["states"]
    states["draft"]["output"] = {"name": "plan", "fields": {"size": {"match": "two|six"}}}
    states["work"]["next"] = "told"
    states["told"] = {"render": "For {{ plan.size | upper }}.", "next": "done"}
    told = {(problem.code, problem.path) for problem in desk.problems(json.dumps(written))}
    assert ("may-be-missing", "states.told.render") in told
    states["work"]["edit"] = "letter"
    told = {(problem.code, problem.path) for problem in desk.problems(json.dumps(written))}
    assert ("unknown-artifact", "states.work.edit") in told


@pytest.mark.parametrize("kind", ["final", "human"])
@pytest.mark.parametrize("pick", ["last", "best"])
def test_what_picks_the_best_version_reads_the_reports(kind: str, pick: str, desk: Desk) -> None:
    written = json.loads(machine(STATE_KINDS["validate"]))
    states = written["states"]
    states["done"]["pick"] = pick if kind == "final" else "last"
    if kind == "human":
        states["work"]["next"] = "asked"
        states["asked"] = {**EXAMPLES["human"]["state"], "pick": pick, "next": "done"}
    codes = {problem.code for problem in desk.problems(json.dumps(written))}
    assert ("unread-verdict" in codes) is (pick == "last")


@pytest.mark.parametrize(("otherwise", "may_miss"), [({}, True), ({"else": "reply"}, False)])
def test_a_command_that_has_to_write_a_file_may_leave_no_artifact(
    otherwise: dict[str, str], *, may_miss: bool, desk: Desk
) -> None:
    output = {"name": "log", "file": "log.txt", **otherwise}
    written = json.loads(machine(STATE_KINDS["run"], output=output))
    del written["states"]["work"]["on_error"], written["states"]["failed"]
    assert ("content-unhandled" in {p.code for p in desk.problems(json.dumps(written))}) is may_miss


@pytest.mark.parametrize(("otherwise", "may_miss"), [({}, True), ({"else": "reply"}, False)])
def test_a_file_is_missing_only_where_no_reply_stands_for_it(
    otherwise: dict[str, str], *, may_miss: bool, desk: Desk
) -> None:
    written = json.loads(machine(STATE_KINDS["agent"]))
    work = written["states"]["work"]
    work |= {"output": {"name": "log", "file": "log.txt", **otherwise}, "next": "judged"}
    written["states"]["judged"] = {"validate": "log", "by": [{"min_chars": 1}], "next": "done"}
    known = Graph(load(desk.write("machine.yaml", json.dumps(written))).machine)
    assert ("missing" in fault_codes(known, "judged")) is may_miss
    assert "empty" in fault_codes(known, "judged")


@KINDS
def test_the_proof_knows_how_the_work_of_a_state_ends(noun: type[StateBase], desk: Desk) -> None:
    analysis = Analysis.of_machine(graph(noun, desk).machine)
    state = analysis.machine.states["work"]
    assert bool(state.faults) == (noun.kind in FAILING)
    assert {*faults_of(analysis, "work")} <= {*state.faults}
    assert state.faults or state.doing or state.ends
    table = table_of(analysis, "work")
    assert table is not None
    assert noun.ends or any(table.exits_of(row)[0] for row in table.rows())


@pytest.mark.parametrize("noun", WORKING, ids=lambda noun: noun.kind)
def test_an_error_edge_is_superfluous_where_nothing_can_fail(
    noun: type[StateBase], desk: Desk
) -> None:
    codes = {
        (problem.code, problem.path) for problem in desk.problems(machine(noun, on_error="failed"))
    }
    assert (("no-effect", "states.work.on_error") in codes) is (noun.kind not in FAILING)


@KINDS
def test_a_limit_is_looked_at_before_work_outside(noun: type[StateBase], desk: Desk) -> None:
    written = json.loads(machine(noun))
    written["limits"] = {"time": "0s", "then": "spent"}
    written["states"]["spent"] = {"final": "failure"}
    edges = Graph(load(desk.write("machine.yaml", json.dumps(written))).machine).edges
    assert ("work.limit" in {edge.id for edge in edges}) is noun.works_outside
    if noun.works_outside:
        assert desk.play(json.dumps(written)).outcome == "spent"


@pytest.mark.parametrize("noun", WORKING, ids=lambda noun: noun.kind)
def test_feedback_is_sent_to_a_state_that_reads_it(noun: type[StateBase], desk: Desk) -> None:
    written = json.loads(machine(noun))
    written["states"]["work"]["next"] = "asked"
    back = {"guard": 'choice == "no"', "revise": "work", "max": 1, "feedback": "{{ comment }}"}
    transitions = [back, {"target": "done"}]
    asked = {"human": "So?", "choices": ["yes", "no"], "transitions": transitions}
    written["states"]["asked"] = asked
    codes = {problem.code for problem in desk.problems(json.dumps(written))}
    assert ("undelivered-feedback" in codes) is not noun.reads_feedback


@KINDS
def test_every_text_of_a_state_is_checked_as_a_template(noun: type[StateBase], desk: Desk) -> None:
    """Whatever may stand in a file of its own, and the arguments of programs."""
    fields = noun.model_json_schema(by_alias=True)["properties"]
    texts = {name for name, schema in fields.items() if INCLUDED_SCHEMA in schema.get("anyOf", ())}
    assert texts <= INCLUDING
    state = graph(noun, desk).states["work"]
    assert {str(at[0]) for at, _ in state.templates} >= texts
    of_file = {"name": "text", "file": "{{ nobody }}"}
    unknown: dict[str, Any] = dict.fromkeys(texts, "{{ nobody }}")
    unknown |= {"output": of_file, "workspace": {"path": "{{ nobody }}"}, "run": ["{{ nobody }}"]}
    for name in unknown.keys() & fields.keys():
        problems = desk.problems(machine(noun, **{name: unknown[name]}))
        told = [problem.path for problem in problems if problem.code == "unknown-name"]
        assert any(path.startswith(f"states.work.{name}") for path in told)


@KINDS
def test_a_state_is_drawn_in_the_style_of_its_kind(noun: type[StateBase], desk: Desk) -> None:
    known = graph(noun, desk)
    picture = mermaid(drawing(known))
    assert known.states["work"].about.split()[0] in picture
    assert f"classDef {known.states['work'].drawn_as} " in picture


@KINDS
def test_a_state_is_known_by_a_key_of_its_own(noun: type[StateBase], desk: Desk) -> None:
    assert STATE_KINDS[noun.kind] is noun
    loaded = load(desk.write("machine.yaml", machine(noun)))
    kept = load_resolved(loaded.resolved)
    assert type(loaded.machine.states["work"]) is type(kept.states["work"]) is noun
    keys = {field.alias or name for name, field in noun.model_fields.items()}
    assert noun.kind in keys or not EXAMPLES[noun.kind]


@KINDS
def test_the_published_schema_knows_every_state(noun: type[StateBase]) -> None:
    assert published_faults(json.loads(machine(noun))) == []
    assert published_faults(json.loads(machine(noun, nobody=1))) != []


def test_every_state_that_is_defined_is_in_the_table() -> None:
    bases = {StateBase, WorkingState, AuthorState, TemplateState, FilledState, ChildrenState}
    defined = {noun for base in bases for noun in base.__subclasses__()} - bases
    assert defined == set(STATE_NOUNS)


@pytest.mark.parametrize(
    ("target", "first"), [("outline", "outline"), ("draft", "draft"), ("done", None)]
)
def test_the_first_author_is_on_every_path(desk: Desk, target: str, first: str | None) -> None:
    machine = f"""
loopkit: 1
input: {{is_long: bool, text: str}}
states:
  begin:
    transitions:
      - {{guard: input.is_long, target: outline}}
      - {{target: {target}}}
  outline: {{render: "{{{{ input.text }}}}", next: draft}}
  draft: {{render: "{{{{ input.text }}}} in full", next: done}}
  done: {{final: success}}
"""
    assert Graph(load(desk.write("machine.yaml", machine)).machine).first_author == first
