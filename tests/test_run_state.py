"""The state of a run: what shares what with the states before it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loopkit.app import App
from loopkit.drive.active import Stored
from loopkit.drive.deadline import within
from loopkit.engine.events import Artifact, Event, Settled, Worked
from loopkit.engine.findings import Finding, Report
from loopkit.engine.log import Log
from loopkit.engine.rounds import Round, Rounds
from loopkit.engine.state import apply, fold
from loopkit.journal import NewRecord, RunExists
from loopkit.journal.sqlite import SqliteJournal
from loopkit.language.load import load
from tests.commits import Row, types_of, watched
from tests.support import Desk

OF_A_STEP = ("worked", "decided", "entered", "emitted", "waiting", "finished", "settled")
REVIEWED = """
loopkit: 1
agents: {writer: {model: a/writer}, critic: {model: a/critic}}
validators:
  plain: {not_matches: TODO}
  good: {judge: critic}
states:
  draft: {agent: writer, prompt: Write., output: text, next: check}
  check:
    validate: text
    by: [plain, good]
    transitions:
      - {guard: valid, target: ask}
      - {revise: draft, max: 3, emit: again, feedback: "{{ findings[0].message }}"}
      - {target: failed}
  ask:
    human: Take it?
    choices: ['yes', 'no']
    transitions:
      - {guard: choice == 'yes', target: done}
      - {revise: draft, max: 2, feedback: "{{ comment }}"}
      - {target: failed}
  done: {final: success, result: text}
  failed: {final: failure}
"""
SCRIPT = """
scenario: 1
agents:
  writer: [TODO, TODO, a, b, c]
  critic:
    - {data: {verdict: fail, findings: [{message: too short, severity: error}]}}
    - {data: {verdict: pass, findings: []}}
    - {data: {verdict: pass, findings: []}}
answers: {ask: [{choice: "no", comment: shorter}, {choice: "yes"}]}
"""


@pytest.fixture
def events(desk: Desk) -> list[Event]:
    """Those of a run with rules, a judge, revisions of both kinds and a person."""
    played = desk.play(REVIEWED, SCRIPT)
    assert played.outcome == "done"
    assert {"worked", "decided", "entered", "emitted", "waiting"} <= {e.type for e in played.events}
    return list(played.events)


def test_a_step_leaves_the_run_that_it_starts_from_as_it_was(events: list[Event]) -> None:
    """A template may still fail, and then nothing has happened."""
    for at, event in enumerate(events):
        if not isinstance(event, Worked | Settled):
            continue
        run = fold(events[:at])
        before, step = deepcopy(run), run.copy()
        for following in events[at:]:
            if following.type not in OF_A_STEP:
                break
            apply(step, following)
        assert run == before
        assert step != before


def test_a_step_that_was_given_up_leaves_no_trace_in_the_one_that_follows(
    events: list[Event],
) -> None:
    """Both stand on the same lists."""
    judged = [at for at, e in enumerate(events) if isinstance(e, Worked) and e.report is not None]
    for at in judged:
        run = fold(events[:at])
        apply(run.copy(), events[at])
        apply(run, events[at])
        afresh = fold(events[: at + 1])
        report = afresh.rounds[-1].report
        assert run == afresh
        artifact = run.artifacts[report.artifact]
        for state in run, afresh:
            earlier = state.rounds_before(report.state, artifact)
            assert len(earlier) == len([*earlier]) == len(judged[: judged.index(at)])


def test_a_log_and_longer_ones_keep_what_each_of_them_has() -> None:
    short = Log[str]().plus("a")
    one, other = short.plus("b").plus("c"), short.plus("d")
    assert (list(short), list(one), list(other)) == (["a"], ["a", "b", "c"], ["a", "d"])
    assert (one[-1], one[1:], list(reversed(one)), len(other)) == (
        "c",
        ["b", "c"],
        ["c", "b", "a"],
        2,
    )
    assert one == ["a", "b", "c"]
    assert one != other
    with pytest.raises(IndexError):
        short[1]


def round_of(attempt: int, *ids: str, work: str = "") -> Round:
    findings = tuple(Finding(id=name, message=name) for name in ids)
    report = Report(
        state="check", artifact="text", author="draft", attempt=attempt, verdict="fail",
        findings=findings, work=work,
    )  # fmt: skip
    return Round(report, Artifact(name="text", author="draft", attempt=attempt, text=""), {})


def test_of_an_attempt_that_is_judged_again_the_last_round_counts() -> None:
    rounds = Rounds().plus(round_of(1, "a", work="x")).plus(round_of(2, "b"))
    again = rounds.plus(round_of(1, "c", work="y"))
    earlier = again.before(("draft", 2))
    assert [entry.ids for entry in earlier] == [{"c"}]
    assert (earlier.has_found("a"), earlier.has_found("c"), earlier.has_found("b")) == (0, 1, 0)
    assert [len([*earlier.of_work(work)]) for work in ("x", "y")] == [0, 1]
    assert earlier.last is not None
    assert earlier.last.ids == {"c"}
    # The shorter one knows nothing of it.
    assert [entry.ids for entry in rounds.before(None)] == [{"a"}, {"b"}]
    assert rounds.before(("draft", 2)).has_found("a")


async def test_an_answer_that_takes_longer_than_it_may_is_given_up() -> None:
    gone: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            gone.append("cancelled")
            raise
        return "too late"

    with pytest.raises(TimeoutError):
        await within(0.01, slow())
    assert gone == ["cancelled"]


async def test_an_answer_may_wait_several_times_and_fail_in_its_own_way() -> None:
    async def patient(*, fails: bool) -> str:
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        except TimeoutError:
            await asyncio.sleep(0)
        if fails:
            raise LookupError("no answer")
        return "answer"

    assert await within(60, patient(fails=False)) == "answer"
    with pytest.raises(LookupError, match="no answer"):
        await within(60, patient(fails=True))


async def test_who_waits_for_an_answer_can_be_cancelled() -> None:
    begun = asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    waiting = asyncio.ensure_future(within(60, endless()))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


LOOP = """
loopkit: 1
agents: {writer: {command: [writer]}}
validators: {decided: [{matches: revision 2}]}
states:
  write: {agent: writer, prompt: Write., output: note, next: judge}
  judge:
    validate: note
    by: [decided]
    transitions:
      - {guard: valid, target: done}
      - {revise: write, max: 5, feedback: "revision {{ revision }}"}
      - {target: failed}
  done: {final: success, result: note}
  failed: {final: failure}
"""


def echo(prompt: str, _: Any) -> str:
    return prompt.rpartition("\n\n")[2]


def test_six_steps_are_seven_commits_and_nothing_is_asked_or_judged_before_one(
    tmp_path: Path,
) -> None:
    """The run is stored with its first intent, and let go of with its last event."""
    commits: list[list[str]] = []

    def observe(moment: str, rows: Sequence[Row]) -> None:
        if moment == "after":
            commits.append(types_of(rows))

    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)

    async def drive() -> None:
        with watched(observe):
            journal = SqliteJournal.open(tmp_path / ".loopkit")
        app = App(journal, folder=tmp_path, functions={"writer": echo})
        state = await app.drive(await app.start(load(machine), {}))
        assert state.finished is not None
        await (await journal.claim(state.run)).release()
        await app.close()

    asyncio.run(drive())
    worked = ["replied", "worked", "decided", "entered"]
    judged = ["worked", "decided", "entered", "intended"]
    assert commits[:7] == [
        ["claimed", "started", "entered", "intended"],
        worked, judged, worked, judged, worked,
        ["worked", "decided", "entered", "finished"],
    ]  # fmt: skip
    assert commits[7:] == [["claimed"]]


async def test_a_run_whose_id_another_process_took_meanwhile_asks_nobody(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)
    asked: list[str] = []

    def write(prompt: str, _: Any) -> str:
        asked.append(prompt)
        return prompt

    parts: dict[str, Any] = {"functions": {"writer": write}, "token": lambda: "aa"}
    first, second = (App.open(tmp_path / ".loopkit", **parts) for _ in range(2))
    begun = [await app.start(load(machine), {}) for app in (first, second)]
    await begun[0].append()
    with pytest.raises(RunExists, match="machine-aa"):
        await second.drive(begun[1])
    assert asked == []
    state = await first.drive(begun[0])
    assert (state.status, len(asked)) == ("finished", 3)
    await first.close()
    await second.close()


async def test_an_id_that_a_stored_run_has_is_drawn_again(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)
    tokens = iter(["aa", "aa", "bb"])
    parts: dict[str, Any] = {"functions": {"writer": echo}, "token": lambda: next(tokens)}
    app = App.open(tmp_path / ".loopkit", **parts)
    runs = [(await app.drive(await app.start(load(machine), {}))).run for _ in range(2)]
    assert runs == ["machine-aa", "machine-bb"]
    await app.close()


BASED = LOOP.replace("{matches: revision 2}", "{command: [cat, todo], baseline: true}")


@pytest.mark.usefixtures("litellm")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LOOP.replace("command: [writer]", "model: some/model"), []),
        (BASED, [["baselined"]]),
    ],
    ids=["model", "baseline"],
)
async def test_a_run_that_takes_seconds_to_begin_can_be_seen_meanwhile(
    tmp_path: Path, text: str, told: list[list[str]]
) -> None:
    commits: list[list[str]] = []
    machine = tmp_path / "machine.yaml"
    machine.write_text(text)
    with watched(lambda moment, rows: commits.append(types_of(rows))):
        functions = {"writer": echo} if told else {}
        app = App.open(tmp_path / ".loopkit", functions=functions)
    active = await app.start(load(machine), {})
    if told:
        await app.drive(active)
    # Of each append the connection tells twice.
    assert commits[: 2 * (1 + len(told)) : 2] == [["claimed", "started"], *told]
    await app.close()


async def test_events_are_told_in_the_order_in_which_they_are_stored(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)
    told: list[Stored] = []
    parts: dict[str, Any] = {"functions": {"writer": echo}, "listeners": [told.append]}
    app = App.open(tmp_path / ".loopkit", **parts)
    state = await app.drive(await app.start(load(machine), {}))
    assert told == (await app.events(state.run))[1:]
    assert all(after.seq == before.seq + 1 for before, after in pairwise(told))
    await app.close()


def test_a_record_in_memory_has_the_epoch_of_its_claim(tmp_path: Path) -> None:
    async def write() -> list[int]:
        app = App.open(None)
        record = NewRecord("started", 1.0, "{}")
        claim = await app.journal.create("r", machine="m", definition="d", records=[record])
        await claim.release()
        again = await app.journal.claim("r")
        await again.append([record, record])
        return [kept.epoch for kept in await app.journal.read("r")]

    assert asyncio.run(write()) == [1, 1, 2, 2, 2]
