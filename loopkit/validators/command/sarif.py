"""`parse: sarif`: the results of static analysis in SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from loopkit.language.severities import Severities
from loopkit.text.json_text import NoJson, parse_output
from loopkit.validators.command.reader import (
    Reading,
    Unreadable,
    fault_at,
    refuse_too_many,
    relative_path,
)
from loopkit.validators.fault import Fault
from loopkit.validators.judges.findings import MAX_LINE

Record = Mapping[str, Any]
NOTHING: Record = {}


def read_sarif(text: str, reading: Reading) -> list[Fault]:
    """Each result that is a problem: not suppressed, of the kind `fail`, and still there.

    `error` is as severe as what blocks, `warning` as what advises, `note` as the mildest level;
    `none` is not a finding. Raises Unreadable for anything but SARIF, a run without results, and
    one whose tool says that it did not succeed.
    """
    log = parse_output(text)
    if isinstance(log, NoJson):
        raise Unreadable(f"it is not JSON: {log.reason}")
    runs = _record(log).get("runs")
    if not isinstance(runs, list) or not runs:
        raise Unreadable("it is not SARIF: it has no `runs`")
    return refuse_too_many(found for run in runs for found in _run_faults(_record(run), reading))


def _run_faults(run: Record, reading: Reading) -> Iterator[Fault]:
    results = run.get("results")
    if not isinstance(results, list):
        raise Unreadable("it is not complete SARIF: a run of it has no `results`")
    for invocation in _list(run.get("invocations")):
        if _record(invocation).get("executionSuccessful") is False:
            raise Unreadable("its tool says that it did not succeed (`executionSuccessful`)")
    rules = _Rules.of(run)
    for result in results:
        if (fault := _fault(_record(result), rules, reading)) is not None:
            yield fault


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of a run, in their order and by id."""

    listed: Sequence[Record]
    by_id: Mapping[str, Record]

    @classmethod
    def of(cls, run: Record) -> _Rules:
        driver = _record(_record(run.get("tool")).get("driver"))
        listed = [_record(rule) for rule in _list(driver.get("rules"))]
        # Of two rules with one id the first counts.
        return cls(listed, {_text(rule.get("id")): rule for rule in reversed(listed)})


def _fault(result: Record, rules: _Rules, reading: Reading) -> Fault | None:
    rule = _rule_of(result, rules)
    default = _record(rule.get("defaultConfiguration")).get("level") or "warning"
    level = result.get("level") or default
    is_none = level == "none" or result.get("kind", "fail") != "fail"
    if is_none or result.get("baselineState") == "absent" or _is_suppressed(result):
        return None
    file, line, column = _place(result, reading)
    code = _text(result.get("ruleId")) or _text(rule.get("id"))
    severity = _severity(level, reading.levels)
    return fault_at(_message(result, rule, code), file, line, column, code=code, severity=severity)


def _rule_of(result: Record, rules: _Rules) -> Record:
    reference = _record(result.get("rule"))
    index = result.get("ruleIndex", reference.get("index"))
    if isinstance(index, int) and 0 <= index < len(rules.listed):
        return rules.listed[index]
    name = _text(result.get("ruleId", reference.get("id")))
    return rules.by_id.get(name, NOTHING) if name else NOTHING


def _is_suppressed(result: Record) -> bool:
    suppressions = [_record(one) for one in _list(result.get("suppressions"))]
    accepted = all(one.get("status", "accepted") == "accepted" for one in suppressions)
    return bool(suppressions) and accepted


def _severity(level: object, levels: Severities) -> str:
    known = {"error": levels.ungraded, "warning": levels.advisory, "note": levels.levels[-1]}
    if not isinstance(level, str) or level not in known:
        raise Unreadable("it is not SARIF: the level of a result is not a SARIF level")
    return known[level]


def _place(result: Record, reading: Reading) -> tuple[str, int | None, int | None]:
    first = next(iter(_list(result.get("locations"))), None)
    physical = _record(_record(first).get("physicalLocation"))
    uri = _text(_record(physical.get("artifactLocation")).get("uri"))
    path = unquote(uri.removeprefix("file://"))
    region = _record(physical.get("region"))
    return (
        relative_path(path, reading.folder),
        _number(region.get("startLine")),
        _number(region.get("startColumn")),
    )


def _message(result: Record, rule: Record, code: str) -> str:
    message = _record(result.get("message"))
    text = _text(message.get("text")) or _text(message.get("markdown"))
    described = _text(_record(rule.get("shortDescription")).get("text"))
    return text or described or code or "a finding without a message"


def _number(value: object) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_LINE
    return value if is_one and isinstance(value, int) else None


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _record(value: object) -> Record:
    return value if isinstance(value, dict) else NOTHING


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
