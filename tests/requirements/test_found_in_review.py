"""Faults that were found by reading and by using; each came back as a test first."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import pytest

from loopkit.agents.players import refuse_misnamed
from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.cli import invoke
from loopkit.drive.active import ActiveRun
from loopkit.drive.answers import AnswerRefused
from loopkit.drive.breakers import Breakers
from loopkit.engine.events import Failed, Refused
from loopkit.engine.payloads import HumanAnswer
from loopkit.journal.journal import Claim, Journal
from loopkit.journal.records import NewRecord
from loopkit.language.load import load
from loopkit.scenario.cases import load_scenario
from tests import warm
from tests.machines import loop
from tests.support import CommandLine, Desk, QuickClock, listed, previous, scenario
from tests.waiting import LONG_S, until

DATA = loop(
    "[{require: tags.count >= 2, message: Two tags are needed.}]",
    {"valid": "done", "cap_reached": "failed"},
    "{revise: draft, previous: show}",
    top="agents: {author: {model: openai/m/x, schema: {title: str, tags: [str]}}}",
    draft="draft: {agent: author, prompt: Name it., output: entry}",
    result="entry",
)


def test_a_fresh_author_of_data_is_sent_its_previous_data_and_the_feedback(desk: Desk) -> None:
    drafts = [{"title": "a", "tags": ["x"]}, {"title": "a", "tags": ["x", "y"]}]
    played = desk.play(DATA, scenario(agents={"author": [{"data": d} for d in drafts]}))
    assert played.result == {"entry": drafts[1]}
    second = played.prompts("author")[1]
    assert second.startswith("Name it.\n\n")
    assert json.loads(second.split("```")[1]) == drafts[0]
    assert listed(second) == "- Two tags are needed."


ADVISING = loop(
    "[{judge: critic, severity: warning, code: TONE}]",
    {'valid and "TONE" in codes': "advised"},
    "{target: failed}",
    top="agents: {author: {model: openai/m/x}, critic: {model: openai/m/y}}",
    draft="draft: {agent: author, prompt: Write., output: text}",
)


FORM = """
loopkit: 1
limits: {revisions: 0}
states:
  note: {render: A note., next: ask}
  ask:
    human: Which way?
    choices: [go, again]
    form: {urgent: bool}
    transitions:
      - {guard: urgent and choice == "go", target: done}
      - {guard: choice == "again", revise: note, feedback: Again.}
      - {target: done}
  done: {final: success}
"""


def test_a_choice_is_closed_whatever_the_form_of_another_choice_says(desk: Desk) -> None:
    (question,) = desk.play(FORM).questions
    closed = {choice.name: choice.closed for choice in question.choices}
    again = "no revisions are granted; `--set limits.revisions=1` opens it"
    assert closed == {"go": "", "again": again}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("agents: {critc: []}", "the machine has no agent `critc`; did you mean `critic`?"),
        ("answers: {judge: []}", "the machine has no question `judge`; it has none"),
        ("commands: {tests: []}", "the machine has no command `tests`"),
    ],
)
def test_a_scenario_that_speaks_for_nobody_is_told(desk: Desk, section: str, message: str) -> None:
    machine = load(desk.write("machine.yaml", ADVISING)).machine
    played, _, _ = load_scenario(desk.write("s.yaml", f"scenario: 1\n{section}\n"))
    with pytest.raises(NotRunnable) as refused:
        refuse_misnamed(machine, played)
    assert message in str(refused.value)


PROGRAMS = loop(
    "[{command: [touch, really-judged]}]",
    {"valid": "done"},
    "{target: failed}",
    top="""
agents:
  author:
    model: openai/m/x
    tools: {find: {command: [touch, really-found], input: {word: str}}}
""",
    draft="draft: {agent: author, prompt: Write., output: code}",
    judge="check",
)


def test_a_scenario_plays_the_command_of_an_inline_rule_and_of_a_tool(desk: Desk) -> None:
    author = [[{"tool_calls": [{"name": "find", "input": {"word": "tea"}}]}, "Tea."]]
    commands = {"author.find": [{"stdout": "nothing"}], "by[0]": [{"exit_code": 1}]}
    script = scenario(agents={"author": author}, commands=commands)
    played = desk.play(PROGRAMS, script)
    parts, _, _ = load_scenario(desk.write("s.yaml", script))
    refuse_misnamed(load(desk.folder / "machine.yaml").machine, parts)
    assert played.outcome == "failed"
    assert not list(desk.folder.glob("really-*"))


EDITING = """
loopkit: 1
agents: {author: {model: openai/m/x, session: keep}}
states:
  draft: {agent: author, prompt: Write., output: text, on_error: {content: failed}, next: ask}
  ask:
    human: Good?
    choices: [yes, change]
    edit: text
    form: {tone: {type: calm|loud, default: calm}, stars: {type: int, minimum: 1, maximum: 5}}
    transitions:
      - {guard: choice == "yes", target: done}
      - guard: choice == "change"
        revise: draft
        feedback: "Go on from here{% if comment %}: {{ comment }}{% endif %}"
      - {target: failed}
  done: {final: success, result: text}
  failed: {final: failure}
"""


def test_an_author_with_a_kept_session_is_sent_what_a_person_edited(durable: Desk) -> None:
    asked = durable.play(EDITING, scenario(agents={"author": ["my words", "new words"]}))
    edited = durable.answer(asked.state.run, "change", form={"stars": 2}, edit="our words")
    assert edited.prompts("author")[1] == f"{previous('our words', edited=True)}\n\nGo on from here"


def test_a_comment_behind_a_condition_may_be_left_out_and_the_question_tells_its_form(
    desk: Desk,
) -> None:
    (question,) = desk.play(EDITING, scenario(agents={"author": ["my words"]})).questions
    change = next(choice for choice in question.choices if choice.name == "change")
    assert (change.takes_comment, change.needs_comment) == (True, False)
    assert question.edit == "text"
    assert question.form["stars"] == {"type": "int", "minimum": 1, "maximum": 5}


AGAIN = """
loopkit: 1
agents: {author: {command: [echo, "A draft."]}}
states:
  draft: {agent: author, prompt: Write., output: text, on_error: {content: done}, next: ask}
  ask:
    human: Good?
    show: [text]
    choices: [yes, again]
    transitions:
      - {guard: choice == "yes", target: done}
      - {revise: draft, feedback: "{{ comment }}", max: 3}
      - {target: done}
  done: {final: success}
"""
TWICE = """
loopkit: 1
states:
  first: {human: One?, choices: [yes, no], next: second}
  second: {human: Two?, choices: [yes, no], next: done}
  done: {final: success}
"""


async def posted(desk: Desk, run: str, *answers: HumanAnswer) -> None:
    """Leave answers in the inbox, as other processes do while nobody drives the run."""
    async with App.open(desk.state_folder) as app:
        for answer in answers:
            await app.post(run, answer)


def test_an_answer_that_could_not_be_taken_leaves_place_for_the_same_one(durable: Desk) -> None:
    asked = durable.play(TWICE)
    run, yes = asked.state.run, HumanAnswer(choice="yes")
    asyncio.run(posted(durable, run, yes))
    asyncio.run(refused_first(durable, run))
    asyncio.run(posted(durable, run, yes))
    assert durable.resume(run).state.state == "second"


async def refused_first(desk: Desk, run: str) -> None:
    """What a process does that can't follow the message in the inbox."""
    async with App.open(desk.state_folder) as app:
        claim = await app.journal.claim(run)
        [message] = await claim.inbox()
        refused = Refused(message_id=message.message_id, reason="Not today.")
        record = NewRecord(refused.type, 0.0, refused.to_json())
        await claim.append([record], consumes=[message.message_id])
        await claim.release()


async def test_the_same_answer_by_two_at_once_does_not_answer_the_question_that_it_opens(
    durable: Desk,
) -> None:
    """The second process has read the question, and the first takes its own answer to it."""
    asked = await asyncio.to_thread(durable.play, AGAIN)
    run, again = asked.state.run, HumanAnswer(choice="again", comment="Shorter.")

    async def first_is_taken() -> None:
        first = App.open(durable.state_folder)
        await first.post(run, again)
        await first.drive(await first.resume(run))
        await first.close()

    async with App.open(durable.state_folder) as plain:
        journal: Any = Overtaken(plain.journal, "post", first_is_taken)
        second = App(journal, folder=durable.folder)
        assert not await second.post(run, again)
        assert (await plain.state_of(run)).counters == {"ask[1]": 1}
        # Who looks only now is asked whether it is meant, and who names the question is not.
        with pytest.raises(AnswerRefused, match="had this answer already, and this is a new one"):
            await plain.post(run, again)
        assert not await plain.post(run, again, "ask:1")
        with pytest.raises(AnswerRefused, match="`ask:1` is no longer open; `ask:2` is"):
            await plain.post(run, again.replace(comment="Longer."), "ask:1")
        assert await plain.post(run, again, "ask:2")


class Overtaken:
    """A journal in which something happens just before it is asked to do something."""

    def __init__(self, journal: Journal, at: str, happens: Callable[[], Awaitable[object]]) -> None:
        self._journal = journal
        self._at = at
        self._happens = happens

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._journal, name)

        async def overtaken(*args: Any) -> Any:
            await self._happens()
            return await asked(*args)

        return overtaken if name == self._at else asked


class Hasty(QuickClock):
    """A clock on which much time has passed at every look at it."""

    def monotonic(self) -> float:
        self.time += 10
        return self.time


class OvertakenClaim:
    """A claim on a run for which something happens just before its last write."""

    def __init__(self, claim: Claim, happens: Callable[[], Awaitable[object]]) -> None:
        self._claim = claim
        self._happens: Callable[[], Awaitable[object]] | None = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claim, name)

    async def append(self, *args: Any, releases: bool = False, **options: Any) -> int:
        if releases:
            await self._once()
        return await self._claim.append(*args, releases=releases, **options)

    async def release(self, *args: Any, **options: Any) -> bool:
        await self._once()
        return await self._claim.release(*args, **options)

    async def _once(self) -> None:
        happens, self._happens = self._happens, None
        if happens is not None:
            await happens()


AT_ONCE = """
loopkit: 1
agents: {author: {command: [echo, A draft.]}}
states:
  draft: {agent: author, prompt: Write., output: text, on_error: {content: done}, next: done}
  done: {final: success}
"""
SUSPENDED = AT_ONCE.replace("echo", "ls")
NOTHING_TO_DO = """
loopkit: 1
states:
  start: {transitions: [{target: done}]}
  done: {final: success}
"""


@pytest.mark.parametrize("machine", [AT_ONCE, SUSPENDED, NOTHING_TO_DO, TWICE])
async def test_a_run_is_cancelled_up_to_its_last_commit(durable: Desk, machine: str) -> None:
    """Whatever the run is about to be stored as, and whoever has looked into the inbox before."""
    told = await cancelled_at_the_end(durable, machine)
    assert "is being driven by" in told
    assert "it ends the work in hand and cancels the run" in told


async def cancelled_at_the_end(desk: Desk, machine: str) -> str:
    """What `cancel` says just before the last write of a run, which is cancelled then."""
    async with App.open(desk.state_folder) as app, App.open(desk.state_folder) as other:
        active = await app.start(load(desk.write("machine.yaml", machine)), {})
        await active.append()
        said: list[str] = []

        async def cancel() -> None:
            said.append(await other.cancel(active.state.run, "Enough."))

        active.claim = cast("Claim", OvertakenClaim(active.claim, cancel))
        driven = await app.drive(active)
        stored = await other.state_of(active.state.run)
        assert (driven.status, stored.status, stored.finished) == ("cancelled", "cancelled", None)
        assert stored.artifacts.keys() == ({"text"} if machine == AT_ONCE else set())
        # The reply waited to be stored with the end that did not come.
        assert stored.usage == driven.usage
        assert stored.usage.agent_calls == (machine in (AT_ONCE, SUSPENDED))
        [row] = await other.journal.runs()
        assert not row.is_driven
        return said[0]


async def test_a_run_that_an_answer_ends_is_cancelled_up_to_its_last_commit(durable: Desk) -> None:
    asked = await asyncio.to_thread(durable.play, TWICE)
    await asyncio.to_thread(durable.answer, asked.state.run, "yes")
    run = asked.state.run
    async with App.open(durable.state_folder) as app, App.open(durable.state_folder) as other:
        await other.post(run, HumanAnswer(choice="yes"))
        active = await app.resume(run)
        claim = OvertakenClaim(active.claim, lambda: other.cancel(run, "Enough."))
        active.claim = cast("Claim", claim)
        assert (await app.drive(active)).status == "cancelled"
        assert (await other.state_of(run)).answers.keys() == {"first", "second"}


async def test_an_answer_that_comes_as_the_run_is_left_is_taken(durable: Desk) -> None:
    async with App.open(durable.state_folder) as app, App.open(durable.state_folder) as other:
        active = await app.start(load(durable.write("machine.yaml", TWICE)), {})
        await active.append()
        yes = HumanAnswer(choice="yes")
        claim = OvertakenClaim(active.claim, lambda: other.post(active.state.run, yes))
        active.claim = cast("Claim", claim)
        assert (await app.drive(active)).state == "second"


async def test_a_run_that_ended_before_is_not_said_to_be_cancelled(durable: Desk) -> None:
    """Its owner is not gone yet when `cancel` reaches for it."""
    async with App.open(durable.state_folder) as app, App.open(durable.state_folder) as other:
        active = await app.start(load(durable.write("machine.yaml", AT_ONCE)), {})
        await active.append()

        async def end() -> None:
            await app.drive(active)

        journal: Any = Overtaken(other.journal, "post", end)
        with pytest.raises(NotRunnable, match="has already finished: done"):
            await App(journal, folder=durable.folder).cancel(active.state.run, "")


async def test_a_run_is_cancelled_by_a_resume_that_is_refused_meanwhile(durable: Desk) -> None:
    machine = SUSPENDED.replace("agents:", "limits: {agent_calls: 5}\nagents:")
    run = (await asyncio.to_thread(durable.play, machine)).state.run
    async with App.open(durable.state_folder) as app, App.open(durable.state_folder) as other:

        class Reached(Overtaken):
            async def claim(self, run: str) -> Any:
                claim = await app.journal.claim(run)
                return OvertakenClaim(claim, lambda: other.cancel(run, ""))

        journal: Any = Reached(app.journal, "", nobody)
        with pytest.raises(NotRunnable, match="agent_calls"):
            await App(journal, folder=durable.folder).resume(run, {"agent_calls": 0})
        assert (await other.state_of(run)).status == "cancelled"


async def nobody() -> None:
    """Nothing happens."""


async def test_a_run_that_is_cancelled_as_it_is_stopped_stays_cancelled(desk: Desk) -> None:
    app = App.open(None, clock=Hasty())
    active = await app.start(load(desk.write("machine.yaml", TWICE)), {})
    await active.append()
    await app.journal.post(active.state.run, "cancel", "enough", "", 0.0)
    active.stop()
    state = await app.drive(active)
    assert (state.status, state.suspended) == ("cancelled", None)


@pytest.mark.parametrize(
    ("command", "at", "status"),
    [
        ("resume", "claim", "finished"),
        ("cancel", "post", "finished"),
        ("cancel", "claim", "cancelled"),
    ],
)
async def test_a_run_that_ends_while_another_process_reaches_for_it_stays_ended(
    desk: Desk, command: str, at: str, status: str
) -> None:
    first = App.open(None)
    active = await first.start(load(desk.write("machine.yaml", TWICE)), {})
    run = active.state.run
    await first.drive(active)

    async def ends() -> None:
        for _ in range(2):
            if not await first.is_over(run):
                await first.post(run, HumanAnswer(choice="yes"))
                await first.drive(await first.resume(run))

    journal: Any = Overtaken(first.journal, at, ends)
    second = App(journal, folder=desk.folder)
    reach = second.cancel(run, "") if command == "cancel" else second.resume(run, {"tokens": 9})
    expected = pytest.raises(NotRunnable, match="has already finished: done")
    with expected if status == "finished" else nullcontext():
        assert await reach == f"run {run} is cancelled"
    ended = await first.state_of(run)
    assert ended.status == status
    assert (ended.finished is not None) == (status == "finished")
    # Nobody holds it any more.
    await (await first.journal.claim(run)).release()
    await first.close()


SLOW = """
loopkit: 1
agents: {author: {command: [sh, slow.sh]}}
states:
  draft: {agent: author, prompt: Write., output: text, on_error: {content: failed}, next: done}
  done: {final: success, result: text}
  failed: {final: failure}
"""
UNTIL_TOLD = r"""
touch begun
while [ ! -e go ]; do sleep 0.05; done
printf "a\033[31mb\033]0;c\007"
"""


def loopkit(line: str) -> str:
    """How a shell starts loopkit for this line; anew where a stream is closed from the start."""
    started = [sys.executable, "-m", "loopkit"] if "&-" in line else warm.command("-m", "loopkit")
    return shlex.join(started)


def begun(desk: Desk, redirected: str) -> subprocess.Popen[bytes]:
    """A real process whose call is in flight until there is a file `go`."""
    desk.write("slow.yaml", SLOW)
    desk.write("slow.sh", UNTIL_TOLD)
    line = f"exec {loopkit(redirected)} run slow.yaml --output quiet {redirected}"
    process = subprocess.Popen(["sh", "-c", line], cwd=desk.folder)
    until(lambda: (desk.folder / "begun").exists() or process.poll() is not None)
    assert process.poll() is None
    return process


@pytest.mark.parametrize("nobody", ["2>&-", "2>/dev/full"])
def test_the_first_signal_finishes_the_step_where_nobody_can_be_told_of_it(
    desk: Desk, nobody: str
) -> None:
    process = begun(desk, f">result {nobody}")
    process.send_signal(signal.SIGINT)
    desk.write("go", "")
    assert process.wait(LONG_S) == 0
    assert (desk.folder / "result").read_text(encoding="utf-8").startswith("a")


def test_a_result_in_a_file_is_the_artifact_to_the_byte(desk: Desk) -> None:
    process = begun(desk, ">result")
    desk.write("go", "")
    assert process.wait(LONG_S) == 0
    assert (desk.folder / "result").read_bytes() == b"a\033[31mb\033]0;c\007\n"


def test_a_result_at_a_terminal_drives_nothing(desk: Desk) -> None:
    screen, terminal = pty.openpty()
    process = begun(desk, f">{os.ttyname(terminal)}")
    desk.write("go", "")
    assert process.wait(LONG_S) == 0
    assert os.read(screen, 1000) == b"ab\r\n"


SHOWN = """
loopkit: 1
states:
  wish: {render: "Tea → two 😀", next: done}
  done: {final: success, result: wish}
"""


def ran_shown(desk: Desk, command: str, *, streams: str = "utf-8") -> tuple[str, str, bytes]:
    """The exit code of a command line, what it said on stderr, and wrote to stdout."""
    desk.write("shown.yaml", SHOWN)
    start = loopkit(command)
    command, pipe, reader = command.partition(" | ")
    told = f"{{ {command}; echo $? >code; }}{pipe}{reader}"
    environment = {**os.environ, "PYTHONIOENCODING": streams}
    done = subprocess.run(
        ["bash", "-c", f'loopkit() {{ {start} "$@"; }}; {told}'],
        cwd=desk.folder, capture_output=True, check=False, env=environment,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr
    code = (desk.folder / "code").read_text(encoding="utf-8").strip()
    return code, done.stderr.decode(errors="replace"), done.stdout


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("loopkit run shown.yaml --output jsonl | true", "4", "error: stdout was closed"),
        ("loopkit run shown.yaml 2>&1 | true", "4", ""),
        ("loopkit run shown.yaml >/dev/full", "4", "error: No space left on device; the run is"),
        ("loopkit run shown.yaml --record it.scenario.yaml | true", "4", "recorded as case"),
        ("loopkit run shown.yaml 2>/dev/full", "0", ""),
        ("loopkit run shown.yaml 2>&-", "0", ""),
        ("loopkit run shown.yaml >&- 2>&-", "0", ""),
        ("loopkit run shown.yaml --batch lines 2>/dev/full", "0", ""),
    ],
)
def test_a_run_ends_as_it_would_where_its_output_cannot_be_written(
    desk: Desk, command: str, code: str, said: str, cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    desk.write("lines", "{}\n")
    ended, told, _ = ran_shown(desk, command)
    assert ended == code
    assert said in told
    monkeypatch.chdir(desk.folder)
    assert "finished  done (success)" in cli(0, "runs", "ls").out


def test_what_an_output_lacks_is_written_as_in_json(desk: Desk) -> None:
    result = b"Tea \\u2192 two \\ud83d\\ude00\n"
    for streams in ("latin-1", "ascii"):
        ended = ran_shown(desk, "loopkit run shown.yaml --output quiet", streams=streams)
        assert ended == ("0", "", result)
    _, _, events = ran_shown(desk, "loopkit run shown.yaml --output jsonl", streams=streams)
    assert json.loads(events.splitlines()[-1])["result"] == {"wish": "Tea → two 😀"}
    run = json.loads(events.splitlines()[-1])["run"]
    for command in (f"runs show {run}", f"runs logs {run}", "check shown.yaml", "plan shown.yaml",
                    "diagram shown.yaml", "stats", "schema", "run shown.yaml é→"):  # fmt: skip
        code, told, shown = ran_shown(desk, f"loopkit {command}", streams=streams)
        assert code == ("2" if "→" in command else "0"), told
        assert "internal error" not in told
        assert told.isascii()
        assert shown.isascii()


@dataclass
class Jumping(QuickClock):
    """A clock that somebody sets back by a day at every look at it."""

    days: int = 0

    def now(self) -> float:
        self.days += 1
        return self.time - 86_400.0 * self.days

    def monotonic(self) -> float:
        self.time += 0.01
        return self.time


CLOSED = """
loopkit: 1
agents:
  author:
    model: openai/some-model
    base_url: http://127.0.0.1:1/v1
    api_key_env: LOOPKIT_TEST_KEY
    retry: {attempts: 3, backoff: 1s}
states:
  draft: {agent: author, prompt: Write., output: text, on_error: {content: failed}, next: done}
  done: {final: success}
  failed: {final: failure}
"""


def test_a_provider_is_left_alone_for_its_time_whatever_the_clock_on_the_wall_says(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPKIT_TEST_KEY", "some-key-of-a-test")
    desk.clock, desk.breakers = Jumping(), Breakers(threshold=1, cooldown_s=30)
    assert len(desk.play(CLOSED).of(Failed)) == 3


@pytest.mark.parametrize("amount", ["nan", "inf", "-1"])
@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_cost_limit_that_could_never_be_reached_is_refused(
    desk: Desk, command: str, amount: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = str(desk.write("machine.yaml", TWICE))
    assert invoke([command, named, "--max-cost", amount]) == 2
    assert "write US dollars, 0 or more" in capsys.readouterr().err


FAILING = """
loopkit: 1
agents:
  author:
    command: [sh, -c, 'echo tried >>tries; exit 75']
    errors: [{exit: 75, class: transient}]
    retry: {attempts: 9, backoff: 60s}
states:
  draft: {agent: author, prompt: Write., output: text, on_error: {content: failed}, next: done}
  done: {final: success}
  failed: {final: failure}
"""


async def test_a_run_that_is_stopped_between_two_tries_does_not_wait_for_the_next(
    desk: Desk,
) -> None:
    async def stops(active: ActiveRun) -> None:
        # It has no event to wait for.
        while not any(task.tries for task in active.state.tasks.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        active.stop()

    app = App.open(None)
    app.folder = desk.folder
    active = await app.start(load(desk.write("machine.yaml", FAILING)), {})
    async with asyncio.timeout(30):
        stopped, _ = await asyncio.gather(app.drive(active), stops(active))
    assert stopped.suspended is not None
    assert stopped.suspended.reason == "interrupted"
    assert (desk.folder / "tries").read_text(encoding="utf-8") == "tried\n"
    await app.close()
