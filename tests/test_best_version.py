"""`from: best`: an author starts from the best version, and what came after it is given up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.cli import invoke
from loopkit.document.problems import ProblemsFound
from loopkit.engine.events import Decided, Restored
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Best, Feedback
from loopkit.engine.telemetry import Figures
from loopkit.language.load import load
from loopkit.machine.graph import Graph
from loopkit.machine.program import Program
from loopkit.views.diagram.model import edge_texts
from loopkit.views.review import review
from tests.support import PASS, CommandLine, Desk, Played, fails, listed, scenario
from tests.test_isolation import machine as coding
from tests.test_isolation import place_of
from tests.test_merging import write

RULES = ", ".join(f"{{not_matches: {letter}, message: No {letter}.}}" for letter in "ABCDE")
"""Each capital letter of a text is a finding."""
MACHINE = f"""
loopkit: 1
agents: {{writer: {{model: some/model, system: You write., session: keep}}}}
validators: {{letters: [{RULES}]}}
states:
  draft: {{agent: writer, prompt: Write it., output: plan, next: check}}
  check:
    validate: plan
    by: [letters]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: draft, max: 5, from: best}}
      - {{target: failed}}
  done: {{final: success, result: plan}}
  failed: {{final: failure, result: plan}}
"""
REQUEST = "Reply with the complete new version, not only with what changed."


def drafts(desk: Desk, *texts: str, machine: str = MACHINE, **parts: Any) -> Played:
    run = desk.play(machine, scenario(agents={"writer": list(texts)}, **parts))
    assert run.folded == run.state
    return run


def went_back(run: Played) -> list[Best | None]:
    """For each revision, where it went back to."""
    return [event.best for event in run.of(Decided) if event.spends]


def told(run: Played) -> list[Feedback]:
    return [feedback for event in run.of(Decided) for feedback in event.feedback]


def statuses(run: Played) -> list[dict[str, str]]:
    return [{f.message: f.status for f in report.findings} for report in run.reports]


def test_an_author_that_made_it_worse_starts_from_its_best_version(desk: Desk) -> None:
    run = drafts(desk, "A", "A B C", "fine")
    assert run.outcome == "done"
    [first, second] = went_back(run)
    assert first is None
    assert (second.state, second.author, second.attempt) == ("check", "draft", 1)
    assert second.artifacts == ("plan",)
    assert [(f.message, f.status) for f in second.withdrawn] == [
        ("No B.", "withdrawn"),
        ("No C.", "withdrawn"),
    ]
    assert run.prompts("writer")[2] == (
        "Write it.\n\nYour best version so far:\n\n```\nA\n```\n\n"
        f"Revision 2 of 5. Fix this problem:\n\n- No A. (line 1)\n\n{REQUEST}"
    )


def test_a_version_that_is_better_than_all_before_is_simply_revised(desk: Desk) -> None:
    run = drafts(desk, "A B C", "A B", "A", "fine")
    assert went_back(run) == [None, None, None]
    # The session goes on, with the feedback alone.
    assert all(prompt.startswith("Revision ") for prompt in run.prompts("writer")[1:])
    assert len(run.asked("writer")[3].messages) == 1 + 2 * 3 + 1


def test_of_equal_versions_the_earliest_is_the_best(desk: Desk) -> None:
    [_, second] = went_back(drafts(desk, "A", "B", "fine"))
    assert second.attempt == 1


def test_a_kept_session_begins_anew_and_goes_on_from_there(desk: Desk) -> None:
    run = drafts(desk, "A B", "C D E", "A", "fine")
    assert [back and back.attempt for back in went_back(run)] == [None, 1, None]
    said = [[message.content for message in asked.messages] for asked in run.asked("writer")]
    assert said[2] == ["You write.", run.prompts("writer")[2]]
    assert said[3] == [*said[2], "A", run.prompts("writer")[3]]
    assert run.prompts("writer")[3].startswith("Revision 3 of 5. ")


def test_statuses_follow_the_versions_that_led_here(desk: Desk) -> None:
    run = drafts(desk, "A B", "A", "B C D", "B C", "fine")
    assert [back and back.attempt for back in went_back(run)] == [None, None, 2, 2]
    assert statuses(run) == [
        {"No A.": "new", "No B.": "new"},
        {"No A.": "recurring"},
        {"No B.": "regressed", "No C.": "new", "No D.": "new"},
        # C was only in what was given up; B was there before, and gone.
        {"No B.": "regressed", "No C.": "new"},
        {},
    ]
    assert [[f.message for f in r.resolved] for r in run.reports] == [
        [], ["No B."], ["No A."], ["No A."], ["No A."],
    ]  # fmt: skip
    assert [[f.message for f in back.withdrawn] for back in went_back(run) if back] == [
        ["No B.", "No C.", "No D."],
        ["No B.", "No C."],
    ]


def test_findings_and_feedback_are_those_of_the_best_version(desk: Desk) -> None:
    feedback = "{{ revision }} {{ attempt }} {{ findings | map(attribute='message') | join }} " + (
        "{{ report.attempt }} {{ reports.check.attempt }} {{ previous }}"
    )
    machine = MACHINE.replace("from: best", f"from: best, feedback: {json.dumps(feedback)}")
    run = drafts(desk, "A", "B C", "B D", "fine", machine=machine)
    assert [one.text for one in told(run)] == [
        "1 1 No A. 1 1 A",
        # The attempts go on, as do the revisions.
        "2 2 No A. 1 1 A",
        "3 3 No A. 1 1 A",
    ]


def test_work_that_was_given_up_has_stalled_when_it_comes_again(desk: Desk) -> None:
    stalling = MACHINE.replace("- {revise", "- {guard: stalled, target: failed}\n      - {revise")
    run = drafts(desk, "A", "B C", "B C", machine=stalling)
    assert run.outcome == "failed"
    assert [report.stalled for report in run.reports] == [False, False, True]


def test_a_version_that_its_judge_let_pass_is_not_gone_back_to(desk: Desk) -> None:
    """What sent it back is in no report of that judge, and would be lost."""
    machine = (
        MACHINE.replace("valid, target: done", "valid, target: approval")
        + """
  approval:
    human: Publish it?
    choices: [publish, change]
    transitions:
      - {guard: choice == "publish", target: done}
      - {revise: draft, feedback: "{{ comment }}"}
"""
    )
    answers = [{"choice": "change", "comment": "Shorter."}, "publish"]
    run = drafts(
        desk, "fine, and long", "A B", "A B C", "short", machine=machine,
        answers={"approval": answers},
    )  # fmt: skip
    assert run.outcome == "done"
    # The best of those since then, and not the one that passed.
    assert [back and back.attempt for back in went_back(run)] == [None, None, 2]


PICKED = (
    MACHINE.replace("max: 5, from: best", "max: 2").replace("{target: failed}", "{target: ask}")
    + """
  ask:
    human: Well?
    show: [plan, report]
    pick: best
    choices: [again, stop]
    edit: plan
    transitions:
      - {guard: choice == "again", revise: draft, max: 2, from: best, feedback: "{{ comment }}"}
      - {target: failed}
"""
)


def test_a_person_sends_back_the_version_that_they_were_shown(desk: Desk) -> None:
    answers = {"ask": [{"choice": "again", "comment": "No letters."}]}
    run = drafts(desk, "A B", "A", "C D E", "fine", machine=PICKED, answers=answers)
    assert run.outcome == "done"
    assert [back and back.attempt for back in went_back(run)] == [None, None, 2]
    assert run.prompts("writer")[3] == (
        "Write it.\n\nYour best version so far:\n\n```\nA\n```\n\nNo letters."
    )


def test_what_a_person_edits_is_what_the_author_goes_on_from(desk: Desk) -> None:
    answers = {"ask": [{"choice": "again", "comment": "So.", "edit": "Mine"}]}
    run = drafts(desk, "A B", "A", "C D E", "fine", machine=PICKED, answers=answers)
    [back] = [back for back in went_back(run) if back]
    assert (back.attempt, back.artifacts) == (2, ())
    assert run.prompts("writer")[3] == (
        "Write it.\n\nYour best version so far, as a reviewer has changed it:"
        "\n\n```\nMine\n```\n\nSo."
    )


def test_the_last_version_edited_is_nothing_that_was_given_up(desk: Desk) -> None:
    answers = {"ask": [{"choice": "again", "comment": "So.", "edit": "Mine"}]}
    run = drafts(desk, "A B C", "A B", "A", "fine", machine=PICKED, answers=answers)
    assert went_back(run) == [None, None, None]
    # The session goes on.
    assert len(run.asked("writer")[3].messages) == 1 + 2 * 3 + 1


def test_guards_go_on_with_the_last_report(desk: Desk) -> None:
    machine = f"""
loopkit: 1
agents: {{writer: {{model: some/model}}, polisher: {{model: some/model}}}}
validators: {{letters: [{RULES}]}}
states:
  draft: {{agent: writer, prompt: Write it., output: plan, next: check}}
  check:
    validate: plan
    by: [letters]
    transitions: [{{guard: valid, target: polish}}, {{revise: draft, max: 0}}, {{target: polish}}]
  polish:
    agent: polisher
    prompt: "Polish this: {{{{ plan }}}} ({{{{ reports.check.verdict }}}})"
    next: look
    on_error: {{content: failed}}
  look:
    human: Well?
    show: plan
    pick: best
    choices: [redo, again, stop]
    transitions:
      - {{guard: choice == "redo", revise: draft, feedback: Anew.}}
      - {{guard: choice == "again", revise: polish, from: best, feedback: Again.}}
      - {{target: end}}
  end:
    transitions: [{{guard: reports.check.verdict == "fail", target: failed}}, {{target: done}}]
  done: {{final: success, result: polish}}
  failed: {{final: failure, result: plan}}
"""
    script = {"writer": ["fine", "A"], "polisher": ["1", "2", "3"]}
    answers = {"look": ["redo", "again", "stop"]}
    run = desk.play(machine, scenario(agents=script, answers=answers))
    assert run.outcome == "failed"
    assert [prompt.splitlines()[0] for prompt in run.prompts("polisher")] == [
        "Polish this: fine (pass)",
        "Polish this: A (fail)",
        "Polish this: fine (pass)",
    ]


def test_an_author_that_could_not_work_is_not_told_of_what_is_given_up(desk: Desk) -> None:
    machine = MACHINE.replace("prompt: Write it.,", "prompt: Write it., on_error: ask,").replace(
        "      - {target: failed}\n",
        """
      - {target: ask}
  ask:
    human: Well?
    choices: [back, stop]
    transitions:
      - guard: choice == "back"
        revise: draft
        feedback: "So{% for found in findings %} {{ found.message }}{% endfor %}"
        from: best
      - {target: failed}
""",
    )
    machine = machine.replace("max: 5, from: best", "max: 5").replace(", session: keep", "")
    texts: list[Any] = ["A", "A B", [{"fault": "bad_request"}], "fine"]
    script = scenario(agents={"writer": texts}, answers={"ask": ["back"]})
    run = desk.play(machine, script)
    assert (run.outcome, run.folded) == ("done", run.state)
    assert [back and back.attempt for back in went_back(run)] == [None, None, 1]
    assert run.prompts("writer")[3].endswith("```\n\nSo No A.")


def test_what_is_no_artifact_is_not_gone_back_to(desk: Desk) -> None:
    assert went_back(drafts(desk, "", "", "fine")) == [None, None]
    [_, second] = went_back(drafts(desk, "A", "", "fine"))
    assert second.attempt == 1


TWO = f"""
loopkit: 1
limits: {{total_revisions: 6}}
agents: {{planner: {{model: some/model}}, writer: {{model: some/model, session: keep}}}}
validators: {{letters: [{RULES}]}}
states:
  plan: {{agent: planner, prompt: Plan it., next: check_plan}}
  check_plan:
    validate: plan
    by: [{{not_matches: X, message: No X.}}]
    transitions: [{{guard: valid, target: text}}, {{revise: plan}}, {{target: failed}}]
  text: {{agent: writer, prompt: "Write it: {{{{ plan }}}}", next: check}}
  check:
    validate: text
    by: [letters]
    transitions:
      - {{guard: valid, target: done}}
      - {{guard: error_count == 3, revise: plan, from: best, max: 3}}
      - {{revise: text, from: best, max: 3}}
      - {{target: failed}}
  done: {{final: success, result: [plan, text]}}
  failed: {{final: failure, result: plan}}
"""


def test_a_plan_goes_back_with_the_text_that_was_made_from_it(desk: Desk) -> None:
    script = {"planner": ["one", "two"], "writer": ["A B C", "A B C D", "fine"]}
    run = desk.play(TWO, scenario(agents=script))
    [back] = [back for back in went_back(run) if back]
    # The second round, with another plan, was worse than the first.
    assert (back.attempt, back.artifacts) == (1, ("plan", "text"))
    assert run.result == {"plan": "one", "text": "fine"}
    # Its own prompt has the plan of then, which is again the current one.
    assert run.prompts("writer")[2].startswith("Write it: one\n\nYour best version so far:")


ORIGINS = """
loopkit: 1
origins: [plan, text]
agents: {planner: {model: some/model}, writer: {model: some/model}}
states:
  plan: {agent: planner, prompt: Plan it., on_error: {content: failed}, next: text}
  text: {agent: writer, prompt: "Write it: {{ plan }}", next: check}
  check:
    validate: text
    by:
      - {not_matches: X, message: No X., origin: plan}
      - {not_matches: A, message: No A.}
      - {not_matches: B, message: No B.}
      - {not_matches: C, message: No C.}
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [plan, text]}, from: best, max: 3}
      - {target: failed}
  done: {final: success, result: [plan, text]}
  failed: {final: failure}
"""


def test_each_origin_starts_from_the_best_version_in_which_something_was_its_own(
    desk: Desk,
) -> None:
    script = {"planner": ["one", "two"], "writer": ["X", "A B", "A B C", "fine"]}
    run = desk.play(ORIGINS, scenario(agents=script))
    assert run.folded == run.state
    # The first round, with one finding, is the best; but it has nothing for the writer.
    assert [back and back.attempt for back in went_back(run)] == [None, None, 2]
    assert run.result == {"plan": "two", "text": "fine"}
    assert [one.split(" (")[0] for one in listed(run.prompts("writer")[3]).split("\n")] == [
        "- No A.",
        "- No B.",
    ]


def test_a_version_that_was_given_up_counts_with_those_that_led_to_it_when_it_is_the_best(
    desk: Desk,
) -> None:
    texts = ["A", "A B", "X A", "A B C", "X A B", "X B", "fine"]
    script = {"planner": ["one", "two", "three", "four"], "writer": texts}
    run = desk.play(ORIGINS, scenario(agents=script))
    assert (run.outcome, run.folded) == ("done", run.state)
    # The first is the best for the writer, and the third, given up by then, for the planner.
    assert [back and back.attempt for back in went_back(run)] == [None, 1, None, 1, 3, 3]
    # The second did not lead to the third.
    assert statuses(run)[5] == {"No X.": "recurring", "No B.": "new"}
    assert [f.message for f in run.reports[5].resolved] == ["No A."]


def test_the_proof_knows_that_an_earlier_attempt_may_be_judged_again(desk: Desk) -> None:
    rows = """{guard: attempt == 1, revise: draft, max: 1}
      - {guard: attempt == 2, revise: note, from: best, max: 1}
      - {guard: attempt == 1, target: older}"""
    machine = MACHINE.replace("{revise: draft, max: 5, from: best}", rows)
    note = 'note: {render: "{{ feedback }}", next: check}'
    machine = machine.replace("next: check}", f"next: note}}\n  {note}")
    machine += "  older: {final: failure, result: plan}\n"
    assert not [p for p in desk.problems(machine) if p.code == "dead-transition"]
    run = drafts(desk, "A", "B C", machine=machine)
    assert (run.outcome, run.result) == ("older", {"plan": "A"})


def test_a_repaired_run_goes_back_to_a_version_from_before(durable: Desk) -> None:
    limited = MACHINE.replace("loopkit: 1", "loopkit: 1\nlimits: {agent_calls: 1}")
    script = scenario(agents={"writer": ["A", "A B C", "fine"]})
    run = durable.play(limited.replace(", from: best", ""), script)
    assert run.state.status == "suspended"
    mended = durable.repair(run.state.run, limited, {"agent_calls": 9})
    assert mended.outcome == "done"
    assert [back and back.attempt for back in went_back(mended)] == [None, 1]


JUDGED = """
loopkit: 1
agents: {writer: {model: some/model}, critic: {model: some/model}}
states:
  draft: {agent: writer, prompt: Write it., output: plan, next: check}
  check:
    validate: plan
    by: [{judge: critic, prompt: "{{ artifact }}, before: {{ previous }}"}]
    transitions:
      - {guard: incomplete, target: ask}
      - {guard: valid, target: done}
      - {revise: draft, max: 5, from: best}
      - {target: failed}
  ask:
    human: Well?
    choices: [again, stop]
    transitions:
      - {guard: choice == "again", revise: draft, from: best, feedback: Again.}
      - {target: failed}
  done: {final: success, result: plan}
  failed: {final: failure, result: plan}
"""


def test_a_judge_is_asked_about_what_is_open_in_the_best_version(desk: Desk) -> None:
    bad = [fails("It is dull."), fails("It is odd.", "It is long."), fails("It is old.")]
    critic = [*bad, PASS]
    run = desk.play(JUDGED, scenario(agents={"writer": ["1", "2", "3", "4"], "critic": critic}))
    assert [back and back.attempt for back in went_back(run)] == [None, 1, 1]
    third, fourth = run.prompts("critic")[2:]
    assert third.startswith("3, before: 1")
    assert fourth.startswith("4, before: 1")
    assert "It is dull." in third
    assert "It is odd." not in third
    assert "It is old." not in fourth


def test_a_version_without_a_verdict_is_given_up_for_one_that_has_one(desk: Desk) -> None:
    critic = [fails("It is dull."), ["?"] * 3, PASS]
    script = {"writer": ["1", "2", "3"], "critic": critic}
    run = desk.play(JUDGED, scenario(agents=script, answers={"ask": ["again"]}))
    assert run.outcome == "done"
    assert [back and back.attempt for back in went_back(run)] == [None, 1]
    assert run.prompts("writer")[2].endswith("Your best version so far:\n\n```\n1\n```\n\nAgain.")


def test_a_person_sends_back_what_was_shown_whoever_reported_last(desk: Desk) -> None:
    machine = JUDGED.replace("next: check}", "next: form}").replace(
        "  check:\n",
        """  form:
    validate: plan
    by: [{not_matches: long, message: It is long., severity: warning}]
    transitions: [{guard: valid, target: check}, {target: failed}]
  check:
""",
    )
    machine = machine.replace("choices: [again, stop]", "pick: best\n    choices: [again, stop]")
    critic = [["?"] * 3, ["?"] * 3, PASS]
    script = {"writer": ["short", "long", "fine"], "critic": critic}
    run = desk.play(machine, scenario(agents=script, answers={"ask": ["again", "again"]}))
    assert run.outcome == "done"
    assert [back and (back.state, back.attempt) for back in went_back(run)] == [None, ("form", 1)]


@pytest.fixture(params=["memory", "disk"])
def work(request: pytest.FixtureRequest, tmp_path: Any) -> Desk:
    write(tmp_path, src__plan="none\n", src__kept="kept\n")
    return Desk(tmp_path, in_memory=request.param == "memory")


def test_a_folder_is_again_what_it_was(work: Desk) -> None:
    acts = (
        "echo A > src/plan",
        "echo AB > src/plan; rm src/kept; touch src/new",
        "ls src > src/plan",
    )
    rules = "not_matches: '^.*A', message: No A.}, {not_matches: '^.*B', message: No B."
    text = coding(*acts, rule=rules).replace("{revise: code}", "{revise: code, from: best}")
    run = work.play(text)
    assert run.outcome == "done"
    [back] = [back for back in went_back(run) if back]
    assert (back.attempt, back.artifacts) == (1, ("fix",))
    [restored] = run.of(Restored)
    assert restored.artifacts == ("fix",)
    assert (work.folder / "src/plan").read_text() == "kept\nplan\n"
    assert run.prompts("coder")[2].startswith("Plan it.\n\nYour changes so far:\n\n```\ndiff ")
    assert "+AB" not in run.prompts("coder")[2]
    assert not place_of(run).exists()


def test_people_see_what_was_given_up(desk: Desk) -> None:
    machine = (
        MACHINE.replace("max: 5", "max: 3").replace("{target: failed}", "{target: ask}")
        + """
  ask: {human: Well?, show: [plan, report], choices: [stop], next: failed}
"""
    )
    run = drafts(desk, "A\nrest", "B C\nrest", "B\nrest", "A B\nrest", machine=machine)
    program = Program(load(desk.folder / "machine.yaml").machine, "digest")
    shown = review(Engine(program), run.state).splitlines()
    start = shown.index("Attempts judged:")
    assert shown[start + 1 : start + 5] == [
        "  1: fail, 1 blocking finding",
        "  2: fail, 2 blocking findings (given up)",
        "  3: fail, 1 blocking finding (given up)",
        "  4: fail, 2 blocking findings (shown here)",
    ]
    assert "Changed since attempt 1:" in shown
    assert "  - No A. [line 1] (recurring since attempt 1)" in shown
    assert "  - No B. [line 1]" in shown


def test_what_came_back_is_told_by_the_versions_that_led_here(desk: Desk) -> None:
    machine = (
        MACHINE.replace("max: 5", "max: 3").replace("{target: failed}", "{target: ask}")
        + "  ask: {human: Well?, show: [plan, report], choices: [stop], next: failed}\n"
    )
    run = drafts(desk, "A B", "A", "B C D", "A B", machine=machine)
    program = Program(load(desk.folder / "machine.yaml").machine, "digest")
    shown = review(Engine(program), run.state)
    assert "  - No B. [line 1] (regressed: it was in attempt 1, then not)\n" in shown
    assert "  - No A. [line 1] (recurring since attempt 1)\n" in shown


def test_the_feedback_of_the_best_version_is_listed_like_any_other(desk: Desk) -> None:
    run = drafts(desk, "A B", "C D E", "fine")
    assert listed(run.prompts("writer")[2]) == "- No A. (line 1)\n- No B. (line 1)"


def test_only_a_way_back_starts_from_a_version(desk: Desk) -> None:
    machine = MACHINE.replace("{target: failed}", "{target: failed, from: last}")
    with pytest.raises(ProblemsFound) as refused:
        load(desk.write("machine.yaml", machine))
    [problem] = refused.value.problems
    assert (problem.code, problem.message) == ("forward-only", "`from` belongs to `revise`")


def test_a_diagram_says_where_an_edge_starts_from(desk: Desk) -> None:
    graph = Graph(load(desk.write("machine.yaml", MACHINE)).machine)
    assert edge_texts(graph, graph.by_id["check[1]"])[1:] == ("revise from best, max\u00a05",)


@pytest.mark.usefixtures("own_folder")
def test_who_watches_a_run_is_told_of_the_way_back(desk: Desk, cli: CommandLine) -> None:
    file = desk.write("machine.yaml", MACHINE.replace("some/model", "openai/gpt-5-mini"))
    script = desk.write("played.yaml", scenario(agents={"writer": ["A", "B C", "fine"]}))
    tape = desk.folder / "case.scenario.yaml"
    args = ["run", str(file), "--script", str(script), "--record", str(tape)]
    told = cli(0, *args).err
    assert "→ draft   revision 1 of 5\n" in told
    assert "→ draft   revision 2 of 5, from attempt 1 of draft, the best\n" in told
    # What was recorded goes the same way.
    assert invoke(["test", str(tape)]) == 0


@pytest.mark.usefixtures("own_folder")
def test_the_best_version_may_be_the_first_value_that_nobody_wrote(
    desk: Desk, cli: CommandLine
) -> None:
    machine = MACHINE.replace("some/model", "openai/gpt-5-mini").replace(
        "states:", "artifacts: {plan: A}\ninitial: check\nstates:"
    )
    file = desk.write("machine.yaml", machine)
    script = desk.write("played.yaml", scenario(agents={"writer": ["B C", "fine"]}))
    told = cli(0, "run", str(file), "--script", str(script)).err
    assert "→ draft   revision 2 of 5, from the first value, the best\n" in told
    run = told.split("run ", 1)[1].split()[0]
    cli(0, "report", run, "-o", "page.html")
    page = (desk.folder / "page.html").read_text(encoding="utf-8")
    assert "from the first value, the best" in page
    assert "attempt 0 by" not in page


def test_a_defect_of_a_version_that_was_given_up_is_withdrawn_and_was_not_corrected(
    desk: Desk,
) -> None:
    run = drafts(desk, "A", "B C", "B", "fine")
    figures = Figures()
    for event in run.events:
        figures.take(event)
    assert [(d.message, d.status, d.attempts) for d in figures.defects] == [
        ("No A.", "resolved", {"draft": 3}),
        ("No B.", "withdrawn", {}),
        ("No C.", "withdrawn", {}),
    ]


def test_findings_print_as_default_feedback_does_and_by_tojson_as_data(desk: Desk) -> None:
    told = "{{ findings }}|{{ findings | first }}|{{ warnings }}|{{ findings | tojson }}"
    text = f"""\
loopkit: 1
states:
  draft: {{render: Tea., output: post, next: check}}
  check:
    validate: post
    by: [{{matches: green, code: GREEN, message: It is not green.}}]
    transitions: [{{guard: valid, target: done}}, {{target: told}}]
  told: {{render: "{told}", next: failed}}
  done: {{final: success, result: post}}
  failed: {{final: failure, result: told}}
"""
    words, first, none, data = desk.play(text).result["told"].split("|")
    assert words == f"- {first}" == "- It is not green. (code `GREEN`)"
    assert (none, json.loads(data)[0]["code"]) == ("", "GREEN")
