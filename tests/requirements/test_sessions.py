"""What an author remembers: fresh and kept sessions, in the messages of each call."""

from __future__ import annotations

from tests.machines import loop
from tests.support import (
    PASS,
    Desk,
    Played,
    fails,
    listed,
    previous,
    scenario,
)

MACHINE = loop(
    "[{judge: critic, reask: 1}]",
    {"valid": "accepted", "cap_reached": "refused"},
    '{revise: draft, feedback: "{{ findings[0].message }}"}',
    top="""
limits: {revisions: 4}
agents:
  author:
    model: some/model
    system: You plan.
    session: SESSION
    retry: {attempts: 2, backoff: 1ms}
  critic: {model: some/model}
""",
)
ROUNDS = scenario(agents={"author": ["p1", "p2", "p3", "p4"], "critic": [*map(fails, "ABC"), PASS]})


def conversations(played: Played, agent: str = "author") -> list[list[str]]:
    """The contents of all messages of each request."""
    return [[message.content for message in request.messages] for request in played.asked(agent)]


def test_a_kept_session_is_one_conversation(desk: Desk) -> None:
    played = desk.play(MACHINE.replace("SESSION", "keep"), ROUNDS)
    assert conversations(played)[3] == ["You plan.", "Write.", "p1", "A", "p2", "B", "p3", "C"]
    assert [message.role for message in played.asked("author")[3].messages] == [
        "system", "user", "assistant", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


def test_a_failed_try_leaves_no_turn_in_a_kept_session(desk: Desk) -> None:
    script = scenario(
        agents={"author": ["p1", [{"fault": "timeout"}, "p2"]], "critic": [fails("A"), PASS]}
    )
    played = desk.play(MACHINE.replace("SESSION", "keep"), script)
    assert conversations(played)[1:] == [["You plan.", "Write.", "p1", "A"]] * 2


def test_a_kept_session_goes_on_after_a_restart(durable: Desk) -> None:
    stopped = durable.play(MACHINE.replace("SESSION", "keep"), ROUNDS, limits={"agent_calls": 4})
    played = durable.resume(stopped.state.run, limits={"agent_calls": 20})
    assert conversations(played)[-1] == ["You plan.", "Write.", "p1", "A", "p2", "B", "p3", "C"]


def test_a_judge_remembers_nothing_but_its_own_misread_answer(desk: Desk) -> None:
    script = scenario(agents={"author": ["p1", "p2"], "critic": [["What?", fails("A")], PASS]})
    asked = conversations(desk.play(MACHINE.replace("SESSION", "keep"), script), "critic")
    assert [len(messages) for messages in asked] == [1, 3, 1]
    assert asked[1][1] == "What?"
    assert asked[1][2].startswith("Your answer could not be used: ")


def test_two_states_of_one_agent_have_a_session_each(desk: Desk) -> None:
    outline = (
        "outline: {agent: author, prompt: Outline., on_error: {content: refused}, next: draft}"
    )
    machine = MACHINE.replace("SESSION", "keep").replace("states:", f"states:\n  {outline}")
    script = scenario(agents={"author": ["o1", "p1", "p2"], "critic": [fails("A"), PASS]})
    assert conversations(desk.play(machine, script)) == [
        ["You plan.", "Outline."],
        ["You plan.", "Write."],
        ["You plan.", "Write.", "p1", "A"],
    ]


PROGRAM = loop(
    "[{min_chars: 20, message: Too short.}]",
    {"valid": "accepted", "cap_reached": "refused"},
    "{revise: draft}",
    top="""
agents:
  author: {command: [sh, -c, 'cat > "sent_$(ls | grep -c sent_)"; echo short'], session: keep}
""",
)


def test_a_program_that_names_no_session_gets_everything_each_time(desk: Desk) -> None:
    """What was said before is known to nobody; the feedback alone would mean nothing."""
    desk.play(PROGRAM)
    sent = [(desk.folder / f"sent_{n}").read_text(encoding="utf-8") for n in range(3)]
    assert sent[0] == "Write."
    assert all(text.startswith(f"Write.\n\n{previous('short')}\n\n") for text in sent[1:])
    assert [listed(text) for text in sent[1:]] == ["- Too short.", "- Too short. (not fixed yet)"]
