"""One table of judges' answers: the form that each is read in, and what counts of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from loopkit.engine.findings import OF_JUDGE, Answer, Finding
from loopkit.language.agents.model import ModelAgent
from loopkit.language.facts import Severities
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.report_map import VerdictReading
from loopkit.validators.judges.form import Misread, report_form_of
from loopkit.validators.judges.report import MISSING, as_text, part, read_report, read_verdict
from loopkit.validators.judges.text import TextForm

TABLE = YAML(typ="safe").load(Path(__file__).parent / "data" / "answers.yaml")
ANSWERS = [
    pytest.param(group["form"], answer, id=f"{group['says']} {number}")
    for group in TABLE
    for number, answer in enumerate(group["answers"], 1)
]


def read(form: Mapping[str, Any], answer: Mapping[str, Any]) -> Answer | Misread:
    levels = Severities(
        tuple(form.get("levels", ("error", "warning"))), form.get("blocking", "error")
    )
    said: Sequence[str] = answer.get("messages") or [
        answer.get("text", json.dumps(answer.get("data")))
    ]
    if (reading := form.get("verdict")) is not None:
        text_form = TextForm(reading=VerdictReading.model_validate(reading), levels=levels)
        return read_verdict("v", said, text_form)
    rule = {"judge": "v", **{key: form[key] for key in ("map", "score") if key in form}}
    agent = ModelAgent.model_validate({"model": "a/b"})
    origins = tuple(form.get("origins", ()))
    report_form = report_form_of(JudgeRule.model_validate(rule), agent, levels, origins)
    return read_report("v", said[0], report_form)


def found(answer: Answer | None, expected: Sequence[Any]) -> list[Any]:
    """The findings, each as the expected one describes it."""
    findings = answer.findings if answer else ()
    described = itertools.zip_longest(findings, expected)
    return [_described(one, like) for one, like in described if one is not None]


def _described(finding: Finding, like: object) -> object:
    if not isinstance(like, Mapping):
        return f"{finding.severity}: {finding.message}"
    parts = {key: getattr(finding, key) for key in like}
    return {key: list(part) if key == "origins" else part for key, part in parts.items()}


@pytest.mark.parametrize(("form", "answer"), ANSWERS)
def test_an_answer_counts_as_the_table_says(
    form: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    known, expected = read(form, answer), answer.get("finds", answer.get("kept", []))
    if isinstance(known, Misread):
        assert "unread" in answer, known.reason
        assert answer["unread"] in known.reason
        assert found(known.last_resort, expected) == expected
        reason = known.last_resort.reason if known.last_resort else ""
        assert answer.get("reason", reason) == reason
        return
    assert (known.verdict, found(known, expected)) == (answer.get("is"), expected)


JUNK = (None, True, 0, -1, "", "x", "PASS", "fail", "warning", [], {}, ["pass"], {"message": "m"})


def mutants(value: Any) -> Iterator[Any]:
    """The value with one part left out, renamed, or with something else in its place."""
    entries = list(value.items() if isinstance(value, dict) else enumerate(value))
    for key, inner in entries:
        others = [entry for entry in entries if entry[0] != key]
        for changed in (*JUNK, *(mutants(inner) if isinstance(inner, dict | list) else ())):
            rest = [*others, (key, changed)]
            yield dict(rest) if isinstance(value, dict) else [one for _, one in rest]
        if isinstance(value, dict):
            yield dict(others)
            yield dict([*others, (f"{key}s", inner)])


REPORTS = [group for group in TABLE if any("data" in answer for answer in group["answers"])]


@pytest.mark.parametrize("group", REPORTS, ids=lambda group: group["says"])
def test_no_change_of_a_report_makes_it_pass_that_does_not_say_so(
    group: Mapping[str, Any],
) -> None:
    """X.17: a fail stays one, and a report whose verdict can't be read never passes."""
    form, parts = group["form"], group["form"].get("map", {"verdict": "verdict"})
    words = parts.get("verdicts") or {"pass": "pass", "warn": "warn", "fail": "fail"}
    meanings = {word.casefold(): meant for word, meant in words.items()}
    for data in (answer["data"] for answer in group["answers"] if "data" in answer):
        for mutant in mutants(data):
            said = part(mutant, parts.get("verdict", "verdict"))
            verdict = meanings.get(
                ("" if said is MISSING else as_text(said) or "").strip().casefold(), "none"
            )
            is_left = "score" in form or not parts.keys() & {"verdict", "verdicts"}
            if said is MISSING and is_left:
                verdict = "left to the findings"
            known = read(form, {"data": mutant})
            if isinstance(known, Misread):
                kept = known.last_resort
                is_vetoed = kept and any(f.blocking and f.rule != OF_JUDGE for f in kept.findings)
                inner = mutant.values() if isinstance(mutant, dict) else ()
                wraps = {"verdict": "fail"} in [*inner]
                says = "fail" if is_vetoed or wraps else verdict
                assert kept is None or (says, kept.verdict) == ("fail", "fail"), mutant
                continue
            blocks = any(one.blocking for one in known.findings)
            passes = not known.findings
            assert (known.verdict == "fail", known.verdict == "pass") == (blocks, passes), mutant
            assert verdict != "none", mutant
            assert verdict != "fail" or known.verdict == "fail", mutant
