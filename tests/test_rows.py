"""What a state's work can come to: rows that no run produces are none, and no case is given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.checks import check
from loopkit.document.problems import Problem
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.guard.grammar import parse
from loopkit.language.guard.type_check import GuardType
from loopkit.language.load import Loaded, load_text
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.table import domains
from tests.test_bounds import replayed

HERE = Path(__file__).parent
HEAD = """
loopkit: 1
input: {n: {type: int, minimum: 0, maximum: 3, default: 1}, flag: {type: bool, default: true}}
agents:
  writer: {model: openai/writer, retry: {attempts: 2}}
  critic: {model: openai/critic, retry: {attempts: 1}}
  second: {model: openai/second, retry: {attempts: 3}}
"""
ENDS = {"done": "success", "other": "success", "failed": "failure"}


def loaded_of(states: str, head: str = HEAD) -> Loaded:
    """A machine of these states, and the final ones that they lead to."""
    ends = "".join(f"  {n}: {{final: {k}}}\n" for n, k in ENDS.items() if f": {n}" in states)
    return load_text(
        f"{head}states:\n  {states.strip()}\n{ends}".replace("\n\n", "\n"), "m.yaml", HERE
    )


def problems(states: str, head: str = HEAD) -> list[Problem]:
    """What is wrong with it, but for the agents and inputs that it does not use."""
    return [p for p in check(loaded_of(states, head)) if p.code not in ("unused", "unused-input")]


def told(states: str) -> set[str]:
    """The codes of its problems, but for what nobody reads here."""
    return {problem.code for problem in problems(states)} - {"no-result", "no-criteria"}


def bounds_of(states: str) -> Bounds:
    """The bounds of a machine, which are those of all of its paths on the engine."""
    loaded = loaded_of(states)
    assert replayed(loaded.machine, 50_000, 1) == "replayed"
    return explore(Analysis.of_machine(loaded.machine))


def judged(*transitions: str, by: str = "{min_chars: 9}", more: str = "", again: int = 3) -> str:
    """A draft that is judged and revised, with some transitions before."""
    listed = "\n".join(f"      - {one}" for one in transitions)
    return f"""
  draft: {{agent: writer, prompt: Write., output: plan, on_error: {{content: failed}}, next: check}}
  check:
    validate: plan
    by: [{by}]
    {more}
    transitions:
{listed}
      - {{guard: valid, target: done}}
      - {{revise: draft, max: {again}, feedback: Again.}}
      - {{target: failed}}
"""


# -- the type of a fact ------------------------------------------------------------------------

RATED = """
  ask:
    human: How good is it?
    choices: [go]
    form: {rating: TYPE}
    transitions:
      - {guard: rating == 1, target: done}
      - {guard: rating == 2, target: other}
      - {guard: rating == 3, target: failed}
"""


def test_a_number_of_a_form_has_the_bounds_of_its_type() -> None:
    assert told(RATED.replace("TYPE", "{type: int, minimum: 1, maximum: 3}")) == set()
    assert told(RATED.replace("TYPE", "{type: int, minimum: 0, maximum: 3}")) == {"stuck"}
    assert told(RATED.replace("TYPE", "{type: int, minimum: 1}")) == {"stuck"}


def test_a_fraction_is_tried_between_its_bounds_and_what_it_is_compared_with() -> None:
    half = """
  ask:
    human: How much of it?
    choices: [go]
    form: {share: {type: num, minimum: 0, maximum: 1}}
    transitions:
      - {guard: share < 0.5, target: done}
      - {guard: share > 0.5, target: other}
      - {guard: share == 0.5, target: failed}
"""
    assert told(half) == set()
    assert told(half.replace("- {guard: share == 0.5, target: failed}", "")) == {"stuck"}
    assert "dead-transition" in told(half.replace("share > 0.5", "share > 1"))


def test_a_number_of_an_agent_has_the_bounds_of_its_schema() -> None:
    head = HEAD.replace(
        "writer: {", "writer: {schema: {size: {type: int, minimum: 1, maximum: 2}}, "
    )
    states = """
  draft:
    agent: writer
    prompt: Write.
    on_error: {content: failed}
    transitions:
      - {guard: size == 1, target: done}
      - {guard: size == 2, target: other}
"""
    assert "stuck" not in {p.code for p in problems(states, head)}
    assert "stuck" in {p.code for p in problems(states.replace("size == 1", "size == 3"), head)}


def test_a_score_has_the_bounds_that_its_judge_may_give() -> None:
    scored = "{judge: critic, score: {min: 0, max: 5}}"
    above = "{guard: valid and score != none and score > 5, target: other}"
    assert told(judged(above, by=scored)) == {"dead-transition"}
    assert told(judged(above.replace("> 5", "> 4"), by=scored)) == set()


# -- many cases --------------------------------------------------------------------------------


def test_a_dozen_exit_codes_and_more_are_told_apart() -> None:
    edges = "\n".join(f"      - {{guard: exit_code == {3 * n}, target: other}}" for n in range(22))
    states = f"""
  build:
    run: ["true"]
    on_error: failed
    transitions:
{edges}
      - {{guard: exit_code < 80, target: done}}
      - {{guard: exit_code >= 80, target: failed}}
"""
    assert told(states) == set()
    assert told(states.replace("exit_code >= 80", "exit_code > 80")) == {"stuck"}


def many(number: int, last: str) -> str:
    fields = ", ".join(f"b{n}: bool" for n in range(number))
    edges = "\n".join(f"      - {{guard: b{n}, target: done}}" for n in range(number))
    return f"""
  ask:
    human: Which one?
    choices: [go]
    form: {{{fields}}}
    transitions:
{edges}
      - {{guard: {last}, target: other}}
"""


@pytest.mark.parametrize("number", [13, 30])
def test_many_booleans_are_told_apart(number: int) -> None:
    nothing = " and ".join(f"not b{n}" for n in range(number))
    assert told(many(number, f'"{nothing}"')) == set()
    [found] = [p for p in problems(many(number, '"false == b0 and b1"')) if p.code == "stuck"]
    assert "may be" not in found.message


def test_many_codes_are_told_apart() -> None:
    rules = ", ".join(f"{{not_matches: 'T{n}', code: C{n}}}" for n in range(8)) + ", {min_chars: 9}"
    edges = [f"{{guard: '\"C{n}\" in codes', target: other}}" for n in range(8)]
    assert told(judged(*edges, by=rules)) == set()


def test_a_cap_of_many_values_is_told_apart_from_what_is_spent() -> None:
    states = judged("{guard: revisions == 0 and valid, target: other}", again=90)
    assert told(states.replace("revisions == 0", "revisions < max_revisions")) == set()


# -- a person's choice -------------------------------------------------------------------------


def test_a_question_without_an_open_choice_is_told_of_where_a_run_comes_to_it() -> None:
    states = """
  draft: {agent: writer, prompt: Write., on_error: {content: failed}, next: ask}
  ask:
    human: Is it good?
    choices: [again, done]
    transitions:
      - {guard: choice == "again" and attempt < 3, revise: draft, max: 2, feedback: Again.}
      - {guard: choice == "again" and attempt >= 3, target: failed}
      - {guard: attempt == 1, revise: draft, feedback: Once more., max: 1}
      - {guard: attempt > 1, target: done}
"""
    # At the first attempt both choices revise, and there is room for both.
    assert told(states) == set()
    found = problems(states.replace("max: 1", "max: 0").replace("max: 2", "max: 0"))
    [shut] = [problem for problem in found if problem.severity == "error"]
    assert shut.code == "no-open-choice"
    assert "a run gets there by draft → ask" in shut.message


# -- rows that no run produces -----------------------------------------------------------------


def test_nothing_has_come_back_before_the_third_report() -> None:
    back = "{guard: regressed, target: failed}"
    assert told(judged(back, again=1)) == {"dead-transition"}
    assert told(judged(back, again=2)) == set()
    # What has stalled needs one report before it.
    assert told(judged("{guard: stalled, target: failed}", again=1)) == set()
    bounds_of(judged(back, "{guard: stalled, target: failed}"))


def test_a_report_of_the_same_attempt_is_no_earlier_one() -> None:
    states = """
  draft: {agent: writer, prompt: Write., output: plan, on_error: {content: failed}, next: check}
  check:
    validate: plan
    by: [{min_chars: 9}]
    transitions:
      - {guard: regressed, target: failed}
      - {target: ask}
  ask:
    human: Look again?
    choices: [again, write, done]
    transitions:
      - {guard: choice == "again", revise: check, max: 3, feedback: Again.}
      - {guard: choice == "write", revise: draft, max: WRITES, feedback: Anew.}
      - {target: done}
"""
    assert "check[0]" in bounds_of(states.replace("WRITES", "1")).untaken
    assert "check[0]" not in bounds_of(states.replace("WRITES", "2")).untaken
    stalling = states.replace("regressed", "stalled")
    assert "check[0]" in bounds_of(stalling.replace("WRITES", "0")).untaken
    assert "check[0]" not in bounds_of(stalling.replace("WRITES", "1")).untaken


def test_a_judge_whose_guard_is_false_gives_no_score() -> None:
    scored = '{judge: critic, score: {}, guard: "attempt > 4"}, {min_chars: 9}'
    good = "{guard: score != none and score > 5, target: other}"
    assert told(judged(good, by=scored)) == {"dead-transition"}
    assert told(judged(good, by=scored.replace("> 4", "> 1"))) == set()
    bounds_of(judged(good, by=scored.replace("> 4", "> 1")))


def test_a_judge_that_lets_pass_has_given_its_score() -> None:
    missing = '{guard: verdict == "pass" and score == none, target: other}'
    by = "{judge: critic, score: {}}, {judge: second}"
    assert told(judged(missing, by=by)) == {"dead-transition"}
    assert told(judged(missing, by=by, more="quorum: 1")) == set()
    bounds_of(judged(missing, by=by, more="quorum: 1"))


def test_a_rule_that_blocks_leaves_no_score_of_a_judge_that_is_not_asked_then() -> None:
    both = "{guard: '\"SHORT\" in codes and score != none', target: other}"
    by = "{min_chars: 9, code: SHORT}, {judge: critic, score: {}ALWAYS}, {max_chars: 9}"
    by = by.replace("critic,", "critic, prompt: 'Judge {{ artifact }}.', map: {codes: {a: A}},")
    assert told(judged(both, by=by.replace("ALWAYS", ""))) == {"dead-transition"}
    assert told(judged(both, by=by.replace("ALWAYS", ", always: true"))) == set()
    bounds_of(judged(both, by=by.replace("ALWAYS", ", always: true")))


@pytest.mark.parametrize(
    ("by", "is_any"),
    [
        ("{judge: critic}", True),
        ("{command: [lint], parse: lines}", True),
        ("{command: [lint], parse: report}", True),
        ('{python: "checks:judge"}', True),
        ("{judge: critic, verdict: {findings: '- (?P<code>[A-Z]+): (?P<message>.*)'}}", True),
        ("{judge: critic, map: {codes: {long: LONG}}}", False),
        ("{judge: critic, verdict: {}}", False),
        ("{command: [lint]}", False),
        ("{command: [lint], parse: lines, code: LONG}", False),
        ("{command: [lint], parse: junit, file: r.xml}", False),
    ],
)
def test_any_code_may_come_where_a_rule_reads_codes_of_others(by: str, *, is_any: bool) -> None:
    found = told(judged("{guard: '\"LNOG\" in codes', target: other}", by=by))
    assert ("unknown-value" not in found) is is_any


def test_what_comes_instead_of_an_artifact_has_codes_of_its_own() -> None:
    edge = "{guard: '\"empty\" in codes', target: other}"
    assert told(judged(edge)) == {"unknown-value"}
    judging = judged(edge).replace("on_error: {content: failed}, ", "")
    assert told(judging) == set()
    bounds_of(judging)


def test_no_more_findings_are_counted_than_the_rules_can_give() -> None:
    by = "{min_chars: 9}, {section: Plan}, {max_chars: 99, severity: warning}"
    assert told(judged("{guard: error_count >= 3, target: other}", by=by)) == {"dead-transition"}
    assert told(judged("{guard: error_count >= 2, target: other}", by=by)) == set()
    assert told(judged("{guard: warning_count > 1, target: other}", by=by)) == {"dead-transition"}
    many_found = by.replace("{section: Plan}", "{not_matches: TODO}")
    assert told(judged("{guard: error_count >= 3, target: other}", by=many_found)) == set()
    bounds_of(judged("{guard: error_count >= 2, target: other}", by=by))


def test_codes_need_findings_of_the_rules_that_give_them() -> None:
    by = "{min_chars: 9, code: A}, {section: Plan, code: B}, {max_chars: 9, code: C}"
    both = '"A" in codes and "B" in codes'
    assert told(judged(f"{{guard: '{both} and error_count < 2', target: other}}", by=by)) == {
        "dead-transition"
    }
    assert told(judged(f"{{guard: '{both} and error_count < 3', target: other}}", by=by)) == set()
    none = 'not valid and "A" not in codes and "B" not in codes'
    assert told(judged(f"{{guard: '{none} and error_count > 1', target: other}}", by=by)) == {
        "dead-transition"
    }
    bounds_of(judged(f"{{guard: '{both} and error_count < 3', target: other}}", by=by))


TWO_REVIEWERS = """
  draft: {agent: writer, prompt: Write., output: plan, on_error: {content: failed}, next: check}
  check:
    validate: plan
    by: [{judge: critic, confirm: fail, reask: 1}, {judge: second, confirm: fail, reask: 1}]
    transitions: [{guard: 'verdict == "pass"', target: one}, {target: failed}]
  one: {agent: writer, prompt: Polish., on_error: {content: failed}, next: two}
  two: {agent: writer, prompt: Polish., on_error: {content: failed}, next: done}
"""


def with_quorum(number: int) -> str:
    return TWO_REVIEWERS.replace("    transitions", f"    quorum: {number}\n    transitions")


def test_second_opinions_are_spared_by_as_many_judges_as_a_quorum_can_do_without() -> None:
    def most(states: str) -> tuple[float | None, float | None]:
        bounds = bounds_of(states)
        return bounds.runs.worst.total, bounds.calls.worst.total

    # Three works of the writer, of two tries, and two judges: of one try, and of three, each with
    # two questions more. A report that passes has no fail that a second opinion could not confirm.
    assert most(with_quorum(2)) == most(TWO_REVIEWERS) == (5, 26)
    # The dearer one may have failed first, and its second opinion be missing.
    assert most(with_quorum(1)) == (6, 27)


def test_the_opinion_of_most_calls_need_not_be_the_dearest() -> None:
    prices = {"writer": 20, "critic": 30, "second": 2}
    analysis = Analysis.of_machine(loaded_of(with_quorum(1)).machine)
    bounds = explore(analysis, price=lambda agent, *_: prices[agent])
    # Six calls of the writer, three of the critic and nine of the other; one of them once more.
    assert bounds.calls.worst.total == 6 + 3 + 9 + 9
    assert bounds.cost.worst.total == 6 * 20 + 3 * 30 + 9 * 2 + 3 * 30
    [way] = [step for step in bounds.cost.worst.way if step.state == "check"]
    assert sorted(work.agent for work in way.asked) == ["critic", "critic", "second"]


def test_the_facts_of_a_row_have_one_order_whatever_the_hash_of_their_names() -> None:
    names = ["f", "b", "e", "a", "d", "c"]
    guard = parse(" or ".join(names))
    found = domains([guard], dict.fromkeys(names, GuardType("bool")), parse_record({}))
    assert list(found) == sorted(names)
