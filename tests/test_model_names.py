"""Names for models: where they stand, what is stored of them, and what is told of a wrong one."""

from __future__ import annotations

import json

import pytest

from loopkit.agents.players import AgentChanges
from loopkit.agents.port import NotRunnable
from loopkit.drive.repair import Mend
from loopkit.engine.events import Intended
from loopkit.language.agents.model import ModelAgent
from loopkit.language.load import load, load_resolved
from loopkit.views.plan.planned import plan_of
from tests.support import PASS, Desk, Played, fails, scenario

MACHINE = """
loopkit: 1
limits: {revisions: 3}
models:
  haiku: anthropic/claude-haiku-4-5
  Sonnet 4.5: anthropic/claude-sonnet-4-5
  opus: anthropic/claude-opus-4-5
agents:
  writer: {model: [haiku, Sonnet 4.5, opus], rung: 1}
  critic:
    model: haiku
    fallbacks: [opus, {model: [Sonnet 4.5, openai/gpt-5]}]
states:
  draft: {agent: writer, prompt: Write., output: plan, next: check}
  check:
    validate: plan
    by: [{judge: critic, rubric: [Good.]}]
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""
HAIKU, SONNET, OPUS = (f"anthropic/claude-{name}-4-5" for name in ("haiku", "sonnet", "opus"))


def models(run: Played, agent: str) -> list[str]:
    """What was asked for an agent, call by call."""
    return [asked.model for asked in run.of(Intended) if asked.agent == agent]


def test_a_ladder_of_names_climbs_from_model_to_model_and_the_last_stays(desk: Desk) -> None:
    """S1.54: haiku, sonnet, opus, each after a rejected attempt."""
    judged = [fails("No."), fails("Still no."), fails("No, again."), PASS]
    texts = ["One.", "Two.", "Three.", "Four."]
    run = desk.play(MACHINE, scenario(agents={"writer": texts, "critic": judged}))
    assert (run.outcome, models(run, "writer")) == ("done", [HAIKU, SONNET, OPUS, OPUS])


LATER = """
loopkit: 1
origins: [planning, design]
limits: {total_revisions: 6}
agents:
  planner: {model: [openai/p1, openai/p2, openai/p3]}
  designer: {model: [openai/d1, openai/d2, openai/d3]}
  critic: {model: [openai/c1, openai/c2, openai/c3]}
states:
  planning:
    agent: planner
    prompt: Plan.
    output: plan
    on_error: {content: failed}
    next: design
  design: {agent: designer, prompt: "Design {{ plan }}.", output: spec, next: review}
  review:
    validate: spec
    by: [{judge: critic, rubric: [Good.]}]
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [planning, design]}, max: 3}
      - {target: failed}
  done: {final: success, result: spec}
  failed: {final: failure}
"""


def test_a_ladder_climbs_with_what_has_waited_for_its_state(desk: Desk) -> None:
    """What is found for the designer waits while the planner works."""
    found = [{"message": who, "severity": "error", "origin": who} for who in ("planning", "design")]
    both = {"data": {"verdict": "fail", "findings": found}}
    said = {"planner": ["A.", "B."], "designer": ["C.", "D."], "critic": [both, PASS]}
    run = desk.play(LATER, scenario(agents=said))
    assert run.outcome == "done"
    asked = {agent: models(run, agent) for agent in said}
    assert asked == {agent: [f"openai/{agent[0]}{n}" for n in (1, 2)] for agent in said}


def test_a_ladder_climbs_where_a_revise_edge_leads_to_a_state_before_its_own(desk: Desk) -> None:
    before = "  start: {transitions: [{target: draft}]}\n  draft: "
    text = MACHINE.replace("{revise: draft}", "{revise: start}").replace("  draft: ", before)
    script = scenario(agents={"writer": ["One.", "Two."], "critic": [fails("No."), PASS]})
    run = desk.play(text, script)
    assert (run.outcome, models(run, "writer")) == ("done", [HAIKU, SONNET])


def test_no_error_moves_a_ladder_up(desk: Desk) -> None:
    again = "{revise: draft, max: 2, feedback: Once more.}"
    text = MACHINE.replace(", next: check}", f", on_error: {{fatal: {again}}}, next: check}}")
    refused = [{"fault": "authentication"}]
    writer = [refused, ["One."], refused, ["Two."]]
    run = desk.play(text, scenario(agents={"writer": writer, "critic": [fails("No."), PASS]}))
    assert (run.outcome, models(run, "writer")) == ("done", [HAIKU, HAIKU, SONNET, SONNET])


def test_names_stand_for_the_models_of_judges_and_of_fallbacks(desk: Desk) -> None:
    down = {"fault": "quota"}
    script = scenario(agents={"writer": [["One."]], "critic": [[down, down, PASS]]})
    assert models(desk.play(MACHINE, script), "critic") == [HAIKU, OPUS, SONNET]


def test_what_is_stored_has_the_models_and_the_table(desk: Desk) -> None:
    loaded = load(desk.write("machine.yaml", MACHINE))
    stored = json.loads(loaded.resolved)["machine"]
    assert stored["agents"]["writer"]["model"] == [HAIKU, SONNET, OPUS]
    assert stored["models"]["opus"] == OPUS
    assert load_resolved(loaded.resolved) == loaded.machine
    other = load(desk.write("machine.yaml", MACHINE.replace("opus-4-5", "opus-4-1")))
    assert other.digest != loaded.digest


def test_a_plan_has_the_price_of_the_model_behind_a_name(desk: Desk) -> None:
    named = load(desk.write("machine.yaml", MACHINE)).machine
    plain = load(desk.write("machine.yaml", MACHINE.replace(": haiku", f": {HAIKU}"))).machine
    asked = [one for one in plan_of(named, {}).asked if one.agent == "critic"]
    assert asked == [one for one in plan_of(plain, {}).asked if one.agent == "critic"]
    assert (asked[0].who, (asked[0].call_usd or 0) > 0) == ((HAIKU,), True)


def test_another_model_for_a_run_may_be_a_name(desk: Desk) -> None:
    machine = load(desk.write("machine.yaml", MACHINE)).machine
    other = AgentChanges({"critic": "opus", "writer": "openai/gpt-5"}).apply_to(machine).agents
    assert [agent.called for agent in other.values()] == [("openai/gpt-5",), (OPUS,)]


def test_a_run_goes_on_with_a_name_that_its_definition_has(desk: Desk) -> None:
    desk.in_memory = False
    judged = [{"fault": "authentication"}, PASS]
    script = scenario(agents={"writer": [["One."]], "critic": [judged]})
    stopped = desk.play(MACHINE, script)
    run = desk.resume(stopped.state.run, mend=Mend(agents=AgentChanges({"critic": "opus"})))
    assert (run.outcome, models(run, "critic")) == ("done", [HAIKU, OPUS])


def test_the_name_of_nothing_is_a_model_string_as_ever(desk: Desk) -> None:
    text = MACHINE.replace("model: haiku", "model: openai/gpt-5")
    agent = load(desk.write("machine.yaml", text)).machine.agents["critic"]
    assert isinstance(agent, ModelAgent)
    assert agent.model == ("openai/gpt-5",)


def test_a_name_that_nothing_uses_is_noted_unless_another_may_be_a_slip_of_it(desk: Desk) -> None:
    idle = MACHINE.replace("models:", "models:\n  spare: openai/gpt-5-nano")
    assert [(p.path, p.severity) for p in desk.problems(idle)] == [("models.spare", "note")]
    slip = idle.replace("[opus, {", "[spaer, {")
    assert [p.code for p in desk.problems(slip)] == ["unknown-provider"]


def test_a_model_that_names_no_provider_has_to_be_one_that_litellm_knows(desk: Desk) -> None:
    machine = load(desk.write("machine.yaml", MACHINE)).machine
    for known in ("gpt-5", "claude-haiku-4-5", "ft:gpt-4o:acme", "anthropic.claude-v2"):
        assert AgentChanges({"critic": known}).apply_to(machine).agents["critic"].called == (known,)
    with pytest.raises(NotRunnable, match=r"no provider for the model `opsu`; did you mean `opus`"):
        AgentChanges({"critic": "opsu"}).apply_to(machine)
