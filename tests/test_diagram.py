"""Diagrams: what they show of a machine and of a run, and the command that draws them."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopkit.cli import invoke as run
from loopkit.engine.state import RunState
from loopkit.language.load import load, load_text
from loopkit.machine.graph import Graph
from loopkit.text import one_line
from loopkit.views.diagram.mermaid import label, mermaid
from loopkit.views.diagram.model import Arrow, Drawing, Node, drawing
from tests.recording import no_room
from tests.support import MACHINES, PLAN_REVIEW, ROOT, CommandLine, Desk, scenario
from tests.test_cli import HUMAN

CASES = sorted((ROOT / "tests/cases/ok").glob("*.yaml"))
SYSTEMS = sorted((ROOT / "docs/systems").glob("*.md"))
SCENARIO = ROOT / "machines/plan_review/scenario.yaml"
NESTED = ROOT / "tests/cases/ok/nested_loops.yaml"
LIMITED = """
loopkit: 1
agents:
  writer: {model: openai/gpt-5-mini}
limits: {agent_calls: 1, time: 90s, then: spent}
states:
  first: {agent: writer, prompt: Write., on_error: {content: spent}, next: second}
  second: {agent: writer, prompt: "Write on: {{ first }}", next: judge}
  judge:
    validate: second
    by: [{min_chars: 2}, {max_chars: 9, severity: warning}]
    transitions: [{guard: valid, target: done}, {target: spent}]
  done: {final: success}
  spent: {final: failure}
"""


def drawn(machine: Path | str) -> Drawing:
    loaded = load(machine) if isinstance(machine, Path) else load_text(machine, "m.yaml", ROOT)
    return drawing(Graph(loaded.machine))


def node(picture: Drawing, name: str) -> Node:
    (found,) = (node for node in picture.nodes if node.name == name)
    return found


def arrows(picture: Drawing, source: str, target: str) -> list[str]:
    """The texts of the arrows from one node to another, blanks all alike."""
    return [
        " / ".join(text.replace("\u00a0", " ") for text in arrow.texts)
        for arrow in picture.arrows
        if (arrow.source, arrow.target) == (source, target)
    ]


def shown(machine: str | Path, name: str) -> list[str]:
    return [text.replace("\u00a0", " ") for text in node(drawn(machine), name).texts]


@pytest.mark.parametrize("path", [*MACHINES, *CASES], ids=lambda path: path.stem)
def test_every_edge_of_a_machine_is_in_exactly_one_arrow(path: Path) -> None:
    graph = Graph(load(path).machine)
    inside = [edge for arrow in drawing(graph).arrows for edge in arrow.edges]
    assert sorted(inside) == sorted(edge.id for edge in graph.edges)


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_every_machine_has_its_diagram_beside_it_and_it_is_up_to_date(path: Path) -> None:
    assert run(["diagram", str(path), "--check", str(path.with_suffix(".mmd"))]) == 0


@pytest.mark.parametrize("path", SYSTEMS, ids=lambda path: path.stem)
def test_the_page_of_a_system_shows_its_machine_as_it_is(path: Path) -> None:
    assert f"]({path.stem}.svg)" in path.read_text(encoding="utf-8")
    machine, picture = ROOT / f"machines/{path.stem}.yaml", path.with_suffix(".svg")
    assert run(["diagram", str(machine), "-f", "svg", "--check", str(picture)]) == 0


def test_each_kind_of_state_says_what_it_is_and_who_works_there() -> None:
    every = ROOT / "tests/cases/ok/every_kind.yaml"
    assert shown(every, "entry") == ["choice"]
    assert shown(every, "context") == ["run git log -n 5 -- {{ input.issue }} → log"]
    assert shown(every, "draft_freely") == ["render → log", "fallback"]
    assert shown(every, "draft") == ["agent writer → plan"]
    assert shown(every, "check") == ["validate plan", "by section Goal, judge critic"]
    assert shown(every, "ask") == ["human", "start, change, stop"]
    assert shown(every, "done") == ["success"]
    assert shown(every, "failed") == ["failure"]
    kinds = {node.name: node.kind for node in drawn(every).nodes}
    assert kinds["draft"] == "agent"
    assert kinds["done"] == "success"
    assert kinds["failed"] == "failure"


def test_a_validate_state_says_which_of_its_validators_ask_whom() -> None:
    assert shown(PLAN_REVIEW, "validate") == [
        "validate plan", "by structure, quality", "quality asks critic",
    ]  # fmt: skip


def test_rules_without_a_name_are_told_by_what_they_demand() -> None:
    assert shown(LIMITED, "judge")[1] == "by min_chars 2, max_chars 9 (warning)"
    with_schema = LIMITED.replace("{min_chars: 2}", "{schema: {a: str}}")
    assert shown(with_schema, "judge")[1] == "by schema, max_chars 9 (warning)"


def test_a_question_says_what_answers_for_an_absent_person() -> None:
    assert shown(ROOT / "tests/cases/ok/person_only.yaml", "second") == [
        "human", "ship, hold", "after 24h: hold",
    ]  # fmt: skip


def test_each_transition_has_its_number_and_its_guard() -> None:
    plan = drawn(PLAN_REVIEW)
    assert arrows(plan, "draft", "validate") == ["1"]
    assert arrows(plan, "start", "import") == ["1 · input.external_plan != none"]
    assert arrows(plan, "validate", "fail") == ["2 · cap_reached or stalled or incomplete"]
    assert arrows(plan, "approval", "rejected") == ["3 · otherwise"]


def test_two_edges_between_the_same_states_are_two_arrows() -> None:
    assert arrows(drawn(NESTED), "check_plan", "stuck") == ["2 · stalled", "4 · otherwise"]


def test_a_revise_edge_shows_every_budget_that_it_spends() -> None:
    assert arrows(drawn(NESTED), "check_code", "code") == [
        "3 · otherwise / revise, max 3, total 12"
    ]
    assert arrows(drawn(NESTED), "check_plan", "plan") == [
        "3 · otherwise / revise, budget planning: input.rounds shared, total 12"
    ]
    assert arrows(drawn(ROOT / "tests/cases/ok/minimal.yaml"), "check", "draft") == [
        "2 · otherwise / revise, max 2"
    ]
    assert arrows(drawn(PLAN_REVIEW), "validate", "draft") == [
        "3 · otherwise / revise, max input.max_revisions"
    ]


def test_a_revise_edge_shows_which_counters_it_resets() -> None:
    (text,) = arrows(drawn(NESTED), "check_code", "plan")
    assert text.startswith('2 · "design" in codes / revise, budget planning')
    assert text.endswith(" / resets check_code 3")


def test_errors_that_lead_to_one_state_are_one_arrow_and_a_revising_one_has_its_budget() -> None:
    tables = drawn(ROOT / "tests/cases/ok/error_tables.yaml")
    assert arrows(tables, "outline", "from_memory") == [
        "2 · ready", "3 · otherwise", "on transient or fatal error",
    ]  # fmt: skip
    assert arrows(tables, "outline", "outline") == ["on content error / revise, max 1"]
    assert arrows(tables, "article", "failed") == ["on any error"]


def test_limits_lead_from_one_place_however_many_states_they_hold_for() -> None:
    limited = drawn(LIMITED)
    place = node(limited, "(limit)")
    assert place.title == "limit reached"
    assert place.texts == ("in any agent, run or validate state", "agent_calls 1", "time 90s")
    (arrow,) = (arrow for arrow in limited.arrows if arrow.source == "(limit)")
    assert arrow.target == "spent"
    assert arrow.edges == ("first.limit", "second.limit", "judge.limit")


def test_a_machine_without_a_way_out_of_its_limits_has_no_place_for_them() -> None:
    assert "(limit)" not in {node.name for node in drawn(PLAN_REVIEW).nodes}


def test_the_run_starts_at_the_initial_state_and_ends_at_the_final_ones() -> None:
    picture = drawn(ROOT / "tests/cases/ok/choice_first.yaml")
    assert picture.arrows[0] == Arrow(None, "entry")
    assert [arrow.source for arrow in picture.arrows if arrow.target is None] == [
        "done", "failed",
    ]  # fmt: skip


def test_states_that_are_revised_come_first_so_that_layouts_draw_the_way_back_upwards() -> None:
    assert drawn(PLAN_REVIEW).nodes[0].name == "draft"
    names = [node.name for node in drawn(NESTED).nodes]
    assert names[:2] == ["plan", "code"]


def test_the_same_machine_gives_the_same_text_in_every_process() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-m", "loopkit", "diagram", PLAN_REVIEW],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1


@given(st.text())
@example('"#;:%%<b>[*]-->{}`_*~|&')
@example("direction TB and Direction lr")
@example("www.example.org 1. one")
def test_a_label_is_its_text_and_nothing_in_it_is_a_sign_of_mermaid(text: str) -> None:
    text = one_line(text, 200)
    written = label(text, 26)
    lines = written.split("<br/>")
    outside = re.sub(r"#\d+;", "", "".join(lines))
    assert not re.search(r"""["#;:%<>\[\]{}`*|&~@/\\'()-]""", outside)
    assert not re.search(r"(?i)direction\s|www\.|^\d+\.\s", written)
    read = html.unescape("".join(re.sub(r"#(\d+);", r"&#\1;", line) for line in lines))
    assert "".join(read.replace("\u200c", "").split()) == "".join(
        text.replace("\u200c", "").split()
    )


def test_diagram_prints_the_text_and_nothing_else(cli: CommandLine) -> None:
    told = cli(0, "diagram", str(PLAN_REVIEW), "-f", "mermaid")
    assert told.out == mermaid(drawn(PLAN_REVIEW))
    assert told.err == ""


def test_o_writes_the_file_that_check_then_finds_up_to_date(
    tmp_path: Path, cli: CommandLine
) -> None:
    file = tmp_path / "plan.mmd"
    assert cli(0, "diagram", str(PLAN_REVIEW), "-o", str(file)).out == ""
    assert file.read_text(encoding="utf-8") == mermaid(drawn(PLAN_REVIEW))
    assert run(["diagram", str(PLAN_REVIEW), "--check", str(file)]) == 0


def test_check_fails_where_the_machine_has_changed_and_says_what_to_do(
    tmp_path: Path, cli: CommandLine
) -> None:
    machine, file = tmp_path / "a machine.yaml", tmp_path / "plan.mmd"
    machine.write_text(HUMAN, encoding="utf-8")
    assert run(["diagram", str(machine), "-o", str(file)]) == 0
    before = file.read_text(encoding="utf-8")
    machine.write_text(HUMAN.replace("revisions: 1", "revisions: 4"), encoding="utf-8")
    told = cli(1, "diagram", str(machine), "--check", str(file))
    assert "out of date" in told.err
    assert f"loopkit diagram '{machine}' -o {file}" in told.err
    assert told.out == ""
    assert file.read_text(encoding="utf-8") == before


def test_check_fails_where_there_is_no_diagram_yet(tmp_path: Path, cli: CommandLine) -> None:
    file = tmp_path / "none.mmd"
    assert f"-o {file}" in cli(1, "diagram", str(PLAN_REVIEW), "--check", str(file)).err
    assert not file.exists()


def test_check_of_a_folder_compares_each_picture_beside_a_machine(
    tmp_path: Path, cli: CommandLine
) -> None:
    machine = tmp_path / "deep" / "plan.yaml"
    machine.parent.mkdir()
    machine.write_text(HUMAN, encoding="utf-8")
    (tmp_path / "other.yaml").write_text(HUMAN, encoding="utf-8")
    assert "no machine" in cli(2, "diagram", "--check", str(tmp_path)).err
    for name, form in (("plan.mmd", "mermaid"), ("plan.svg", "svg")):
        cli(0, "diagram", str(machine), "-f", form, "-o", str(machine.with_name(name)))
    told = cli(0, "diagram", "--check", str(tmp_path)).err
    assert told.count("is up to date") == 2
    machine.with_name("plan.svg").write_text("<svg/>", encoding="utf-8")
    told = cli(1, "diagram", "--check", str(tmp_path)).err
    assert f"loopkit diagram {machine} -o {machine.with_name('plan.svg')} -f svg" in told
    assert told.count("is up to date") == 1


def test_a_machine_with_errors_is_not_drawn(tmp_path: Path, cli: CommandLine) -> None:
    machine = tmp_path / "broken.yaml"
    machine.write_text(HUMAN.replace("revise: note", "revise: nota"), encoding="utf-8")
    told = cli(2, "diagram", str(machine))
    assert told.out == ""
    assert f"{machine}:11:44" in told.err
    assert "did you mean `note`?" in told.err


def test_a_drawing_is_written_whole_or_the_old_one_stays(tmp_path: Path, cli: CommandLine) -> None:
    drawn, link, other = tmp_path / "drawn.mmd", tmp_path / "link.mmd", tmp_path / "other.mmd"
    drawn.write_text("old\n")
    drawn.chmod(0o640)
    link.symlink_to(drawn)
    with no_room():
        assert run(["diagram", str(PLAN_REVIEW), "-o", str(link)]) == 2
    assert f"cannot write {link}: " in cli.said().err
    assert (drawn.read_text(), sorted(tmp_path.iterdir())) == ("old\n", [drawn, link])
    assert run(["diagram", str(PLAN_REVIEW), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert drawn.read_text().startswith("%% The machine plan_review")
    assert drawn.stat().st_mode & 0o777 == 0o640
    other.hardlink_to(drawn)
    assert run(["diagram", str(PLAN_REVIEW), "-f", "svg", "-o", str(drawn)]) == 0
    assert other.samefile(drawn)
    assert other.read_text().startswith("<svg")


@pytest.mark.parametrize("to", ["| cat", "> out; cat out"])
def test_a_drawing_goes_to_the_streams_that_are_named_as_files(tmp_path: Path, to: str) -> None:
    line = f'"$0" -m loopkit diagram "$1" -o /dev/stdout {to}'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable, str(PLAN_REVIEW)],
        capture_output=True, text=True, check=True, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert done.stdout.startswith("%% The machine plan_review")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "--run RUN"),
        (["no_such.yaml"], "no_such.yaml"),
        ([str(PLAN_REVIEW), "-o", "a", "--check", "b"], "one of them"),
        ([str(PLAN_REVIEW), "-f", "crayon"], "mermaid"),
        ([str(PLAN_REVIEW), "-o", "no/such/folder"], "cannot write no/such/folder"),
        ([str(PLAN_REVIEW), "--check", "."], "cannot read ."),
        (["--check", "plan.mmd"], "name a MACHINE"),
        (["--check", "."], "no machine file lies below"),
        (["--run", "nobody-000000"], "nobody-000000"),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_wrong_usage_is_told_with_its_remedy(argv: list[str], said: str, cli: CommandLine) -> None:
    told = cli(2, "diagram", *argv)
    assert said in told.err
    assert told.out == ""


@pytest.mark.usefixtures("own_folder")
class TestRuns:
    """Diagrams with the way of a run."""

    def test_a_finished_run_shows_its_way_and_how_often_it_went_there(
        self, durable: Desk, cli: CommandLine
    ) -> None:
        issue = (ROOT / "machines/plan_review/issue.md").read_text(encoding="utf-8")
        played = durable.play(PLAN_REVIEW, SCENARIO, {"issue": issue})
        text = cli(0, "diagram", "--run", played.state.run).out
        assert f"run {played.state.run} of machine plan_review" in text
        assert "s_draft : visited 3×" in text
        assert "s_accepted : the run is finished here" in text
        taken = re.findall(r"^    (\S+) --> (\S+) : .*<b>taken (\d+)×</b>$", text, re.MULTILINE)
        assert taken == [
            ("s_start", "s_draft", "1"),
            ("s_draft", "s_validate", "3"),
            ("s_validate", "s_approved", "1"),
            ("s_validate", "s_draft", "2"),
            ("s_approved", "s_approval", "1"),
            ("s_approval", "s_accepted", "1"),
        ]
        assert "class s_draft,s_start,s_validate,s_approved,s_approval visited" in text
        assert "class s_accepted here" in text
        assert "class s_import,s_fail,s_escalated,s_decided,s_accepted_as_is,s_rejected,s_f" in text

    def test_a_waiting_run_shows_where_it_waits(self, durable: Desk, cli: CommandLine) -> None:
        played = durable.play(HUMAN)
        assert "s_ask : the run is waiting here" in cli(0, "diagram", "--run", played.state.run).out

    def test_a_limit_that_was_reached_shows_where(self, durable: Desk, cli: CommandLine) -> None:
        script = scenario(agents={"writer": [{"reply": "One."}, {"reply": "Two."}]})
        played = durable.play(LIMITED, script)
        assert played.outcome == "spent"
        text = cli(0, "diagram", "--run", played.state.run).out
        assert "limit --> s_spent : at most once<br/>in second<br/><b>taken 1×</b>" in text

    def test_what_is_drawn_is_the_machine_that_the_run_was_started_with(
        self, durable: Desk, cli: CommandLine
    ) -> None:
        played = durable.play(HUMAN)
        file = durable.write("machine.yaml", HUMAN.replace("revisions: 1", "revisions: 4"))
        told = cli(0, "diagram", str(file), "--run", played.state.run)
        assert "revise, max 1" in told.out
        assert "is not what run" in told.err
        durable.write("machine.yaml", HUMAN)
        assert cli(0, "diagram", str(file), "--run", played.state.run).err == ""

    def test_a_diagram_without_a_run_has_no_marks(self) -> None:
        text = mermaid(drawn(PLAN_REVIEW))
        assert not re.search(r"visited|taken| here", text)

    def test_a_diagram_of_a_run_goes_out_of_date_when_the_run_goes_on(
        self, durable: Desk, cli: CommandLine
    ) -> None:
        name = durable.play(HUMAN).state.run
        assert run(["diagram", "--run", name, "-o", "run.mmd"]) == 0
        assert run(["diagram", "--run", name, "--check", "run.mmd"]) == 0
        durable.answer(name, "yes")
        told = cli(1, "diagram", "--run", name, "--check", "run.mmd").err
        assert f"loopkit diagram -o run.mmd --run {name}" in told


def test_a_machine_is_drawn_in_the_first_state_that_runs_it(desk: Desk) -> None:
    desk.write("note.yaml", HUMAN)
    text = """
loopkit: 1
input: {notes: [str]}
states:
  notes:
    {each: input.notes, as: note, key: note, max_items: 9, parallel: 3, machine: note.yaml,
     next: last}
  last: {machine: note.yaml, next: done}
  done: {final: success}
"""
    picture = drawing(Graph(load(desk.write("machine.yaml", text)).machine))
    inner = node(picture, "notes").inner
    assert inner is not None
    assert inner == drawn(HUMAN.replace("loopkit: 1", "loopkit: 1\nname: note"))
    assert node(picture, "last").inner is None
    assert node(picture, "last").texts == ("machine note.yaml", "drawn in notes")
    told = mermaid(picture)
    title = "notes#58; note.yaml for each note of input.notes · up to 3 at once"
    assert f'    state "{title}" as s_notes {{\n' in told
    assert "        [*] --> s_note_IN_notes\n" in told
    assert "\n    [*] --> s_notes\n" in told
    assert "    class s_note_IN_notes render\n" in told


def test_a_run_marks_the_states_of_its_own_machine_alone(desk: Desk) -> None:
    desk.write("note.yaml", HUMAN)
    text = "loopkit: 1\nstates: {a: {machine: note.yaml, next: b}, b: {final: success}}"
    graph = Graph(load(desk.write("machine.yaml", text)).machine)
    told = mermaid(drawing(graph, RunState(run="m-1", state="a", visits={"a": 2})))
    assert 'state "a#58; machine note.yaml · visited 2×' in told
    assert "class s_b unvisited\n" in told
