"""What a run typically costs: the calls on the shortest ways, with prompts of about their size."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from loopkit.language.load import load
from loopkit.language.machine import Machine
from loopkit.machine.program import Program
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import Sizes, Typically, plan_of
from tests.support import PASS, Desk, fails, scenario
from tests.warm import ran_loopkit

DOLLAR_A_TOKEN_IN = "{input: 1000000, output: 0}"
DOLLAR_A_TOKEN_OUT = "{input: 0, output: 1000000}"
MACHINE = """
loopkit: 1
input: {topic: str}
limits: {revisions: 3}
agents:
  writer:
    model: openai/ours
    price: PRICE
    params: {max_tokens: 5000}
    MORE
validators:
  form: {min_chars: 10}
states:
  draft: {agent: writer, prompt: "{{ input.topic }}", output: text, next: judge}
  judge:
    validate: text
    by: [form]
    transitions: [{guard: valid, target: done}, {revise: draft, previous: show}, {target: failed}]
  done: {final: success, result: text}
  failed: {final: failure}
"""


def machine(
    desk: Desk, text: str = MACHINE, price: str = DOLLAR_A_TOKEN_IN, more: str = ""
) -> Machine:
    written = text.replace("PRICE", price).replace("MORE", more)
    return load(desk.write("machine.yaml", written)).machine


def costs(
    made: Machine, inputs: dict[str, Any] | None = None, answer: int = 40
) -> list[float | None]:
    """After no revision, one, and so on; a prompt of 100 tokens unless others are given."""
    given = {"topic": "x" * 400} if inputs is None else inputs
    return [typical.usd for typical in plan_of(made, given, answer_tokens=answer).typical]


def test_a_fresh_session_sends_prompt_last_version_and_findings(desk: Desk) -> None:
    # An answer of 40 tokens, and findings of 10.
    assert costs(machine(desk)) == [100, 100 + 150, 100 + 2 * 150, 100 + 3 * 150]
    # By itself only a long version is sent.
    by_itself = machine(desk, MACHINE.replace(", previous: show", ""))
    assert costs(by_itself)[:2] == [100, 100 + 110]
    assert costs(by_itself, answer=600)[1] == 100 + 100 + 600 + 150


def test_a_kept_session_sends_all_that_was_said(desk: Desk) -> None:
    turns = [100, 10, 10, 10]
    sent = [sum(turns[: n + 1]) + 40 * n for n in range(4)]
    kept = costs(machine(desk, more="session: keep"))
    assert kept == [sum(sent[: n + 1]) for n in range(4)]


def test_a_session_that_keeps_some_turns_sends_the_task_and_these(desk: Desk) -> None:
    # The fourth prompt: the task, one turn before it, their answers, and the findings.
    few = costs(machine(desk, more="session: {keep: 1}"))
    assert (few[3] or 0) - (few[2] or 0) == 100 + 10 + 2 * 40 + 10


def test_an_answer_is_as_long_as_is_assumed_but_no_longer_than_its_cap(desk: Desk) -> None:
    made = machine(desk, price=DOLLAR_A_TOKEN_OUT)
    assert costs(made, answer=300) == [300, 600, 900, 1200]
    assert costs(made, answer=9_000) == [5_000, 10_000, 15_000, 20_000]


def notes(made: Machine, answer: int = 1_000) -> str:
    """What stands below the figures of typical runs."""
    told = plan_text(plan_of(made, {"topic": "x"}, answer_tokens=answer), {})
    return " ".join(told.partition("Assumed: ")[2].split("\n\n", 1)[0].split())


def test_an_answer_that_is_taken_to_be_shorter_is_told(desk: Desk) -> None:
    made = machine(desk)
    assert "(`--answer-tokens`)" in notes(made, 5_000)
    assert "(`--answer-tokens`; 5,000 of `writer`)" in notes(made, 5_001)
    ladder = MACHINE.replace("openai/ours", "[openai/gpt-5, openai/gpt-4]").replace(
        "{max_tokens: 5000}", "{temperature: 1}"
    )
    assert "; 4,096 of `writer`" in notes(machine(desk, ladder), 8_000)
    limited = ladder.replace("revisions: 3", "cost_usd: 90").replace(", openai/gpt-4]", "]")
    capped = machine(desk, limited, price=DOLLAR_A_TOKEN_OUT)
    assert "; 16,384 of `writer`" in notes(capped, 20_000)
    assert costs(capped, answer=20_000)[0] == 16_384


def test_what_is_sent_again_is_no_longer_than_the_answer_can_be(desk: Desk) -> None:
    text = MACHINE.replace("{max_tokens: 5000}", "{max_tokens: 60}")
    first, second, *_ = costs(machine(desk, text), answer=100)
    # The last version has 60 tokens, the findings have 25.
    assert (first, second) == (100, 100 + 100 + 60 + 25)
    named = text.replace('"{{ input.topic }}"', '"{{ previous }}"')
    assert costs(machine(desk, named), answer=100)[0] == 60
    judged = text.replace("by: [form]", "by: [{judge: critic, prompt: '{{ artifact }}'}]").replace(
        "validators:", "  critic: {model: openai/ours, price: PRICE}\nvalidators:"
    )
    short, long = (
        costs(machine(desk, judged.replace("60", cap)), answer=100)[0] or 0 for cap in ("60", "90")
    )
    assert long - short == 30


def test_a_list_price_counts_without_what_is_put_into_a_cache(desk: Desk) -> None:
    claude = MACHINE.replace("openai/ours", "anthropic/claude-sonnet-4-5")
    listed = machine(desk, claude.replace("    price: PRICE\n", ""))
    assert costs(listed)[0] == pytest.approx(100 * 3e-6 + 40 * 15e-6)


def test_a_system_prompt_is_sent_each_time(desk: Desk) -> None:
    assert costs(machine(desk, more=f"system: {'y' * 80}"))[:2] == [120, 120 + 170]


def test_a_template_that_says_where_version_and_findings_go_has_them_once(desk: Desk) -> None:
    text = MACHINE.replace('"{{ input.topic }}"', '"{{ previous }}{{ feedback }}"')
    assert costs(machine(desk, text)) == [50, 100, 150, 200]


def test_an_input_that_is_not_given_counts_as_an_answer(desk: Desk) -> None:
    first = costs(machine(desk), inputs={})[0]
    assert first is not None
    assert 40 <= first <= 50


def test_a_ladder_asks_a_dearer_model_with_each_revision(desk: Desk) -> None:
    text = MACHINE.replace("openai/ours", "[openai/gpt-5-mini, openai/gpt-5]")
    ladder = machine(desk, text.replace("    price: PRICE\n", ""))
    first, second, third, _ = costs(ladder, answer=1_000)
    assert first == pytest.approx(100 * 0.25e-6 + 1_000 * 2e-6)
    sent = 100 + 1_000 + 250
    assert (second or 0) - (first or 0) == pytest.approx(sent * 1.25e-6 + 1_000 * 1e-5)
    assert (third or 0) - (second or 0) == pytest.approx((second or 0) - (first or 0))


def test_a_rung_asks_its_model_as_often_as_it_says(desk: Desk) -> None:
    text = MACHINE.replace("openai/ours", "[openai/gpt-5-mini, openai/gpt-5]")
    text = text.replace("    price: PRICE\n", "    rung: 2\n")
    first, second, third, _ = costs(machine(desk, text), answer=1_000)
    sent = 100 + 1_000 + 250
    assert (second or 0) - (first or 0) == pytest.approx(sent * 0.25e-6 + 1_000 * 2e-6)
    assert (third or 0) - (second or 0) == pytest.approx(sent * 1.25e-6 + 1_000 * 1e-5)


def test_a_price_that_is_not_known_makes_it_unknown(desk: Desk) -> None:
    made = machine(desk, MACHINE.replace("    price: PRICE\n", ""))
    assert costs(made) == [None] * 4
    told = plan_text(plan_of(made, {}), {})
    assert told.index("is not known without `price`; its") < told.index("price, limits.tokens")
    assert "whose price is not known" in told.replace("\n", " ")


def test_everybody_on_the_panel_is_asked_and_a_program_costs_its_price(desk: Desk) -> None:
    text = MACHINE.replace("by: [form]", "by: [form, quality, style]").replace(
        "validators:",
        "  critic: {command: [judge], price_per_run: 0.25}\nvalidators:\n"
        "  quality: {judge: critic, samples: 2}\n  style: {judge: critic, confirm: fail}",
    )
    made = machine(desk, text, price="0")
    typical = plan_of(made, {"topic": "x"}).typical
    assert [dict(t.by_state)["judge"] for t in typical] == [0.75, 1.5, 2.25, 3.0]
    assert [t.calls for t in typical] == [4, 8, 12, 16]


def test_each_rule_of_a_validator_has_a_prompt_of_its_own(desk: Desk) -> None:
    """Also where the same agent judges by several."""

    def first(*rubrics: str) -> float:
        rules = ", ".join(f"{{judge: critic, rubric: [{rubric}]}}" for rubric in rubrics)
        text = MACHINE.replace("by: [form]", "by: [quality]").replace(
            "validators:",
            "  critic: {model: openai/ours, price: PRICE, params: {max_tokens: 9}}\n"
            f"validators:\n  quality: [{rules}]",
        )
        return costs(machine(desk, text))[0] or 0.0

    long, short = "x" * 400, "x" * 4
    assert first(short, long) == first(long, short) == first(short, short) + 99
    assert first(long, long) == first(short, short) + 2 * 99


def test_prompts_are_taken_to_be_about_as_long_as_they_are(desk: Desk) -> None:
    """What the plan assumes beside what the agents of a run that goes that way are sent."""
    text = MACHINE.replace("by: [form]", "by: [form, quality]").replace(
        "validators:",
        f"  critic: {{model: openai/ours, price: {DOLLAR_A_TOKEN_IN}, params: {{max_tokens: 9}}}}\n"
        "validators:\n  quality: {judge: critic, rubric: [Good.], sees: [input.topic]}",
    )
    text = text.replace("PRICE", DOLLAR_A_TOKEN_IN).replace("MORE", "session: keep")
    made = machine(desk, text)
    inputs = {"topic": "Describe the port of Hamburg. " * 30}
    program = Program(made, "plan")
    ways = explore(Analysis.of_machine(made), inputs=inputs, ways=1_000).ways
    sizes = Sizes(program, inputs, 300, is_limited=False)
    assumed = [usd or 0 for _, _, usd in Typically(program, sizes, {}).calls(ways[1])]
    finding = "x" * 4 * 75
    played = desk.play(
        text,
        scenario(
            agents={
                "writer": [{"reply": "word " * 240}, {"reply": "other " * 200}],
                "critic": [fails(finding), PASS],
            }
        ),
        inputs,
    )
    assert played.outcome == "done"
    sent = [
        sum(len(message.content) for message in request.messages) / 4
        + len(json.dumps(request.schema or "")) / 4
        for request in played.requests
    ]
    assert assumed == pytest.approx(sent, rel=0.15)


def test_the_shortest_ways_have_each_number_of_revisions_up_to_the_most(desk: Desk) -> None:
    plan = plan_of(machine(desk), {"topic": "x"})
    assert [typical.revisions for typical in plan.typical] == [0, 1, 2, 3]
    states = [visit.state for visit in plan.bounds.ways[1]]
    assert states == ["draft", "judge", "draft", "judge"]
    assert plan.bounds.ways[1][1].edge == "judge[1]"


def test_how_far_the_ways_were_followed_is_told(desk: Desk) -> None:
    made = machine(desk, MACHINE.replace("revisions: 3", "revisions: 40"))
    whole, part = (explore(Analysis.of_machine(made), ways=most) for most in (1_000, 20))
    assert (max(whole.ways), whole.has_all_ways) == (40, True)
    assert part.has_all_ways is False
    assert 0 < max(part.ways) < 40
    plan = plan_of(made, {"topic": "x"})
    assert "were not followed" not in plan_text(plan, {})
    assert "were not followed" in plan_text(replace(plan, bounds=part), {})


TWO_WAYS = """
loopkit: 1
agents: {writer: {command: [write], price_per_run: 1}}
states:
  ask:
    human: Long?
    choices: [long, short]
    transitions: [{guard: choice == "long", target: first}, {target: second}]
  first: {agent: writer, prompt: One., on_error: {fatal: done}, output: text, next: second}
  second: {agent: writer, prompt: Two., on_error: {fatal: done}, output: text, next: third}
  third: {agent: writer, prompt: Three., output: text, next: done}
  done: {final: success}
"""


def test_the_way_is_the_shortest_on_which_nothing_fails(desk: Desk) -> None:
    [typical] = plan_of(machine(desk, TWO_WAYS), {}).typical
    assert typical.by_state == {"second": 1, "third": 1}


def test_of_many_revisions_the_first_few_and_the_most_are_shown(desk: Desk) -> None:
    made = machine(desk, MACHINE.replace("revisions: 3", "revisions: 40"))
    told = plan_text(plan_of(made, {"topic": "x"}), {"topic": "x"}).splitlines()
    [line] = [line for line in told if line.startswith("  revisions  ")]
    shown = [int(number) for number in line.split()[1:]]
    assert shown[:4] == [0, 1, 2, 3]
    assert 3 < shown[4] < shown[5] == 40
    assert len(shown) == 6


def test_no_prompt_is_taken_to_be_longer_than_the_window(desk: Desk) -> None:
    text = MACHINE.replace("revisions: 3", "revisions: 1000").replace("ours", "gpt-4o")
    *_, before, last = costs(machine(desk, text, more="session: keep"), answer=2_000)
    assert before is not None
    assert last is not None
    # The sessions reach 128,000 tokens after some fifty turns, long before the halfway mark.
    assert last - before == pytest.approx(500 * 128_000)


def test_a_thousand_revisions_are_planned_as_quickly_as_some(desk: Desk) -> None:
    text = MACHINE.replace("revisions: 3", "revisions: 1000")
    (desk.folder / "machine.yaml").write_text(
        text.replace("PRICE", DOLLAR_A_TOKEN_IN).replace("MORE", "session: keep"), encoding="utf-8"
    )
    argv = ("plan", "machine.yaml", "--set", "topic=x")
    done = ran_loopkit(*argv, cwd=desk.folder, timeout=60)
    assert done.returncode == 0
    line = next(line for line in done.stdout.splitlines() if line.startswith("  revisions  "))
    assert line.split()[-1] == "1000"


def test_what_a_run_of_another_machine_costs_that_never_succeeds_is_not_known(desk: Desk) -> None:
    """Nobody pays nothing for it, though it has no shortest way to a success."""
    child = MACHINE.replace("done: {final: success", "done: {final: failure")
    desk.write("child.yaml", child.replace("PRICE", DOLLAR_A_TOKEN_IN).replace("MORE", ""))
    text = """
loopkit: 1
input: {list: {type: array, items: {type: string}, maxItems: 3}}
agents: {lead: {command: [tell], price_per_run: 2}}
states:
  work: {STATE, machine: child.yaml, input: {topic: tea}, next: tell}
  tell: {agent: lead, prompt: So?, on_error: {content: done}, next: done}
  done: {final: success}
"""
    assert costs(machine(desk, text.replace("STATE, ", "")), {}) == [None]
    each = machine(desk, text.replace("STATE", "each: input.list, as: part, key: part"))
    assert costs(each, {"list": ["a"]}) == [None]
    assert costs(each, {"list": []}) == [2]


def test_a_machine_without_a_success_has_no_way_to_one(desk: Desk) -> None:
    text = MACHINE.replace("final: success, result: text", "final: failure")
    assert plan_of(machine(desk, text), {"topic": "x"}).typical == ()


def test_expected_costs_are_typical_ones_and_follow_the_revisions(desk: Desk) -> None:
    """Half of the drafts are valid: one prompt for sure, and each revision half as often."""
    made = machine(desk, more="session: keep")
    chances = {"judge.valid": Fraction(1, 2)}
    means = plan_of(made, {"topic": "x" * 400}, chances, answer_tokens=40).bounds.expected
    assert means is not None
    sent = [100, 150, 200, 250]
    assert means.cost == sum(Fraction(tokens, 2**n) for n, tokens in enumerate(sent))


def test_expected_costs_of_judges_follow_what_they_judge(desk: Desk) -> None:
    text = MACHINE.replace("by: [form]", "by: [quality]").replace(
        "validators:",
        f"  critic: {{model: openai/ours, price: {DOLLAR_A_TOKEN_IN}, params: {{max_tokens: 9}}}}\n"
        "validators:\n  quality: {judge: critic, rubric: [Good.]}",
    )
    plan = plan_of(machine(desk, text, price="0"), {"topic": "x"}, {"judge.valid": Fraction(1, 2)})
    costs_of = [typical.usd or 0 for typical in plan.typical]
    calls = [costs_of[0], *(after - before for before, after in pairwise(costs_of))]
    assert plan.bounds.expected is not None
    assert plan.bounds.expected.cost == sum(Fraction(c) / 2**n for n, c in enumerate(calls))


def test_a_price_that_is_not_known_leaves_the_expected_cost_open(desk: Desk) -> None:
    made = machine(desk, MACHINE.replace("    price: PRICE\n", ""))
    means = plan_of(made, {"topic": "x"}, {"judge.valid": Fraction(1, 2)}).bounds.expected
    assert means is not None
    assert means.cost is None
