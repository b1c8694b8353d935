"""Whether the rules of a validate state would find in a text what they should find."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from loopkit.drive.fields import extract
from loopkit.engine.events import Artifact
from loopkit.engine.findings import Answer, Finding
from loopkit.engine.names import AllNames, attempt_of
from loopkit.engine.state import RunState
from loopkit.language import AuthorState, CommandRule, JudgeRule, ValidateState
from loopkit.machine.graph import output_of
from loopkit.machine.program import Program
from loopkit.testing.suggesting.wants import Want
from loopkit.validators import Setting, Subject, judge_deterministic

T = TypeVar("T")


def version(program: Program, run: RunState, author: str, value: object) -> Artifact:
    """What an author's answer becomes: a text with its fields, or data."""
    state = program.machine.states[author]
    assert isinstance(state, AuthorState)
    output = output_of(state, author)
    attempt = run.attempts.get(author, 0) + 1
    if not isinstance(value, str):
        return Artifact(
            name=output.name, author=author, attempt=attempt, text="", data=value, is_data=True
        )
    fields = extract(value, output.fields, program.machine.patterns)
    return Artifact(name=output.name, author=author, attempt=attempt, text=value, fields=fields)


@dataclass(frozen=True)
class Bench:
    """The rules that look at a new version of an artifact."""

    program: Program
    run: RunState
    """Where the run stands before the author has answered."""

    def finds(self, want: Want, artifact: Artifact) -> bool:
        """Whether the report on this version can be the one that is wanted."""
        name = want.step.source
        state = self.program.machine.states[name]
        assert isinstance(state, ValidateState)
        answers = self._answers(name, state, artifact)
        if any(answer.verdict == "error" for answer in answers):
            return False
        findings = [finding for answer in answers for finding in answer.findings]
        return _fits(want, findings)

    def _answers(self, name: str, state: ValidateState, artifact: Artifact) -> list[Answer]:
        attempts = {**self.run.attempts, artifact.author: artifact.attempt}
        run = self.run.copy()
        run.state, run.attempts = name, attempts
        run.artifacts[artifact.name] = artifact
        setting = Setting(
            names=AllNames(self.program, run),
            facts=self.program.rule_facts(run.input, attempt_of(self.program, run)),
            patterns=self.program.machine.patterns,
            severities=self.program.machine.levels.counted_from(state.block),
        )
        subject = Subject(artifact.name, artifact.text, artifact.data, artifact.is_data)
        answers: list[Answer] = []
        for place, rules in self.program.validators_of(state).items():
            fixed = [rule for rule in rules if not isinstance(rule, JudgeRule | CommandRule)]
            if fixed:
                answers.append(at_once(judge_deterministic(place, fixed, subject, setting)))
            if state.stop == "first" and any(f.blocking for a in answers for f in a.findings):
                break
        return answers


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing: rules do not, but for commands."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("a rule waited for something")


def _fits(want: Want, findings: Sequence[Finding]) -> bool:
    """Whether these findings do, with those of programs and judges that are still to come."""
    blocking = [finding for finding in findings if finding.blocking]
    mild = [finding for finding in findings if not finding.blocking]
    codes = {finding.code for finding in findings}
    wanted = want.row.get("codes", frozenset())
    if want.by in ("judge", "command"):
        return not blocking
    if want.verdict == "fail":
        fits = bool(blocking) and isinstance(wanted, frozenset) and wanted <= codes
        return fits and _counts(want, len(blocking), len(mild))
    if want.verdict == "warn":
        return not blocking and bool(mild) and _counts(want, 0, len(mild))
    if want.verdict in ("pass", "not_applicable"):
        return not findings
    return not blocking


def _counts(want: Want, errors: int, warnings: int) -> bool:
    counted = {"error_count": errors, "warning_count": warnings}
    return all(want.row.get(name, number) == number for name, number in counted.items())
