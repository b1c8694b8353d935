"""Recorded runs: what happened, as a case that comes to the same events with nobody there."""

from __future__ import annotations

import asyncio
import signal
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.document.reading import read
from loopkit.document.writing import to_yaml
from loopkit.drive.breakers import Breakers
from loopkit.engine.events import Event, Held, Replied, Started, Suspended
from loopkit.machine.program import Program
from loopkit.testing import load_suite, play
from loopkit.testing.recording import NotRecordable, record, target
from loopkit.testing.suites import Machines
from tests.recording import assert_same, difference, family_difference, no_room, taped, taped_same
from tests.support import PASS, ROOT, CommandLine, Desk, fails, scenario
from tests.warm import command

LIMITED = """
loopkit: 1
limits: {cost_usd: 1, tokens: 1000}
agents:
  writer: {model: openai/gpt-5-mini}
  critic: {model: openai/gpt-5-mini}
states:
  write: {agent: writer, prompt: Write., output: text, next: check}
  check:
    validate: text
    by: [{min_chars: 5}, {judge: critic, rubric: [Good.]}, {judge: critic, rubric: [Short.]}]
    transitions: [{guard: valid, target: done}, {revise: write, max: 2}, {target: failed}]
  done: {final: success, result: text}
  failed: {final: failure}
"""


class TestARunThatStopped:
    def test_at_a_limit_is_played_to_there(self, durable: Desk) -> None:
        script = scenario(
            agents={
                "writer": [{"reply": "no", "cost_usd": 0.7}, {"reply": "long", "cost_usd": 0.6}],
                "critic": [],
            }
        )
        played = durable.play(LIMITED, script)
        assert played.of(Suspended)[-1].reason == "limit"
        made = taped_same(durable, played)
        assert load_suite(made.path).case(made.case).expect is not None

    @pytest.mark.parametrize("raised", [(5.0,), (1.1, 5.0)], ids=["enough", "too-little-first"])
    def test_at_a_limit_and_was_resumed_is_played_to_its_end(
        self, durable: Desk, raised: tuple[float, ...]
    ) -> None:
        script = scenario(
            agents={
                "writer": [{"reply": "no", "cost_usd": 0.7}, {"reply": "longer", "cost_usd": 0.6}],
                "critic": {"by[1]": [PASS], "by[2]": [PASS]},
            }
        )
        played = durable.play(LIMITED, script)
        for limit in raised:
            played = durable.resume(played.state.run, {"cost_usd": limit})
        assert played.outcome == "done"
        made = taped_same(durable, played)
        resumes = load_suite(made.path).case(made.case).resumes
        assert [one.limits.named["cost_usd"] for one in resumes] == [*raised]

    def test_at_an_error_and_was_resumed_is_played_to_its_end(self, durable: Desk) -> None:
        key = [{"fault": "authentication"}, "long enough"]
        critics = {"by[1]": [[{"fault": "quota"}]], "by[2]": [PASS]}
        stopped = durable.play(LIMITED, scenario(agents={"writer": [key], "critic": critics}))
        played = durable.resume(stopped.state.run)
        assert played.state.status == "suspended"
        assert_same(taped(durable, played), played)

    def test_when_a_provider_was_down_knows_nothing_of_that_after_a_resume(
        self, durable: Desk
    ) -> None:
        down = [{"fault": "server_error", "retry_after": "1ms"}] * 5
        tries = "retry: {attempts: 5, backoff: 1ms, max_backoff: 2s}"
        machine = LIMITED.replace("writer: {model: openai/gpt-5-mini}",
                                  f"writer: {{model: openai/gpt-5-mini, {tries}}}")  # fmt: skip
        critics = {"by[1]": [PASS], "by[2]": [PASS]}
        script = scenario(agents={"writer": [[*down, "long enough"]], "critic": critics})
        stopped = durable.play(machine, script)
        assert stopped.of(Suspended)[-1].reason == "transient"
        durable.breakers = Breakers()
        played = durable.resume(stopped.state.run)
        assert played.outcome == "done"
        assert_same(taped(durable, played), played)

    def test_in_a_call_that_is_in_doubt_is_played_with_the_crash(self, durable: Desk) -> None:
        calls = [[{"reply": "long enough", "usage": {"output": 9}}]]
        critics = {"by[1]": [fails("no")] * 3, "by[2]": [PASS] * 3}
        script = scenario(agents={"writer": calls * 3, "critic": critics})
        dead = durable.abort(LIMITED, script)
        played = durable.resume(dead.state.run)
        made = taped_same(durable, played)
        assert "fault: crash" in made.path.read_text()

    def test_while_it_was_driven_is_refused(self, durable: Desk) -> None:
        script = scenario(agents={"writer": ["long enough"], "critic": []})
        dead = durable.abort(LIMITED, script)
        with pytest.raises(NotRecordable, match="loopkit resume"):
            taped(durable, dead)


PROGRAMS = f"""
loopkit: 1
agents:
  writer:
    command: ['{sys.executable}', writer.py]
    stdin: "{{{{ attempt }}}}"
states:
  write:
    agent: writer
    prompt: Write.
    output: {{name: text, file: "out/{{{{ attempt }}}}.txt"}}
    next: count
  count: {{run: ['{sys.executable}', count.py, "{{{{ text }}}}"], output: log, next: check}}
  check:
    validate: text
    by:
      - command: ['{sys.executable}', judge.py]
        fail_codes: [3]
    transitions: [{{guard: valid, target: done}}, {{revise: write, max: 2}}, {{target: failed}}]
  done: {{final: success, result: [text, log]}}
  failed: {{final: failure}}
"""
PROGRAM_FILES = {
    "writer.py": """
import pathlib, sys
attempt = int(sys.stdin.read())
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path(f"out/{attempt}.txt").write_text(["short", "x", "long enough text"][attempt - 1])
print("wrote it", attempt)
""",
    "count.py": """
import sys
print(len(sys.argv[1]), "characters")
print("a warning", file=sys.stderr)
sys.exit(len(sys.argv[1]) < 6)
""",
    "judge.py": """
import sys
text = sys.stdin.read()
for line in range(400 if len(text) < 2 else 2):
    print("line", line, "of", repr(text))
print("that is all", file=sys.stderr)
sys.exit(0 if len(text) > 6 else 3)
""",
}


@pytest.fixture
def programs(durable: Desk) -> Desk:
    for name, text in PROGRAM_FILES.items():
        durable.write(name, text)
    return durable


class TestARunOfPrograms:
    def test_comes_to_the_same_events_without_them(self, programs: Desk) -> None:
        played = programs.play(PROGRAMS)
        assert played.outcome == "done"
        assert [report.verdict for report in played.reports] == ["fail", "fail", "pass"]
        for name in PROGRAM_FILES:
            (programs.folder / name).unlink()
        made = taped_same(programs, played)
        case = load_suite(made.path).case(made.case)
        assert [tries[-1].exit_code for tries in case.commands["count"]] == [1, 1, 0]
        assert [tries[-1].exit_code for tries in case.commands["by[0]"]] == [3, 3, 0]
        assert case.commands["count"][0][-1].stderr == "a warning\n"

    def test_of_which_one_was_missing_until_it_was_resumed_is_played_to_its_end(
        self, programs: Desk
    ) -> None:
        played = programs.play(PROGRAMS.replace(f"'{sys.executable}', count.py", "./count"))
        assert played.of(Suspended)[-1].reason == "fatal"
        programs.write("count", "#!/bin/sh\necho counted\n").chmod(0o755)
        played = programs.resume(played.state.run)
        assert played.outcome == "done"
        assert_same(taped(programs, played), played)

    def test_that_prints_a_secret_before_its_time_is_over_stores_none(
        self, programs: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OUR_API_KEY", "nobody-may-read-this")
        printing = "print('nobody-may-read-this', flush=True)"
        programs.write("judge.py", f"import time; {printing}; time.sleep(600)")
        for limit in ("500ms", "10s", "100s"):  # a busy machine takes its time to print it
            played = programs.play(PROGRAMS.replace("fail_codes: [3]", f"timeout: {limit}"))
            stored = "".join(event.to_json() for event in played.events)
            assert "nobody-may-read-this" not in stored
            if "[OUR_API_KEY]" in stored:
                return
        raise AssertionError(stored)

    def test_that_takes_too_long_is_played_so(self, programs: Desk) -> None:
        programs.write("judge.py", "import time; print('so far', flush=True); time.sleep(600)")
        slow = PROGRAMS.replace("fail_codes: [3]", "timeout: 500ms")
        played = programs.play(slow)
        assert played.of(Suspended)[-1].reason == "transient"
        assert_same(taped(programs, played), played)


SMALL = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
states:
  draft: {agent: writer, prompt: Write., output: text, next: ask, on_error: {content: bad}}
  ask:
    human: Good?
    choices: [fine, bad]
    timeout: 1h
    otherwise: bad
    transitions: [{guard: choice == "fine", target: done}, {target: bad}]
  done: {final: success, result: text}
  bad: {final: failure}
"""
SCRIPT = scenario(agents={"writer": ["It is\n  done: #1\n"]}, answers={"ask": ["fine"]})


@pytest.fixture
def project(durable: Desk) -> Desk:
    durable.write("loops/machine.yaml", SMALL)
    durable.write("loops/script.yaml", SCRIPT)
    return durable


RUN = ("run", "loops/machine.yaml", "--script", "loops/script.yaml")


@pytest.fixture
def loopkit(
    project: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The command line in the folder of the project."""
    monkeypatch.chdir(project.folder)
    return CommandLine(capsys)


class TestTheCommandLine:
    def test_records_beside_the_result(self, project: Desk, loopkit: CommandLine) -> None:
        done = loopkit(0, *RUN, "--record", "new.scenario.yaml")
        assert done.out == "It is\n  done: #1\n"
        assert "; it passes" in done.err
        text = (project.folder / "new.scenario.yaml").read_text()
        assert "machine: loops/machine.yaml\n" in text
        assert "- |\n          It is\n            done: #1\n" in text
        assert str(project.folder) not in text
        assert loopkit(0, "test").err == "1 case passed\n"

    def test_adds_a_case_beside_those_that_are_there(
        self, project: Desk, loopkit: CommandLine
    ) -> None:
        before = (
            "# ours\nscenario: 1\nmachine: loops/machine.yaml\n"
            "answers: {ask: [bad]}\n"
            "cases:\n    ours:  # kept\n        agents: {writer: [x]}\n"
            "        expect: {outcome: 'bad'}\ndescription: at the end\n"
        )
        path = project.write("all.scenario.yaml", before)
        loopkit(0, *RUN, "--record", "all.scenario.yaml", "--as", "the new one")
        text = path.read_text()
        head, tail = before.split("description:")
        assert text.startswith(head)
        assert text.endswith(f"description:{tail}")
        loopkit(0, "test", "all.scenario.yaml")
        assert load_suite(path).names == ("ours", "the new one")

    def test_keeps_what_somebody_changed_in_the_file_while_the_run_went_on(
        self, project: Desk, loopkit: CommandLine
    ) -> None:
        edit = "sed -i s/ours/theirs/ all.scenario.yaml"
        project.write(
            "machine.yaml",
            f"loopkit: 1\nstates:\n  edit: {{run: [sh, -c, {edit}], next: done}}\n"
            "  done: {final: success}\n",
        )
        cases = "scenario: 1\nmachine: machine.yaml\ncases:\n  ours: {commands: {edit: [{}]}}\n"
        path = project.write("all.scenario.yaml", cases)
        loopkit(0, "run", "machine.yaml", "--record", "all.scenario.yaml", "--as", "made")
        assert load_suite(path).names == ("theirs", "made")

    def test_plays_nothing_that_the_other_cases_share(
        self, project: Desk, loopkit: CommandLine
    ) -> None:
        head = "scenario: 1\nmachine: loops/machine.yaml\nanswers: {ask: [bad]}\n"
        project.write("all.scenario.yaml", f"{head}cases:\n  a: {{expect: {{outcome: bad}}}}\n")
        project.write("loops/script.yaml", scenario(agents={"writer": ["text"]}))
        done = loopkit(5, *RUN, "--record", "all.scenario.yaml")
        assert "; it passes" in done.err

    @pytest.mark.parametrize(
        ("name", "content", "options", "told"),
        [
            ("other.yaml", None, (), ".scenario.yaml"),
            ("no/folder.scenario.yaml", None, (), "there is no folder"),
            ("a.scenario.yaml", "broken: [", (), "a.scenario.yaml:1"),
            ("a.scenario.yaml", "scenario: 1\n", (), "a script without cases"),
            (
                "a.scenario.yaml",
                "scenario: 1\nmachine: x.yaml\ncases: {a: {}}\n",
                (),
                "another machine",
            ),
            (
                "a.scenario.yaml",
                "scenario: 1\nmachine: loops/machine.yaml\ncases:\n  a: {}\n",
                ("--as", "a"),
                "has a case `a` already",
            ),
            ("a.scenario.yaml", None, ("--as", "a: b"), "none of `: [ ]"),
        ],
    )
    def test_refuses_a_file_before_anything_is_spent(
        self,
        project: Desk,
        loopkit: CommandLine,
        name: str,
        content: str | None,
        options: Sequence[str],
        told: str,
    ) -> None:
        if content is not None:
            project.write(name, content)
        done = loopkit(2, *RUN, "--record", name, *options)
        assert (done.out, told in done.err) == ("", True), done
        assert "no runs yet" in loopkit(0, "runs", "ls").err
        if content is not None:
            assert (project.folder / name).read_text() == content

    def test_refuses_a_name_without_a_recording(self, project: Desk, loopkit: CommandLine) -> None:
        assert "--record FILE" in loopkit(2, *RUN, "--as", "x").err

    def test_records_a_run_that_was_answered_later(
        self, project: Desk, loopkit: CommandLine
    ) -> None:
        project.write("loops/script.yaml", scenario(agents={"writer": ["text"]}))
        loopkit(5, *RUN, "--record", "wait.scenario.yaml")
        run = loopkit(0, "runs", "ls").out.splitlines()[1].split()[0]
        loopkit(0, "answer", run, "fine")
        loopkit(0, "runs", "record", run, "wait.scenario.yaml", "--as", "to the end")
        suite = load_suite(project.folder / "wait.scenario.yaml")
        expected = [suite.case(name).expect for name in suite.names]
        assert [e.outcome for e in expected if e] == ["waiting", "done"]
        loopkit(0, "test", "wait.scenario.yaml")

    async def test_does_not_record_an_interrupted_run_as_if_it_had_ended(
        self, project: Desk, loopkit: CommandLine
    ) -> None:
        slow = [[{"fault": "rate_limit", "retry_after": "20s"}, "text"]]
        project.write("loops/script.yaml", scenario(agents={"writer": slow}))
        argv = command("-m", "loopkit", *RUN, "--record", "new.scenario.yaml")
        running = await asyncio.create_subprocess_exec(
            *argv, cwd=project.folder, stderr=asyncio.subprocess.PIPE
        )
        assert running.stderr is not None
        while b"429" not in await running.stderr.readline():
            pass
        running.send_signal(signal.SIGTERM)
        rest = (await running.stderr.read()).decode()
        assert await running.wait() == 143
        assert "not recorded: run" in rest
        assert "was interrupted" in rest
        assert not (project.folder / "new.scenario.yaml").exists()

    def test_keeps_the_rights_of_a_file_and_refuses_a_read_only_one(
        self, project: Desk, loopkit: CommandLine
    ) -> None:
        cases = "scenario: 1\nmachine: loops/machine.yaml\ncases:\n  a: {expect: {outcome: bad}}\n"
        path = project.write("a.scenario.yaml", cases)
        path.chmod(0o640)
        recording = (*RUN, "--record", "a.scenario.yaml")
        loopkit(0, *recording)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o444)
        assert "read-only" in loopkit(2, *recording).err


def test_a_question_that_nobody_answered_in_time_is_replayed(durable: Desk) -> None:
    script = scenario(agents={"writer": ["text"]}, answers={"ask": [{"after": "200ms"}]})
    played = durable.play(SMALL.replace("1h", "50ms"), script)
    assert played.outcome == "bad"
    made = taped_same(durable, played)
    (answer,) = load_suite(made.path).case(made.case).answers["ask"]
    assert (answer.choice, answer.after) == (None, 0.05)


def test_a_disk_without_room_is_told_and_nothing_is_left_on_it(durable: Desk) -> None:
    played = durable.play(SMALL, SCRIPT)
    before = set(durable.folder.iterdir())
    with no_room(), pytest.raises(NotRecordable, match=r"can't be written: File too large"):
        taped(durable, played)
    assert set(durable.folder.iterdir()) == before


def test_a_case_that_does_not_pass_says_why(durable: Desk) -> None:
    played = durable.play(SMALL, SCRIPT)
    durable.write("machine.yaml", SMALL.replace('choice == "fine"', 'choice == "bad"'))
    made = taped(durable, played)
    assert "expected outcome `done`, and the run ended in `bad`" in made.failure
    assert "It does not pass: " in made.path.read_text()


class TestWhatIsTheSame:
    """Two runs of one script are; each thing that a run does makes them differ."""

    def test_two_runs_that_did_the_same_are(self, desk: Desk) -> None:
        first, second = desk.play(SMALL, SCRIPT), desk.play(SMALL, SCRIPT)
        assert first.state.run != second.state.run
        assert not difference(first.events, second.events)
        # No slash stands for the folder of a run that works in the root.
        events = desk.play(SMALL.replace("Good?", "Good and/or bad?"), SCRIPT).events
        root = [one.replace(folder="/") if isinstance(one, Started) else one for one in events]
        assert events != root
        assert not difference(events, root)

    @pytest.mark.parametrize(
        ("type_", "change"),
        [
            ("started", {"input": {"x": 1}}),
            ("intended", {"prompt": "another"}),
            ("replied", {"text": "another"}),
            ("worked", {"error": "another"}),
            ("decided", {"edge": "another"}),
            ("decided", {"facts": {"another": 1}}),
            ("decided", {"spends": ("another",)}),
            ("entered", {"visit": 9}),
            ("waiting", {"text": "another"}),
            ("finished", {"outcome": "another"}),
        ],
    )
    def test_what_was_done_counts(self, desk: Desk, type_: str, change: dict[str, Any]) -> None:
        events = desk.play(SMALL, SCRIPT).events
        other = [event.replace(**change) if event.type == type_ else event for event in events]
        assert f"`{type_}`" in difference(events, other)

    def test_what_a_call_cost_counts_and_how_long_it_took_does_not(self, desk: Desk) -> None:
        events = desk.play(SMALL, SCRIPT).events

        def spending(**change: Any) -> list[Event]:
            return [
                e.replace(usage=e.usage.replace(**change)) if isinstance(e, Replied) else e
                for e in events
            ]

        assert not difference(events, spending(time_s=99.0))
        assert difference(events, spending(cost_usd=0.5))
        assert difference(events, spending(tokens=5))

    def test_what_a_process_tells_of_itself_does_not_count(self, desk: Desk) -> None:
        events = desk.play(SMALL, SCRIPT).events
        held = Held(task="t", state="draft", provider="p", until=1.0, reason="it failed")
        assert not difference(events, [*events[:2], held, *events[2:]])

    def test_one_event_less_is_told(self, desk: Desk) -> None:
        events = desk.play(SMALL, SCRIPT).events
        assert "`finished`" in difference(events, events[:-1])


TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
ODD = st.sampled_from([
    "", "yes", "1", "1.5", "~", "a: b", "- a", "a\n", "a\n\n", "\na", "  a\nb", "a \nb", "a\n b\n",
    "#x", "x #y", "{a}", "{{ x }}", "\ta\nb", "a\n\tb", "1e5", "null", "…", "...", "---",
    "a\n---\nb", "a\n \nb", "'", '"', "a\\b'", "<<", "=", "<<<<<<< x\nb", "a\r\nb", "\u2028",
])  # fmt: skip
VALUES = st.recursive(
    TEXTS | ODD | st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | ODD, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(TEXTS | ODD, VALUES, min_size=1, max_size=3), st.sampled_from([0, 4]))
def test_what_is_written_is_read_as_it_was(value: dict[str, Any], indent: int) -> None:
    assert read(to_yaml(value, indent), "made.yaml").plain() == value


@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("path", sorted((ROOT / "machines").glob("*.scenario.yaml")))
def test_the_cases_that_we_ship_can_be_recorded(path: Path, step: int, tmp_path: Path) -> None:
    known = Machines()
    suite = load_suite(path, known)
    loaded = suite.machine
    machine = path.parent / str(suite.written.scenario.machine)
    for name in suite.names[::step]:
        run = play(suite, name)
        into = target(tmp_path / f"{name}.scenario.yaml", machine, name)
        made = record(into, Program(loaded.machine, loaded.digest), run, known)
        assert not made.failure, f"{name}: {made.failure}"
        assert not family_difference(run, play(load_suite(made.path, known), name))
