"""Coverage: what of a machine its cases reach, what no run can, and how it is told and drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from loopkit.checks.subject import Subject
from loopkit.cli import invoke
from loopkit.language.load import load_text
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.testing import Coverage, Tally, load_suite, play
from loopkit.testing.coverage import (
    goal_line,
    goal_text,
    goals_of,
    impossible_goals,
    way_to_goal,
)
from tests.support import ROOT, CommandLine, Desk
from tests.support_node import run_node

LOOP = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
states:
  draft:
    agent: writer
    prompt: Write.
    output: text
    on_error: {fatal: broken}
    next: check
  check:
    validate: text
    by: [{min_chars: 5}]
    transitions:
      - {guard: valid, target: done}
      - {revise: draft, max: 1}
      - {target: dropped}
  done: {final: success, result: text}
  dropped: {final: failure}
  broken: {final: failure}
"""
GOOD = {"agents": {"writer": ["long enough"]}}
BETTER = {"agents": {"writer": ["no", "long enough"]}}
BAD = {"agents": {"writer": ["no", "bad"]}}
REFUSED = {"agents": {"writer": [{"fault": "authentication"}]}}
BUSY = {"agents": {"writer": ["no", {"fault": "quota"}]}}
ASKING = """
loopkit: 1
input: {rounds: {type: int, minimum: 0, maximum: 3, default: 1}}
states:
  note: {render: "A note. {{ feedback }}", next: ask}
  ask:
    human: Go on?
    choices: [yes, again]
    transitions:
      - {guard: choice == "yes", target: done}
      - {revise: note, feedback: "{{ comment }}", max: input.rounds}
  done: {final: success}
"""
SHARED = """
loopkit: 1
limits: {budgets: {work: 1}}
agents: {writer: {model: openai/gpt-5-mini}}
states:
  draft: {agent: writer, prompt: Write., output: text, next: check}
  check:
    validate: text
    by: [{min_chars: 5}]
    transitions:
      - {guard: valid, target: ask}
      - {revise: draft, budget: work}
      - {target: dropped}
  ask:
    human: Go on?
    choices: [yes, again]
    transitions:
      - {guard: choice == "yes", target: done}
      - {revise: draft, budget: work, feedback: "{{ comment }}"}
  done: {final: success}
  dropped: {final: failure}
"""
LIMITED = """
loopkit: 1
limits: {agent_calls: 1, then: spent}
agents: {writer: {model: openai/gpt-5-mini}}
states:
  first: {agent: writer, prompt: Write., on_error: {content: spent}, next: second}
  second: {agent: writer, prompt: Go on., on_error: {content: spent}, next: done}
  done: {final: success}
  spent: {final: failure}
"""


def covered(
    folder: Path, machine: str, *, given: Mapping[str, Any] | None = None, **cases: Any
) -> Coverage:
    """What these cases cover of a machine."""
    (folder / "m.yaml").write_text(machine)
    written = {"scenario": 1, "machine": "m.yaml", "input": given or {}, "cases": cases}
    (folder / "m.scenario.yaml").write_text(json.dumps(written))
    suite, tally = load_suite(folder / "m.scenario.yaml"), Tally()
    for name in suite.names:
        tally.add(suite, name, play(suite, name))
    return tally.coverage()


def status(coverage: Coverage, kind: str) -> dict[str, str]:
    """Whether each goal of a kind is covered."""
    (machine,) = coverage.machines
    return {one.goal.name: one.status for one in machine.measured if one.goal.kind == kind}


# -- goals --------------------------------------------------------------------------------------


def test_a_machine_s_goals_are_its_states_its_edges_and_the_caps_of_its_back_edges() -> None:
    loaded = load_text(LOOP, "m.yaml", Path())
    goals = goals_of(loaded)
    assert [(goal.kind, goal.name) for goal in goals] == [
        *(("state", name) for name in ("draft", "check", "done", "dropped", "broken")),
        ("transition", "draft[0]"),
        ("transition", "draft.on_error.fatal"),
        *(("transition", f"check[{index}]") for index in range(3)),
        ("cap", "check[1]"),
    ]
    graph = Analysis.of_machine(loaded.machine).graph
    told = [f"{goal_line(loaded, goal)} {goal_text(graph, goal)}"
            for goal in goals if goal.kind != "state"]  # fmt: skip
    assert told == [
        "10 draft[0] → check",
        "9 draft.on_error.fatal → broken (a fatal error)",
        "15 check[0] → done (valid)",
        "16 check[1] → draft (otherwise)",
        "17 check[2] → dropped (otherwise)",
        "16 cap of check[1] → draft (max 1)",
    ]


def ways(machine: str, never_taken: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """The states on the way to each goal that is no state."""
    loaded = load_text(machine, "m.yaml", Path())
    subject = Subject.of(loaded)
    return {goal.name: [*way_to_goal(subject, goal, never_taken)] for goal in goals_of(loaded)}


def test_a_way_to_a_goal_is_a_shortest_one_from_the_start() -> None:
    found = ways(LOOP)
    assert (found["draft"], found["dropped"]) == ([], ["draft", "check"])
    assert found["draft.on_error.fatal"] == ["draft"]
    assert found["check[2]"] == ["draft", "check"]
    # Any state that calls an agent can reach the limit; the start is the nearest.
    assert ways(LIMITED)["limits.then"] == ["first"]


def test_a_way_to_a_goal_takes_no_edge_that_no_run_takes() -> None:
    short = LOOP.replace("fatal: broken", "fatal: dropped")
    assert ways(short)["dropped"] == ["draft"]
    assert ways(short, frozenset({"draft.on_error.fatal"}))["dropped"] == ["draft", "check"]


def test_what_cases_enter_and_take_is_covered_and_the_rest_is_missed(tmp_path: Path) -> None:
    coverage = covered(tmp_path, LOOP, good=GOOD, refused=REFUSED)
    assert status(coverage, "state") == {
        "draft": "covered", "check": "covered", "done": "covered",
        "dropped": "missed", "broken": "covered",
    }  # fmt: skip
    assert status(coverage, "transition") == {
        "draft[0]": "covered", "draft.on_error.fatal": "covered",
        "check[0]": "covered", "check[1]": "missed", "check[2]": "missed",
    }  # fmt: skip
    by = {one.goal.name: one.cases for one in coverage.machines[0].measured}
    assert by["draft.on_error.fatal"] == (f"{tmp_path / 'm.scenario.yaml'}::refused",)
    assert len(by["draft"]) == 2


def test_limits_then_is_one_goal_whichever_state_reaches_the_limit(tmp_path: Path) -> None:
    coverage = covered(tmp_path, LIMITED, one={"agents": {"writer": ["a", "b"]}})
    assert status(coverage, "transition")["limits.then"] == "covered"
    (then,) = (g for g in goals_of(coverage.machines[0].loaded) if g.name == "limits.then")
    assert then.edges == ("first.limit", "second.limit")
    assert "first.limit" not in status(coverage, "transition")
    (tmp_path / "other").mkdir()
    missed = covered(tmp_path / "other", LIMITED.replace("s: 1", "s: 9", 1),
                     one={"agents": {"writer": ["a", "b"]}})  # fmt: skip
    assert status(missed, "transition")["limits.then"] == "missed"


# -- caps ---------------------------------------------------------------------------------------


TOTAL = SHARED.replace("{budgets: {work: 1}}", "{total_revisions: 1}")
TOTAL = TOTAL.replace("budget: work", "max: 1")
RETRYING = LOOP.replace("fatal: broken", "fatal: {revise: draft, max: 1, feedback: Again.}")
RETRYING = RETRYING.replace("  broken: {final: failure}\n", "")
WIDE = LOOP.replace("max: 1", "max: 3")
WIDE = WIDE.replace("agents:", "limits: {total_revisions: 1}\nagents:", 1)
TWICE = {"agents": {"writer": [{"fault": "quota"}, {"fault": "quota"}]}}
ONCE = {"agents": {"writer": [{"fault": "quota"}, "no", "bad"]}}
AGAIN = {"answers": {"ask": [{"choice": "again", "comment": "Longer."}]}}


@pytest.mark.parametrize(
    ("machine", "case", "reached", "missed"),
    [
        pytest.param(LOOP, BAD, ["check[1]"], [], id="its state decides without room"),
        pytest.param(LOOP, BETTER, ["check[1]"], [], id="also where that goes well"),
        pytest.param(LOOP, GOOD, [], ["check[1]"], id="nothing is revised"),
        pytest.param(LOOP, BUSY, [], ["check[1]"], id="the last revision alone"),
        pytest.param(SHARED, BAD, ["check[1]"], ["ask[1]"], id="a shared budget at each edge"),
        pytest.param(SHARED, BETTER, ["check[1]", "ask[1]"], [], id="a shared budget at both"),
        pytest.param(TOTAL, BETTER, ["check[1]", "ask[1]"], [], id="the total closes every edge"),
        pytest.param(ASKING, {}, [], ["ask[1]"], id="a question with room"),
        pytest.param(ASKING, AGAIN, ["ask[1]"], [], id="a question without room, unanswered"),
        pytest.param(RETRYING, TWICE, ["draft.on_error.fatal"], ["check[1]"], id="of an error"),
        pytest.param(RETRYING, ONCE, ["check[1]"], ["draft.on_error.fatal"], id="once is less"),
        pytest.param(WIDE, GOOD, [], ["check[1]"], id="a cap above the total"),
        pytest.param(WIDE, BAD, ["check[1]"], [], id="a cap above the total is closed by it"),
    ],
)
def test_a_cap_is_reached_where_a_state_decides_without_room(
    tmp_path: Path, machine: str, case: dict[str, Any], reached: list[str], missed: list[str]
) -> None:
    coverage = covered(tmp_path, machine, one=case)
    wanted = dict.fromkeys(reached, "covered") | dict.fromkeys(missed, "missed")
    assert status(coverage, "cap") == wanted


def test_a_cap_of_0_by_an_input_is_reached_at_once(tmp_path: Path) -> None:
    coverage = covered(tmp_path, ASKING, given={"rounds": 0}, waits={})
    assert status(coverage, "cap") == {"ask[1]": "covered"}


# -- what no run can do -------------------------------------------------------------------------


def test_what_no_run_can_do_is_impossible_and_not_missed(tmp_path: Path) -> None:
    dead = LOOP.replace(
        "{revise: draft, max: 1}", "{guard: attempt < 3, revise: draft, max: 5}"
    ).replace(
        "      - {target: dropped}",
        "      - {guard: not valid, target: dropped}\n      - {target: nowhere}",
    ) + "  nowhere: {final: failure}\n"  # fmt: skip
    coverage = covered(tmp_path, dead, good=GOOD)
    assert status(coverage, "state")["nowhere"] == "impossible"
    assert status(coverage, "transition")["check[3]"] == "impossible"
    assert status(coverage, "transition")["check[2]"] == "missed"
    assert status(coverage, "cap") == {"check[1]": "impossible"}
    (machine,) = coverage.machines
    assert machine.count("cap").percent == 100
    assert machine.count().total == 5 + 5
    assert {goal.name for goal in machine.missed} == {
        "dropped", "broken", "draft.on_error.fatal", "check[1]", "check[2]",
    }  # fmt: skip


def test_nothing_is_known_to_be_impossible_where_there_are_too_many_configurations() -> None:
    loaded = load_text(LOOP.replace("max: 1", "max: 5, guard: attempt < 2"), "m.yaml", Path())
    goals, analysis = goals_of(loaded), Analysis.of_machine(loaded.machine)
    exact = impossible_goals(loaded, goals, explore(analysis))
    assert [(goal.kind, goal.name) for goal in exact] == [("cap", "check[1]")]
    assert impossible_goals(loaded, goals, explore(analysis, most=3)) == frozenset()


# -- the command --------------------------------------------------------------------------------


@pytest.fixture
def project(desk: Desk, own_folder: Path) -> Desk:
    """A folder with a machine and two scenario files of it, one of which names it otherwise."""
    desk.write("loops/m.yaml", LOOP.lstrip())
    write_case(desk, "loops/good", GOOD, "done")
    write_case(desk, "loops/bad", BAD, "dropped", machine="../loops/m.yaml")
    return desk


def write_case(
    desk: Desk, name: str, played: dict[str, Any], outcome: str, machine: str = "m.yaml"
) -> Path:
    """A scenario file with one case, which is called like the file."""
    case = {**played, "expect": {"outcome": outcome}}
    written = {"scenario": 1, "machine": machine, "cases": {name.rpartition("/")[2]: case}}
    return desk.write(f"{name}.scenario.yaml", json.dumps(written))


@pytest.mark.usefixtures("project")
def test_the_table_counts_each_machine_once_and_names_what_is_missed_at_its_line(
    cli: CommandLine,
) -> None:
    told = cli(0, "test", "--coverage")
    _, _, table = told.out.partition("\n\n")
    assert table == (
        "machine       states  transitions  caps  covered\n"
        "loops/m.yaml     4/5          4/5   1/1   81.8 %\n"
        "\n"
        "not covered:\n"
        "  loops/m.yaml:19: state broken, by draft\n"
        "  loops/m.yaml:8: draft.on_error.fatal → broken (a fatal error), by draft\n"
        "\n"
    )
    assert told.err == "2 cases passed\n"


@pytest.mark.usefixtures("project")
def test_without_the_options_nothing_is_said_of_coverage(cli: CommandLine) -> None:
    assert "covered" not in cli(0, "test").out


@pytest.mark.parametrize(
    ("least", "code"),
    [("0", 0), ("81.8", 0), ("81.82", 1), ("82", 1), ("99.5", 1), ("100", 1)],
)
@pytest.mark.usefixtures("project")
def test_less_than_the_least_fails_with_a_sentence(least: str, code: int, cli: CommandLine) -> None:
    told = cli(code, "test", "--fail-under", least)
    assert "states  transitions  caps" in told.out
    sentence = f"81.8 % are covered, less than {least} %; 2 goals of 11 are missed\n"
    assert (sentence in told.err) == bool(code)


def test_a_long_way_has_a_gap_after_its_start(desk: Desk, cli: CommandLine) -> None:
    states = {f"s{n}": {"render": "x", "next": f"s{n + 1}"} for n in range(12)}
    ask = {"human": "Go?", "choices": ["go", "stop"], "transitions": [
        {"guard": 'choice == "go"', "target": "end"}, {"target": "lost"}]}  # fmt: skip
    finals = {"end": {"final": "success"}, "lost": {"final": "failure"}}
    machine = {"loopkit": 1, "states": {**states, "s12": ask, **finals}}
    desk.write("m.yaml", json.dumps(machine))
    path = write_case(desk, "m", {"answers": {"s12": ["go"]}}, "end")
    told = cli(0, "test", str(path), "--coverage").out
    assert ": state lost, by s0, …, s5, s6, s7, s8, s9, s10, s11, s12\n" in told


@pytest.mark.parametrize("least", ["-1", "100.1", "inf", "all"])
@pytest.mark.usefixtures("project")
def test_a_least_that_is_no_percentage_is_wrong_usage_and_nothing_is_played(
    least: str, cli: CommandLine
) -> None:
    told = cli(2, "test", f"--fail-under={least}")
    assert told.out == ""
    assert least in told.err


@pytest.mark.usefixtures("project")
def test_only_what_is_selected_counts(cli: CommandLine) -> None:
    table = cli(1, "test", "-k", "good", "--fail-under", "50").out
    assert "loops/m.yaml     3/5          2/5   0/1   45.4 %" in table


def test_a_file_that_cannot_be_used_is_still_wrong_usage(project: Desk, cli: CommandLine) -> None:
    project.write("loops/worse.scenario.yaml", "scenario: 1")
    assert "81.8 %" in cli(2, "test", "--fail-under", "10").out


def test_all_goals_of_all_machines_count_together(project: Desk, cli: CommandLine) -> None:
    project.write("other/m.yaml", LOOP.lstrip())
    write_case(project, "other/a", GOOD, "done")
    told = cli(1, "test", "--fail-under", "64")
    assert "63.6 % are covered, less than 64 %; 8 goals of 22 are missed" in told.err
    last = told.out.partition("not covered")[0].strip().splitlines()[-1]
    assert last.split() == ["all", "63.6", "%"]


def test_the_json_names_every_goal_with_its_place_and_its_cases(
    project: Desk, cli: CommandLine
) -> None:
    assert "covered" not in cli(0, "test", "--coverage-json", "c.json").out
    data = json.loads((project.folder / "c.json").read_text())
    assert (data["coverage"], data["covered"], data["total"], data["percent"]) == (1, 9, 11, 81.8)
    (machine,) = data["machines"]
    named = (machine["machine"], machine["file"], machine["is_exact"])
    assert named == ("m", "loops/m.yaml", True)
    assert machine["transitions"] == {"covered": 4, "total": 5, "percent": 80.0}
    goals = {(goal["kind"], goal["name"]): goal for goal in machine["goals"]}
    assert goals["cap", "check[1]"] == {
        "kind": "cap",
        "name": "check[1]",
        "status": "covered",
        "cases": ["loops/bad.scenario.yaml::bad"],
        "text": "cap of check[1] → draft (max 1)",
        "edges": ["check[1]"],
        "line": 15,
    }
    assert goals["state", "broken"]["status"] == "missed"
    assert "cannot write no/such/c.json" in cli(2, "test", "--coverage-json", "no/such/c.json").err


@pytest.mark.usefixtures("own_folder")
def test_the_page_on_scenarios_shows_the_table_of_its_own_cases(
    desk: Desk, cli: CommandLine
) -> None:
    page = (ROOT / "docs/reference/scenarios.md").read_text(encoding="utf-8")
    machine, cases = (
        next(block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if start in block)
        for start in ("loopkit: 1", "machine: tea.yaml")
    )
    desk.write("tea.yaml", machine)
    desk.write("tea.scenario.yaml", cases)
    _, _, table = cli(0, "test", "--coverage").out.partition("\n\n")
    (shown,) = re.findall(r"begins with:\n\n```\n(.*?)```", page, re.DOTALL)
    assert table.startswith(shown)


# -- the diagram --------------------------------------------------------------------------------


def test_mermaid_reads_what_is_not_covered_on_states_and_arrows(project: Desk) -> None:
    dead = LOOP.replace("- {target: dropped}", "- {guard: not valid, target: dropped}\n"
                        "      - {target: nowhere}") + "  nowhere: {final: failure}\n"  # fmt: skip
    project.write("loops/m.yaml", dead.lstrip())
    argv = ["diagram", "loops/m.yaml", "--cases", "loops/good.scenario.yaml", "-o", "m.mmd"]
    assert invoke(argv) == 0
    (read,) = run_node("parse_diagrams.mjs", [(project.folder / "m.mmd").read_text()])
    nodes = {node["id"]: (node["classes"], "".join(node["texts"][-1:])) for node in read["nodes"]}
    assert "uncovered" in nodes["s_broken"][0]
    assert nodes["s_broken"][1] == "not covered"
    assert "impossible" in nodes["s_nowhere"][0]
    assert nodes["s_nowhere"][1] == "no run comes here"
    assert "uncovered" not in nodes["s_done"][0]
    assert nodes["s_done"][1] == "success"
    marked = {
        (edge["source"], edge["target"]): edge["text"].splitlines()[-2:] for edge in read["edges"]
    }
    assert marked["s_check", "s_draft"] == ["not covered", "cap not reached"]
    assert marked["s_draft", "s_broken"] == ["on fatal error", "not covered"]
    assert marked["s_check", "s_nowhere"] == ["4 · otherwise", "no run takes it"]
    assert marked["s_check", "s_done"] == ["1 · valid"]


@pytest.mark.usefixtures("project")
def test_a_marked_diagram_is_checked_like_any_other(cli: CommandLine) -> None:
    argv = ["diagram", "loops/m.yaml", "--cases", "loops"]
    assert invoke([*argv, "-o", "m.mmd"]) == 0
    assert invoke([*argv, "--check", "m.mmd"]) == 0
    again = ["diagram", "loops/m.yaml", "--cases=loops/good.scenario.yaml"]
    told = cli(1, *again, "--check", "m.mmd").err
    assert f"loopkit {' '.join([again[0], again[1], '-o m.mmd', again[2]])}" in (told)


def test_only_cases_of_the_machine_itself_are_marked(project: Desk, cli: CommandLine) -> None:
    project.write("earlier/m.yaml", LOOP.lstrip())
    write_case(project, "earlier/a", REFUSED, "broken")
    all_below = cli(0, "diagram", "loops/m.yaml", "--cases", ".").out
    assert all_below == cli(0, "diagram", "loops/m.yaml", "--cases", "loops").out
    assert "class s_broken uncovered" in all_below


def test_errors_that_are_one_arrow_say_which_of_them_are_not_covered(
    project: Desk, cli: CommandLine
) -> None:
    project.write("loops/m.yaml", LOOP.lstrip().replace("{fatal: broken}", "broken"))
    write_case(project, "a", REFUSED, "broken", machine="loops/m.yaml")
    out = cli(0, "diagram", "loops/m.yaml", "--cases", "a.scenario.yaml").out
    assert "s_draft --> s_broken : on transient or fatal<br/>error<br/><b>not covered" in out
    assert "<b>not covered#58; transient</b>" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--run", "m-000000", "--cases", "loops"], "give one of them"),
        (["loops/m.yaml", "--cases", "other"], "no case of `other` tests loops/m.yaml"),
        (["loops/m.yaml", "--cases", "nowhere.scenario.yaml"], "nowhere.scenario.yaml"),
    ],
)
def test_cases_that_cannot_be_marked_are_told(
    argv: list[str], said: str, project: Desk, cli: CommandLine
) -> None:
    (project.folder / "other").mkdir()
    told = cli(2, "diagram", *argv)
    assert (said in told.err, told.out) == (True, "")
