"""Runs that are repaired: they go on with another definition, and no paid reply is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.document.problems import ProblemsFound
from loopkit.drive.inbox import Posting
from loopkit.drive.repair import Mend, overspent
from loopkit.engine.events import (
    Baselined,
    InDoubt,
    Intended,
    Refused,
    Repaired,
    Replied,
    Suspended,
    Waiting,
)
from loopkit.engine.payloads import HumanAnswer
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.language.load import load
from loopkit.testing import load_suite, run_case
from tests.machines import loop
from tests.recording import taped
from tests.support import PASS, Desk, Played, fails, scenario

LOOP = loop(
    "[{min_chars: 20}]",
    {"valid": "accepted", "cap_reached": "exhausted"},
    "{revise: draft}",
    top="""
limits: {revisions: 2}
agents: {author: {command: [none], retry: {attempts: 1}}}
""",
    result="plan",
)
LONG = "A plan of more than twenty characters."
LOST = {"fault": "bad_request", "message": "no such model"}


@pytest.fixture(autouse=True)
def desk(desk: Desk) -> Desk:
    """A desk whose runs another process finds again."""
    desk.in_memory = False
    return desk


def judged(by: str, top: str) -> str:
    """A machine in which a text is judged once."""
    return loop(by, {"valid": "done"}, "{target: failed}", top=top)


def author(*replies: Any) -> str:
    return scenario(agents={"author": list(replies)})


def refusal(desk: Desk, run: Played, machine: str) -> list[tuple[str, str]]:
    """The places and the messages with which another machine is refused; nothing is stored."""
    before = len(run.stored)
    with pytest.raises(ProblemsFound) as refused:
        desk.repair(run.state.run, machine)
    stored = [s.event for s in asyncio.run(events(desk, run.state.run))]
    # Only the claim came on top.
    assert [event.type for event in stored[before:]] == ["claimed"]
    assert {problem.code for problem in refused.value.problems} == {"does-not-fit"}
    assert all(problem.span for problem in refused.value.problems)
    return [(problem.path, problem.message) for problem in refused.value.problems]


async def events(desk: Desk, run: str) -> Any:
    async with App.open(desk.state_folder) as app:
        return await app.events(run)


def paid(run: Played) -> int:
    return len(run.of(Replied))


# -- what is mended ------------------------------------------------------------------------


def test_a_better_prompt_is_what_the_agent_gets_from_then_on(desk: Desk) -> None:
    run = desk.play(LOOP, author("one", [LOST, LONG]))
    assert run.state.status == "suspended"
    mended = desk.repair(
        run.state.run, LOOP.replace("prompt: Write.", "prompt: Write a long plan.")
    )
    assert mended.outcome == "accepted"
    assert mended.prompts("author")[-1].endswith("Write a long plan.")
    assert paid(mended) == 2
    [repaired] = mended.of(Repaired)
    changes = [(change.place, change.before, change.after) for change in repaired.changes]
    assert changes == [("states.draft.prompt", "Write.", "Write a long plan.")]
    assert mended.state.definition == repaired.definition


def test_a_transition_above_those_taken_moves_what_they_have_spent(desk: Desk) -> None:
    run = desk.play(LOOP, author("one", "two", [LOST, "three"], "four"))
    assert run.state.counters == {"revisions:draft": 2}
    first = "      - {guard: attempt > 9, target: exhausted}\n"
    machine = LOOP.replace("      - {guard: valid", f"{first}      - {{guard: valid")
    mended = desk.repair(run.state.run, machine)
    assert mended.state.counters == {"revisions:draft": 2}
    assert list(mended.state.route) == ["draft[0]", "judge[3]"] * 2 + ["draft[0]", "judge[2]"]
    [change] = mended.of(Repaired)[0].changes
    assert (change.place, change.before) == ("states.judge.transitions.0", "")
    # All its revisions were used before, and it has none more.
    assert mended.outcome == "exhausted"
    assert paid(mended) == 3


@pytest.mark.parametrize(
    ("limits", "edge", "counters"),
    [
        (
            "{revisions: 5, total_revisions: 3}",
            "{revise: draft}",
            {"revisions:draft": 3, "total": 3},
        ),
        ("{budgets: {b: 3}}", "{revise: draft, budget: b}", {"budget:b": 3}),
    ],
)
def test_a_total_or_budget_that_comes_with_it_has_spent_what_was_revised_before(
    desk: Desk, limits: str, edge: str, counters: dict[str, int]
) -> None:
    run = desk.play(LOOP, author("one", "two", [LOST, "three"], "four"))
    machine = LOOP.replace("{revisions: 2}", limits).replace("{revise: draft}", edge)
    mended = desk.repair(run.state.run, machine)
    assert mended.state.counters == counters
    assert mended.outcome == "exhausted"


SCHEMA = """
loopkit: 1
agents: {author: {command: [none], schema: {steps: {type: int}}}}
states:
  draft:
    agent: author
    prompt: Write.
    output: plan
    next: done
    on_error: {content: {revise: draft, feedback: Again., max: 0}}
  done: {final: success, result: plan}
"""


def test_a_reply_that_fits_the_mended_schema_is_not_paid_again(desk: Desk) -> None:
    run = desk.play(SCHEMA, author({"reply": '{"steps": ["a", "b"]}'}, {"reply": "never asked"}))
    assert run.state.suspended is not None
    assert run.state.suspended.reason == "content"
    mended = desk.repair(run.state.run, SCHEMA.replace("{type: int}", "[str]"))
    assert mended.result == {"plan": {"steps": ["a", "b"]}}
    assert paid(mended) == 1


def test_a_reply_that_the_mended_schema_does_not_take_either_is_asked_for_at_once(
    desk: Desk,
) -> None:
    replies = [[{"reply": '{"steps": ["a"]}'}, {"reply": '{"steps": true}'}]]
    run = desk.play(SCHEMA, author(*replies))
    mended = desk.repair(run.state.run, SCHEMA.replace("{type: int}", "bool"))
    assert mended.result == {"plan": {"steps": True}}
    assert paid(mended) == 2
    assert len(mended.of(Suspended)) == 1


EXITS = judged(
    "[quality, tests]",
    """
agents: {author: {command: [none]}, critic: {command: [none]}}
validators:
  tests: {command: [pytest], fail_codes: [1]}
  quality: {judge: critic, rubric: [It is good.]}
""",
)


def test_an_exit_code_that_was_missing_is_no_reason_to_ask_anybody_again(desk: Desk) -> None:
    script = scenario(
        agents={"author": ["one"], "critic": [PASS]},
        commands={"tests": [{"exit_code": 5}]},
    )
    run = desk.play(EXITS, script)
    assert run.state.suspended is not None
    assert "5" in run.state.suspended.message
    mended = desk.repair(run.state.run, EXITS.replace("[1]", "[1, 5]"))
    assert mended.outcome == "failed"
    assert [event.agent for event in mended.of(Intended)] == ["author"]


def test_a_repaired_run_is_recorded_with_the_stop_that_is_still_one(desk: Desk) -> None:
    run = desk.play(LOOP, author([LOST, "short"], LONG))
    machine = LOOP.replace("Write.", "Write well.")
    made = taped(desk, desk.repair(run.state.run, machine))
    assert not made.failure
    assert len(load_suite(made.path).case(made.case).resumes) == 1


def test_a_repaired_run_that_would_go_another_way_now_differs_from_its_replay(
    desk: Desk,
) -> None:
    """What was too short under the old definition is long enough under the new one."""
    run = desk.play(LOOP, author("short", [LOST, LONG]))
    mended = desk.repair(run.state.run, LOOP.replace("min_chars: 20", "min_chars: 2"))
    assert mended.outcome == "accepted"
    made = taped(desk, mended)
    assert "path was taken" in made.failure
    assert f"It does not pass: {made.failure}" in made.path.read_text()


PANEL = judged(
    "[quality]",
    """
agents: {author: {command: [none]}, critic: {command: [none], retry: {attempts: 1}}}
validators:
  quality:
    - {judge: critic, rubric: [It is good.]}
    - {judge: critic, rubric: [It is short.]}
""",
)


def test_answers_of_judges_follow_them_to_their_new_places_also_in_a_recording(desk: Desk) -> None:
    critic = [PASS, [LOST, PASS], PASS]
    run = desk.play(PANEL, scenario(agents={"author": ["one"], "critic": critic}))
    assert run.state.status == "suspended"
    assert paid(run) == 2
    above = "quality:\n    - {judge: critic, rubric: [It is new.]}\n"
    mended = desk.repair(run.state.run, PANEL.replace("quality:\n", above))
    assert mended.outcome == "done"
    asked = [prompt.partition("It is ")[2].split(".")[0] for prompt in mended.prompts("critic")]
    assert sorted(asked) == ["good", "new", "short", "short"]
    keys = [event.key for event in mended.of(Intended)]
    assert len(set(keys)) == len(keys)
    made = taped(desk, mended)
    assert run_case(load_suite(made.path), made.case).passed


def test_another_judge_does_not_take_the_answer_of_one_that_is_gone(desk: Desk) -> None:
    agents = {"author": ["one"], "critic": [PASS, [LOST, PASS]], "expert": [fails("It is bad.")]}
    machine = PANEL.replace("critic: {", "expert: {command: [none]}, critic: {", 1)
    run = desk.play(machine, scenario(agents=agents))
    assert run.state.status == "suspended"
    other = machine.replace("critic, rubric: [It is good.]", "expert, rubric: [It is good.]")
    mended = desk.repair(run.state.run, other)
    assert mended.outcome == "failed"
    assert mended.prompts("expert")


def test_an_input_that_comes_with_it_has_its_default(desk: Desk) -> None:
    run = desk.play(LOOP, author("one", [LOST, LONG]))
    machine = LOOP.replace("limits:", "input: {tone: {type: str, default: dry}}\nlimits:", 1)
    machine = machine.replace("prompt: Write.", 'prompt: "Write, {{ input.tone }}."')
    mended = desk.repair(run.state.run, machine)
    assert mended.prompts("author")[-1].endswith("Write, dry.")
    assert mended.state.input == {"tone": "dry"}


def test_a_limit_that_the_file_raises_holds_over_the_one_that_was_set(desk: Desk) -> None:
    machine = LOOP.replace("{revisions: 2}", "{revisions: 2, agent_calls: 9}")
    run = desk.play(machine, author("one", LONG), limits={"agent_calls": 1})
    assert run.state.suspended is not None
    assert run.state.suspended.reason == "limit"
    # What the file does not change stays as it was set.
    again = desk.repair(run.state.run, machine.replace("Write.", "Write more."))
    assert again.state.status == "suspended"
    mended = desk.repair(run.state.run, machine.replace("agent_calls: 9", "agent_calls: 8"))
    assert mended.outcome == "accepted"
    assert mended.state.limits == {}


def test_a_limit_set_with_it_goes_before_the_file_and_before_the_one_that_was_set(
    desk: Desk,
) -> None:
    machine = LOOP.replace("{revisions: 2}", "{revisions: 2, agent_calls: 9}")
    run = desk.play(machine, author("one", "two", LONG), limits={"agent_calls": 1})
    changed = machine.replace("agent_calls: 9", "agent_calls: 8")
    mended = desk.resume(run.state.run, {"agent_calls": 2}, mend_of(desk, changed))
    assert mended.state.status == "suspended"
    assert mended.state.limits == {"agent_calls": 2}


def mend_of(desk: Desk, machine: str) -> Mend:
    return Mend(load(desk.write("machine.yaml", machine)))


def test_a_run_is_repaired_as_often_as_it_takes(desk: Desk) -> None:
    run = desk.play(LOOP, author("one", [LOST, LOST, LOST, "two"], LONG))
    first = "      - {guard: attempt > 9, target: exhausted}\n"
    machine = LOOP
    for _ in range(3):
        machine = machine.replace("      - {guard: valid", f"{first}      - {{guard: valid", 1)
        run = desk.repair(run.state.run, machine)
    assert run.outcome == "accepted"
    assert run.state.counters == {"revisions:draft": 2}
    assert len(run.of(Repaired)) == 3


def test_the_same_machine_again_is_no_repair(desk: Desk) -> None:
    run = desk.play(LOOP, author("one", [LOST, LONG]))
    again = desk.repair(run.state.run, f"# a comment\n{LOOP}")
    assert again.outcome == "accepted"
    assert again.of(Repaired) == []
    assert again.state.definition == run.state.definition


# -- questions and doubts ------------------------------------------------------------------

ASKING = """
loopkit: 1
agents: {author: {command: [none], on_in_doubt: fail}}
states:
  draft:
    {agent: author, prompt: Write., output: plan, next: ask, on_error: {content: failed}}
  ask:
    human: Take it?
    choices: [yes, no]
    transitions: [{guard: choice == "yes", target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


def test_an_open_question_is_asked_anew(desk: Desk) -> None:
    run = desk.play(ASKING, author("one"))
    mended = desk.repair(
        run.state.run,
        ASKING.replace("Take it?", "Really?").replace("[yes, no]", "[yes, no, never]"),
    )
    assert mended.state.status == "waiting"
    first, second = mended.of(Waiting)
    assert (first.text, second.text) == ("Take it?", "Really?")
    assert first.question != second.question
    assert [choice.name for choice in second.choices] == ["yes", "no", "never"]
    assert desk.answer(run.state.run, "never").outcome == "failed"


def test_an_answer_to_the_question_before_does_not_count(desk: Desk) -> None:
    run = desk.play(ASKING, author("one"))
    question = run.questions[-1].question

    async def post() -> None:
        async with App.open(desk.state_folder) as app:
            data = Posting(question=question, answer=HumanAnswer(choice="yes")).to_json()
            await app.journal.post(run.state.run, "answer", "early", data, 1.0)

    asyncio.run(post())
    mended = desk.repair(run.state.run, ASKING.replace("Take it?", "Really?"))
    assert mended.state.status == "waiting"
    assert "is no longer open" in mended.of(Refused)[0].reason


def test_a_call_in_doubt_goes_by_the_definition_under_which_it_was_made(desk: Desk) -> None:
    run = desk.abort(ASKING, author("one", "two"))
    mended = desk.repair(run.state.run, ASKING.replace("on_in_doubt: fail", "on_in_doubt: retry"))
    assert [event.policy for event in mended.of(InDoubt)] == ["fail"]
    types = [event.type for event in mended.events]
    assert types.index("in_doubt") < types.index("repaired")
    assert mended.state.suspended is not None
    assert "is in doubt and is not made again" in mended.state.suspended.message


def test_a_person_who_is_asked_about_a_call_in_doubt_still_is(desk: Desk) -> None:
    machine = ASKING.replace(", on_in_doubt: fail", "")
    run = desk.abort(machine, author("one", "two"))
    asked = desk.resume(run.state.run)
    assert asked.state.question is not None
    assert asked.state.question.call is not None
    mended = desk.repair(run.state.run, machine.replace("Write.", "Write more."))
    assert mended.state.question == asked.state.question
    again = desk.answer(run.state.run, "retry")
    # The call is made again, as the machine asks for it now.
    assert again.prompts("author") == ["Write.", "Write more."]
    assert [question.text for question in again.questions][-1] == "Take it?"
    keys = [event.key for event in again.of(Intended)]
    assert len(set(keys)) == 2


BASELINE = judged(
    "[tests]",
    """
agents: {author: {command: [none]}}
validators: {tests: {command: [pytest], parse: lines, baseline: true}}
""",
)


def test_before_the_first_work_everything_is_taken_anew(desk: Desk) -> None:
    old = {"exit_code": 1, "stdout": "a.py:1: old"}
    commands = {"tests": [old, old], "more": [{**old, "exit_code": 9}, {"exit_code": 0}]}
    machine = BASELINE.replace(
        "baseline: true}}",
        "baseline: true}, more: {command: [more], parse: lines, baseline: true}}",
    ).replace("[tests]\n", "[tests, more]\n")
    run = desk.play(machine, scenario(agents={"author": ["one"]}, commands=commands))
    assert (run.state.state, run.state.status) == ("", "suspended")
    assert len(run.of(Baselined)) == 1
    # What the first program found was found by another command line.
    machine = machine.replace("[pytest]", "[pytest, -q]")
    mended = desk.repair(run.state.run, machine.replace("[more]", "[more], fail_codes: [1, 9]"))
    assert [event.validator for event in mended.of(Baselined)] == ["tests", "tests", "more"]
    assert mended.outcome == "done"


# -- what does not fit ---------------------------------------------------------------------


@pytest.fixture
def revised(desk: Desk) -> Played:
    """A run that has revised twice and stopped."""
    return desk.play(LOOP, author("one", "two", [LOST, LONG]))


def test_a_taken_transition_with_another_guard_is_refused(desk: Desk, revised: Played) -> None:
    machine = LOOP.replace("{revise: draft}", "{guard: attempt < 9, revise: draft}").replace(
        "target: exhausted}\n",
        "target: exhausted}\n      - {guard: attempt > 9, target: exhausted}\n",
    )
    [(place, message)] = refusal(desk, revised, machine)
    assert place == "states.judge.transitions"
    assert message == ("the run took `- {revise: draft}` out of `judge`, which no longer exists")


def test_a_taken_transition_with_another_target_is_refused(desk: Desk, revised: Played) -> None:
    machine = LOOP.replace("plan, next: judge}", "plan, next: middle}").replace(
        "  judge:\n", "  middle: {next: judge}\n  judge:\n"
    )
    [(place, message)] = refusal(desk, revised, machine)
    assert place == "states.draft.next"
    assert "`- {target: judge}` out of `draft`" in message


def test_a_state_that_was_visited_has_to_be_there(desk: Desk, revised: Played) -> None:
    machine = LOOP.replace("  judge:", "  check:").replace("next: judge", "next: check")
    told = refusal(desk, revised, machine)
    assert ("states", "the run has been in `judge`, which no longer exists") in told


def test_a_state_that_was_visited_keeps_its_kind(desk: Desk, revised: Played) -> None:
    machine = LOOP.replace("agent: author, prompt: Write.", "run: [make]")
    machine = machine.replace("agents: {author: {command: [none], retry: {attempts: 1}}}\n", "")
    told = refusal(desk, revised, machine)
    assert ("states.draft", "the run has been in `draft` as a state of the kind `agent`") in told
    assert ("agents", "the run has asked `author`, which no longer exists") in told


def test_an_artifact_keeps_its_name(desk: Desk, revised: Played) -> None:
    machine = LOOP.replace("output: plan", "output: text").replace(
        "validate: plan", "validate: text"
    )
    machine = machine.replace("result: plan", "result: text")
    machine = machine.replace("limits:", 'artifacts: {log: ""}\nlimits:', 1)
    assert refusal(desk, revised, machine) == [
        ("states.draft.output", "the run has `plan` from `draft`, which no longer writes it"),
        ("artifacts.log", "the run began without a first value of `log`"),
    ]


def test_an_input_that_is_required_and_missing_is_refused(desk: Desk, revised: Played) -> None:
    machine = LOOP.replace("limits:", "input: {tone: str}\nlimits:", 1)
    machine = machine.replace("prompt: Write.", 'prompt: "Write, {{ input.tone }}."')
    [(place, message)] = refusal(desk, revised, machine)
    assert place == "input.tone"
    assert message.startswith("input `tone` is missing")


@pytest.mark.parametrize(
    ("place", "limits", "edge", "told"),
    [
        ("limits.revisions", "{revisions: 1}", "{revise: draft}", "the cap is 1"),
        ("states.judge.transitions.2.max", "{}", "{revise: draft, max: 1}", "the cap is 1"),
        ("limits.total_revisions", "{total_revisions: 1}", "{revise: draft}", "the cap is 1"),
        (
            "limits.budgets.small",
            "{budgets: {small: 0}}",
            "{revise: draft, budget: small}",
            "the cap is 0",
        ),
        (
            "limits.agent_calls",
            "{agent_calls: 2}",
            "{revise: draft}",
            "`limits.agent_calls` can't be 2 in this run: 3 are already used",
        ),
    ],
)
def test_a_cap_below_what_was_spent_is_refused(
    desk: Desk, revised: Played, place: str, limits: str, edge: str, told: str
) -> None:
    machine = LOOP.replace("{revisions: 2}", limits).replace("{revise: draft}", edge)
    [(refused, message)] = refusal(desk, revised, machine)
    assert refused == place
    assert message.startswith(told)


def test_a_refused_repair_lets_go_of_the_run(desk: Desk, revised: Played) -> None:
    mend = mend_of(desk, LOOP.replace("{revisions: 2}", "{revisions: 1}"))

    async def twice() -> str | None:
        async with App.open(desk.state_folder) as app:
            with pytest.raises(ProblemsFound):
                await app.resume(revised.state.run, mend=mend)
            done = await app.drive(await app.resume(revised.state.run))
            return done.finished and done.finished.outcome

    assert asyncio.run(twice()) == "accepted"


def test_a_limit_below_what_was_spent_is_refused_without_a_file_too(
    desk: Desk, revised: Played
) -> None:
    with pytest.raises(NotRunnable, match="can't be 2 in this run: 3 are already used"):
        desk.resume(revised.state.run, {"agent_calls": 2})


def test_what_is_only_held_is_not_used() -> None:
    run = RunState(usage=Usage(tokens=100, held_tokens=60, cost_usd=0.3, held_usd=0.2))
    assert list(overspent(run, {"tokens": 50, "cost_usd": 0.2})) == []
    assert [name for name, _ in overspent(run, {"tokens": 30, "cost_usd": 0.05})] == [
        "tokens",
        "cost_usd",
    ]


CHOSEN = """
loopkit: 1
agents: {author: {command: [none]}}
states:
  ask: {human: Which?, choices: [big, small, none], next: draft}
  draft:
    {agent: author, prompt: Write., output: plan, next: route, on_error: {content: failed}}
  route:
    transitions:
      - {guard: ask.choice == "big", target: done}
      - {target: failed}
  done: {final: success}
  failed: {final: failure}
"""


def test_a_machine_in_which_the_run_could_get_stuck_is_refused(desk: Desk) -> None:
    script = scenario(agents={"author": [[LOST, "one"]]}, answers={"ask": ["none"]})
    run = desk.play(CHOSEN, script)
    # Sound for every run that starts with it, and not for one that was answered otherwise.
    machine = CHOSEN.replace(", none]", "]").replace(
        "- {target: failed}", '- {guard: ask.choice == "small", target: failed}'
    )
    [(place, message)] = refusal(desk, run, machine)
    assert place == "states.route.transitions"
    assert message.startswith("`route` would have no transition left")
    assert "a run gets there by draft → route" in message
    assert desk.repair(run.state.run, CHOSEN.replace("Write.", "Go.")).outcome == "failed"


def test_a_machine_without_somebody_whom_the_scenario_plays_is_refused(desk: Desk) -> None:
    commands = {"tests": [{"exit_code": 5}]}
    run = desk.play(EXITS, scenario(agents={"author": ["one"], "critic": []}, commands=commands))
    with pytest.raises(NotRunnable, match="the machine has no command `tests`"):
        desk.repair(run.state.run, EXITS.replace("tests", "checks"))
    assert desk.repair(run.state.run, EXITS.replace("[1]", "[1, 5]")).outcome == "failed"


FACTS = """
loopkit: 1
agents: {author: {command: [none], schema: {size: int}}, editor: {command: [none]}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: edit, on_error: {content: failed}}
  edit:
    {agent: editor, prompt: Edit., output: text, next: done, on_error: {content: failed}}
  done: {final: success}
  failed: {final: failure}
"""


def test_a_guard_that_reads_what_was_never_left_is_refused(desk: Desk) -> None:
    agents = {"author": [{"data": {"size": 3}}], "editor": [[LOST, "edited"]]}
    run = desk.play(FACTS, scenario(agents=agents))
    guarded = 'transitions: [{guard: draft.risk == "high", target: failed}, {target: done}]'
    machine = FACTS.replace("output: text, next: done", f"output: text, {guarded}")
    machine = machine.replace("{size: int}", "{size: int, risk: str}")
    # `next` is an unguarded transition, and so is the last one now.
    [(place, message)] = refusal(desk, run, machine)
    assert place == "states.edit.transitions.0.guard"
    assert message == (
        "the guard reads `draft.risk`, and `draft` left nothing of that name in this run"
    )
    # What was left and fits is read.
    read = guarded.replace('draft.risk == "high"', "draft.size > 2")
    mended = desk.repair(
        run.state.run, FACTS.replace("output: text, next: done", f"output: text, {read}")
    )
    assert mended.outcome == "failed"


def test_a_baseline_can_not_be_taken_any_more(desk: Desk) -> None:
    script = scenario(
        agents={"author": ["one"], "critic": [PASS]}, commands={"tests": [{"exit_code": 5}] * 2}
    )
    run = desk.play(EXITS, script)
    machine = EXITS.replace("fail_codes: [1]}", "fail_codes: [1, 5], parse: lines, baseline: true}")
    assert not run.of(Baselined)
    [(place, message)] = refusal(desk, run, machine)
    assert place == "validators.tests"
    assert "the run has begun" in message
