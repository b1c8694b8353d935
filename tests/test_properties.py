"""What holds for every run, on the machines at hand: hypothesis makes up what is said in it."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from loopkit.engine.events import Worked
from loopkit.engine.macrostep import Engine, Macrostep
from loopkit.engine.state import RunState
from loopkit.language.load import load
from loopkit.testing import load_suite, play, properties
from loopkit.testing.properties.behaviour import Stage, behaviours_on
from loopkit.testing.properties.matches import sample
from loopkit.testing.properties.playing import Theatre
from loopkit.text.patterns import occurrences
from tests.support import ROOT, Desk
from tests.test_docs import Block, blocks, write_shown_files

PLAN_REVIEW = ROOT / "machines" / "plan_review.yaml"
LIMITED = """\
loopkit: 1
limits: {revisions: 2, agent_calls: 5, tokens: 6000, cost_usd: 0.12, then: over}
agents: {writer: {model: a/b}, critic: {model: c/d}}
states:
  draft: {agent: writer, prompt: Write., next: check}
  check:
    validate: draft
    by: [{min_chars: 5}, {judge: critic, rubric: [Good.]}]
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: over}]
  done: {final: success, result: draft}
  over: {final: failure, result: draft}
"""
TOOLS = """\
loopkit: 1
limits: {revisions: 1, tool_calls: 9, then: over}
agents:
  planner:
    model: a/b
    retry: {attempts: 2}
    schema: {nodes: [str]}
    tools:
      validate_plan: {by: [graph, linted]}
      search: {command: [grep, "{{ word }}", words.txt], input: {word: str}, on_in_doubt: retry}
    require_tool: validate_plan
    max_tool_calls: 3
    reask: 1
validators:
  graph: [{require: nodes.count > 0}]
  linted: {command: [lint], parse: exit_code}
states:
  plan: {agent: planner, prompt: Plan., next: check}
  check:
    validate: plan
    by: [graph]
    transitions: [{guard: valid, target: done}, {revise: plan}, {target: over}]
  done: {final: success, result: plan}
  over: {final: failure, result: plan}
"""
# What a run writes of its own figures differs where a call was lost and made again.
SAME_AGAIN = [b for b in blocks("loopkit: 1") if "telemetry." not in b.text]
EXAMPLES = [pytest.param(b, id=f"{b.page}:{b.line}") for b in SAME_AGAIN]


def holds(machine: Path, examples: int) -> None:
    """Try the properties of a machine on so many behaviours."""
    tried(properties.behaviours(machine), examples)


def tried(behaviours: st.SearchStrategy[properties.Behaviour], examples: int) -> None:
    # What is found is found at once: making it smaller takes hundreds of runs.
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(behaviours)
    def hold(behaviour: properties.Behaviour) -> None:
        behaviour.holds()

    hold()


def written(block: Block, desk: Desk) -> Path:
    write_shown_files(block, desk)
    return desk.write("machine.yaml", block.text)


def test_every_run_of_plan_review_holds() -> None:
    holds(PLAN_REVIEW, 10)


def test_every_run_that_resets_a_counter_holds(desk: Desk) -> None:
    resetting = "{guard: attempt == 2, revise: draft, max: 1, resets: [draft]}"
    text = re.sub("limits: .*", "limits: {revisions: 1, total_revisions: 3}", LIMITED)
    text = text.replace("{revise: draft}", f"{resetting}, {{revise: draft}}")
    holds(desk.write("machine.yaml", text), 20)


@pytest.mark.parametrize("then", [", then: over", ""])
def test_every_run_under_limits_holds(then: str, desk: Desk) -> None:
    # A call in doubt is counted, so what is resumed may have no room for another one.
    holds(desk.write("machine.yaml", LIMITED.replace(", then: over", then)), 20)


@pytest.mark.parametrize("examples", [20, pytest.param(300, marks=pytest.mark.long)])
def test_every_run_with_tools_holds(desk: Desk, examples: int) -> None:
    holds(desk.write("machine.yaml", TOOLS), examples)


def test_every_run_in_which_loopkit_calls_the_tool_holds(desk: Desk) -> None:
    holds(desk.write("machine.yaml", TOOLS.replace("reask: 1", "tool_use: runner")), 15)


@pytest.mark.parametrize("block", EXAMPLES[::2])
def test_every_run_of_the_examples_holds(block: Block, desk: Desk) -> None:
    holds(written(block, desk), 4)


@pytest.mark.long
def test_every_run_of_plan_review_holds_for_long() -> None:
    holds(PLAN_REVIEW, 1000)


@pytest.mark.long
@pytest.mark.parametrize("block", EXAMPLES)
def test_every_run_of_the_examples_holds_for_long(block: Block, desk: Desk) -> None:
    holds(written(block, desk), 300)


class Generous(Engine):
    """Grants one revision more than there are."""

    def step(self, run: RunState, work: Worked, now: float) -> Macrostep:
        generous = run.copy()
        generous.counters = {counter: spent - 1 for counter, spent in run.counters.items()}
        step = super().step(generous, work, now)
        for counter in run.counters:
            step.run.counters[counter] += 1
        return step


class GenerousStage(Stage):
    @cached_property
    def theatre(self) -> Theatre:
        return Theatre(self.loaded, self.bill, Generous(self.program))


@pytest.fixture(scope="module")
def told() -> str:
    """What is said of an engine that grants one revision too many, once it is found."""
    with pytest.raises(properties.BrokenProperty) as broken:
        tried(behaviours_on(GenerousStage(load(PLAN_REVIEW))), 60)
    return str(broken.value)


def test_a_cap_that_is_off_by_one_is_found(told: str) -> None:
    assert "limits are respected" in told
    assert re.search(r"was taken with (\d) of \1 revisions used up", told)


def test_what_breaks_a_property_is_told_as_a_case_that_plays(told: str, desk: Desk) -> None:
    desk.write("plan_review.yaml", PLAN_REVIEW.read_text())
    head = "scenario: 1\nmachine: plan_review.yaml\ncases:\n"
    case = told.partition("to come of it:\n\n")[2]
    suite = load_suite(desk.write("found.scenario.yaml", head + case))
    run = play(suite, "made up")
    # The real engine grants no revision more, and asks a person instead.
    assert run.state.status in ("waiting", "finished")
    assert run.state.route[-1] != "validate[2]"


def test_each_input_is_one_that_the_machine_takes(desk: Desk) -> None:
    machine = desk.write(
        "machine.yaml",
        """\
loopkit: 1
input:
  rounds: {type: int, minimum: 2, maximum: 4}
  kind: web|mail
  tags: [str]
  far: optional {type: num, minimum: 0.5}
states:
  a: {render: "{{ input.kind }}", next: done}
  done: {final: success, result: a}
""".replace("optional {type: num, minimum: 0.5}", "optional num"),
    )
    holds(machine, 20)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_only_the_properties_import_hypothesis() -> None:
    code = "import loopkit.testing, loopkit.pytest_plugin, sys; print('hypothesis' in sys.modules)"
    assert python(code).stdout == "False\n"


def test_without_hypothesis_it_is_said_what_to_install() -> None:
    without = "import sys; sys.modules['hypothesis'] = None; import loopkit.testing.properties"
    said = python(without).stderr
    assert re.search(r"ImportError: .* need hypothesis: pip install 'loopkit\[hypothesis\]'", said)


# -- patterns ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        r"^### Task \d+(\.\d+)?:",
        r"^- (?:Create|Modify): `([^`]+)`",
        r"(?i)status:\s*(open|done)\b",
        r"[A-Z]{3}-\d{2,}",
        r"(\w)\1{2}",
        r"[^\s\d]+@\w+\.\w{2,3}$",
        r"a.c\S?\W",
        r"(?<=x)y",
    ],
)  # fmt: skip
def test_a_sample_is_a_text_that_the_pattern_finds(pattern: str) -> None:
    made = sample(pattern, {})
    if pattern == r"(?<=x)y":
        assert made is None
    else:
        assert made is not None
        assert list(occurrences(pattern, made))


def test_a_pattern_may_be_named() -> None:
    assert sample("task", {"task": r"^- \[ \] \w+"}) == "- [ ] a"
