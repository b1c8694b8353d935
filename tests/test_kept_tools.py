"""Kept sessions of agents with tools: turns are kept and left out together with their calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.agents.port import AgentError, Message, Reply
from tests.tool_talks import Model, Talks, calls, refuse_orphans

MACHINE = """
loopkit: 1
limits: {revisions: 4}
agents:
  planner:
    model: openai/gpt-5-mini
    session: SESSION
    tools:
      check: {by: [form]}
      note: {command: [sh, -c, 'echo "$0" >> notes', "{{ word }}"], input: {word: str}}
    require_tool: check
states:
  plan: {agent: planner, prompt: Plan it., next: judge}
  judge:
    validate: plan
    by: [form, last]
    transitions:
      - {guard: valid, target: done}
      - {revise: plan, feedback: "revision {{ revision }}"}
      - {target: failed}
  done: {final: success, result: plan}
  failed: {final: failure}
validators:
  form: [{matches: ^Plan, message: It is not a plan.}]
  last: [{matches: Plan LAST, message: It is not the last one.}]
"""


def turn(number: int) -> list[Reply]:
    """An attempt of three rounds, with a call of a program and a draft that is not valid."""
    draft = f"Plan {number}"
    return [
        calls(("note", {"word": str(number)}), ("check", {"draft": "?"}), text=f"I try {number}."),
        calls(("check", {"draft": draft})),
        Reply(draft),
    ]


def in_words(messages: list[Message]) -> list[str]:
    """Each message in short; those of a turn that was sent before are equal."""
    return [f"{message.role}: {message.content[:24]}" for message in messages]


def of_turn(number: int) -> list[str]:
    """A turn as it is sent later, behind its prompt."""
    return [
        f"assistant: I try {number}.",
        "tool: It printed nothing.",
        'tool: {"ok": false, "diagnosti',
        "assistant: ",
        'tool: {"ok": true, "diagnostic',
        f"assistant: Plan {number}",
    ]


def played(folder: Path, session: str, turns: int = 3) -> Model:
    """What a model is sent in so many attempts, of which the last is valid."""
    folder.mkdir(exist_ok=True)
    model = Model(iter([reply for number in range(1, turns + 1) for reply in turn(number)]))
    machine = MACHINE.replace("SESSION", session).replace("LAST", str(turns))
    went = Talks(folder, {"planner": model}).start(machine)
    assert went.outcome == "done"
    assert went.state.usage.tool_calls == 3 * turns
    for sent in model.sent:
        refuse_orphans(sent)
    return model


def test_a_kept_session_has_every_turn_with_its_calls_and_what_they_gave(tmp_path: Path) -> None:
    model = played(tmp_path, "keep")
    assert in_words(model.sent[-1]) == [
        "user: Plan it.",
        *of_turn(1),
        "user: revision 1",
        *of_turn(2),
        "user: revision 2",
        *of_turn(3)[:-1],
    ]


@pytest.mark.parametrize("keep", [1, 2])
def test_of_a_session_that_is_trimmed_whole_turns_are_left_out(tmp_path: Path, keep: int) -> None:
    """The one that says what the task is stays, with its calls."""
    model = played(tmp_path, f"{{keep: {keep}}}", turns=5)
    kept = range(5 - keep, 5)
    between = [
        line for number in kept for line in (f"user: revision {number - 1}", *of_turn(number))
    ]
    first = ["user: Plan it.", *of_turn(1)]
    opening = [*first, *between, "user: revision 4"]
    assert in_words(model.sent[12]) == opening
    assert in_words(model.sent[14]) == [*opening, *of_turn(5)[:-1]]


def test_a_fresh_session_has_the_calls_of_its_own_attempt_alone(tmp_path: Path) -> None:
    model = played(tmp_path, "fresh")
    assert [len(sent) for sent in model.sent] == [1, 4, 6] * 3


@pytest.mark.parametrize("session", ["keep", "{keep: 1}"])
@pytest.mark.parametrize("stopped_at", range(1, 10))
def test_a_run_that_stops_in_any_round_sends_the_same_after_the_resume(
    tmp_path: Path, session: str, stopped_at: int
) -> None:
    unharmed = played(tmp_path / "unharmed", session).sent
    replies = [reply for number in (1, 2, 3) for reply in turn(number)]
    model = Model(iter(replies))
    folder = tmp_path / "stopped"
    folder.mkdir()
    machine = MACHINE.replace("SESSION", session).replace("LAST", "3")
    limits = f"{{revisions: 4, agent_calls: {stopped_at - 1}}}"
    talks = Talks(folder, {"planner": model})
    stopped = talks.start(machine.replace("{revisions: 4}", limits))
    assert stopped.state.status == "suspended"
    went = talks.resume(stopped.state.run, {"agent_calls": 100})
    assert went.outcome == "done"
    assert model.sent == unharmed
    assert (folder / "notes").read_text() == "1\n2\n3\n"


def test_a_ladder_climbs_between_turns_and_each_rung_is_sent_all_calls(tmp_path: Path) -> None:
    model = Model(iter([reply for number in (1, 2) for reply in turn(number)]))
    machine = MACHINE.replace("SESSION", "keep").replace("LAST", "2")
    machine = machine.replace("openai/gpt-5-mini", "[openai/gpt-5-mini, openai/gpt-5]")
    assert Talks(tmp_path, {"planner": model}).start(machine).outcome == "done"
    assert model.models == ["openai/gpt-5-mini"] * 3 + ["openai/gpt-5"] * 3
    assert in_words(model.sent[3]) == ["user: Plan it.", *of_turn(1), "user: revision 1"]


@pytest.mark.parametrize("lost_in", range(3))
def test_a_fallback_goes_on_with_the_conversation_where_it_stands(
    tmp_path: Path, lost_in: int
) -> None:
    """A turn later the agent itself is asked first again, and has the same before it."""
    gone = AgentError("transient", "503: no such region", unavailable=True)
    replies: list[Reply | AgentError] = [*turn(1), *turn(2)]
    replies.insert(lost_in, gone)
    model = Model(iter(replies))
    machine = MACHINE.replace("SESSION", "keep").replace("LAST", "2")
    machine = machine.replace("    session", "    fallbacks: [openai/gpt-4o]\n    session")
    went = Talks(tmp_path, {"planner": model}).start(machine)
    assert went.outcome == "done"
    own, other = "openai/gpt-5-mini", "openai/gpt-4o"
    assert model.models == [own] * (lost_in + 1) + [other] * (3 - lost_in) + [own] * 3
    assert model.sent[lost_in] == model.sent[lost_in + 1]
    assert in_words(model.sent[-1])[:8] == ["user: Plan it.", *of_turn(1), "user: revision 1"]
    assert (tmp_path / "notes").read_text() == "1\n2\n"


def stopped_in_the_middle(folder: Path, rounds: int = 1) -> tuple[str, Talks, Model]:
    """A run that a limit stopped after so many rounds, and its model with nothing more to say."""
    model = Model(iter(turn(1)[:rounds]))
    talks = Talks(folder, {"planner": model})
    machine = MACHINE.replace("SESSION", "keep").replace("LAST", "1")
    limits = f"{{revisions: 4, agent_calls: {rounds}}}"
    stopped = talks.start(machine.replace("{revisions: 4}", limits))
    assert stopped.state.status == "suspended"
    return stopped.state.run, talks, model


def repaired(old: str = "", new: str = "") -> str:
    machine = MACHINE.replace("SESSION", "keep").replace("LAST", "1")
    assert old in machine
    return machine.replace(old, new) if old else machine


TOOLS = MACHINE[MACHINE.index("    tools:") : MACHINE.index("states:")]


def test_a_run_repaired_in_the_middle_goes_on_without_the_tools_that_are_gone(
    tmp_path: Path,
) -> None:
    """What was called before the repair is not lost, and no call of it made again."""
    run, talks, model = stopped_in_the_middle(tmp_path)
    model.replies = iter([Reply("Plan 1")])
    went = talks.resume(run, mended=repaired(TOOLS, ""))
    assert went.outcome == "done"
    refuse_orphans(model.sent[-1])
    assert in_words(model.sent[-1]) == ["user: Plan it.", *of_turn(1)[:3]]
    assert (tmp_path / "notes").read_text() == "1\n"


def test_a_run_repaired_in_the_middle_knows_no_tool_by_its_old_name(tmp_path: Path) -> None:
    run, talks, model = stopped_in_the_middle(tmp_path)
    model.replies = iter([calls(("note", {"word": "2"}), ("write", {"word": "3"})), *turn(1)[1:]])
    went = talks.resume(run, mended=repaired("note:", "write:"))
    assert went.outcome == "done"
    for sent in model.sent:
        refuse_orphans(sent)
    assert "there is no tool `note`" in model.sent[-1][5].content
    assert (tmp_path / "notes").read_text() == "1\n3\n"


def test_a_tool_that_a_repair_removes_is_not_called_though_its_call_was_stored(
    tmp_path: Path,
) -> None:
    """The limit on calls of tools stopped the run before the call."""
    model = Model(iter(turn(1)[:1]))
    talks = Talks(tmp_path, {"planner": model})
    machine = repaired("{revisions: 4}", "{revisions: 4, tool_calls: 1}")
    stopped = talks.start(machine)
    assert stopped.state.status == "suspended"
    model.replies = iter([Reply("Plan 1")])
    went = talks.resume(stopped.state.run, {"tool_calls": 9}, repaired(TOOLS, ""))
    assert went.outcome == "done"
    assert "there is no tool `check`" in model.sent[-1][3].content
    refuse_orphans(model.sent[-1])


def test_what_a_repair_demands_holds_for_the_answer_of_a_conversation_under_way(
    tmp_path: Path,
) -> None:
    """`require_tool` is added; calls that were made before count."""
    model = Model(iter(turn(1)[:1]))
    talks = Talks(tmp_path, {"planner": model})
    free = repaired("    require_tool: check\n", "")
    stopped = talks.start(free.replace("{revisions: 4}", "{revisions: 4, agent_calls: 1}"))
    model.replies = iter([Reply("Plan 1"), *turn(1)[1:]])
    went = talks.resume(stopped.state.run, {"agent_calls": 9}, repaired())
    assert went.outcome == "done"
    assert "`check` found errors in the last draft" in model.sent[2][-1].content
    assert went.state.attempts["plan"] == 1


def test_a_program_put_in_place_of_a_model_that_was_calling_tools_is_asked_anew(
    tmp_path: Path,
) -> None:
    run, _, _ = stopped_in_the_middle(tmp_path)
    agent = MACHINE[MACHINE.index("    model:") : MACHINE.index("states:")]
    program = "    command: [printf, 'Plan 1']\n"
    mended = repaired(agent.replace("SESSION", "keep"), program)
    went = Talks(tmp_path, {}).resume(run, mended=mended)
    assert went.outcome == "done"
    assert went.prompts("planner")[-1] == "Plan it."


def suspending(session: str) -> str:
    """An answer that was not validated suspends the run."""
    machine = MACHINE.replace("SESSION", session).replace("LAST", "1")
    machine = machine.replace("    require_tool", "    reask: 0\n    require_tool")
    caught = "on_error: {content: {revise: plan, feedback: Again., max: 0}}"
    return machine.replace(", next: judge}", f", {caught}, next: judge}}")


@pytest.mark.parametrize("session", ["fresh", "keep"])
def test_an_answer_that_was_not_validated_is_not_taken_by_a_resume(
    tmp_path: Path, session: str
) -> None:
    """It fits in every other way; the attempt starts anew, and in a kept session goes on."""
    model = Model(iter([*turn(1)[:1], Reply("Plan 1")]))
    talks = Talks(tmp_path, {"planner": model})
    stopped = talks.start(suspending(session))
    assert stopped.state.suspended.reason == "content"
    model.replies = iter(turn(1))
    went = talks.resume(stopped.state.run)
    assert went.outcome == "done"
    assert went.state.usage.tool_calls == 2 + 3
    for sent in model.sent:
        refuse_orphans(sent)
    before = ["user: Plan it.", *of_turn(1)[:3], "assistant: Plan 1"] if session == "keep" else []
    assert in_words(model.sent[2]) == [*before, "user: Plan it."]
    assert in_words(model.sent[-1]) == [*before, "user: Plan it.", *of_turn(1)[:-1]]


def test_an_answer_of_which_a_repair_no_longer_demands_that_is_not_paid_again(
    tmp_path: Path,
) -> None:
    model = Model(iter([*turn(1)[:1], Reply("Plan 1")]))
    talks = Talks(tmp_path, {"planner": model})
    stopped = talks.start(suspending("keep"))
    mended = suspending("keep").replace("    require_tool: check\n", "")
    assert talks.resume(stopped.state.run, mended=mended).outcome == "done"
    assert len(model.sent) == 2
