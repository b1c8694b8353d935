"""Statistics of runs: their figures, counted by hand, and how the command line prints them."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.players import Messages
from loopkit.app import App
from loopkit.cli import invoke
from loopkit.language.load import load
from loopkit.views.plot import plot, spans_of
from loopkit.views.stats import RunStats
from tests.support import PASS, CommandLine, Desk, fails, scenario, warns
from tests.waiting import until
from tests.warm import Process, ran_loopkit

TWO_PHASES = """
loopkit: 1
agents: {writer: {model: openai/x}, critic: {model: openai/y}}
validators: {complete: {judge: critic}, sound: {judge: critic}}
states:
  planning: {agent: writer, prompt: Plan it., output: plan, next: plan_review}
  plan_review:
    validate: plan
    by: [complete]
    transitions: [{guard: valid, target: design}, {revise: planning}, {target: given_up}]
  design: {agent: writer, prompt: "Design {{ plan }}", output: drawing, next: design_review}
  design_review:
    validate: drawing
    by: [sound]
    transitions: [{guard: valid, target: done}, {revise: planning}, {target: asked}]
  asked:
    human: Is that good enough?
    choices: [accept, again, reject]
    transitions:
      - {guard: choice == "accept", target: done}
      - {guard: choice == "again", revise: design, feedback: "{{ comment }}"}
      - {target: given_up}
  done: {final: success, result: drawing}
  given_up: {final: failure}
"""
KEYED = """
loopkit: 1
agents: {writer: {model: openai/x}, critic: {model: openai/y}}
limits: {revisions: 3}
states:
  draft: {agent: writer, prompt: Write., next: check}
  check:
    validate: draft
    by:
      - judge: critic
        prompt: 'Judge this: {{ artifact }} Answer {"verdict": …, "issues": […]}.'
        map: {findings: issues, key: test}
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: failed}]
  done: {final: success, result: draft}
  failed: {final: failure}
"""


@pytest.fixture
def desk(own_folder: Path) -> Desk:
    """A desk whose runs are in the journal of the current folder."""
    return Desk(own_folder, in_memory=False)


def work(text: str, usd: float | None = 0.0) -> dict[str, Any]:
    return {"reply": text, "cost_usd": usd}


def issues(*named: tuple[str, str], usd: float = 0.0) -> dict[str, Any]:
    """A judge's report in a form of its own, of tests and messages."""
    found = [{"test": test, "message": message, "severity": "error"} for test, message in named]
    verdict = "fail" if found else "pass"
    return {"data": {"verdict": verdict, "issues": found}, "cost_usd": usd}


CLEAN = scenario(agents={"writer": ["x"], "critic": [issues()]})


def told(cli: CommandLine, *options: str, code: int = 0) -> str:
    """What `stats` prints, runs that a scenario played included."""
    return cli(code, "stats", "--played", *options).out


def as_json(cli: CommandLine, *options: str, code: int = 0) -> Any:
    return json.loads(told(cli, *options, "--format", "json", code=code))


def one(found: Any) -> dict[str, Any]:
    """The figures of the only run."""
    [run] = found["runs"]
    assert isinstance(run, dict)
    return run


def figures(run: Mapping[str, Any], *names: str) -> list[Any]:
    return [run[name] for name in names]


# -- three runs, counted by hand ----------------------------------------------------------------


def test_a_planning_fault_found_in_the_design_costs_the_plan_and_the_design_again(
    desk: Desk, cli: CommandLine
) -> None:
    # Plan 0.01, design 0.02, found; plan 0.03, design 0.04 again. Each of five judgements 0.1.
    desk.play(
        TWO_PHASES,
        scenario(
            agents={
                "writer": [
                    work("a" * 300, 0.01), work("b" * 400, 0.02),
                    work("c" * 500, 0.03), work("d" * 1500, 0.04),
                ],
                "critic": {
                    "complete": [PASS | {"cost_usd": 0.1}] * 2,
                    "sound": [fails("No authentication.") | {"cost_usd": 0.1},
                              PASS | {"cost_usd": 0.1}],
                },
            }
        ),
    )  # fmt: skip
    run = one(as_json(cli))
    assert figures(run, "outcome", "success", "status", "played", "calls") == [
        "done", True, "finished", True, 8,
    ]  # fmt: skip
    assert run["cost_usd"] == pytest.approx(0.5)
    assert figures(run, "works", "corrections", "correction_rate") == [4, 2, 0.5]
    assert figures(run, "blocking", "resolved", "caught", "process_yield") == [1, 1, 1, 1.0]
    assert run["density"] == 1 / 2.0
    [defect] = run["defects"]
    assert figures(defect, "injected", "detected", "missed") == [["design"], "design_review", []]
    assert defect["attempts"] == {"planning": 1, "design": 1}
    assert defect["cost_usd"] == 0.07
    assert figures(defect, "status", "reports", "message") == ["resolved", 1, "No authentication."]
    phases = {phase["state"]: phase for phase in run["phases"]}
    assert figures(phases["design"], "works", "corrections", "characters") == [2, 1, 1500]
    assert figures(phases["design"], "injected", "density") == [1, 1 / 1.5]
    assert figures(phases["design_review"], "found", "missed", "phase_yield") == [1, 0, 1.0]
    assert figures(phases["plan_review"], "found", "missed", "phase_yield") == [0, 0, None]


def test_two_defects_share_the_works_in_which_both_are_corrected(
    desk: Desk, cli: CommandLine
) -> None:
    # Works: 0.01, then 0.02 for a and b, then 0.05 for a alone, whose words change each time.
    desk.play(
        KEYED,
        scenario(
            agents={
                "writer": [work("x" * 100, 0.01), work("y" * 100, 0.02), work("z" * 100, 0.05)],
                "critic": [
                    issues(("a", "A is wrong"), ("b", "B is wrong")),
                    issues(("A", "Still wrong: a")),
                    issues(),
                ],
            }
        ),
    )
    run = one(as_json(cli))
    assert figures(run, "works", "corrections", "correction_rate") == [3, 2, 2 / 3]
    assert figures(run, "blocking", "resolved", "density") == [2, 2, 20.0]
    first, second = run["defects"]
    assert figures(first, "key", "message", "reports") == ["A", "Still wrong: a", 2]
    assert figures(first, "attempts", "cost_usd", "status") == [{"draft": 2}, 0.06, "resolved"]
    assert figures(second, "key", "attempts", "cost_usd") == ["b", {"draft": 1}, 0.01]


def test_a_clean_run_has_no_defect_and_no_share_of_one(desk: Desk, cli: CommandLine) -> None:
    desk.play(KEYED, scenario(agents={"writer": [work("x", 0.5)], "critic": [issues(usd=0.25)]}))
    found = as_json(cli)
    run, [machine] = one(found), found["machines"]
    assert figures(run, "works", "corrections", "correction_rate") == [1, 0, 0.0]
    assert figures(run, "blocking", "process_yield", "density", "defects") == [0, None, 0.0, []]
    assert machine["clean"] == {
        "runs": 1, "cost_usd": 0.75, "seconds": run["seconds"], "unpriced": 0,
    }  # fmt: skip
    assert machine["corrected"] == {"runs": 0, "cost_usd": None, "seconds": None, "unpriced": 0}
    assert figures(machine, "clean_share", "process_yield") == [1.0, None]


# -- attribution and division -------------------------------------------------------------------


def test_what_a_review_let_through_counts_against_its_yield(desk: Desk, cli: CommandLine) -> None:
    # Two reviews of one draft: the first finds one defect and passes over the other.
    desk.play(
        """
loopkit: 1
agents: {writer: {model: openai/x}, critic: {model: openai/y}}
states:
  draft: {agent: writer, prompt: Write., next: review}
  review:
    validate: draft
    by: [{judge: critic}]
    transitions: [{guard: valid, target: test}, {revise: draft}, {target: failed}]
  test:
    validate: draft
    by: [{min_chars: 3}]
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: failed}]
  done: {final: success, result: draft}
  failed: {final: failure}
""",
        scenario(
            agents={"writer": ["x", "xy", "xyz"], "critic": [fails("Wrong."), PASS, PASS]},
        ),
    )
    run = one(as_json(cli))
    assert figures(run, "blocking", "caught", "process_yield") == [2, 1, 0.5]
    assert [defect["missed"] for defect in run["defects"]] == [[], ["review"]]
    phases = {phase["state"]: phase for phase in run["phases"]}
    assert figures(phases["review"], "found", "missed", "phase_yield") == [1, 1, 0.5]
    assert figures(phases["test"], "found", "missed", "phase_yield") == [1, 0, 1.0]


def test_a_work_that_is_not_sent_back_costs_no_defect_anything(
    desk: Desk, cli: CommandLine
) -> None:
    desk.play(
        """
loopkit: 1
agents: {writer: {model: openai/x}, critic: {model: openai/y}}
states:
  draft: {agent: writer, prompt: Write., next: review}
  review: {validate: draft, by: [{judge: critic}], transitions: [{target: polish}]}
  polish: {agent: writer, prompt: "Polish {{ draft }}", output: text, next: last}
  last:
    validate: text
    by: [{min_chars: 1}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: text}
  failed: {final: failure}
""",
        scenario(agents={"writer": [work("x", 1.0), work("y", 2.0)], "critic": [fails("Wrong.")]}),
    )
    [defect] = one(as_json(cli))["defects"]
    assert figures(defect, "attempts", "cost_usd", "status") == [{}, 0.0, "new"]


def test_what_comes_back_is_one_defect_that_recurs(desk: Desk, cli: CommandLine) -> None:
    found, other = issues(("a", "A")), issues(("b", "B"))
    writer = [work("1", 1.0), work("2", 1.0), work("3", 1.0), work("4", 1.0)]
    desk.play(KEYED, scenario(agents={"writer": writer, "critic": [found, other, found, found]}))
    run = one(as_json(cli))
    assert figures(run, "outcome", "blocking", "resolved") == ["failed", 2, 1]
    first, second = run["defects"]
    assert figures(first, "status", "reports", "attempts") == ["recurring", 3, {"draft": 2}]
    assert first["cost_usd"] == 2.0
    assert figures(second, "status", "cost_usd") == ["resolved", 1.0]


def test_an_unknown_cost_makes_the_share_of_a_defect_unknown_and_not_free(
    desk: Desk, cli: CommandLine
) -> None:
    writer = [work("1", 1.0), work("2", None)]
    desk.play(KEYED, scenario(agents={"writer": writer, "critic": [issues(("a", "A")), issues()]}))
    found = as_json(cli)
    run, [machine] = one(found), found["machines"]
    assert run["cost_usd"] is None
    assert run["defects"][0]["cost_usd"] is None
    assert figures(machine["corrected"], "runs", "cost_usd", "unpriced") == [1, None, 1]
    assert "mean of 0 runs, 1 of unknown cost left out" in told(cli)


def test_a_finding_that_blocks_nothing_is_listed_and_not_counted(
    desk: Desk, cli: CommandLine
) -> None:
    critic = {"complete": [warns("A nit.")], "sound": [PASS]}
    desk.play(TWO_PHASES, scenario(agents={"writer": ["p", "d"], "critic": critic}))
    run = one(as_json(cli))
    assert figures(run, "blocking", "process_yield") == [0, None]
    assert [figures(d, "blocking", "severity", "message") for d in run["defects"]] == [
        [False, "warning", "A nit."]
    ]


def test_a_judge_that_calls_a_finding_open_by_its_id_names_the_same_defect(
    desk: Desk, cli: CommandLine
) -> None:
    """S2.39: the defect is known by the id of the ledger, whatever its words."""
    own_form = KEYED[: KEYED.index("        prompt:")] + KEYED[KEYED.index("    transitions:") :]
    path = desk.write("machine.yaml", own_form)

    def critic(prompt: str, _: Messages) -> str:
        ids = re.findall(r'"id": "([0-9a-f]{12})"', prompt)
        if not ids:
            found = [{"message": "No authentication", "severity": "error"}]
            return json.dumps({"verdict": "fail", "findings": found})
        is_mended = "third" in prompt
        known = {ids[0]: "resolved" if is_mended else "open"}
        return json.dumps({"verdict": "pass" if is_mended else "fail", "known": known,
                           "findings": []})  # fmt: skip

    texts = iter(["first", "second", "third", "fourth"])

    async def play() -> None:
        functions = {"critic": critic, "writer": lambda *_: next(texts)}
        async with App.open(desk.state_folder, functions=functions) as app:
            await app.drive(await app.start(load(path), {}))

    asyncio.run(play())
    run = one(as_json(cli))
    [defect] = run["defects"]
    assert figures(run, "outcome", "played") == ["done", False]
    assert figures(defect, "reports", "attempts", "status") == [2, {"draft": 2}, "resolved"]


def test_a_decision_to_go_on_with_open_findings_is_recorded_as_an_override(
    desk: Desk, cli: CommandLine
) -> None:
    """S2.18: gate, decision, reviewer, justification, time and the counts of issues."""
    critic = {"complete": [PASS], "sound": [fails("One.", "Two.")]}
    text = TWO_PHASES.replace("{revise: planning}, {target: asked}", "{target: asked}")
    played = desk.play(text, scenario(agents={"writer": ["p", "d"], "critic": critic}))
    desk.answer(played.state.run, "accept", comment="It ships today; “later”.")
    run = one(as_json(cli))
    [override] = run["overrides"]
    given = figures(override, "state", "choice", "by", "comment", "target", "open")
    assert given == ["asked", "accept", "person", "It ships today; “later”.", "done", {"error": 2}]
    assert override["at"] >= run["started"]


@pytest.mark.parametrize("choice", ["reject", "again"])
def test_who_rejects_or_sends_back_overrides_nothing(
    desk: Desk, cli: CommandLine, choice: str
) -> None:
    critic = {"complete": [PASS], "sound": [fails("One."), PASS]}
    text = TWO_PHASES.replace("{revise: planning}, {target: asked}", "{target: asked}")
    writer = [work("p"), work("d"), work("e", 0.5)]
    played = desk.play(text, scenario(agents={"writer": writer, "critic": critic}))
    desk.answer(played.state.run, choice, comment="Look again.")
    run = one(as_json(cli))
    assert run["overrides"] == []
    [defect] = run["defects"]
    wanted = [{"design": 1}, 0.5, "resolved"] if choice == "again" else [{}, 0.0, "new"]
    assert figures(defect, "attempts", "cost_usd", "status") == wanted


# -- the command --------------------------------------------------------------------------------


def test_an_empty_journal_has_no_figures_and_is_not_made(desk: Desk, cli: CommandLine) -> None:
    assert as_json(cli) == {"runs": [], "machines": []}
    assert told(cli) == ""
    assert not (desk.folder / ".loopkit/journal.db").exists()


def test_runs_are_grouped_by_machine_and_filtered_by_its_name(desk: Desk, cli: CommandLine) -> None:
    for name in ("one", "two"):
        path = desk.write(f"{name}.yaml", KEYED)
        desk.play(path, CLEAN)
    desk.play(
        desk.folder / "one.yaml",
        scenario(agents={"writer": ["x", "y"], "critic": [issues(("a", "A")), issues()]}),
    )
    found = as_json(cli)
    counted = [figures(m, "machine", "runs", "clean_share", "blocking") for m in found["machines"]]
    assert counted == [["one", 2, 0.5, 1], ["two", 1, 1.0, 0]]
    assert [m["machine"] for m in as_json(cli, "--machine", "two")["machines"]] == ["two"]
    assert as_json(cli, "--machine", "three")["runs"] == []
    table = told(cli)
    assert "one: 2 runs, 2 finished\n" in table
    assert re.search(r"clean +50\.0% +1 of 2 finished runs", table)
    assert re.search(r"check +0 +0 +– +0 +– +1 +0 +100\.0%", table)


def test_a_run_is_counted_once_however_often_it_is_named(desk: Desk, cli: CommandLine) -> None:
    played = desk.play(KEYED, CLEAN)
    run = played.state.run
    assert len(as_json(cli, run, run, run[:-2])["runs"]) == 1


def test_an_unknown_run_is_a_usage_error_before_anything_is_printed(
    desk: Desk, cli: CommandLine
) -> None:
    played = desk.play(KEYED, CLEAN)
    assert told(cli, played.state.run, "nothing", "--format", "json", code=2) == ""


def test_runs_that_a_scenario_played_count_where_they_are_named_or_asked_for(
    desk: Desk, cli: CommandLine
) -> None:
    runs = [desk.play(KEYED, CLEAN).state.run for _ in range(2)]
    left_out = cli(0, "stats")
    assert "mean of" not in left_out.out
    assert "2 runs that a scenario played are left out; count them with `--pl" in left_out.err
    assert "1 run, 1 finished" in cli(0, "stats", runs[0]).out
    asked = cli(0, "stats", "--played")
    assert ("2 runs, 2 finished" in asked.out, asked.err) == (True, "")


def test_a_damaged_run_among_others_is_reported_and_left_out(desk: Desk, cli: CommandLine) -> None:
    runs = [desk.play(KEYED, CLEAN).state.run for _ in range(3)]
    with closing(sqlite3.connect(desk.folder / ".loopkit/journal.db")) as db, db:
        gone = "DELETE FROM records WHERE seq = 3 AND run_id = (SELECT id FROM runs WHERE run = ?)"
        db.execute(gone, [runs[0]])
        broken = "UPDATE records SET data = '{' WHERE type = 'worked' AND run_id = "
        db.execute(f"{broken} (SELECT id FROM runs WHERE run = ?)", [runs[1]])
    done = ran_loopkit("stats", "--played", "--format", "json")
    assert done.returncode == 4
    assert [run["run"] for run in json.loads(done.stdout)["runs"]] == runs[2:]
    faults = done.stderr.splitlines()
    assert [fault.partition(":")[0] for fault in faults] == ["error", "error"]
    assert f"run '{runs[0]}' is damaged: it has 13 of 14 records" in done.stderr
    assert f"run '{runs[1]}' is damaged: record" in done.stderr
    named = ran_loopkit("stats", *runs, "--format", "json")
    assert (named.returncode, json.loads(named.stdout)) == (4, json.loads(done.stdout))


def test_more_runs_than_are_read_at_once_are_all_counted_newest_first(
    desk: Desk, cli: CommandLine
) -> None:
    path = desk.write("many.jsonl", "{}\n" * 120)
    desk.write("m.yaml", "loopkit: 1\nstates:\n  a: {render: x, next: b}\n  b: {final: success}\n")
    assert invoke(["run", "m.yaml", "--batch", str(path), "-o", "out"]) == 0
    found = as_json(cli)
    assert len({run["run"] for run in found["runs"]}) == 120
    started = [run["started"] for run in found["runs"]]
    assert started == sorted(started, reverse=True)
    assert found["machines"][0]["runs"] == 120


def test_a_run_that_is_still_going_is_counted_with_what_it_has_done(
    desk: Desk, cli: CommandLine
) -> None:
    author = "if test -e begun; then touch again; sleep 60; fi; touch begun; echo x"
    text = KEYED.replace("{model: openai/x}", json.dumps({"command": ["sh", "-c", author]}))
    critic = json.dumps({"command": ["echo", json.dumps(issues(("a", "A"))["data"])]})
    desk.write("m.yaml", text.replace("{model: openai/y}", critic))
    running = Process(["-m", "loopkit", "run", "m.yaml", "--output", "quiet"], cwd=desk.folder)
    try:
        until((desk.folder / "again").exists)
        found = as_json(cli)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    run, [machine] = one(found), found["machines"]
    assert figures(run, "status", "outcome", "works") == ["running", None, 1]
    assert [d["status"] for d in run["defects"]] == ["new"]
    assert figures(machine, "runs", "finished", "clean_share") == [1, 0, None]


def test_children_have_figures_of_their_own(desk: Desk, cli: CommandLine) -> None:
    desk.write("part.yaml", KEYED)
    machine = """
loopkit: 1
states:
  parts: {each: input.parts, as: part, key: part, max_items: 5, machine: part.yaml, next: done}
  done: {final: success}
input: {parts: [str]}
"""
    child = {"agents": {"writer": [work("x", 0.5)], "critic": [issues()]}}
    played = desk.play(
        machine,
        scenario(children={"parts": {"*": child}}),
        {"parts": ["a", "b"]},
    )
    found = as_json(cli, played.state.run)
    assert [run["machine"] for run in found["runs"]] == ["machine", "part", "part"]
    assert [run["cost_usd"] for run in found["runs"]] == [1.0, 0.5, 0.5]
    assert as_json(cli)["machines"] == found["machines"]


# -- the plot -----------------------------------------------------------------------------------


def test_a_plot_has_one_point_for_each_span_of_time_that_has_runs() -> None:
    def point(at: float, usd: float | None, *, is_clean: bool) -> RunStats:
        figures: dict[str, Any] = dict.fromkeys(RunStats.__struct_fields__, 0)
        figures |= {"outcome": "done", "corrections": 0 if is_clean else 1, "cost_usd": usd}
        figures |= {"started": at, "blocking": 2, "caught": 2 if is_clean else 1}
        return RunStats(**{**figures, "phases": (), "overrides": ()})

    points = [point(n * 100.0, 0.01 * n, is_clean=n % 2 == 0) for n in range(1000)]
    spans = spans_of(points)
    assert [span.runs.runs for span in spans] == [25] * 40
    first, last = spans[0], spans[-1]
    of = first.runs
    assert (of.clean.runs, of.finished, of.caught, of.blocking) == (13, 25, 38, 50)
    assert first.mean_usd == pytest.approx(0.12)
    assert last.mean_usd == pytest.approx(9.87)
    # Runs far apart: what lies between has no point. What is unknown is not free.
    few = spans_of([point(0.0, None, is_clean=True), point(10.0, 1.0, is_clean=True)] * 20)
    assert [(span.runs.runs, span.mean_usd) for span in few] == [(20, None), (20, 1.0)]
    assert [len(line) for line in plot(points).panels[1].lines.values()] == [40]
    assert [len(plot(some).dates) for some in (points, points[:2], points[:1], [])] == [5, 2, 1, 0]


# -- ways back and states that are kept ---------------------------------------------------------


def test_what_went_away_with_a_version_that_was_given_up_is_withdrawn(
    desk: Desk, cli: CommandLine
) -> None:
    machine = KEYED.replace("{revise: draft}", "{revise: draft, from: best}")
    writer = [work("1", 0.01), work("2", 0.02), work("3", 0.04)]
    worse = issues(("a", "A"), ("b", "B"))
    critic = [issues(("a", "A")), worse, issues()]
    desk.play(machine, scenario(agents={"writer": writer, "critic": critic}))
    run = one(as_json(cli))
    first, second = run["defects"]
    assert figures(first, "key", "status", "attempts") == ["a", "resolved", {"draft": 2}]
    assert first["cost_usd"] == 0.06
    assert figures(second, "key", "status", "attempts") == ["b", "withdrawn", {}]
    assert figures(run, "blocking", "resolved") == [2, 1]
