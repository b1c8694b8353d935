"""Large data, texts and reports take time in proportion to their size."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

from loopkit.engine.findings import Answer
from loopkit.language.validators import Rules
from loopkit.language.validators.command import CommandRule
from loopkit.text.json_text import NoJson, extract_json, is_alone, json_in
from loopkit.text.patterns import PatternError, compile_pattern
from loopkit.validators.command import Unreadable, read_findings
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.fault import Found
from loopkit.validators.setting import Setting
from tests.hostile.forked import within
from tests.judging import judge_deterministic

DEADLINE_S = 12.0
"""Several times of what each case needs, and a small part of what it needed."""
CASE = '<testcase name="a"><failure message="m"/></testcase>'
MANY = 20_000


def judged(rule: dict[str, Any], data: object, **names: object) -> Answer:
    rules = TypeAdapter(Rules).validate_python([rule])
    setting = Setting(names=names, facts={}, patterns={})
    subject = JudgedArtifact("graph", "", data, is_data=True)
    return asyncio.run(judge_deterministic("v", rules, subject, setting))


def nodes(ids: list[Any], step: int = 0) -> dict[str, Any]:
    """Nodes, each of which leads to the one that is `step` further on."""
    listed = [
        {"id": id_, "needs": [ids[(number + step) % len(ids)]] if step else []}
        for number, id_ in enumerate(ids)
    ]
    return {"nodes": listed}


def found_in(text: str, parse: str) -> list[Found]:
    """What a report names."""
    setting = Setting(names={}, facts={}, patterns={})
    return read_findings(text, CommandRule(command=["tests"], parse=parse), setting)


GRAPH = {"acyclic": {"nodes": "nodes[].id", "edges": "nodes[].needs[]"}}
NAMES = [f"n{number}" for number in range(MANY)]
TANGLE = {
    "nodes": [{"id": "30000", "needs": ["0"]}]
    + [{"id": str(n), "needs": [str(n + 1), str(n // 2)]} for n in range(30_000)]
}
UNKNOWN = {
    "nodes": [{"id": "n" + "y" * 90 + str(n), "needs": ["x" + "y" * 90]} for n in range(MANY)]
}


@pytest.mark.parametrize(
    ("judge", "findings"),
    [
        (lambda: judged(GRAPH, nodes([n * sys.hash_info.modulus for n in range(40_000)])), 0),
        (lambda: judged(GRAPH, nodes(NAMES, 1)), 1),
        (lambda: judged(GRAPH, TANGLE), 1),
        (lambda: judged(GRAPH, UNKNOWN), 50),
        (lambda: judged({"require": "id in known", "each": "nodes[]"}, nodes(NAMES),
                        known=NAMES), 0),
        (lambda: judged({"require": "id in artifact.ids", "each": "nodes[]"},
                        {**nodes(NAMES), "ids": [0.5, *range(MANY)]}), 50),
        (lambda: judged({"lookup": {"path": "nodes[].id", "in": "known"}}, nodes(NAMES),
                        known=["m" + "y" * 5_000] * 2_000), 50),
    ],
    ids=["colliding", "ring", "tangle", "unknown", "known", "none", "looked up"],
)  # fmt: skip
def test_a_rule_goes_through_large_data_once(judge: Callable[[], Answer], findings: int) -> None:
    answer = within(DEADLINE_S, judge)
    assert (answer.reason, len(answer.findings)) == ("", findings)


def test_many_circles_are_found_as_quickly_as_one() -> None:
    size = 550
    listed = [
        {"id": n, "needs": [n // size * size + (n + 1) % size, n // size * size]}
        for n in range(60 * size)
    ]
    answer = within(DEADLINE_S, lambda: judged(GRAPH, {"nodes": listed}))
    assert len(answer.findings) == 50


def test_a_long_circle_is_told_by_its_beginning() -> None:
    [finding] = judged(GRAPH, nodes(NAMES, 1)).findings
    assert len(finding.message) < 1_000
    assert "through 19,950 more behind the first 50" in finding.message


def test_a_list_that_is_searched_often_holds_what_is_equal() -> None:
    known = [*range(100), 1.5, True, None, "a", [1], 10**400]
    rule = {"require": "item in artifact.known", "each": "asked[]"}
    found = judged(rule, {"known": known, "asked": [99.0, 1.5, True, "a", 10**400]})
    assert found.findings == ()
    missing = [100, "1", False, [1], {}, 1.25, "b"]
    assert len(judged(rule, {"known": known, "asked": missing}).findings) == len(missing)


# JSON in text


@pytest.mark.parametrize(
    "text",
    [
        "x\n" * 2_000_000 + '{"x ' * 10_000,
        "x" * 4_000_000 + "".join(f'{{"a": {number}}} ' for number in range(10_000)),
        "[" * 2_000_000,
        '{"a": ' * 500_000,
        ("[" * 60 + "x") * 20_000,
    ],
    ids=["behind lines", "on one line", "brackets", "objects", "nested"],
)
def test_json_is_looked_for_in_a_large_text_once(text: str) -> None:
    assert isinstance(within(DEADLINE_S, lambda: extract_json(text)), NoJson)


def test_the_place_of_broken_json_is_right_far_behind_in_a_text() -> None:
    text = "é\n" * 100_000 + "See [1].\n" + "x" * 100_000 + ' {"a": 1,\n "b" 2}'
    [broken] = json_in(text).broken
    assert broken.reason == "expecting ':' delimiter at line 100003, column 6"
    text = "x" * 100_000 + " {'a': 1}"
    [broken] = json_in(text).broken
    assert broken.reason.endswith("at line 1, column 100003")


def test_a_value_stands_alone_where_only_blanks_are_beside_it() -> None:
    text = " \t[1]\u00a0\n[2] x\nx [3]\n[4]\n[\n5\n]"
    alone = [is_alone(text, *span) for span in json_in(text).spans]
    assert alone == [True, False, False, True, True]


def test_a_reason_quotes_only_the_start_of_a_number_and_a_key() -> None:
    for text in (f"[1e{'9' * 100_000}]", '{"%s": 1, "%s": 2}' % (("k" * 100_000,) * 2)):
        found = extract_json(text)
        assert isinstance(found, NoJson)
        assert len(found.reason) < 200


# Reports


def test_a_prolog_of_comments_is_read_once_and_its_document_type_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY a "b">]><testsuite>&a;</testsuite>'
    for prolog in ("<!-- x -->\n" * 300_000, "<?x ?>" * 300_000):
        with pytest.raises(AssertionError, match="document type"):
            within(DEADLINE_S, lambda text=prolog + bomb: found_in(text, "junit"))
        sound = f"{prolog}<testsuite>{CASE}</testsuite>"
        told = within(DEADLINE_S, lambda text=sound: [f.value for f in found_in(text, "junit")])
        assert told == ["m"]


def test_findings_that_nobody_reads_are_not_made() -> None:
    with pytest.raises(Unreadable, match="more than 10,000 findings"):
        found_in(f"<testsuite>{CASE * 10_001}</testsuite>", "junit")
    assert len(found_in(f"<testsuite>{CASE * 10_000}</testsuite>", "junit")) == 10_000


def test_the_rule_of_a_result_is_found_by_its_id_among_many() -> None:
    rules = [{"id": f"r{n}", "defaultConfiguration": {"level": "error"}} for n in range(9_000)]
    results = [{"ruleId": "r8999", "message": {"text": "x"}}, {"rule": {"id": "none"}}] * 4_500
    run = {"tool": {"driver": {"rules": rules}}, "results": results}
    text = json.dumps({"runs": [run]})
    found = within(DEADLINE_S, lambda: [f.finding.severity for f in found_in(text, "sarif")])
    assert found[:2] == ["error", "warning"]


# Patterns


@pytest.mark.parametrize(
    "pattern",
    ["a{9999999}", "(?:a{1000}){1000}", "((a{100}){100}){100}", "[a-z]{100000}", "a" * 10_001],
)
def test_a_pattern_that_is_too_large_to_compile_is_refused_at_once(pattern: str) -> None:
    def refused() -> str:
        with pytest.raises(PatternError) as raised:
            compile_pattern(pattern)
        return str(raised.value)

    assert len(within(DEADLINE_S, refused)) < 200


@pytest.mark.parametrize(
    "pattern",
    ["a{1000}", "(\\d{4}-){3}", "[{9999999}]", "\\{9999999}", "(a|b){2,500}", "a{0}", "x{"],
)
def test_a_pattern_of_usual_size_is_compiled(pattern: str) -> None:
    assert compile_pattern(pattern) is not None
