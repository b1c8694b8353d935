"""Every kind of rule is what it says: its docs, its schema, and its example through the runner."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.document.reading import read
from loopkit.language.load import load
from loopkit.language.validators import RULE_KINDS, RULE_NOUNS, Rule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.rule import FixedRule, RuleBase
from loopkit.proof.outcomes.analysis import Analysis, levels_at, may_warn
from loopkit.validators.fixed_rules import CHECKS
from tests.support import Desk, Played, published_faults

KINDS = pytest.mark.parametrize("noun", RULE_NOUNS, ids=lambda noun: noun.kind)
FIXED = [noun for noun in RULE_NOUNS if issubclass(noun, FixedRule)]


def machine(noun: type[RuleBase], artifact: str) -> dict[str, Any]:
    """A machine that renders an artifact and judges it by the example of a kind of rule."""
    return {
        "loopkit": 1,
        "agents": noun.example.agents,
        "states": {
            "draft": {"render": artifact, "output": "plan", "next": "judge"},
            "judge": {
                "validate": "plan",
                "by": [noun.example.rule],
                "transitions": [{"guard": "valid", "target": "done"}, {"target": "failed"}],
            },
            "done": {"final": "success", "result": "plan"},
            "failed": {"final": "failure", "result": "plan"},
        },
    }


def example_of(noun: type[RuleBase], desk: Desk) -> Rule:
    """The example of a kind of rule, as a machine file has it."""
    for name, text in noun.example.files.items():
        desk.write(name, text)
    loaded = load(desk.write("machine.yaml", json.dumps(machine(noun, "x"))))
    [placed] = Analysis.of_machine(loaded.machine).rules
    return placed.rule


def judged(noun: type[RuleBase], artifact: str, desk: Desk) -> Played:
    """The run of a machine that judges an artifact by the example of a kind of rule."""
    for name, text in noun.example.files.items():
        desk.write(name, text)
    return desk.play(json.dumps(machine(noun, artifact)))


@KINDS
def test_a_rule_lets_pass_what_its_example_says(noun: type[RuleBase], desk: Desk) -> None:
    played = judged(noun, noun.example.passes, desk)
    [report] = played.reports
    assert (played.outcome, report.verdict, report.findings) == ("done", "pass", ())


@KINDS
def test_a_rule_rejects_what_its_example_says_with_no_more_than_it_may_find(
    noun: type[RuleBase], desk: Desk
) -> None:
    played = judged(noun, noun.example.fails, desk)
    [report] = played.reports
    rule = example_of(noun, desk)
    assert (played.outcome, report.verdict) == ("failed", "fail")
    assert 1 <= len(report.findings) <= rule.most_findings
    given = {finding.code for finding in report.findings if finding.code}
    assert rule.codes is None or given <= rule.codes


@KINDS
def test_a_rule_is_known_by_a_key_of_its_own(noun: type[RuleBase], desk: Desk) -> None:
    assert noun.kind in {field.alias or name for name, field in noun.model_fields.items()}
    assert RULE_KINDS[noun.kind] is noun
    assert type(example_of(noun, desk)) is noun


@KINDS
def test_the_published_schema_knows_every_rule(noun: type[RuleBase]) -> None:
    sound = machine(noun, noun.example.passes)
    assert published_faults(sound) == []
    sound["states"]["judge"]["by"] = [{f"no_{noun.kind}": noun.example.rule[noun.kind]}]
    assert published_faults(sound) != []


@pytest.mark.parametrize("noun", FIXED, ids=lambda noun: noun.kind)
def test_every_rule_that_needs_no_model_has_its_check(noun: type[FixedRule]) -> None:
    assert callable(CHECKS[noun.kind])


def test_of_all_rules_only_judges_need_a_model() -> None:
    assert set(RULE_NOUNS) - set(FIXED) == {JudgeRule}


@KINDS
def test_a_rule_that_nobody_knows_is_told_of_every_other_one(
    noun: type[RuleBase], desk: Desk
) -> None:
    written = machine(noun, "x")
    written["states"]["judge"]["by"] = [{}]
    [problem] = desk.problems(json.dumps(written))
    assert f"`{noun.kind}`" in problem.help


def test_every_rule_that_is_defined_is_in_the_table() -> None:
    defined, left = set(), [RuleBase]
    while left:
        rules = left.pop().__subclasses__()
        left += rules
        defined.update(rule for rule in rules if not rule.__subclasses__())
    assert defined == set(RULE_NOUNS)


@pytest.mark.parametrize(
    ("rule", "may"),
    [
        ("{judge: critic}", False),
        ("{judge: critic, confirm: fail}", True),
        ("{command: [make]}", False),
        ("{command: [make], baseline: true}", True),
    ],
)
def test_a_rule_lets_some_findings_pass_where_every_level_blocks(
    rule: str, *, may: bool, desk: Desk
) -> None:
    written = machine(RULE_KINDS["judge"], "x")
    written["states"]["judge"] |= {"by": [read(f"by: {rule}", "x").plain()["by"]]}
    written["states"]["judge"]["block"] = "warning"
    analysis = Analysis.of_machine(load(desk.write("machine.yaml", json.dumps(written))).machine)
    state, [placed] = analysis.judges["judge"], analysis.rules
    assert may_warn(placed.rule, state, levels_at(analysis.machine, state)) is may


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"schema": {"a": "int"}, "message": "Write data."}, "Write data."),
        ({"require": "a > 1", "message": "Write data."}, "the artifact is neither JSON"),
        (
            {"command": ["sh", "-c", "echo no tea; exit 1"], "message": "Bad."},
            "Bad.\nno tea",
        ),
        ({"min_chars": 99, "message": "Bad."}, "Bad."),
    ],
)
def test_a_message_leaves_standing_what_nothing_else_tells(
    rule: dict[str, Any], told: str, desk: Desk
) -> None:
    written = machine(RULE_KINDS["min_chars"], "Tea.")
    written["states"]["judge"]["by"] = [rule]
    [report] = desk.play(json.dumps(written)).reports
    [finding] = report.findings
    assert finding.message.startswith(told)


@pytest.mark.parametrize(
    ("kind", "is_told"), [("section", True), ("schema", True), ("require", False), ("judge", False)]
)
def test_only_a_rule_that_needs_nothing_but_the_artifact_is_superfluous_the_second_time(
    kind: str, *, is_told: bool, desk: Desk
) -> None:
    written = machine(RULE_KINDS[kind], "x")
    second = json.loads(json.dumps(written["states"]["judge"]))
    written["states"]["judge"]["transitions"][0]["target"] = "again"
    written["states"]["again"] = second
    codes = [problem.code for problem in desk.problems(json.dumps(written))]
    assert ("judged-before" in codes) is is_told
