"""A person says which states have to fix what was found, and the run goes on from that."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from loopkit.app import App
from loopkit.drive.answers import AnswerRefused
from loopkit.engine.events import Decided, Worked
from loopkit.engine.payloads import Considered, HumanAnswer
from tests.support import Desk, Played, scenario
from tests.test_origins import PHASES, told

ESCALATING = PHASES.replace("max: 2}", "max: 1}")
DESIGNS = ["NO API 1", "NO API 2", "S3"]


def waiting(durable: Desk, designs: list[str] = DESIGNS, text: str = ESCALATING) -> Played:
    """A run whose design has failed as often as it may."""
    agents = {"planner": ["P1", "P2", "P3"], "designer": designs, "coder": ["ok"]}
    run = durable.play(text, scenario(agents=agents))
    assert run.state.state == "escalated"
    return run


def finding(run: Played, number: int = 0) -> str:
    assert run.state.last_report is not None
    return run.state.last_report.findings[number].id


def answered(durable: Desk, run: Played, **said: Any) -> Played:
    said = {"comment": "So", **said}
    return durable.answer(run.state.run, said.pop("choice", "send_back"), **said)


def post(durable: Desk, run: Played, answer: HumanAnswer, question: str | None = None) -> bool:
    """Leave an answer for whoever drives the run next."""

    async def posted() -> bool:
        async with App.open(durable.state_folder) as app:
            return await app.post(run.state.run, answer, question)

    return asyncio.run(posted())


def seq(durable: Desk, run: Played) -> int:
    """How many events are stored of a run."""

    async def read() -> int:
        async with App.open(durable.state_folder) as app:
            return len(await app.events(run.state.run))

    return asyncio.run(read())


def test_a_finding_goes_to_the_state_that_a_person_names(durable: Desk) -> None:
    run = waiting(durable)
    done = answered(durable, run, origins={finding(run): ("planning",)})
    assert told(done)[-1] == ("planning", "So: An interface is missing.")
    assert done.outcome == "done"
    assert done.route[6:10] == ["escalated", "planning", "check_plan", "design"]


def test_it_may_go_to_several_states_and_each_is_told(durable: Desk) -> None:
    run = waiting(durable)
    done = answered(durable, run, origins={finding(run): ("design", "planning")})
    assert [to for to, _ in told(done)[-2:]] == ["planning", "design"]


@pytest.mark.parametrize("length", [4, 7, 12])
def test_the_beginning_of_its_id_names_a_finding(durable: Desk, length: int) -> None:
    run = waiting(durable)
    done = answered(durable, run, origins={finding(run)[:length]: ("planning",)})
    assert done.route[7] == "planning"


def test_its_code_names_a_finding(durable: Desk) -> None:
    text = ESCALATING.replace("{not_matches: NO API,", "{not_matches: NO API, code: api,")
    done = answered(durable, waiting(durable, text=text), origins={"api": ("planning",)})
    assert done.route[7] == "planning"


@pytest.mark.parametrize(
    ("origins", "why"),
    [
        ({"feed": ("planning",)}, "the last report has no finding `feed`; allowed: "),
        ({"": ("planning",)}, "the last report has no finding ``; allowed: "),
        ({"FIRST": ("plannin",)}, "can come from `plannin`; did you mean `planning`?"),
        ({"FIRST": ("code",)}, "nothing in `spec` by `design` can come from `code`; allowed: "),
    ],
)
def test_what_is_no_finding_or_can_be_nobodys_is_refused(
    durable: Desk, origins: dict[str, tuple[str, ...]], why: str
) -> None:
    run = waiting(durable)
    said = {finding(run) if name == "FIRST" else name: to for name, to in origins.items()}
    with pytest.raises(AnswerRefused, match=re.escape(why)):
        answered(durable, run, origins=said)
    assert seq(durable, run) == len(run.stored)


def test_a_name_of_several_findings_is_refused_with_their_ids(durable: Desk) -> None:
    text = ESCALATING.replace("{not_matches: NO API,", "{not_matches: NO API, code: gap,")
    text = text.replace("{not_matches: BOTH,", "{not_matches: BOTH, code: gap,")
    designs = ["NO API BOTH 1", "NO API 2 BOTH"]
    text = text.replace("origin: [design, planning], ", "")
    run = waiting(durable, designs, text)
    with pytest.raises(AnswerRefused, match="`gap` names several findings: `") as refused:
        answered(durable, run, origins={"gap": ("planning",)})
    assert finding(run)[:4] in str(refused.value)


def test_without_origins_there_is_nothing_to_reclassify(durable: Desk) -> None:
    text = """
        loopkit: 1
        agents: {writer: {model: some/model}}
        states:
          draft: {agent: writer, prompt: Write., next: check}
          check: {validate: draft, by: [{min_chars: 3}], next: ask}
          ask: {human: And now?, choices: [stop], next: done}
          done: {final: success}
    """
    run = durable.play(text, scenario(agents={"writer": ["A"]}))
    with pytest.raises(AnswerRefused, match="the machine declares no `origins`"):
        post(durable, run, HumanAnswer(choice="stop", origins={"abcd": ("draft",)}))


def test_choices_are_worked_out_anew_after_a_reclassification(durable: Desk) -> None:
    text = ESCALATING.replace("origin: [planning, design, code]", "origin: [planning]")
    run = waiting(durable, text=text)
    assert run.state.question is not None
    assert run.state.question.choices[0].closed == (
        "what is found goes back to `design`, not to `planning`"
    )
    with pytest.raises(AnswerRefused, match="goes back to `design`"):
        answered(durable, run)
    done = answered(durable, run, origins={finding(run): ("planning",)})
    assert done.route[7] == "planning"


def test_a_reclassification_may_close_the_choice_that_was_open(durable: Desk) -> None:
    text = ESCALATING.replace("origin: [planning, design, code]", "origin: [design]")
    run = waiting(durable, text=text)
    with pytest.raises(AnswerRefused, match="goes back to `planning`, not to `design`"):
        answered(durable, run, origins={finding(run): ("planning",)})


def test_the_record_says_who_decided_what_why_and_about_what(durable: Desk) -> None:
    run = waiting(durable)
    done = answered(durable, run, origins={finding(run): ("planning",)}, by="Ada")
    work = next(event for event in done.of(Worked) if event.answer)
    assert work.answer is not None
    assert (work.answer.by, work.answer.choice, work.answer.comment) == ("Ada", "send_back", "So")
    assert work.considered == Considered(
        state="review",
        artifact="spec",
        attempt=2,
        verdict="fail",
        findings={"high": 1},
        blocking=1,
        origins={finding(run): ("planning",)},
        origin="planning",
    )


def test_the_fold_of_the_stored_events_is_the_run_as_it_went_on(durable: Desk) -> None:
    run = waiting(durable)
    done = answered(durable, run, choice="stop", origins={finding(run): ("planning",)})
    again = done.folded
    assert again == done.state
    assert again.last_report is not None
    assert (again.last_report.origin, again.last_report.findings[0].origins) == (
        "planning",
        ("planning",),
    )
    assert again.reports["review"] == again.last_report


def test_what_waited_for_a_state_does_not_reach_it_once_it_is_anothers(durable: Desk) -> None:
    text = PHASES.replace("prompt: Plan.,", "prompt: Plan., on_error: escalated,")
    broken = {"fault": "bad_request"}
    agents = {
        "planner": ["P1", [broken], "P3"],
        "designer": ["NO PLAN NO API", "S2"],
        "coder": ["ok"],
    }
    run = durable.play(text, scenario(agents=agents))
    assert (run.state.state, list(run.state.deferred)) == ("escalated", ["design"])
    assert run.state.last_report is not None
    gap = next(f.id for f in run.state.last_report.findings if f.origins == ("design",))
    done = answered(durable, run, origins={gap: ("planning",)})
    assert "An interface is missing." in told(done)[-1][1]
    assert [to for to, _ in told(done)] == ["planning", "planning"]
    assert "An interface is missing." not in done.prompts("designer")[1]


BREAKING = PHASES.replace("prompt: Plan.,", "prompt: Plan., on_error: escalated,")
BROKEN = {"fault": "bad_request"}


def untold(durable: Desk, designs: list[str], plans: list[Any], text: str = BREAKING) -> Played:
    """A run that waits because the planner could not be asked when it was told of defects."""
    agents = {"planner": ["P1", [BROKEN], *plans], "designer": designs, "coder": ["ok"]}
    run = durable.play(text, scenario(agents=agents))
    assert (run.state.state, list(run.state.pending)) == ("escalated", ["planning"])
    return run


def of_origin(run: Played, *origins: str) -> list[str]:
    """The ids of what was found last for these states."""
    assert run.state.last_report is not None
    return [f.id for f in run.state.last_report.findings if f.origins == origins]


def test_a_state_that_was_told_and_could_not_work_is_not_told_again_of_what_is_anothers(
    durable: Desk,
) -> None:
    run = untold(durable, ["NO PLAN", "BOTH", "S3"], ["P3"])
    [gap] = of_origin(run, "planning")
    done = answered(durable, run, origins={gap: ("design",)})
    assert told(done)[1] == ("design", "So: A unit is missing.")
    assert "They differ." in done.prompts("planner")[2]
    assert "A unit is missing." not in done.prompts("planner")[2]
    assert (done.outcome, done.folded) == ("done", done.state)


ODD = BREAKING.replace("origin: planning, severity: low", "origin: planning, severity: high")


def test_such_a_state_is_told_anew_of_what_is_left_to_it(durable: Desk) -> None:
    run = untold(durable, ["NO PLAN nit", "S2"], ["P3"], ODD)
    gap, _ = of_origin(run, "planning")
    done = answered(durable, run, origins={gap: ("design",)})
    assert told(done)[1:] == [
        ("planning", "So: A name is odd."),
        ("design", "So: A unit is missing."),
    ]
    assert done.prompts("planner")[2].endswith("\n\nSo: A name is odd.")
    assert (done.outcome, done.folded) == ("done", done.state)


@pytest.mark.parametrize("is_repaired", [False, True])
def test_what_is_left_is_told_in_the_words_of_its_edge_beside_those_of_a_person(
    durable: Desk, is_repaired: bool
) -> None:
    run = untold(durable, ["NO PLAN nit", "S2"], ["P3"], ODD)
    if is_repaired:
        first = "- {guard: valid, target: code}\n"
        more = first + "      - {guard: error_count > 9, target: failed}\n"
        run = durable.repair(run.state.run, ODD.replace(first, more))
    gap, _ = of_origin(run, "planning")
    done = answered(durable, run, choice="plan_again", origins={gap: ("design",)})
    assert told(done)[1:3] == [
        ("planning", "So"),
        ("planning", "Round 1 of 2: A name is odd."),
    ]
    assert (done.outcome, done.folded) == ("done", done.state)


def test_the_words_of_a_person_wait_though_what_was_found_goes_to_others(durable: Desk) -> None:
    agents = {
        "planner": ["P1", "P2", [BROKEN], "P4"],
        "designer": ["NO PLAN", "NO PLAN", "BOTH", "S"],
        "coder": ["ok"],
    }
    again = BREAKING.replace("max: 2}", "max: 1}").replace(
        '{{ comment }}", max: 1', '{{ comment }}", max: 2'
    )
    answers = {"escalated": [{"choice": "plan_again", "comment": "Shorter."}]}
    run = durable.play(again, scenario(agents=agents, answers=answers))
    [gap] = of_origin(run, "planning")
    asked = answered(durable, run, origins={gap: ("design",)})
    done = answered(durable, asked, choice="plan_again", comment="Now.")
    assert done.prompts("planner")[3].endswith("\n\nShorter.\n\nNow.")
    assert done.outcome == "done"


def test_what_is_mended_meanwhile_is_told_no_more_to_a_state_that_could_not_work(
    durable: Desk,
) -> None:
    text = BREAKING.replace("Design {{ plan }}.", "Design {{ plan | default }}.")
    text = text.replace("plan_again, stop]", "plan_again, design_again, stop]").replace(
        '      - {guard: choice == "plan_again"',
        '      - {guard: choice == "design_again", revise: design, feedback: So., max: 1}\n'
        '      - {guard: choice == "plan_again"',
    )
    run = untold(durable, ["BOTH", "NO PLAN", "S3"], ["P3"], text)
    done = answered(durable, run, choice="design_again")
    assert "A unit is missing." in done.prompts("planner")[2]
    assert "They differ." not in done.prompts("planner")[2]
    assert (done.outcome, done.folded) == ("done", done.state)


def test_what_was_found_in_a_version_that_is_given_up_is_told_no_more(durable: Desk) -> None:
    text = FROM_BEST.replace("text}, max: 1", "text}, max: 2").replace(
        "agent: writer,", "agent: writer, on_error: ask,"
    )
    agents = {"planner": ["P"], "writer": ["A", "A B", [BROKEN], "fine"]}
    run = durable.play(text, scenario(agents=agents))
    assert (run.state.state, list(run.state.pending)) == ("ask", ["text"])
    done = durable.answer(run.state.run, "back")
    prompt = done.prompts("writer")[3]
    assert (prompt.count("No A."), prompt.count("No B.")) == (1, 0)
    assert (done.outcome, done.folded) == ("done", done.state)


SHARED = """
loopkit: 1
origins: [planning, design, code]
limits: {total_revisions: 6}
agents: {planner: {model: some/planner}, designer: {model: some/designer}, coder: {model: some/c}}
validators: {words: [{not_matches: GAP, message: A word is left out.}]}
states:
  planning:
    agent: planner
    prompt: Plan.
    output: plan
    on_error: {fatal: code, content: failed}
    next: design
  design: {agent: designer, prompt: Design., output: spec, next: review}
  review:
    validate: spec
    by: [words, {not_matches: NO PLAN, origin: planning, message: A unit is missing.}]
    transitions:
      - {guard: valid, target: code}
      - {revise: {origin: [planning, design]}, max: 2}
      - {target: ask}
  code: {agent: coder, prompt: "Code {{ spec | default }}.", output: source, next: test}
  test: {validate: source, by: [words], transitions: [{guard: valid, target: done}, {target: ask}]}
  ask:
    human: What now?
    choices: [back, stop]
    transitions:
      - {guard: choice == "back", revise: {origin: [planning, design, code]}, max: 1}
      - {target: failed}
  done: {final: success}
  failed: {final: failure}
"""


def test_what_another_state_has_found_in_other_work_stays_whose_it_was(durable: Desk) -> None:
    agents = {
        "planner": ["P1", [BROKEN], "P3"],
        "designer": ["NO PLAN GAP", "S2"],
        "coder": ["GAP", "ok"],
    }
    run = durable.play(SHARED, scenario(agents=agents))
    # Both have the same id, because the same validator has found them.
    assert run.state.deferred["design"][0].findings == (finding(run),)
    done = durable.answer(run.state.run, "back", origins={finding(run): ("planning",)})
    assert [to for to, _ in told(done)] == ["planning", "planning", "design"]
    assert "A word is left out." in told(done)[2][1]
    assert (done.outcome, done.folded) == ("done", done.state)


def test_a_scenario_reclassifies_and_its_run_can_be_recorded(durable: Desk) -> None:
    run = waiting(durable)
    answer = {"choice": "send_back", "comment": "So", "origins": {finding(run)[:6]: "planning"}}
    agents = {"planner": ["P1", "P2"], "designer": DESIGNS, "coder": ["ok"]}
    played = durable.play(ESCALATING, scenario(agents=agents, answers={"escalated": [answer]}))
    assert played.route[7] == "planning"
    assert played.outcome == "done"


def test_the_same_answer_twice_counts_once_and_another_one_is_refused(durable: Desk) -> None:
    run = waiting(durable)
    said = HumanAnswer(choice="send_back", comment="So", origins={finding(run): ("planning",)})
    post(durable, run, said)
    post(durable, run, said)
    with pytest.raises(AnswerRefused, match="person has answered it with `send_back`"):
        post(durable, run, said.replace(origins={finding(run): ("design",)}))
    done = durable.resume(run.state.run)
    assert len([event for event in done.of(Worked) if event.answer]) == 1
    assert done.outcome == "done"


def test_an_answer_to_an_earlier_question_reclassifies_nothing(durable: Desk) -> None:
    run = waiting(durable, ["NO API 1", "NO API 2", "NO API 3"])
    assert run.state.question is not None
    stale = run.state.question.question
    asked = answered(durable, run)
    said = HumanAnswer(choice="stop", origins={finding(run): ("planning",)})
    with pytest.raises(AnswerRefused, match=f"question `{stale}` is no longer open"):
        post(durable, run, said, stale)
    assert asked.state.last_report is not None
    assert asked.state.last_report.origin == "design"


# -- a greater total ---------------------------------------------------------------------------

TIGHT = PHASES.replace("total_revisions: 6", "total_revisions: 1")


def test_a_closed_choice_says_what_opens_it_and_an_answer_may_bring_that_along(
    durable: Desk,
) -> None:
    run = waiting(durable, text=TIGHT)
    assert run.state.question is not None
    told_closed = (
        "the one revision of the run is used up; `--set limits.total_revisions=2` opens it"
    )
    assert [choice.closed for choice in run.state.question.choices] == [told_closed] * 2 + [""]
    with pytest.raises(AnswerRefused, match="is used up"):
        answered(durable, run)
    done = answered(durable, run, limits={"total_revisions": 2})
    assert done.route[7] == "design"
    assert (done.outcome, done.state.limits) == ("done", {"total_revisions": 2})
    assert done.folded == done.state


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"total_revisions": 1}, "`limits.total_revisions` is 1 now, and an answer can only raise"),
        ({"cost_usd": 5.0}, "can raise `limits.revisions`, `limits.total_revisions` only, not"),
    ],
)
def test_only_limits_on_revisions_can_be_raised_with_an_answer(
    durable: Desk, limits: dict[str, Any], why: str
) -> None:
    run = waiting(durable, text=TIGHT)
    with pytest.raises(AnswerRefused, match=why):
        answered(durable, run, limits=limits)


def test_decisions_name_the_origin_that_the_person_gave(durable: Desk) -> None:
    run = waiting(durable)
    done = answered(durable, run, origins={finding(run): ("planning",)})
    edges = [event.edge for event in done.of(Decided) if event.source == "escalated"]
    assert edges == ["escalated[0].planning"]


def test_what_a_person_gives_to_a_later_state_waits_for_it(durable: Desk) -> None:
    run = waiting(durable, ["NO PLAN NO API", "NO PLAN NO API 2", "S3"])
    gap, interface = finding(run), finding(run, 1)
    given = {gap: ("design",), interface: ("planning",)}
    done = answered(durable, run, origins=given)
    assert told(done)[-2:] == [
        ("planning", "So: An interface is missing."),
        ("design", "So: A unit is missing."),
    ]
    assert done.outcome == "done"


FROM_BEST = """
loopkit: 1
origins: [plan, text]
limits: {total_revisions: 6}
agents: {planner: {model: some/planner}, writer: {model: some/writer}}
states:
  plan: {agent: planner, prompt: Plan., on_error: {content: failed}, next: text}
  text: {agent: writer, prompt: "Write {{ plan }}.", next: check}
  check:
    validate: text
    by:
      - {not_matches: X, message: No X., origin: plan}
      - {not_matches: A, message: No A.}
      - {not_matches: B, message: No B.}
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: text}, max: 1}
      - {target: ask}
  ask:
    human: What now?
    choices: [back, stop]
    transitions:
      - {guard: choice == "back", revise: {origin: [plan, text]}, from: best, max: 1}
      - {target: failed}
  done: {final: success, result: text}
  failed: {final: failure}
"""


def test_the_best_version_is_looked_for_among_those_that_are_the_states_by_what_a_person_says(
    durable: Desk,
) -> None:
    agents = {"planner": ["P"], "writer": ["A B", "X", "fine"]}
    run = durable.play(FROM_BEST, scenario(agents=agents))
    done = durable.answer(run.state.run, "back", origins={finding(run): ("text",)})
    prompt = done.prompts("writer")[2]
    assert prompt.startswith("Write P.\n\nYour previous version:\n\n```\nX\n```")
    assert "Fix this problem:\n\n- No X. (line 1)\n" in prompt
    assert done.outcome == "done"
