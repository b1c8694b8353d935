"""loopkit from Python: the same runs and refusals as on the command line."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from cProfile import Profile
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from loopkit import (
    AnswerRefused,
    InvalidInput,
    JournalError,
    NotDetermined,
    NotRunnable,
    ProblemsFound,
    answer,
    arun,
    check,
    load,
    plan,
    resume,
    run,
    start,
)
from loopkit.app import App
from loopkit.cli import invoke
from loopkit.engine.events import Finished
from loopkit.journal.errors import UnknownRun
from loopkit.journal.journal import open_journal
from tests.support import ROOT

PAGE = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
[NOTE] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
CHECKS = str(Path("loopkit/checks"))
HALF = ("check.valid", "ask.accept")
DATA = """
loopkit: 1
LIMITS
agents: {planner: {model: openai/gpt-5-mini, schema: {steps: [str]}, retry: {backoff: 0.01s}}}
states:
  plan: {agent: planner, prompt: Plan., output: steps, next: check}
  check:
    validate: steps
    by: [{schema: {steps: {type: array, minItems: 2}}}]
    transitions: [{guard: valid, target: done}, {revise: plan, max: 2}, {target: failed}]
  done: {final: success, result: steps}
  failed: {final: failure}
"""
PARENT = """
loopkit: 1
states:
  plan: {machine: data.yaml, next: done}
  done: {final: success}
"""
TWO_NOTES = """
loopkit: 1
agents: {planner: {model: openai/gpt-5-mini}}
states:
  draft: {render: A draft., output: draft, next: refine}
  refine:
    agent: planner
    prompt: "{{ draft }}"
    output: refined
    on_error: {fatal: given_up, content: given_up}
    next: done
  done: {final: success, result: refined}
  given_up: {final: failure, result: [draft, refined]}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("machines").mkdir()
    Path("machines/note.yaml").write_text(NOTE, encoding="utf-8")
    Path("data.yaml").write_text(DATA.replace("LIMITS", ""), encoding="utf-8")
    Path("parent.yaml").write_text(PARENT, encoding="utf-8")
    Path("two_notes.yaml").write_text(TWO_NOTES, encoding="utf-8")


def say(*replies: Any) -> Any:
    """A function that gives the replies one after the other, and raises those that are errors."""
    left = list(replies)

    def said(prompt: str, messages: list[dict[str, str]]) -> Any:
        assert messages[-1] == {"role": "user", "content": prompt}
        reply = left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return said


def test_the_examples_of_the_page_run_and_print_what_they_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    logger = logging.getLogger("loopkit")
    before = [*logger.handlers]
    try:
        for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(example, names)
    finally:
        # The page sets logs up, as programs do that go on with them.
        for handler in {*logger.handlers} - {*before}:
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(logging.NOTSET)
    assert capsys.readouterr().out.splitlines() == [
        "accepted Decided: we ship on Monday.",
        "waiting ['accept', 'reject']",
        "given_up False",
        "write → check",
        "check → write",
        "write → check",
        "check → accepted",
    ]


def test_data_of_a_function_is_judged_and_sent_back_like_a_models() -> None:
    result = run("data.yaml", agents={"planner": say({"steps": ["a"]}, {"steps": ["a", "b"]})})
    assert (result.outcome, result.success) == ("done", True)
    assert result.result == {"steps": {"steps": ["a", "b"]}}
    assert result.usage.agent_calls == 2


async def test_an_async_function_plays_an_agent_in_the_loop_of_its_caller() -> None:
    loops = []

    async def planner(_prompt: str, _messages: list[dict[str, str]]) -> dict[str, list[str]]:
        loops.append(asyncio.get_running_loop())
        return {"steps": ["a", "b"]}

    assert (await arun("data.yaml", agents={"planner": planner})).outcome == "done"
    assert loops == [asyncio.get_running_loop()]


async def test_run_works_where_an_event_loop_runs_already() -> None:
    result = run("data.yaml", agents={"planner": say({"steps": ["a", "b"]})})
    assert result.outcome == "done"


def test_a_server_that_is_not_there_is_tried_again_and_other_errors_suspend() -> None:
    replies = say(ConnectionError("gone"), {"steps": ["a", "b"]})
    assert run("data.yaml", agents={"planner": replies}).outcome == "done"
    stopped = run("data.yaml", agents={"planner": say(KeyError("steps"))})
    assert stopped.status == "suspended"
    assert stopped.suspended is not None
    assert "agent `planner` raised KeyError: 'steps'" in stopped.suspended.message
    # The next process goes on with it, and only what failed is asked again.
    gone_on = resume(stopped.run, agents={"planner": say({"steps": ["a", "b"]})})
    assert (gone_on.run, gone_on.outcome) == (stopped.run, "done")


def test_a_function_that_has_nothing_more_to_say_suspends_as_others_that_fail() -> None:
    replies = iter([{"steps": ["a"]}])
    stopped = run("data.yaml", agents={"planner": lambda *_: next(replies)})
    assert stopped.suspended is not None
    assert "agent `planner` raised RuntimeError: the function raised StopIteration" in (
        stopped.suspended.message
    )
    assert resume(stopped.run, agents={"planner": say({"steps": ["a", "b"]})}).outcome == "done"


def test_a_probability_that_a_plan_can_not_use_is_told() -> None:
    with pytest.raises(NotDetermined, match="there is no state `nowhere`"):
        plan("data.yaml", assume={"nowhere.valid": Fraction("0.5")})


@pytest.mark.parametrize(("said", "kind"), [({1, 2}, "set"), (None, "None")])
def test_what_is_neither_text_nor_data_suspends_with_its_type(said: Any, kind: str) -> None:
    stopped = run("data.yaml", agents={"planner": say(said)})
    assert stopped.suspended is not None
    assert f"agent `planner` returned {kind}, neither text nor data" in stopped.suspended.message


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_data_that_is_nested_too_deep_for_json_suspends_the_run() -> None:
    stopped = run("data.yaml", agents={"planner": say(nested(100_000))})
    assert stopped.suspended is not None
    assert "agent `planner` returned list, neither text nor data" in stopped.suspended.message


def test_a_run_in_memory_writes_nothing() -> None:
    result = run("data.yaml", agents={"planner": say({"steps": ["a", "b"]})}, state=None)
    assert result.outcome == "done"
    assert not Path(".loopkit").exists()


async def test_the_events_of_children_are_not_among_those_of_their_parent() -> None:
    functions = {"planner": say({"steps": ["a", "b"]})}
    told = [event.type async for event in start("parent.yaml", agents=functions)]
    assert told == [
        *("started", "entered", "child_started", "child_ended"),
        *("worked", "decided", "entered", "finished"),
    ]  # fmt: skip


async def test_the_end_tells_which_artifacts_of_the_result_were_never_written() -> None:
    functions = {"planner": say(ValueError("no"))}
    *_, end = [event async for event in start("two_notes.yaml", agents=functions)]
    assert isinstance(end, Finished)
    assert (end.outcome, end.result, end.absent) == (
        "given_up",
        {"draft": "A draft."},
        ("refined",),
    )


async def test_whoever_stops_listening_stops_the_run_which_can_be_resumed() -> None:
    hangs = asyncio.Event()

    async def planner(_prompt: str, _messages: list[dict[str, str]]) -> str:
        await hangs.wait()
        return ""

    events = start("data.yaml", agents={"planner": planner})
    seen = []
    async for event in events:
        seen.append(event)
        if event.type == "intended":
            break
    async with asyncio.timeout(20):
        await events.aclose()
    assert [event.type for event in seen] == ["started", "entered", "intended"]
    run_id = seen[0].run
    gone_on = resume(run_id, agents={"planner": say({"steps": ["a", "b"]})})
    assert gone_on.status in ("waiting", "finished")


def test_an_unsound_machine_is_refused_with_all_its_problems() -> None:
    text = NOTE.replace("target: given_up", "target: nowhere").replace("revise: write", "revise: x")
    Path("bad.yaml").write_text(text, encoding="utf-8")
    machine = load("bad.yaml")
    for _ in range(2):
        with pytest.raises(ProblemsFound) as refused:
            run(machine, {"topic": "x"})
        assert len(refused.value.problems) == 2
    told = check("bad.yaml")
    assert {problem.code for problem in refused.value.problems} <= {p.code for p in told}
    assert check(load("machines/note.yaml")) == []


def test_a_machine_that_is_loaded_once_and_run_often_is_checked_once() -> None:
    def calls_in_checks() -> int:
        with Profile() as profile:
            for _ in range(3):
                assert run(
                    machine, agents={"planner": say({"steps": ["a", "b"]})}, state=None
                ).success
        codes = [entry.code for entry in profile.getstats()]
        return sum(not isinstance(code, str) and CHECKS in code.co_filename for code in codes)

    machine = load("data.yaml")
    first, later = calls_in_checks(), calls_in_checks()
    # Those of another run only ask whether the machine is known.
    assert later < 3
    assert first > 50


def test_a_machine_whose_form_is_wrong_is_checked_without_raising() -> None:
    Path("bad.yaml").write_text("loopkit: 1\nstates: 3\n", encoding="utf-8")
    assert [problem.span is not None for problem in check("bad.yaml")] == [True]
    with pytest.raises(ProblemsFound):
        run("bad.yaml")


def test_an_input_that_the_machine_does_not_take_is_refused_with_all_faults() -> None:
    with pytest.raises(InvalidInput) as refused:
        run("machines/note.yaml", {"tpic": "x"})
    assert [fault.message for fault in refused.value.faults] == [
        "input `topic` is missing",
        "unknown input `tpic`; did you mean `topic`?",
    ]
    assert not Path(".loopkit").exists()


@pytest.mark.parametrize(
    ("value", "why"),
    [(b"x", "bytes"), ({"a": {1}}, "set"), (10**5000, "digits"), (nested(100_000), "recursion")],
    ids=["bytes", "set", "digits", "deep"],
)
def test_what_no_journal_can_hold_is_refused_as_an_input_and_in_a_form(
    value: Any, why: str
) -> None:
    text = "loopkit: 1\ninput: {what: {type: any, default: none}}\nstates:\n  ask: "
    text += "{human: 'So, {{ input.what }}?', choices: yes, form: {what: any}, next: done}\n"
    Path("any.yaml").write_text(text + "  done: {final: success}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=f"the input is not JSON data: .*{why}"):
        run("any.yaml", {"what": value})
    asked = run("any.yaml", {"what": {2: (3,)}})
    assert asked.question is not None
    assert asked.question.text == 'So, {"2": [3]}?'
    with pytest.raises(AnswerRefused, match=f"the form is not JSON data: .*{why}"):
        answer(asked.run, "yes", form={"what": value})
    assert answer(asked.run, "yes", form={"what": 1}).outcome == "done"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"limits": {"agent_cals": 5}}, "`agent_cals` can't be raised; did you mean `agent_calls`"),
        ({"limits": {"revisions": 5}}, "no revise edge of the machine goes by `limits.revisions`"),
        ({"limits": {"agent_calls": "many"}}, "`many` is not a value for `limits.agent_calls`"),
        ({"limits": {"cost_usd": float("nan")}}, "`nan` is not a value for `limits.cost_usd`"),
        ({"prices": {"writer": -1}}, "`--price writer=-1` is not a price"),
    ],
)
def test_a_resume_with_what_no_run_can_have_is_refused(said: dict[str, Any], told: str) -> None:
    stuck = run("machines/note.yaml", {"topic": "x"}, agents={"writer": lambda *_: "No."})
    with pytest.raises(NotRunnable, match=re.escape(told)):
        resume(stuck.run, **said)
    assert answer(stuck.run, "reject").outcome == "given_up"


def test_an_input_whose_name_is_no_text_is_unknown() -> None:
    with pytest.raises(InvalidInput, match="unknown input `1`"):
        run("machines/note.yaml", dict(enumerate(["x"], 1)))


def test_a_function_for_an_agent_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotRunnable, match="no agent `planer`; did you mean `planner`"):
        run("data.yaml", agents={"planer": say()})


def test_what_is_no_function_and_no_mapping_is_refused_before_a_run_is_stored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong: Any = "Decided."
    with pytest.raises(NotRunnable, match="a function has to play agent `planner`, not str"):
        run("data.yaml", agents={"planner": wrong})
    with pytest.raises(InvalidInput, match="the input has to be a mapping, not str"):
        run("machines/note.yaml", wrong)
    assert invoke(["runs", "ls"]) == 0
    assert "no runs" in "".join(capsys.readouterr())


@pytest.mark.parametrize("limit", ["cost_usd: 1", "tokens: 100000"])
def test_a_limit_on_what_a_function_spends_can_not_be_kept_and_is_refused(limit: str) -> None:
    Path("data.yaml").write_text(DATA.replace("LIMITS", f"limits: {{{limit}}}"), encoding="utf-8")
    with pytest.raises(NotRunnable, match=f"`limits.{limit.partition(':')[0]}` can't be kept"):
        run("data.yaml", agents={"planner": say()})


def test_answers_and_runs_that_do_not_fit_are_refused_with_the_reason() -> None:
    waiting = run("machines/note.yaml", {"topic": "x"}, agents={"writer": say("a", "b", "c")})
    with pytest.raises(AnswerRefused, match="there is no choice `acept`"):
        answer(waiting.run, "acept")
    assert answer(waiting.run, "accept").result == {"note": "c"}
    assert answer(waiting.run, "accept").result == {"note": "c"}
    with pytest.raises(NotRunnable, match="has already finished: accepted"):
        answer(waiting.run, "reject")
    with pytest.raises(NotRunnable, match="has already finished: accepted"):
        resume(waiting.run)
    with pytest.raises(JournalError, match="there is no run `x`"):
        resume("x")


def test_an_answer_typed_twice_is_taken_for_the_question_that_it_names() -> None:
    machine = NOTE.replace(
        "{target: given_up}\n  accepted",
        "{revise: write, max: 3, feedback: No.}\n      - {target: given_up}\n  accepted",
    )
    Path("again.yaml").write_text(machine, encoding="utf-8")
    agents = {"writer": lambda prompt, messages: "No idea."}
    first = run("again.yaml", {"topic": "x"}, agents=agents)
    assert first.question is not None
    second = answer(first.run, "reject", question=first.question.question, agents=agents)
    assert second.question is not None
    with pytest.raises(AnswerRefused, match="this is a new one; name it with `question=` to"):
        answer(first.run, "reject", agents=agents)
    named = first.question.question
    same = answer(first.run, "reject", question=named, agents=agents)
    assert same.question == second.question
    with pytest.raises(AnswerRefused, match="question `ask:1` is no longer open; `ask:2` is"):
        answer(first.run, "accept", question=named, agents=agents)
    third = answer(first.run, "reject", question=second.question.question, agents=agents)
    assert third.question is not None
    assert third.question.question == "ask:3"


def test_a_plan_takes_what_is_known_of_the_input_and_asks_nobody() -> None:
    planned = plan("machines/note.yaml", assume=dict.fromkeys(HALF, Fraction(1, 2)))
    assert planned.bounds.runs.worst.total == 3
    assert not Path(".loopkit").exists()


def test_importing_loopkit_loads_nothing_before_a_name_is_asked_for() -> None:
    code = "import sys, loopkit; print({'pydantic', 'jinja2', 'asyncio'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "set()\n"


def test_every_name_that_a_module_exports_is_there() -> None:
    files = (path.relative_to(ROOT) for path in (ROOT / "loopkit").rglob("*.py"))
    names = (".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files)
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    exported = [(module, name) for module in modules for name in getattr(module, "__all__", ())]
    assert {module.__name__ for module, _ in exported} >= {"loopkit", "loopkit.testing"}
    assert [f"{m.__name__}.{name}" for m, name in exported if not hasattr(m, name)] == []


async def test_an_app_is_closed_behind_the_work_that_it_was_opened_for(tmp_path: Path) -> None:
    journal = open_journal(None)
    with pytest.raises(UnknownRun):
        async with App(journal, folder=tmp_path) as app:
            await app.events("nobody")
    with pytest.raises(JournalError, match="in memory is closed"):
        await journal.has("nobody")
