"""The command line: streams, exit codes, messages, signals, and the person at the terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from tests.machines import loop
from tests.support import ROOT, CommandLine
from tests.terminal import Terminal
from tests.waiting import LONG_S, until
from tests.warm import Process, ran, ran_loopkit

pytestmark = pytest.mark.usefixtures("own_folder")
PLAN_REVIEW = str(ROOT / "machines/plan_review.yaml")
GOOD = str(ROOT / "machines/plan_review/plans/3_good.md")
SCENARIO = str(ROOT / "machines/plan_review/scenario.yaml")
ISSUE = f"issue=@{ROOT / 'machines/plan_review/issue.md'}"
RUN_PLAN = ["run", PLAN_REVIEW, "--script", SCENARIO, "--set", ISSUE]

HUMAN = """
loopkit: 1
limits: {revisions: 1}
states:
  note: {render: "A note. {{ feedback }}", next: ask}
  ask:
    human: Go on?
    choices: [yes, again, no]
    transitions:
      - {guard: choice == "yes", target: done}
      - {guard: choice == "again", revise: note, feedback: "{{ comment }}"}
      - {target: stopped}
  done: {final: success}
  stopped: {final: failure}
"""
NO_PROGRAM = """
loopkit: 1
states:
  go: {run: [./a-program-that-nobody-has], next: done}
  done: {final: success}
"""
SLEEPY = """
loopkit: 1
states:
  one: {run: [sh, -c, "echo one >> log; while [ ! -e go ]; do sleep 0.05; done"], next: two}
  two: {run: [sh, -c, "echo two >> log"], on_in_doubt: retry, next: done}
  done: {final: success}
"""


def started(machine: str, *argv: str) -> tuple[int, str]:
    """The exit code of a run, and its id."""
    Path("machine.yaml").write_text(machine, encoding="utf-8")
    code = run(["run", "machine.yaml", *argv])
    return code, only_run()


def only_run() -> str:
    listed = ran_loopkit("runs", "ls")
    return listed.stdout.splitlines()[1].split()[0]


def test_a_run_prints_the_result_on_stdout_and_the_progress_on_stderr(cli: CommandLine) -> None:
    told = cli(0, *RUN_PLAN)
    assert json.loads(told.out)["plan"].startswith("# Quote line breaks in the CSV export\n")
    assert "revision 2 of 2" in told.err
    assert "accepted (success)" in told.err


def test_quiet_prints_the_result_alone(cli: CommandLine) -> None:
    told = cli(0, *RUN_PLAN, "--output", "quiet")
    assert json.loads(told.out).keys() == {"plan", "validation"}
    assert told.err == ""


@pytest.mark.parametrize(
    ("machine", "code", "why"),
    [
        (HUMAN, 5, "0 calls\nsee what is asked: loopkit runs show"),
        (NO_PROGRAM, 4, "suspended (fatal): command './a-program-that-nobody-has'"),
    ],
)
def test_quiet_says_why_a_run_stops_and_how_to_go_on(
    machine: str, code: int, why: str, cli: CommandLine
) -> None:
    assert started(machine, "--output", "quiet") == (code, run_id := only_run())
    told = cli.said()
    assert told.out == ""
    assert why in told.err
    assert f"loopkit {'answer' if code == 5 else 'resume'} {run_id}" in told.err


def test_jsonl_prints_only_events_on_stdout_and_the_result_last(cli: CommandLine) -> None:
    events = [json.loads(line) for line in cli(0, *RUN_PLAN, "--output", "jsonl").out.splitlines()]
    assert [event["seq"] for event in events[:-1]] == list(range(2, len(events) + 1))
    assert events[0]["type"] == "started"
    assert events[-1]["type"] == "result"
    assert events[-1]["outcome"] == "accepted"


def test_a_failure_final_state_exits_1() -> None:
    Path("s.yaml").write_text("scenario: 1\nanswers: {ask: [no]}\n", encoding="utf-8")
    assert started(HUMAN, "--script", "s.yaml")[0] == 1


@pytest.mark.parametrize(
    ("before", "command", "code", "said"),
    [
        (None, "answer RUN yes", 0, "done (success)"),
        (None, "answer RUN agian", 2, "there is no choice `agian`: did you mean `again`?"),
        ("answer RUN yes", "answer RUN no", 2, "run `RUN` has already finished: done"),
        ("answer RUN yes", "answer RUN yes", 0, "the same answer was given before"),
        ("cancel RUN --reason late", "resume RUN", 2, "was cancelled"),
    ],
)
def test_a_run_that_waits_takes_one_answer_that_fits_and_what_is_over_stays_so(
    before: str | None, command: str, code: int, said: str, cli: CommandLine
) -> None:
    _, name = started(HUMAN)
    if before:
        assert run(before.replace("RUN", name).split()) == 0
    told = cli(code, *command.replace("RUN", name).split()).err
    assert said.replace("RUN", name) in told


def test_of_very_many_faults_the_first_are_said_and_how_many_more_there_are(
    cli: CommandLine,
) -> None:
    names = ", ".join(f"i{n}: str" for n in range(1_000))
    states = "{tea: {render: Tea., next: done}, done: {final: success}}"
    machine = f"loopkit: 1\ninput: {{{names}}}\nstates: {states}\n"
    Path("many.yaml").write_text(machine, encoding="utf-8")
    given = {f"x{n}{'y' * 500 * (n == 0)}": 1 for n in range(2_000)}
    Path("given.json").write_text(json.dumps(given), encoding="utf-8")
    told = cli(2, "run", "many.yaml", "-i", "given.json").err.splitlines()
    assert told[:2] == [f"error: input `i{n}` is missing; add `--set i{n}=…`" for n in range(2)]
    assert told[-1] == "error: 2,900 more inputs are missing or unknown"
    assert len(told) == 101
    assert max(map(len, told)) < 1_000
    _, name = started(FORM)
    form = [word for n in range(1_000) for word in ("--form", f"x{n}=1")]
    cli.said()
    assert len(cli(2, "answer", name, "yes", *form).err) < 1_100


NO_UTF_8 = os.fsdecode(b"x\xff")


def test_an_argument_that_is_not_utf_8_is_refused(cli: CommandLine) -> None:
    _, name = started(HUMAN)
    for command in (
        ["answer", name, "yes", "--comment", NO_UTF_8],
        ["run", "machine.yaml", "--set", f"x={NO_UTF_8}"],
        ["check", f"{NO_UTF_8}/machine.yaml"],
    ):
        assert re.search(r"the argument '.*\\udcff.*' is not UTF-8 text", cli(2, *command).err)
    inputs = HUMAN.replace("limits", "input: {y: {a: any}}\nlimits")
    Path("machine.yaml").write_text(inputs, encoding="utf-8")
    told = cli(2, "run", "machine.yaml", "--set-json", 'y={"a": {"\\ud800": 1}}').err
    assert "half a surrogate pair" in told


def test_a_text_on_stdin_that_is_not_utf_8_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("machine.yaml").write_text(HUMAN, encoding="utf-8")
    for locale in ("C", "C.UTF-8"):
        monkeypatch.setenv("LC_ALL", locale)
        given = subprocess.run(
            [sys.executable, "-m", "loopkit", "run", "machine.yaml", "-i", "-"],
            input=b"x: \xff\n",
            stderr=subprocess.PIPE,
            check=False,
        )
        assert given.returncode == 2
        assert b"stdin is not UTF-8 text" in given.stderr


def test_a_machine_in_a_folder_whose_name_is_not_utf_8_can_be_checked_and_run_elsewhere(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(NO_UTF_8)
    folder.mkdir()
    (folder / "machine.yaml").write_text(HUMAN, encoding="utf-8")
    monkeypatch.chdir(folder)
    assert run(["check", "machine.yaml"]) == 0
    assert "rename its folder" in cli(2, "run", "machine.yaml").err
    assert run(["run", "machine.yaml", "--workspace", ".."]) == 5
    rule = "loopkit: 1\nvalidators: {v: [{python: a:b}]}\nstates: {d: {final: success}}"
    Path("plugin.yaml").write_text(rule, encoding="utf-8")
    told = cli(1, "check", "plugin.yaml").out
    assert "plug-ins start at a folder whose name is not UTF-8" in told


def test_a_closed_choice_is_shown_with_its_reason_and_refused(cli: CommandLine) -> None:
    _, name = started(HUMAN)
    assert run(["answer", name, "again", "--comment", "once more"]) == 5
    told = cli(0, "runs", "show", name).out
    why = "the one revision is used up; `--set limits.revisions=2` opens it"
    assert f"again  (with a comment)  (closed: {why})" in told
    told = cli(2, "answer", name, "again", "--comment", "and again").err
    assert "`again` is closed: the one revision is used up" in told


def test_to_cancel_a_run_of_models_loads_no_client_of_models(tmp_path: Path) -> None:
    writer = "agents: {writer: {model: openai/gpt-5-mini}}\nstates:"
    machine = HUMAN.replace("states:", writer).replace(
        """note: {render: "A note. {{ feedback }}", next: ask}""",
        "note: {agent: writer, prompt: Write., next: ask, on_error: {content: stopped}}",
    )
    (tmp_path / "machine.yaml").write_text(machine, encoding="utf-8")
    (tmp_path / "scenario.yaml").write_text("scenario: 1\nagents: {writer: [A note.]}\n")
    waiting = ran_loopkit("run", "machine.yaml", "--script", "scenario.yaml", cwd=tmp_path)
    (name,) = re.findall(r"loopkit runs show (\S+)", waiting.stderr)
    code = f"""
import sys, threading
from loopkit.cli import invoke
assert invoke(["cancel", {name!r}]) == 0
print("litellm" in sys.modules, [thread.name for thread in threading.enumerate()])
"""
    ended = ran(["-c", code], cwd=tmp_path)
    assert ended.stdout.splitlines()[-1:] == ["False ['MainThread']"], ended.stderr


def test_a_missing_input_is_told_before_anything_is_spent(cli: CommandLine) -> None:
    told = cli(2, "run", PLAN_REVIEW, "--script", SCENARIO).err
    assert "input `issue` is missing; add `--set issue=…`" in told
    assert "no runs yet" in cli(0, "runs", "ls").err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--set", "isue=x"], "unknown input `isue`; did you mean `issue`?"),
        (["--set", "issue=x", "--set", "max_revisions=nine"], "input `max_revisions`"),
        (
            ["--set", "issue=x", "--set", "max_revisions=9"],
            "takes a whole number, at least 0, at most 5; `9` is",
        ),
        (["--set", "issue=@nowhere.md"], "`nowhere.md` can't be read"),
        (["--set", "issue"], "not of the form `name=value`"),
        (["--set-json", "issue={"], "is not JSON"),
    ],
)
def test_a_wrong_input_is_told_with_its_name(
    argv: list[str], message: str, cli: CommandLine
) -> None:
    assert message in cli(2, "run", PLAN_REVIEW, "--script", SCENARIO, *argv).err


def test_inputs_come_from_a_file_and_single_ones_win(cli: CommandLine) -> None:
    Path("input.yaml").write_text("issue: from the file\nmax_revisions: 1\n", encoding="utf-8")
    argv = ["run", PLAN_REVIEW, "--script", SCENARIO, "-i", "input.yaml", "--output", "jsonl"]
    begun = json.loads(cli(0, *argv, "--set", "max_revisions=2").out.splitlines()[0])
    assert (begun["input"]["issue"], begun["input"]["max_revisions"]) == ("from the file", 2)


def test_a_broken_machine_exits_2_on_run_and_1_on_check(cli: CommandLine) -> None:
    Path("machine.yaml").write_text(HUMAN.replace("target: done", "target: don"), encoding="utf-8")
    assert "did you mean `done`?" in cli(2, "run", "machine.yaml").err
    assert "--> machine.yaml:10:" in cli(1, "check", "machine.yaml").out


def test_a_file_that_is_missing_is_told_without_an_empty_excerpt(cli: CommandLine) -> None:
    printed = cli(1, "check", "nothing.yaml").out
    assert "cannot be read: No such file" in printed
    assert "|" not in printed


def test_check_reads_several_files_and_standard_input() -> None:
    done = ran_loopkit("check", PLAN_REVIEW, "-", given=HUMAN)
    assert (done.returncode, done.stderr.splitlines()[1:]) == (
        0,
        ["<stdin>: A run revises `note` at most 1 time", "2 files: no errors"],
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--model", "critic"], "is not of the form `agent=value`"),
        (["--model", "critic=  "], "is not of the form `agent=value`"),
        (["--model", "critik=openai/x"], "did you mean `critic`?"),
        (["--model", "critic=openai/x"], "asks `openai/x`, whose price is not known"),
        (
            ["--model", "critic=openai/gpt-5-mni"],
            "asks `openai/gpt-5-mni`, whose price is not known; did you mean `openai/gpt-5-mini`? "
            "If not, add `price:` to it, or `--price critic=USD`",
        ),
        (
            ["--model", "critic=OpenAI/gpt-5"],
            "`--model critic=OpenAI/gpt-5`: LiteLLM knows no provider `OpenAI`; "
            "did you mean `openai/gpt-5`?",
        ),
        (
            ["--model", "critic=gpt5"],
            "`--model critic=gpt5`: LiteLLM knows no provider for the model `gpt5`; "
            "write PROVIDER/MODEL, such as openai/gpt-5-mini",
        ),
        (["--model", "critic=litellm_proxy/x"], "add `price:` to it, or `--price critic=USD`"),
        (["--model", "critic=openai/x", "--price", "critic=much"], "is not a number"),
        (["--model", "critic=openai/x", "--price", "critic=-1"], "is not a price"),
    ],
)
def test_a_model_that_can_not_be_taken_is_told_before_anything_is_spent(
    option: list[str], said: str, cli: CommandLine
) -> None:
    assert said in cli(2, "run", PLAN_REVIEW, "--set", "issue=x", *option).err


def test_check_knows_the_providers_and_loads_no_client_of_models() -> None:
    machine = str(ROOT / "tests/cases/err/a_misspelt_provider.yaml")
    code = (
        "import sys; from loopkit.cli import invoke; "
        f"assert invoke(['check', {machine!r}]) == 1; "
        "sys.exit('litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"did you mean `openai/gpt-5`?" in done.stdout


def test_an_unknown_command_names_the_near_one(cli: CommandLine) -> None:
    assert "did you mean `resume`?" in cli(2, "resum").err


def test_validate_judges_a_file_by_one_validator(cli: CommandLine) -> None:
    Path("plan.md").write_text("# Only a title\n", encoding="utf-8")
    out = cli(1, "validate", PLAN_REVIEW, "structure", "plan.md").out
    assert 'There is no "### Task N:" heading outside of code.' in out
    assert run(["validate", PLAN_REVIEW, "structure", GOOD]) == 0


def test_validate_names_no_state_that_the_machine_does_not_have(cli: CommandLine) -> None:
    machine = """
loopkit: 1
origins: [outline, draft]
validators:
  short: [{max_chars: 3, origin: outline}, {not_matches: foo}]
  idle: [{max_chars: 3}]
states:
  outline: {render: "Outline. {{ feedback }}", output: plan, next: draft}
  draft: {render: "Write {{ plan }}. {{ feedback }}", output: note, next: judge}
  judge:
    validate: note
    by: [short]
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [outline, draft]}, max: 1}
      - {target: failed}
  done: {final: success}
  failed: {final: failure}
"""
    Path("short.yaml").write_text(machine, encoding="utf-8")
    Path("note.md").write_text("foo and more", encoding="utf-8")
    told = {}
    for validator in ("short", "idle"):
        argv = ["validate", "short.yaml", validator, "note.md"]
        assert "_to_judge" not in cli(1, *argv).out
        told[validator] = json.loads(cli(1, *argv, "--json").out)
        assert "_to_judge" not in str(told[validator])
    assert [told[name]["artifact"] for name in told] == ["note", ""]
    found = told["short"]["findings"]
    assert [finding["origins"] for finding in found] == [["outline"], []]


def test_validate_asks_a_scripted_judge(cli: CommandLine) -> None:
    plan = str(ROOT / "machines/plan_review/plans/2_vague.md")
    argv = ["validate", PLAN_REVIEW, "quality", plan, "--script", SCENARIO, "--json"]
    report = json.loads(cli(1, *argv).out)
    assert report["verdict"] == "fail"
    assert len(report["findings"]) == 2


def test_validate_fills_the_fields_of_the_artifact(cli: CommandLine) -> None:
    machine = """
loopkit: 1
validators:
  short: [{matches: never, message: "{{ plan.tasks }} tasks, not to {{ plan.goal }}."}]
states:
  draft:
    render: Write.
    output: {name: plan, fields: {tasks: {count: '^- '}, goal: {section: Goal}}}
    next: judge
  judge:
    validate: plan
    by: [short]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""
    Path("fields.yaml").write_text(machine, encoding="utf-8")
    Path("plan.md").write_text("# A\n\n**Goal:** rest\n\n- one\n- two\n", encoding="utf-8")
    assert "2 tasks, not to rest." in cli(1, "validate", "fields.yaml", "short", "plan.md").out


DATA = loop(
    "[named]",
    {"valid": "done"},
    "{target: failed}",
    top=r"""
agents:
  planner:
    command: [cat]
    schema: {title: str, steps: [str], why: optional str}
    infeasible: why
validators:
  named:
    - {command: [test, "{{ plan.title }}", "=", tea], message: "`{{ plan.title }}` is not tea."}
    - {not_matches: "\n"}
""",
    draft="draft: {agent: planner, prompt: Plan., output: plan}",
)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ('{\n  "title": "tea",\n  "steps": []\n}\n', 0, "pass"),
        ('A plan:\n```json\n{"title": "soup", "steps": []}\n```\n', 1, "`soup` is not tea."),
        ('{"title": "tea"}', 1, "`steps` is missing"),
        ("No plan.", 1, "the answer is not JSON"),
        ('{"why": "no tea"}', 4, "`author` declared that it can't be done: no tea"),
    ],
)
def test_validate_reads_a_file_as_the_data_that_an_agent_answers_with(
    cli: CommandLine, text: str, code: int, said: str
) -> None:
    Path("data.yaml").write_text(DATA, encoding="utf-8")
    Path("plan.json").write_text(text, encoding="utf-8")
    assert said in cli(code, "validate", "data.yaml", "named", "plan.json").out


def test_a_limit_exits_3_and_a_higher_one_goes_on(cli: CommandLine) -> None:
    machine = (
        Path(PLAN_REVIEW).read_text(encoding="utf-8").replace("cost_usd: 2.00", "agent_calls: 2")
    )
    code, name = started(machine, "--script", SCENARIO, "--set", "issue=x")
    assert code == 3
    told = cli.said().err
    assert "the limit `agent_calls` leaves no room: 2 of 2 used" in told
    assert f"loopkit resume {name} --set limits.agent_calls=4" in told
    assert run(["resume", name, "--set", "limits.agent_calls=9"]) == 0


def test_a_provider_error_exits_4_and_is_resumable(cli: CommandLine) -> None:
    Path("s.yaml").write_text(
        "scenario: 1\nagents: {architect: [[{fault: authentication}]], critic: []}\n",
        encoding="utf-8",
    )
    argv = ["run", PLAN_REVIEW, "--script", "s.yaml", "--set", "issue=x"]
    assert "401: the API key is not valid" in cli(4, *argv).err


RUNS = (
    "litellm", "statemachine", "asyncio", "subprocess", "sqlite3", "jsonschema", "markdown_it",
    "rich", "mcp",
)  # fmt: skip
"""What only a run needs, or some of them, and the library of MCP."""
LOOKS = (
    *RUNS,
    "xml",
    "loopkit.outside",
    "loopkit.drive",
    "loopkit.journal",
    "loopkit.engine.macrostep",
)


NEVER = ("litellm", "rich", "mcp")


@pytest.mark.parametrize(
    "commands",
    [
        [
            (["--help"], [
                *LOOKS, "pydantic", "ruamel", "jinja2", "msgspec", "pathlib", "traceback",
            ]),
            (["check", PLAN_REVIEW], [
                *LOOKS, "loopkit.engine", "loopkit.agents", "loopkit.plugins",
                "loopkit.validators.fixed_rules", "loopkit.validators.fault",
                "loopkit.validators.judges.prompt",
                "loopkit.document.syntax", "loopkit.text.markdown", "difflib",
                "loopkit.proof.bounds.bracket", "loopkit.proof.bounds.expected",
            ]),
            (["diagram", PLAN_REVIEW], [*LOOKS, "loopkit.agents"]),
            (["plan", PLAN_REVIEW], [*NEVER]),
        ],
        [(["schema", "machine"], [*RUNS, "jinja2"])],
        [
            (["runs", "ls"], [
                *NEVER, "statemachine", "loopkit.app", "loopkit.agents.players",
                "loopkit.checks", "loopkit.proof", "loopkit.drive.active", "loopkit.testing",
                "loopkit.engine.macrostep",
            ]),
            (["runs", "show", "--help"], [*NEVER, "loopkit.testing"]),
            (["validate", PLAN_REVIEW, "structure", GOOD], [*NEVER]),
            (RUN_PLAN, [*NEVER]),
            (["mcp", "validators", "--help"], [*NEVER]),
            (["mcp", "machines", PLAN_REVIEW], ["litellm", "rich"]),
        ],
    ],
    ids=["looks", "schema", "runs"],
)  # fmt: skip
def test_a_command_loads_nothing_that_it_does_not_need(
    commands: list[tuple[list[str], list[str]]],
) -> None:
    # One interpreter for each row: none of its commands may load what a later one may not.
    code = (
        "import json, sys, loopkit.cli as c\n"
        "for argv, absent in json.loads(sys.argv[1]):\n"
        "    told = c.invoke(argv)\n"
        "    print('loaded', told, *(m for m in absent if m in sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = [line for line in done.stderr.splitlines() if line.startswith("loaded ")]
    assert told == ["loaded 0"] * len(commands), dict(zip(map(str, commands), told, strict=False))


def test_a_check_builds_only_the_schemas_of_what_a_machine_has() -> None:
    code = (
        "import sys; from loopkit.cli import invoke\n"
        f"assert invoke(['check', {str(PLAN_REVIEW)!r}]) == 0\n"
        "from loopkit.language import states, validators\n"
        "nouns = (*states.STATE_NOUNS, *validators.RULE_NOUNS)\n"
        "print(*(noun.kind for noun in nouns if noun.__pydantic_complete__))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    built = "agent render data validate human final choice matches section min_chars judge"
    assert sorted(done.stdout.split()) == sorted(built.split())


def in_terminal(machine: str, typed: Sequence[tuple[str, str]]) -> tuple[int, str]:
    """Run a machine in a pseudo-terminal, typing a line when a text appears."""
    Path("machine.yaml").write_text(machine, encoding="utf-8")
    terminal = Terminal(["run", "machine.yaml"])
    for text, line in typed:
        terminal.wait_for(re.escape(text))
        terminal.type(line)
    return terminal.end(), terminal.output


def test_at_a_terminal_the_person_is_asked_and_sees_what_is_asked_about() -> None:
    code, screen = in_terminal(
        HUMAN.replace("[yes,", "[yes, yet,"),
        [
            ("Your choice: ", "maybe\n"),
            ("Your choice: ", "ye\n"),
            ("Your choice: ", "again\n"),
            ("What should change?", "this\n"),
            ("Your choice: ", "again\n"),
            ("Your choice: ", "yes\n"),
        ],
    )
    assert code == 0, screen
    assert "please answer one of: yes, yet, again, no" in screen
    assert "`ye` fits several of them; please answer one of: yes, yet\r" in screen
    assert "`again` is closed: the one revision is used up" in screen


def in_hand(machine: str) -> Process:
    """A process whose run has begun its first step, and that writes into the file `told`."""
    Path("machine.yaml").write_text(machine, encoding="utf-8")
    with Path(os.devnull).open("r+") as nothing, Path("told").open("w") as told:
        streams = [nothing.fileno(), nothing.fileno(), told.fileno()]
        process = Process(["-m", "loopkit", "run", "machine.yaml"], streams)
    until(Path("log").exists, "the first step")
    return process


def signalled(number: int, *, twice: bool) -> tuple[int, str, list[str]]:
    """Send signals while the first of two commands is at work; exit code, stderr, the log."""
    process, told = in_hand(SLEEPY), Path("told")
    process.send_signal(number)
    until(lambda: "is finished first" in told.read_text(encoding="utf-8"))
    if twice:
        process.send_signal(number)
    else:
        Path("go").touch()
    code = process.wait(LONG_S)
    Path("go").touch()
    return code, told.read_text(encoding="utf-8"), Path("log").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_finishes_the_step_and_stores_it(number: int, code: int) -> None:
    ended, told, log = signalled(number, twice=False)
    assert (ended, log) == (code, ["one"])
    assert "loopkit resume" in told
    name = re.search(r"loopkit resume (\S+)", told)
    assert name
    assert run(["resume", name[1]]) == 0
    assert Path("log").read_text(encoding="utf-8").split() == ["one", "two"]


def test_the_second_signal_aborts_the_call_in_flight_and_the_run_is_resumable() -> None:
    # It would go on for ever.
    ended, told, log = signalled(signal.SIGINT, twice=True)
    assert (ended, log) == (130, ["one"])
    name = re.search(r"loopkit resume (\S+)", told)
    assert name
    # The first command has no `on_in_doubt`, so a person is asked whether to run it again.
    assert run(["resume", name[1]]) == 5
    assert run(["answer", name[1], "retry"]) == 0
    assert Path("log").read_text(encoding="utf-8").split() == ["one", "one", "two"]


def test_a_second_process_on_one_run_is_refused_with_the_owner() -> None:
    first = in_hand(SLEEPY)
    name = only_run()
    second = ran_loopkit("resume", name)
    assert second.returncode == 4
    assert f"is being driven by process {first.pid}" in second.stderr
    Path("go").touch()
    assert first.wait(LONG_S) == 0


FORM = """
loopkit: 1
states:
  text: {render: The text., next: ask}
  ask:
    human: Publish?
    choices: [yes, no]
    edit: text
    form: {channel: print|web, rating: {type: int, minimum: 1, maximum: 5}, note: optional str}
    transitions:
      - {guard: choice == "yes", target: done}
      - {target: stopped}
  done: {final: success, result: text}
  stopped: {final: failure}
"""


def test_what_is_typed_in_another_encoding_is_asked_for_again() -> None:
    Path("machine.yaml").write_text(HUMAN, encoding="utf-8")
    asking = Terminal(["run", "machine.yaml"])
    asking.wait_for("Your choice: ")
    asking.type("caf\udce9\n")
    asking.wait_for("that is not utf-8, which is read here")
    asking.type("yes\n")
    assert asking.end() == 0


def test_an_answer_posted_while_another_terminal_asks_is_the_one_that_counts() -> None:
    machine = FORM.replace("    edit: text\n", "")
    Path("machine.yaml").write_text(re.sub("    form: .*\n", "", machine), encoding="utf-8")
    asking = Terminal(["run", "machine.yaml"])
    asking.wait_for("Your choice: ")
    posted = ran_loopkit("answer", only_run(), "yes")
    assert "it takes the answer" in posted.stderr
    asking.type("no\n")
    assert asking.end() == 0
    assert "an answer was refused: the question was answered" in asking.output
    assert "done (success)" in re.sub(r"\x1b\[[0-9;]*m", "", asking.output)


def test_at_a_terminal_each_field_of_a_form_is_asked_for_until_it_fits() -> None:
    Path("mine.md").write_text("My text.", encoding="utf-8")
    code, screen = in_terminal(
        FORM,
        [
            ("Your choice: ", "no --comment late\n"),
            ("Your choice: ", "no it is late\n"),
            ("Your choice: ", "y\n"),
            ("channel (print|web): ", "radio\n"),
            ("channel (print|web): ", "web\n"),
            ("rating (int, at least 1, at most 5): ", "9\n"),
            ("rating (int, at least 1, at most 5): ", "4\n"),
            ("note (str, optional): ", "\n"),
            ("leave it as it is): ", "nowhere.md\n"),
            ("leave it as it is): ", "~no one/mine.md\n"),
            ("leave it as it is): ", "mine.md\n"),
        ],
    )
    assert code == 0, screen
    assert screen.count("type the choice alone: a comment and everything else are asked") == 2
    assert "`channel` takes `print` or `web`; `radio` is not" in screen
    assert "`rating` takes a whole number, at least 1, at most 5; `9` is not" in screen
    assert "`nowhere.md` can't be read: No such file" in screen
    assert "Could not determine home directory" in screen
    assert "My text." in screen


def test_what_a_form_asks_is_shown_and_can_be_answered_from_the_command_line(
    cli: CommandLine,
) -> None:
    _, name = started(FORM)
    shown = cli(0, "runs", "show", name).out
    assert "--form rating=…   (int, at least 1, at most 5)" in shown
    assert "--edit FILE   (your version of text)" in shown
    said = cli(2, "answer", name, "yes", "--form", "channel").err
    assert "`--form channel` is not of the form" in said
    given = ["channel=radio", "rating=nine", "tone=dry"]
    told = cli(2, "answer", name, "yes", *(f"--form={one}" for one in given)).err
    for fault in (
        "unknown form field `tone`",
        "form field `channel` takes `print` or `web`; `radio` is not",
        "form field `rating` takes a whole number, at least 1, at most 5; `nine` is not",
    ):
        assert fault in told
    said = cli(2, "answer", name, "yes").err
    assert "form field `channel` is missing; form field `rating` is" in said
    assert run(["answer", name, "yes", "--form", "channel=web", "--form", "rating=5"]) == 0


@pytest.mark.parametrize("after", ["done", "other"])
def test_the_same_form_given_again_is_the_same_answer(after: str, cli: CommandLine) -> None:
    """Its fields are of the types of the question that it answered, wherever the run is by now."""
    other = "  other: {human: Which?, choices: [tea], form: {n: str}, next: done}\n  done:"
    machine = FORM.replace("{channel: ", "{n: int, urgent: bool, channel: ")
    machine = machine.replace('"yes", target: done', f'"yes", target: {after}')
    if after == "other":
        machine = machine.replace("  done:", other)
    _, name = started(machine)
    given = [f"--form={one}" for one in ("channel=web", "rating=5", "n=4", "urgent=true")]
    argv = ["answer", name, "yes", *given]
    both = [Process(["-m", "loopkit", *argv]) for _ in range(2)]
    told = [one.communicate()[1] for one in both]
    code = 0 if after == "done" else 5
    assert {one.returncode for one in both} <= {0, code}, told
    assert "the same answer was given before" in cli(code, *argv).err
    wrong = cli(2, *argv[:-2], "--form=n=5", given[-1]).err
    assert "has already finished" in wrong or "there is no choice `yes`" in wrong


def test_what_was_filled_in_is_shown_as_it_was_and_an_empty_field_is_not(cli: CommandLine) -> None:
    _, name = started(FORM.replace("{channel: ", "{urgent: bool, copies: [int], channel: "))
    given = ["channel=web", "rating=5", "urgent=true", "copies=[1, 2]"]
    assert run(["answer", name, "yes", *(f"--form={one}" for one in given)]) == 0
    shown = cli(0, "runs", "show", name).out
    assert "yes (by person): channel web, rating 5, urgent true, copies [1, 2]\n" in shown
    assert run(["report", name, "-o", "page.html"]) == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert ">urgent: true</p>" in page
    assert "None" not in page


def test_a_run_needs_no_standard_input() -> None:
    argv = shlex.join([sys.executable, "-m", "loopkit", *RUN_PLAN])
    closed = subprocess.run(f"{argv} <&-", shell=True, capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stdout[:9]) == (0, '{\n  "plan')


@pytest.mark.parametrize(
    ("argv", "code", "told"),
    [
        (["check", "huge.yaml"], 1, "the file has more than 1,000,000 bytes"),
        (["run", PLAN_REVIEW, "--set", "issue=@huge.yaml"], 2, "has more than 50,000,000 char"),
    ],
)
def test_a_file_that_is_too_large_is_not_read_to_its_end_to_say_so(
    argv: list[str], code: int, told: str
) -> None:
    with Path("huge.yaml").open("wb") as huge:
        huge.truncate(4_000_000_000)
    limited = f"ulimit -v 2000000; {shlex.join([sys.executable, '-m', 'loopkit', *argv])}"
    done = subprocess.run(limited, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["check", "test"])
def test_a_name_that_is_too_long_is_told_with_the_name(command: str, cli: CommandLine) -> None:
    name = "x" * 300
    assert cli(4, command, name).err == f"error: '{name}': File name too long\n"


def test_tests_leave_the_state_folder_of_their_caller_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    one = f"{__file__}::test_quiet_prints_the_result_alone"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", one]
    environment = {**os.environ, "LOOPKIT_STATE": str(theirs)}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert told.returncode == 0, told.stdout
    assert not theirs.exists()


def test_an_answer_typed_twice_is_not_taken_for_a_second_revision(cli: CommandLine) -> None:
    _, name = started(HUMAN.replace("revisions: 1", "revisions: 2"))
    again = ["answer", name, "again", "--comment", "Shorter."]
    assert run(again) == 5
    told = cli(2, *again).err
    assert "had this answer already, and this is a new one" in told
    assert f"loopkit runs show {name}" in told
    assert run([*again, "--again"]) == 5
    assert run(["answer", name, "yes"]) == 0


def test_the_lines_to_answer_have_the_form_that_is_required_and_the_comment_that_is_needed(
    cli: CommandLine,
) -> None:
    _, name = started(FORM)
    form = "--form 'channel=…' --form 'rating=…'"
    lines = [f"  loopkit answer {name} {choice} {form}" for choice in ("yes", "no")]
    told = ["answer it, with your own words for …:", *lines]
    assert cli.said().err.splitlines()[-3:] == told
    assert cli(0, "runs", "show", name).out.splitlines()[-3:] == told
    _, name = started(HUMAN)
    comment = f"  loopkit answer {name} again --comment '…'"
    assert comment in cli.said().err.splitlines()


@pytest.mark.parametrize(
    ("machine", "options"),
    [
        ("HUMAN", ["again", "--comment", "…"]),
        ("FORM", ["yes", "--form", "channel=…", "--form", "rating=…"]),
    ],
)
def test_a_line_to_answer_that_nobody_filled_in_is_no_answer(
    machine: str, options: list[str], cli: CommandLine
) -> None:
    _, name = started(globals()[machine])
    assert "`…` stands for your own words" in cli(2, "answer", name, *options).err
    assert f"{name}: waiting at" in cli(0, "runs", "show", name).out


def test_notes_are_those_of_check_alone(cli: CommandLine) -> None:
    machine = HUMAN.replace("limits:", "input: {unread: optional str}\nlimits:")
    assert started(machine)[0] == 5
    assert "note[" not in cli.said().err
    assert "note[" in cli(0, "check", "machine.yaml").out


@pytest.mark.parametrize("group", [(), ("runs",), ("mcp",)], ids=["loopkit", "runs", "mcp"])
def test_what_a_command_does_fits_into_its_line_of_the_list(
    group: tuple[str, ...], cli: CommandLine
) -> None:
    listed = cli(0, *group, "--help").out.partition("Commands:")[2]
    assert len(listed.splitlines()) > 1
    assert "..." not in listed


def test_versions_of_an_artifact_are_compared(cli: CommandLine) -> None:
    """By default the last two."""
    assert run(RUN_PLAN) == 0
    name = only_run()
    first, second, *further = cli(0, "runs", "diff", name, "--to", "2").out.splitlines()
    assert first.startswith("--- plan 1, attempt 1 by draft: fail, ")
    assert second.startswith("+++ plan 2, attempt 2 by draft: fail, ")
    assert "Found only in plan 2:" in further
    assert "+++ plan 3, attempt 3 by draft: pass" in cli(0, "runs", "diff", name, "plan").out
    for wrong, told in (
        (["pln"], "there is no artifact `pln`; did you mean `plan`?"),
        (["--from", "9"], "plan has no version 9; there are 1 to 3"),
        (["--to", "1"], "there is no version before plan 1"),
    ):
        assert told in cli(2, "runs", "diff", name, *wrong).err
