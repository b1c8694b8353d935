"""Models that attack: whatever they call, and whatever comes of it, the conversation holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.port import Reply
from loopkit.drive.active import ActiveRun
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import Intended, Replied
from tests.support import Desk, Played, scenario
from tests.tool_talks import Model, Talks, calls, refuse_orphans

MACHINE = """
loopkit: 1
limits: {revisions: 0}
agents:
  planner:
    model: openai/gpt-5-mini
    tools:
      check: {by: [form]}
      print: {command: [printf, "%s", "{{ word }}"], input: {word: str}, on_in_doubt: retry}
      echo: {command: [cat], stdin: "{{ word }}", input: {word: str}, on_in_doubt: retry}
      data: {command: [cat], stdin: "{{ data }}", input: {data: any}, on_in_doubt: retry}
      shell:
        {command: [sh], stdin: "{{ code }}", input: {code: str}, timeout: 2s, on_in_doubt: retry}
    require_tool: check
states:
  plan: {agent: planner, prompt: Plan it., on_error: {content: failed}, next: judge}
  judge:
    validate: plan
    by: [form]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
validators:
  form: [{matches: good, message: It is not good.}]
"""
ENDS = (calls(("check", {"draft": "good"})), Reply("good"))


def attacked(tmp_path: Path, *replies: Reply, machine: str = MACHINE) -> tuple[Played, Model]:
    """A run whose model says this, and then comes to its senses."""
    model = Model(iter([*replies, *ENDS]))
    went = Talks(tmp_path, {"planner": model}).start(machine)
    for sent in model.sent:
        refuse_orphans(sent)
    return went, model


def given(went: Played) -> list[str]:
    """What the tools gave, call by call."""
    keys = {event.key for event in went.of(Intended) if event.role == "tool"}
    return [event.text for event in went.of(Replied) if event.key in keys]


def stored_bytes(folder: Path) -> bytes:
    return b"".join(
        path.read_bytes() for path in (folder / ".loopkit").rglob("*") if path.is_file()
    )


def test_of_a_great_many_calls_only_those_allowed_are_made_and_few_are_kept(tmp_path: Path) -> None:
    went, model = attacked(tmp_path, calls(*[("echo", {"word": "x"})] * 10_000))
    assert went.state.usage.tool_calls == 8
    assert went.outcome == "failed"
    assert len(model.sent[1]) == 1 + 1 + 8 + 20
    assert len(stored_bytes(tmp_path)) < 1_000_000


def test_calls_that_are_too_long_together_neither_end_the_run_nor_fill_the_journal(
    tmp_path: Path,
) -> None:
    long = json.dumps({"word": "\x01" * 200_000})
    went, _ = attacked(tmp_path, calls(*[("echo", long)] * 6))
    assert went.outcome == "done"
    assert [text.startswith("Error") for text in given(went)] == [False, True, False]
    assert len(stored_bytes(tmp_path)) < 10_000_000


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("print", r'{"word": "a\u0000b"}', "embedded null byte"),
        ("print", json.dumps({"word": "x" * 200_000}), "longer than the system accepts"),
        ("data", '{"data": ' + "[" * 100 + "]" * 100 + "}", "nested more than 64 levels deep"),
        ("data", '{"data": ' + "[" * 100_000 + "]" * 100_000 + "}", "the arguments are not JSON"),
        ("data", '{"data": ' + "9" * 5_000 + "}", "the arguments are not JSON"),
        ("data", '{"data": NaN}', "NaN is not a JSON number"),
        ("check", "x" * 5_000_000, "the arguments are not JSON"),
        ("check", json.dumps({"draft": "x" * 5_000_000}), "the arguments are not JSON"),
    ],
    ids=[
        "a NUL", "too long", "deep", "very deep", "a huge number",
        "no number", "no JSON", "a huge draft",
    ],
)  # fmt: skip
def test_arguments_that_nothing_can_take_are_told_to_the_model(
    tmp_path: Path, name: str, arguments: str, told: str
) -> None:
    went, model = attacked(tmp_path, calls((name, arguments)))
    assert went.outcome == "done"
    assert given(went)[0].startswith("Error: ")
    assert told in given(went)[0]
    assert model.sent[1][-1].content == given(went)[0]


def test_half_a_surrogate_pair_in_arguments_is_told_to_the_model(tmp_path: Path) -> None:
    went, _ = attacked(tmp_path, calls(("print", r'{"word": "a\ud800b"}')))
    assert given(went)[0].startswith("Error: the arguments are not JSON: a text in it has half a")


def test_a_draft_nested_too_deep_for_its_schema_is_told_to_the_model(tmp_path: Path) -> None:
    schema = "model: openai/gpt-5-mini\n    schema: {a: any}"
    machine = MACHINE.replace("model: openai/gpt-5-mini", schema)
    machine = machine.replace("{matches: good,", "{require: a == 1,")
    deep = '{"draft": ' + '{"a": ' * 100 + "1" + "}" * 100 + "}"
    good = [calls(("check", {"draft": {"a": 1}})), Reply('{"a": 1}')]
    went, _ = attacked(tmp_path, calls(("check", deep)), *good, machine=machine)
    assert went.outcome == "done"
    assert "nested" in given(went)[0]


def test_odd_names_are_answered_and_sent_back_as_providers_take_them(tmp_path: Path) -> None:
    names = ["", "\x1b[2J\x07", "x" * 100_000, "a\0b", "functions.echo", "\ud800", "a\nb"]
    went, model = attacked(tmp_path, calls(*[(name, {}) for name in names]))
    assert went.outcome == "done"
    told = ["_", "__2J_", "x" * 64, "a_b", "functions_echo", "_", "a_b"]
    assert [call.name for call in model.sent[1][1].tool_calls] == told
    for name, text in zip(told, given(went), strict=False):
        assert text.startswith(f"Error: there is no tool `{name}`; there are `check`, ")


def test_a_secret_in_the_name_of_a_tool_or_at_the_cut_of_an_output_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "very-secret-0123456789"
    monkeypatch.setenv("SOME_API_KEY", secret)
    around = "x" * (10_000 - len(secret) // 2)
    went, model = attacked(
        tmp_path,
        calls((secret, {"word": secret}), ("echo", {"word": secret})),
        # Written by the program itself, so that nobody has taken it out before.
        calls(("shell", {"code": f"printf %s {around}; printf very-; printf 'secret-0123456789'; "
                                 f"printf %s {around}{around}"})),
    )  # fmt: skip
    assert went.outcome == "done"
    assert b"very-" + b"secret-0" not in stored_bytes(tmp_path)
    assert "_SOME_API_KEY_" in given(went)[0]
    assert "[SOME_API_KEY]" in given(went)[1]
    assert "characters left out" in given(went)[2]
    assert "very-secret" not in given(went)[2]
    assert not any(secret in message.content for sent in model.sent for message in sent)


def test_a_program_that_will_not_end_is_killed_and_the_model_told(tmp_path: Path) -> None:
    went, _ = attacked(tmp_path, calls(("shell", {"code": "trap '' TERM; sleep 60"})))
    assert went.outcome == "done"
    assert given(went)[0] == "It was ended after 2 s."


def test_a_program_that_removes_its_workspace_finds_a_new_one(tmp_path: Path) -> None:
    machine = MACHINE.replace("loopkit: 1\n", "loopkit: 1\nworkspace: {path: work, create: true}\n")
    went, _ = attacked(
        tmp_path,
        calls(("shell", {"code": 'rmdir "$PWD"'}), ("shell", {"code": "pwd"})),
        machine=machine,
    )
    assert went.outcome == "done"
    assert str(tmp_path / "work") in given(went)[1]


def test_after_ctrl_c_no_further_tool_is_called_and_a_resume_calls_it_once(tmp_path: Path) -> None:
    def stop(active: ActiveRun, stored: Stored) -> None:
        if isinstance(stored.event, Intended) and stored.event.agent == "planner.shell":
            active.stop()

    write = [("shell", {"code": f"echo {word} >> notes"}) for word in ("one", "two", "three")]
    model = Model(iter([calls(*write), *ENDS]))
    stopped = Talks(tmp_path, {"planner": model}, stop).start(MACHINE)
    assert stopped.state.suspended is not None
    assert stopped.state.suspended.reason == "interrupted"
    assert (tmp_path / "notes").read_text() == "one\n"
    went = Talks(tmp_path, {"planner": model}).resume(stopped.state.run)
    assert went.outcome == "done"
    assert (tmp_path / "notes").read_text() == "one\ntwo\nthree\n"
    assert len(model.sent) == 3


@pytest.mark.parametrize("limit", ["agent_calls: 2", "tool_calls: 1", "tokens: 25"])
def test_a_limit_reached_in_the_middle_stops_there_and_a_resume_goes_on(
    tmp_path: Path, limit: str
) -> None:
    def played(folder: Path, limits: str, raised: dict[str, Any]) -> tuple[list[Any], Played]:
        folder.mkdir()
        model = Model(iter([calls(("echo", {"word": "a"}), ("echo", {"word": "b"})), *ENDS]))
        talks = Talks(folder, {"planner": model})
        went = talks.start(MACHINE.replace("{revisions: 0}", limits))
        if raised:
            assert went.state.status == "suspended"
            went = talks.resume(went.state.run, raised)
        return model.sent, went

    name = limit.partition(":")[0]
    sent, went = played(tmp_path / "limited", f"{{revisions: 0, {limit}}}", {name: 100})
    unharmed, _ = played(tmp_path / "free", "{revisions: 0}", {})
    assert went.outcome == "done"
    assert sent == unharmed
    assert went.state.usage.tool_calls == 3


PARENT = """
loopkit: 1
input: {tasks: [{id: str}]}
limits: {tool_calls: 12}
states:
  tasks: {each: input.tasks, as: task, key: task.id, max_items: 4, parallel: 4, machine: child.yaml,
          next: done}
  done: {final: success, result: tasks}
"""


def test_children_that_call_tools_at_the_same_time_keep_their_talks_apart(desk: Desk) -> None:
    desk.write("child.yaml", MACHINE)
    talk = [
        {"tool_calls": [{"name": "echo", "input": {"word": word}} for word in ("a", "b")]},
        {"tool_calls": [{"name": "check", "input": {"draft": "good"}}]},
        {"reply": "good"},
    ]
    tasks = [{"id": f"t{number}"} for number in range(4)]
    script = scenario(children={"tasks": {"*": {"agents": {"planner": [talk]}}}})
    went = desk.play(PARENT, script, {"tasks": tasks})
    assert went.outcome == "done"
    assert [one["outcome"] for one in went.result["tasks"].values()] == ["done"] * 4
    assert went.state.usage.tool_calls == 12


def calls_of_python(folder: Path, rounds: int) -> int:
    """How many calls of functions a conversation of so many rounds takes."""
    folder.mkdir()
    model = Model(iter([*[calls(("check", {"draft": "bad"}))] * rounds, *ENDS]))
    machine = MACHINE.replace("require_tool: check", "require_tool: check\n    max_tool_calls: 500")
    made = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    went = Talks(folder, {"planner": model}).start(machine)
    sys.setprofile(None)
    assert went.state.usage.tool_calls == rounds + 1
    return made


def test_twice_the_rounds_cost_twice_and_what_is_sent_again_besides(tmp_path: Path) -> None:
    """A round is sent with all before it, which is little work; anything that reads all of a run
    in each of its calls makes it four times as much."""
    calls_of_python(tmp_path / "warm", 1)
    few, many = (calls_of_python(tmp_path / str(rounds), rounds) for rounds in (40, 80))
    assert many < 2.8 * few, (few, many)
