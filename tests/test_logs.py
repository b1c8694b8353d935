"""Structured logs: each event of a run as a record of logging, with its ids and without texts."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loopkit
from loopkit.cli import invoke
from loopkit.engine.events import EVENTS, Event
from loopkit.observability import observers
from loopkit.observability.logs import AREAS, FIELDS, LEVELS, STANDARD, JsonLines
from tests.support import ROOT, CommandLine, Desk, scenario
from tests.test_event_lines import PARENT, TASK

MACHINE = """
loopkit: 1
input: {topic: str}
agents:
  writer: {model: openai/gpt-5-mini, retry: {attempts: 2, backoff: 0.01s}}
states:
  write: {agent: writer, prompt: "Write of {{ input.topic }}.", output: note, next: check}
  check:
    validate: note
    by: [{matches: Monday, code: DAY, message: Which day is it for the heron?}]
    transitions:
      - {guard: valid, target: done, emit: {name: note_accepted, phase: first}}
      - {revise: write, max: 2, emit: note_rejected}
      - {target: ask}
  ask:
    human: Is the heron good enough?
    choices: [accept]
    next: done
  done: {final: success, result: note}
"""


class Kept(logging.Handler):
    """Keeps the records that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def fields(self, event: str) -> list[dict[str, Any]]:
        """What the records of an event say, besides what each record has."""
        return [
            {key: value for key, value in vars(record).items() if key not in STANDARD}
            for record in self.records
            if getattr(record, "event", "") == event
        ]


@pytest.fixture(autouse=True)
def _here(own_folder: Path) -> None:
    Path("machine.yaml").write_text(MACHINE, encoding="utf-8")


@pytest.fixture
def kept() -> Iterator[Kept]:
    logger, handler = logging.getLogger("loopkit"), Kept()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def writer(*replies: str | Exception) -> Any:
    left = list(replies)

    def write(prompt: str, messages: Any) -> str:
        reply = left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return {"writer": write}


def test_every_event_is_a_record_with_its_place_and_the_ids_of_its_call(kept: Kept) -> None:
    told = writer(ConnectionError("the heron is gone"), "A heron.", "A heron, on Monday.")
    result = loopkit.run("machine.yaml", {"topic": "herons"}, agents=told)
    assert result.success
    seqs = [record.__dict__["seq"] for record in kept.records]
    assert seqs == list(range(2, len(seqs) + 2))
    assert {record.__dict__["run"] for record in kept.records} == {result.run}
    first = f"{result.run}:write:1:author:1@openai/gpt-5-mini"
    [failed] = kept.fields("failed")
    assert failed.pop("seconds") >= 0
    assert failed.pop("seq") == 5
    assert failed == {
        "run": result.run, "epoch": 1, "event": "failed", "state": "write", "visit": 1,
        "call": first, "task": "write:1:author", "role": "author", "agent": "writer",
        "place": "write", "error_class": "transient", "unavailable": False,
        "tokens": 0, "cost_usd": 0.0,
    }  # fmt: skip
    assert [one["call"] for one in kept.fields("replied")] == [
        f"{result.run}:write:1:author:2@openai/gpt-5-mini",
        f"{result.run}:write:2:author:1@openai/gpt-5-mini",
    ]
    assert [(one["state"], one["visit"]) for one in kept.fields("entered")] == [
        ("write", 1),
        ("check", 1),
        ("write", 2),
        ("check", 2),
        ("done", 1),
    ]
    judged = [one for one in kept.fields("worked") if "verdict" in one]
    assert [(one["verdict"], one["found"], one["blocking"]) for one in judged] == [
        ("fail", 1, 1),
        ("pass", 0, 0),
    ]


def test_records_have_levels_and_loggers_of_their_areas(kept: Kept) -> None:
    loopkit.run("machine.yaml", {"topic": "herons"}, agents=writer(ConnectionError(), "Monday."))
    assert {(r.name, r.levelname, r.__dict__["event"]) for r in kept.records} == {
        ("loopkit.runs", "INFO", "started"),
        ("loopkit.steps", "DEBUG", "entered"),
        ("loopkit.calls", "DEBUG", "intended"),
        ("loopkit.calls", "WARNING", "failed"),
        ("loopkit.calls", "DEBUG", "replied"),
        ("loopkit.steps", "DEBUG", "worked"),
        ("loopkit.steps", "INFO", "worked"),
        ("loopkit.steps", "INFO", "decided"),
        ("loopkit.steps", "INFO", "emitted"),
        ("loopkit.runs", "INFO", "finished"),
    }


def test_no_record_has_a_text_of_a_prompt_a_reply_a_question_or_an_error(kept: Kept) -> None:
    told = writer(ConnectionError("the heron is gone"), "A heron.", "One heron.", "No heron.")
    assert loopkit.run("machine.yaml", {"topic": "a heron"}, agents=told).status == "waiting"
    texts = [JsonLines().format(record) for record in kept.records if record.levelno > 0]
    assert kept.fields("waiting")
    assert [text for text in texts if "heron" in text and '"event": "emitted"' not in text] == []


def test_an_event_that_the_machine_emits_is_logged_whole(kept: Kept) -> None:
    """S3.21 and S3.23: with attempt, phase, source and diagnostics, as in the stream of events."""
    loopkit.run("machine.yaml", {"topic": "herons"}, agents=writer("A heron.", "Monday."))
    rejected, accepted = kept.fields("emitted")
    assert (rejected["emitted"], rejected["attempt"], rejected["phase"]) == ("note_rejected", 1, "")
    assert (rejected["source"], rejected["artifact"], rejected["artifact_version"]) == (
        "write",
        "note",
        1,
    )
    [finding] = rejected["findings"]
    assert (finding["code"], finding["message"]) == ("DAY", "Which day is it for the heron?")
    assert (accepted["emitted"], accepted["attempt"], accepted["phase"]) == (
        "note_accepted",
        2,
        "first",
    )
    assert not accepted["findings"]


def test_the_records_of_a_resumed_run_and_of_children_have_their_own_place(kept: Kept) -> None:
    Path("task.yaml").write_text(TASK, encoding="utf-8")
    Path("parent.yaml").write_text(PARENT, encoding="utf-8")
    waiting = loopkit.run("parent.yaml")
    [child] = waiting.questions
    before = len(kept.records)
    loopkit.answer(child, "approve")
    told = {(r.__dict__["run"], r.__dict__["event"], r.__dict__["state"], r.__dict__["visit"])
            for r in kept.records[before:]}  # fmt: skip
    assert {
        (waiting.run, "resumed", "parts", 1),
        (child, "worked", "ask", 1),
        (child, "finished", "done", 1),
        (waiting.run, "child_ended", "parts", 1),
        (waiting.run, "finished", "done", 1),
    } <= told


def test_a_call_whose_process_died_is_logged_with_its_ids_by_the_next_one(
    kept: Kept, durable: Desk
) -> None:
    told = scenario(agents={"writer": ["Monday."]})
    run = durable.abort(MACHINE, told, {"topic": "herons"}).state.run
    loopkit.resume(run)
    [lost] = kept.fields("in_doubt")
    assert (lost["agent"], lost["state"], lost["call"]) == (
        "writer",
        "write",
        f"{run}:write:1:author:1@openai/gpt-5-mini",
    )


def test_a_handler_that_fails_is_told_of_and_ends_no_run(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: logging.LogRecord) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(kept, "emit", fail)
    with pytest.warns(RuntimeWarning, match="hears no more: ValueError") as told:
        result = loopkit.run("machine.yaml", {"topic": "x"}, agents=writer("A heron on Monday."))
    assert result.success
    assert len(told) == 1


def test_nobody_watches_a_run_where_nobody_asked_for_logs(cli: CommandLine) -> None:
    # pytest itself has handlers at the root, which `loopkit` does not pass records on to here.
    logger = logging.getLogger("loopkit")
    logger.propagate = False
    try:
        assert observers() == ()
        logger.addHandler(handler := logging.NullHandler())
        assert observers() == ()
        logger.removeHandler(handler)
        with_one = AREAS["runs"]
        with_one.addHandler(kept := Kept())
        assert len(observers()) == 1
        with_one.removeHandler(kept)
        loopkit.run("machine.yaml", {"topic": "x"}, agents=writer(ConnectionError(), "Monday."))
    finally:
        logger.propagate = True
    assert cli.said() == ("", "")


def test_json_lines_are_whole_whatever_a_record_holds() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    record = logging.makeLogRecord(
        {"msg": "a %s", "args": ("b\nc",), "name": "x", "levelname": "INFO", "created": 0,
         "thing": Path("/tmp"), "text": "\x1b[31m"}
    )  # fmt: skip
    handler.emit(record)
    [line] = out.getvalue().splitlines()
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.000+00:00", "level": "INFO", "logger": "x",
        "message": "a b\nc", "thing": "/tmp", "text": "\x1b[31m",
    }  # fmt: skip


def test_a_message_says_what_its_fields_say_on_one_line_without_escapes(kept: Kept) -> None:
    result = loopkit.run("machine.yaml", {"topic": "herons"}, agents=writer("Monday."))
    messages = [record.getMessage() for record in kept.records]
    assert f"{result.run}: started machine=machine" in messages[0]
    assert messages[-1] == f"{result.run}: finished state=done visit=1 outcome=done success=True"


@pytest.mark.parametrize("event", sorted({*LEVELS, *FIELDS}))
def test_what_is_said_of_an_event_is_about_one_that_exists(event: str) -> None:
    kind: type[Event] = EVENTS[event]
    assert set(FIELDS.get(event, ())) <= set(kind.__struct_fields__)
    assert not set(FIELDS.get(event, ())) & STANDARD


def test_every_class_of_events_is_in_the_table() -> None:
    """One that is missing there could be written, and not be read again."""
    found = [Event]
    for kind in found:
        found += (sub for sub in kind.__subclasses__() if sub.__module__.startswith("loopkit."))
    assert {kind for kind in found if not kind.__subclasses__()} == set(EVENTS.values())


def test_every_event_has_a_logger() -> None:
    assert {logger.name for logger in AREAS.values()} == {
        "loopkit.calls", "loopkit.children", "loopkit.files", "loopkit.runs", "loopkit.steps",
    }  # fmt: skip


# -- the command line --------------------------------------------------------------------------

RUN_PLAN = [
    "run", str(ROOT / "machines/plan_review.yaml"), "--output", "quiet",
    "--script", str(ROOT / "machines/plan_review/scenario.yaml"),
    "--set", f"issue=@{ROOT / 'machines/plan_review/issue.md'}",
]  # fmt: skip


def test_loopkit_log_names_a_file_to_which_every_record_is_added_as_json(
    monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setenv("LOOPKIT_LOG", "run.log")
    assert invoke(RUN_PLAN) == 0
    once = [json.loads(line) for line in Path("run.log").read_text().splitlines()]
    assert [line["seq"] for line in once] == list(range(2, len(once) + 2))
    assert {"level", "time", "logger", "message", "run", "state"} <= once[0].keys()
    assert invoke(RUN_PLAN) == 0
    assert len(Path("run.log").read_text().splitlines()) == 2 * len(once)
    told = cli.said()
    assert "# Quote line breaks" in told.out
    assert told.err == ""
    assert logging.getLogger("loopkit").level == logging.NOTSET


def test_a_log_file_that_cannot_be_opened_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setenv("LOOPKIT_LOG", "no/run.log")
    assert cli(2, *RUN_PLAN) == ("", "error: LOOPKIT_LOG: no/run.log: No such file or directory\n")


def test_a_log_file_that_is_full_is_told_once_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setenv("LOOPKIT_LOG", "/dev/full")
    told = cli(0, *RUN_PLAN)
    assert "# Quote line breaks" in told.out
    assert told.err == "LOOPKIT_LOG: `/dev/full` can't be written; the log ends here\n"
