"""What an author remembers: fresh and kept sessions, in the messages of each call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.engine.events import Decided, Failed
from loopkit.views.run_text import fresh_session_lines
from loopkit.views.steps import Steps
from tests.machines import loop
from tests.recording import assert_same, taped
from tests.support import (
    PASS,
    Desk,
    Played,
    console_lines,
    fails,
    listed,
    previous,
    scenario,
    sound,
)
from tests.test_bounds import explored

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


LOST = [{"fault": "context_too_long"}, {"fault": "session_lost"}]
WHOLE = ["You plan.", f"Write.\n\n{previous('p2')}\n\nB"]


def losing(*attempts: Any) -> str:
    return scenario(agents={"author": list(attempts), "critic": [*map(fails, "ABC"), PASS]})


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize("session", ["keep", "{keep: 1}", "{keep: all, if_lost: fresh}"])
def test_a_lost_session_is_begun_anew_with_the_whole_prompt(
    desk: Desk, session: str, fault: dict[str, str]
) -> None:
    """And goes on from there; no revision is spent on it."""
    machine = MACHINE.replace("SESSION", session).replace("attempts: 2", "attempts: 1")
    played = desk.play(machine, losing("p1", "p2", [fault, "p3"], "p4"))
    assert (played.outcome, played.state.usage.agent_calls) == ("accepted", 9)
    assert conversations(played)[3:] == [WHOLE, [*WHOLE, "p3", "C"]]
    assert sum(bool(decided.spends) for decided in played.of(Decided)) == 3
    [failed] = played.of(Failed)
    assert failed.begins_anew == WHOLE[1]
    assert f"{failed.message} · the next call begins a fresh session" in "\n".join(
        console_lines(played)
    )
    why = f"fresh session of author at draft, visit 3: {failed.message}"
    assert list(fresh_session_lines(Steps().after(played.stored))) == [why]
    assert_same(taped(desk, played), played)
    # The plan of the machine knows of it: here, each of five attempts has one try.
    known = sound(desk.folder / "machine.yaml").machine
    assert explored(known).calls.worst.by_agent["author"] == 2 * 5


@pytest.mark.parametrize("fault", LOST)
def test_a_fresh_session_that_fails_is_not_begun_again(desk: Desk, fault: dict[str, str]) -> None:
    played = desk.play(MACHINE.replace("SESSION", "keep"), losing("p1", [fault, fault]))
    assert [bool(failed.begins_anew) for failed in played.of(Failed)] == [True, False]
    assert played.state.status == "suspended"


@pytest.mark.parametrize(
    ("session", "calls", "most", "reason"),
    [
        ("keep", [LOST[0], "p3"], 5, "limit"),
        # No more calls are made than the plan of the machine says.
        ("keep", [{"fault": "timeout"}, LOST[0], "p3"], 20, "fatal"),
        ("{if_lost: fail}", [LOST[0], "p3"], 20, "fatal"),
    ],
)
def test_a_run_that_stops_after_a_loss_goes_on_with_a_fresh_session(
    durable: Desk, session: str, calls: list[Any], most: int, reason: str
) -> None:
    machine, script = MACHINE.replace("SESSION", session), losing("p1", "p2", calls, "p4")
    stopped = durable.play(machine, script, limits={"agent_calls": most})
    assert (stopped.state.suspended or pytest.fail("it goes on")).reason == reason
    played = durable.resume(stopped.state.run, limits={"agent_calls": 30})
    assert conversations(played) == [WHOLE, [*WHOLE, "p3", "C"]]


def test_what_tools_gave_is_not_asked_for_again_in_a_fresh_session(desk: Desk) -> None:
    tool = "tools: {look: {command: [sh, -c, 'echo x >> looks; wc -l < looks'], input: {}}}"
    machine = MACHINE.replace("SESSION", f"{{keep: 1}}\n    {tool}")
    look = {"tool_calls": [{"name": "look"}]}
    played = desk.play(machine, losing("p1", "p2", [look, LOST[0], "p3"], "p4"))
    assert played.outcome == "accepted"
    [*_, lost, again, last] = conversations(played)
    assert again == [*WHOLE, "", lost[-1]]
    assert last == [*again, "p3", "C"]
    assert (desk.folder / "looks").read_text(encoding="utf-8") == "x\n"


FORGETFUL = loop(
    "[{matches: green, message: Not green.}]",
    {"valid": "accepted", "cap_reached": "refused"},
    "{revise: draft, max: 3}",
    top="""
agents:
  author:
    command: [sh, -c, 'cat >> sent; echo "/$#" >> sent; . ./said.sh', sh]
    resume: ["{{ session }}"]
    reply: stream_json
    session: keep
    retry: {attempts: 2, backoff: 1ms}
    errors: ERRORS
""",
)
GONE = '[ $# = 0 ] || { echo "No conversation found" >&2; exit 1; }\n'


def answer(text: str, **parts: Any) -> str:
    record = {"type": "result", "result": text, "session_id": "s-1", **parts}
    return f"echo '{json.dumps(record)}'\n"


@pytest.mark.parametrize(
    ("gone", "errors", "resumed"),
    [
        (GONE, "[]", 1),
        (GONE, "[{stderr: No, class: content}]", 1),
        # It may be over at the next try with the session.
        (GONE, "[{exit: 1, class: transient}]", 2),
        (f"[ $# = 0 ] || {{ {answer('Gone.', is_error=True)} exit; }}\n", "[]", 1),
        ("[ $# = 0 ] || { echo not json; exit; }\n", "[]", 1),
        ("printf '\\357\\273\\277'\n" + GONE, "[]", 1),
    ],
)
def test_a_program_that_has_forgotten_its_session_gets_everything_anew(
    desk: Desk, gone: str, errors: str, resumed: int
) -> None:
    """Whatever its `errors` say; and no revision is spent on it."""
    tells = 'if [ "$(grep -c / sent)" -gt 1 ]; then\n' + answer("Tea is green.") + "else\n"
    desk.write("said.sh", f"{gone}{tells}{answer('Tea.')}fi\n")
    played = desk.play(FORGETFUL.replace("ERRORS", errors))
    sent = (desk.folder / "sent").read_text(encoding="utf-8").split("/")
    assert [each[:1] for each in sent[1:]] == ["0", *"1" * resumed, "0"]
    assert played.outcome == "accepted"
    assert sent[1 + resumed][2:].startswith(f"Write.\n\n{previous('Tea.')}\n\n")
    assert sum(bool(decided.spends) for decided in played.of(Decided)) == 1
    assert_same(taped(desk, played), played)
    known = sound(desk.folder / "machine.yaml").machine
    assert explored(known).calls.worst.by_agent["author"] == (2 + 1) * 4
