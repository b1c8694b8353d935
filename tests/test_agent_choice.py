"""A state that chooses its agent by a word: who is asked, what it costs, and how cases play it."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit import run
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.engine.events import Intended, Worked
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import load
from loopkit.machine.graph import Graph
from loopkit.machine.inputs import complete_input
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.testing import load_suite
from loopkit.views.diagram.mermaid import mermaid
from loopkit.views.diagram.model import drawing
from loopkit.views.plan.planned import plan_of
from tests.recording import assert_same, taped
from tests.support import PASS, CommandLine, Desk, Played, fails, scenario

BY_INPUT = """
loopkit: 1
input: {task: {agent: coder|frontend-coder, text: str}}
limits: {revisions: 2}
agents:
  coder: {model: openai/gpt-5-mini, session: keep, retry: {attempts: 2}}
  frontend: {model: openai/gpt-5, system: You know CSS., session: keep, retry: {attempts: 3}}
  critic: {model: openai/gpt-5-mini}
states:
  build:
    agent: {from: input.task.agent, of: {coder: coder, frontend-coder: frontend}}
    prompt: "Do it: {{ input.task.text }}"
    output: code
    next: check
  check:
    validate: code
    by: [{judge: critic, rubric: [Good.]}]
    transitions: [{guard: valid, target: done}, {revise: build}, {target: failed}]
  done: {final: success, result: code}
  failed: {final: failure}
"""
BY_ARTIFACT = """
loopkit: 1
agents:
  planner: {model: openai/gpt-5-mini, schema: {agent: WORDS, text: str}}
  coder: {model: openai/gpt-5-mini, session: keep, schema: {code: str, files: int, easy: bool}}
  frontend: {model: openai/gpt-5, session: keep, schema: {css: str, files: int, easy: str}}
states:
  plan:
    agent: planner
    prompt: Plan.
    on_error: {content: failed}
    next: build
  build:
    agent: {from: plan.agent, of: {coder: coder, frontend-coder: frontend}}
    prompt: "Do it: {{ plan.text }}"
    output: code
    on_error: {content: nobody}
    next: check
  check:
    validate: code
    by: [{require: files > 0}]
    transitions:
      - {guard: valid and build.files > 1, target: done}
      - {guard: valid, target: failed}
      - {revise: plan, max: 2}
      - {target: failed}
  nobody: {final: failure}
  done: {final: success, result: code}
  failed: {final: failure}
"""
OPEN, CLOSED = (
    BY_ARTIFACT.replace("WORDS", "str"),
    BY_ARTIFACT.replace("WORDS", "coder|frontend-coder"),
)


def task(agent: str) -> dict[str, Any]:
    return {"task": {"agent": agent, "text": "Add a page."}}


def planned(agent: str) -> dict[str, Any]:
    return {"data": {"agent": agent, "text": "a page"}}


def made(files: int = 2) -> dict[str, Any]:
    return {"data": {"code": "x = 1", "files": files, "easy": True}}


def styled(files: int = 2) -> dict[str, Any]:
    return {"data": {"css": "p {}", "files": files, "easy": "yes"}}


def asked(run: Played) -> list[str]:
    return [event.agent for event in run.of(Intended)]


def told(desk: Desk, machine: str) -> list[tuple[str, str, str]]:
    found: list[Problem] = desk.problems(machine)
    return [(p.severity, p.code, p.path) for p in found if p.severity != "note"]


@pytest.mark.parametrize(("word", "agent"), [("coder", "coder"), ("frontend-coder", "frontend")])
def test_a_word_of_the_input_chooses_who_is_asked(desk: Desk, word: str, agent: str) -> None:
    """S1.8: the agent of a task is the one that the task names."""
    other = {"coder": "frontend", "frontend": "coder"}[agent]
    script = scenario(agents={agent: ["A.", "B."], other: [], "critic": [fails("No."), PASS]})
    run = desk.play(BY_INPUT, script, task(word))
    assert (run.outcome, run.result["code"]) == ("done", "B.")
    assert asked(run) == [agent, "critic", agent, "critic"]


def test_each_gets_its_own_system_prompt_and_model(desk: Desk) -> None:
    script = scenario(agents={"frontend": ["A."], "coder": [], "critic": [PASS]})
    run = desk.play(BY_INPUT, script, task("frontend-coder"))
    assert run.asked("frontend")[0].messages[0].content == "You know CSS."
    assert next(event.model for event in run.of(Intended)) == "openai/gpt-5"


def of_two_plans(desk: Desk) -> Played:
    """A run in which the first plan chooses the coder, and the second one the frontend."""
    script = scenario(
        agents={
            "planner": [planned("coder"), planned("frontend-coder")],
            "coder": [made(0)],
            "frontend": [styled()],
        }
    )
    return desk.play(OPEN, script)


def test_a_word_of_an_artifact_chooses_anew_whenever_that_is_written(desk: Desk) -> None:
    """S1.8: what another agent wrote says who works on it."""
    run = of_two_plans(desk)
    assert (run.outcome, asked(run)) == ("done", ["planner", "coder", "planner", "frontend"])
    assert run.result["code"] == {"css": "p {}", "files": 2, "easy": "yes"}


def test_a_session_belongs_to_the_state_and_the_agent(desk: Desk) -> None:
    """An agent goes on with its own conversation, and never sees another's."""
    words = ("coder", "frontend-coder", "coder")
    machine = OPEN.replace("{revise: plan, max: 2}", "{revise: plan, max: 3}")
    script = scenario(
        agents={
            "planner": [*map(planned, words)],
            "coder": [made(0), made()],
            "frontend": [styled(0)],
        }
    )
    run = desk.play(machine, script)
    assert run.outcome == "done"
    [first, again], [only] = run.asked("coder"), run.asked("frontend")
    assert [len(request.messages) for request in (first, only, again)] == [1, 1, 3]
    assert again.messages[0].content == first.messages[0].content
    assert "p {}" not in str(again.messages[:-1])


def test_a_word_without_an_agent_is_a_content_error_that_asks_nobody(desk: Desk) -> None:
    script = scenario(agents={"planner": [planned("tester")], "coder": [], "frontend": []})
    run = desk.play(OPEN, script)
    assert (run.outcome, asked(run)) == ("nobody", ["planner"])
    work = next(event for event in run.of(Worked) if event.state == "build")
    assert work.outcome == "content"
    assert work.error == (
        "`plan.agent` is `tester`, for which there is no agent; known: `coder`, `frontend-coder`"
    )


def test_where_nothing_catches_it_a_word_without_an_agent_is_a_finding(desk: Desk) -> None:
    lines = OPEN.replace("valid and build.files > 1", "'\"no-agent\" in codes'").splitlines()
    machine = "\n".join(line for line in lines if "nobody" not in line and "valid," not in line)
    machine = machine.replace(
        "target: done}", "target: failed}\n      - {guard: valid, target: done}"
    )
    script = scenario(agents={"planner": [planned("tester")], "coder": [], "frontend": []})
    run = desk.play(machine, script)
    assert (run.outcome, asked(run)) == ("failed", ["planner"])
    [report] = run.reports
    assert [finding.code for finding in report.findings] == ["no-agent"]


def test_a_word_of_the_input_without_an_agent_is_refused_at_the_start(desk: Desk) -> None:
    """S1.8: an unknown agent type is told before anything is spent."""
    path = desk.write("machine.yaml", BY_INPUT.replace("coder|frontend-coder", "str"))
    machine = load(path).machine
    with pytest.raises(InvalidInput, match="`build` has no agent for `tester`") as refused:
        complete_input(machine, task("tester"))
    assert "`coder`" in str(refused.value)
    assert complete_input(machine, task("coder")) == task("coder")
    optional = BY_INPUT.replace("agent: coder|frontend-coder", "agent: optional str")
    with pytest.raises(InvalidInput, match="is missing: it chooses the agent of `build`"):
        complete_input(load(desk.write("o.yaml", optional)).machine, {"task": {"text": "x"}})


def test_the_command_line_refuses_a_word_without_an_agent(desk: Desk, cli: CommandLine) -> None:
    path = desk.write("machine.yaml", BY_INPUT.replace("coder|frontend-coder", "str"))
    given = desk.write("input.json", '{"task": {"agent": "tester", "text": "x"}}')
    told = cli(2, "run", str(path), "--input", str(given))
    assert (told.out, "`build` has no agent for `tester`" in told.err) == ("", True)


def test_functions_play_those_who_are_chosen(desk: Desk) -> None:
    path = desk.write("machine.yaml", BY_INPUT)
    agents = {
        "coder": lambda prompt, _: "code",
        "frontend": lambda prompt, _: f"css for: {prompt}",
        "critic": lambda *_: {"verdict": "pass", "findings": []},
    }
    done = run(path, task("frontend-coder"), agents=agents, state=None)
    assert done.result["code"] == "css for: Do it: Add a page."


def test_bounds_take_the_dearest_of_those_who_may_be_asked(desk: Desk) -> None:
    analysis = Analysis.of_machine(load(desk.write("machine.yaml", BY_INPUT)).machine)
    usd = {"coder": 1.0, "frontend": 0.5, "critic": 0.0}
    bounds = explore(analysis, price=lambda agent, *_: usd[agent])
    # The coder is dearer, two tries at 1 USD; the other one may be asked more often, three times.
    critic = 5 * 4
    assert bounds.cost.worst.total == 3 * 2 * 1.0
    assert bounds.calls.worst.total == 3 * 3 + critic * 3
    assert bounds.cost.best.total == 0.5


def test_a_plan_has_each_who_may_be_asked_with_price_and_prompt(desk: Desk) -> None:
    plan = plan_of(load(desk.write("machine.yaml", BY_INPUT)).machine, task("coder"))
    coder, frontend, _ = plan.asked
    assert [(one.agent, one.place) for one in plan.asked[:2]] == [
        ("coder", "build"),
        ("frontend", "build"),
    ]
    assert coder.prompt == frontend.prompt == "Do it: Add a page."
    assert (coder.call_usd or 0) < (frontend.call_usd or 0)
    assert plan.bounds.cost.worst.by_agent.keys() == {"frontend", "critic"}


def test_the_typical_cost_is_that_of_the_dearest(desk: Desk) -> None:
    plan = plan_of(load(desk.write("machine.yaml", BY_INPUT)).machine, {})
    alone = BY_INPUT.replace(
        "{from: input.task.agent, of: {coder: coder, frontend-coder: frontend}}", "frontend"
    )
    dear = plan_of(load(desk.write("alone.yaml", alone)).machine, {})
    assert [one.usd for one in plan.typical] == [one.usd for one in dear.typical]


def test_guards_and_templates_know_the_fields_that_all_answers_have(desk: Desk) -> None:
    assert told(desk, CLOSED) == []
    wrong = CLOSED.replace("build.files > 1", "build.css == 'x'")
    assert [code for _, code, _ in told(desk, wrong)] == ["unknown-name"]
    # Both have it, but one as a text.
    wrong = CLOSED.replace("build.files > 1", "build.easy")
    assert [code for _, code, _ in told(desk, wrong)] == ["unknown-name"]


def test_a_diagram_names_all_who_may_be_asked(desk: Desk) -> None:
    graph = Graph(load(desk.write("machine.yaml", BY_INPUT)).machine)
    text = mermaid(drawing(graph))
    assert "agent coder or frontend by input.task.agent" in text.replace("<br/>", " ")


def test_a_recorded_run_plays_the_same(desk: Desk) -> None:
    run = of_two_plans(desk)
    assert_same(taped(desk, run), run)


def test_a_call_in_doubt_is_settled_with_the_agent_that_was_asked(desk: Desk) -> None:
    desk.in_memory = False
    script = scenario(agents={"frontend": [["A.", "B."]], "coder": [], "critic": [PASS]})
    aborted = desk.abort(BY_INPUT, script, task("frontend-coder"))
    run = desk.resume(aborted.state.run)
    assert run.outcome == "done"
    assert asked(run) == ["frontend", "frontend", "critic"]


@pytest.mark.parametrize(("type_of_word", "fewest"), [("str", 0), ("coder|frontend-coder", 1)])
def test_an_answer_may_choose_nobody_unless_its_words_all_have_an_agent(
    desk: Desk, type_of_word: str, fewest: int
) -> None:
    machine = f"""
loopkit: 1
agents: {{coder: {{model: openai/gpt-5-mini}}, frontend: {{model: openai/gpt-5}}}}
states:
  ask: {{human: Who?, choices: [go], form: {{agent: {type_of_word}}}, next: build}}
  build:
    agent: {{from: ask.agent, of: {{coder: coder, frontend-coder: frontend}}}}
    prompt: Build.
    on_error: {{content: nobody}}
    next: done
  nobody: {{final: failure}}
  done: {{final: success, result: build}}
"""
    assert told(desk, machine) == []
    bounds = explore(Analysis.of_machine(load(desk.folder / "machine.yaml").machine))
    assert bounds.calls.best.total == fewest
    answers = {"ask": [{"choice": "go", "form": {"agent": "frontend-coder"}}]}
    script = scenario(agents={"frontend": ["A."], "coder": []}, answers=answers)
    assert desk.play(machine, script).result["build"] == "A."


def test_a_case_with_a_word_without_an_agent_is_refused_as_a_run_is(desk: Desk) -> None:
    desk.write("machine.yaml", BY_INPUT.replace("coder|frontend-coder", "str"))
    case = "cases: {one: {input: {task: {agent: WORD, text: x}}}}"
    text = f"scenario: 1\nmachine: machine.yaml\n{case}\n"
    path = desk.write("machine.scenario.yaml", text.replace("WORD", "tester"))
    with pytest.raises(ProblemsFound, match="`build` has no agent for `tester`") as refused:
        load_suite(path)
    [problem] = refused.value.problems
    assert (problem.code, problem.path) == ("unknown-value", "cases.one.input.task")
    desk.write("machine.scenario.yaml", text.replace("WORD", "coder"))
    assert load_suite(path).names == ("one",)
