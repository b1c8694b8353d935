"""Panels in a suggested case: the result of each program and judge on one visit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from loopkit.language import CommandRule, JudgeRule, Rule
from loopkit.language.facts import STALLED
from loopkit.machine.program import Program
from loopkit.testing.played_parts import Call
from loopkit.testing.suggesting.causes import applicable_rules, breakable, cause_of_report
from loopkit.testing.suggesting.ways import Step
from loopkit.testing.suggesting.wording import (
    guard_in_words,
    reading_in_words,
    report_facts_in_words,
    report_in_words,
    report_output_in_words,
    schema_in_words,
    todo,
)
from loopkit.validators.judges.forms import report_form_of

AGENT_FAULTS: Mapping[str, Call] = {
    "transient": {"fault": "rate_limit"},
    "content": {"fault": "cut_off"},
    "fatal": {"fault": "authentication"},
}
COMMAND_FAULTS: Mapping[str, Call] = {
    "transient": {"fault": "timeout"},
    "fatal": {"fault": "not_found"},
}
PASS: Call = {"data": {"verdict": "pass", "findings": []}}
"""The only report in our form that accepts."""
NO_REPORT: Call = {"reply": "I have nothing to say."}


class Panel:
    """The rules of a validate state, and the cause of its report."""

    def __init__(
        self, program: Program, step: Step, visit: int, facts: Mapping[str, object]
    ) -> None:
        """`facts` are those that guards of rules read; raises NoCause."""
        self._program, self._step, self._visit = program, step, visit
        self._state = program.graph.judges[step.source]
        self._asked = applicable_rules(program, self._state, facts)
        self.cause = cause_of_report(program, step, self._asked)

    @property
    def name(self) -> str:
        return self._step.source

    @property
    def artifact(self) -> str:
        """The artifact that is judged."""
        return self._state.validate_

    @cached_property
    def facts(self) -> list[str]:
        """What guards read of the report besides its verdict, for the one that brings it about."""
        lines = list(report_facts_in_words(self.cause.row))
        if self._visit > 1 and self.cause.row.get(STALLED) is False:
            lines.append("what is found is not the same as in the round before")
        edge = self._step.move.edge
        is_guarded = bool(lines) and edge is not None and edge.guard is not None
        return [*lines, guard_in_words(edge)] if edge is not None and is_guarded else lines

    # -- rules on texts --------------------------------------------------------------------

    @cached_property
    def broken(self) -> Sequence[Rule]:
        """The rules, one of which has to find something."""
        if self.cause.by != "text":
            return ()
        chosen = [rule for place, rule in self._texts if self._is_meant(place, "text")]
        return breakable(self._program, self._state, chosen, self.cause.row)

    @cached_property
    def kept(self) -> Sequence[Rule]:
        """The rules that must not find anything, where that matters."""
        if self.cause.by in ("artifact", "author"):
            return ()
        return [rule for _, rule in self._texts if rule not in self.broken]

    @property
    def _texts(self) -> Iterator[tuple[str, Rule]]:
        for place, rules in self._asked.items():
            yield from ((place, rule) for rule in rules if not rule.played)

    # -- programs --------------------------------------------------------------------------

    def has_baseline(self, place: str) -> bool:
        """Whether a program ran once before the run's first work."""
        rules = self._program.validators_of(self._state)[place]
        return any(rule.has_baseline for rule in rules)

    def results(self) -> Iterator[tuple[str, Call]]:
        """The result of each program, by validator."""
        if self.cause.by in ("artifact", "author"):
            return
        for place, rules in self._asked.items():
            rule = next((rule for rule in rules if isinstance(rule, CommandRule)), None)
            if rule is not None:
                yield place, self._result(place, rule)
            if self._state.stop == "first" and self.cause.verdict == "fail" and (
                self.cause.by in ("text", "command") and self._is_meant(place, self.cause.by)
            ):  # fmt: skip
                return

    def _result(self, place: str, rule: CommandRule) -> Call:
        is_meant, event = self._is_meant(place, "command"), self._step.move.event
        verdict = (self.cause.verdict or "incomplete") if is_meant else "pass"
        if verdict == "incomplete":
            lost = COMMAND_FAULTS.get(event, COMMAND_FAULTS["fatal"])
            tries = rule.retry.attempts if event == "transient" else 1
            return {**lost, "earlier": [lost] * (tries - 1)} if tries > 1 else lost
        code = rule.fail_codes[0] if verdict == "fail" and rule.fail_codes else 0
        if verdict == "warn" and rule.parse in ("exit_code", "junit"):
            code = rule.fail_codes[0]
        ended = {"exit_code": code} if code else {}
        if not is_meant and _is_silent(rule):
            return ended
        head = f"Put `stdout:` here: what `{place}` prints, with the verdict {verdict}"
        lines = list(output_in_words(rule, verdict, self._program.machine.patterns))
        return todo(head, lines + (self.facts if verdict != "pass" else []), **ended)

    # -- judges ----------------------------------------------------------------------------

    def replies(self, refused: Callable[[], Call]) -> Iterator[tuple[str, str, list[Call]]]:
        """The calls of each judge, by agent and validator, as often as it is asked."""
        cause = self.cause
        is_decided = cause.by in ("text", "command") and cause.verdict != "warn"
        for place, rule in self._judges:
            if cause.by in ("artifact", "author") or (is_decided and not rule.always):
                continue
            calls = [refused()] if self._step.move.event == "limit" else None
            is_meant = self._is_meant(place, "judge")
            verdict = (cause.verdict or "incomplete") if is_meant else "pass"
            again = rule.confirm is not None and verdict == "fail"
            for _ in range(rule.samples + again):
                yield rule.judge, place, calls or self._judge_calls(place, rule, verdict)

    @property
    def _judges(self) -> Iterator[tuple[str, JudgeRule]]:
        for place, rules in self._asked.items():
            yield from ((place, rule) for rule in rules if isinstance(rule, JudgeRule))

    def _judge_calls(self, place: str, rule: JudgeRule, verdict: str) -> list[Call]:
        if verdict == "incomplete":
            return self._failing_calls(rule)
        if verdict == "pass" and rule.is_own_form and rule.score is None:
            return [PASS]
        machine = self._program.machine
        lines = list(self.facts) if self._is_meant(place, "judge") else []
        key = "data"
        if rule.verdict is not None:
            key, said = "reply", reading_in_words(rule.verdict, verdict, machine.patterns)
        else:
            agent = machine.agents[rule.judge]
            said = report_in_words(report_form_of(rule, agent, machine.levels), verdict)
            lines += schema_in_words(agent.schema_ if rule.map is not None else None)
        head = f"Put `{key}:` here: the report of `{rule.judge}` in round {self._visit} of "
        return [todo(f"{head}`{self._step.source}`, with the verdict {verdict}", [*said, *lines])]

    def _failing_calls(self, rule: JudgeRule) -> list[Call]:
        event = self._step.move.event
        if event == "content":
            return [NO_REPORT] * (1 + rule.reask)
        if event != "transient":
            return [AGENT_FAULTS["fatal"]]
        return [AGENT_FAULTS[event]] * self._program.machine.agents[rule.judge].most_tries

    def _is_meant(self, place: str, by: str) -> bool:
        return self.cause.by == by and self.cause.place in ("", place)


def output_in_words(rule: CommandRule, verdict: str, patterns: Mapping[str, str]) -> Iterator[str]:
    """What a program has to print for a verdict, where its exit code does not say it all."""
    if rule.verdict is not None:
        yield from reading_in_words(rule.verdict, verdict, patterns)
    elif rule.parse != "exit_code":
        yield from report_output_in_words(rule, verdict)


def _is_silent(rule: CommandRule) -> bool:
    """Whether a program that finds nothing may print nothing."""
    return rule.verdict is None and rule.parse in ("exit_code", "lines")


def baselines(program: Program) -> Iterator[tuple[str, Call]]:
    """The results of programs that run once before the run's first work, by validator."""
    for name in program.graph.judges:
        for place, rules in program.validators_at(name).items():
            for rule in rules:
                if isinstance(rule, CommandRule) and rule.baseline:
                    yield place, _baseline_result(place, rule, program.machine.patterns)


def _baseline_result(place: str, rule: CommandRule, patterns: Mapping[str, str]) -> Call:
    if _is_silent(rule):
        return {}
    lines = output_in_words(rule, "pass", patterns)
    return todo(f"Put `stdout:` here: what `{place}` prints before the first work", lines)
