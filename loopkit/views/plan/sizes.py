"""Assumed sizes of prompts in tokens: what is known of them, and answers of one length."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any

from loopkit.engine.findings import Finding
from loopkit.engine.template_values import readable
from loopkit.language import JudgeRule
from loopkit.language.template import TemplateError
from loopkit.machine.asked import RulesAsked
from loopkit.machine.graph import Edge
from loopkit.machine.program import Program
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.judges.forms import form_of
from loopkit.validators.judges.prompt import judge_prompt

BYTES_A_TOKEN = 4
FINDINGS_SHARE = 4
"""What a judge finds is taken to be so much shorter than an answer."""
_WORD = "word "


def tokens_of(text: str) -> int:
    return ceil(len(text.encode()) / BYTES_A_TOKEN)


class Sizes:
    """Of all that is sent in runs of a machine, with as much of the input as is known."""

    def __init__(self, program: Program, inputs: Mapping[str, Any], answer: int) -> None:
        """`answer` is how many tokens every answer of an agent has."""
        self.answer = answer
        self.findings = ceil(answer / FINDINGS_SHARE)
        self._program = program
        self._prompts: dict[str, int] = {}
        self._asked: dict[tuple[int, bool], int] = {}
        self._input = inputs
        graph = program.graph
        self._written = {*graph.artifacts, *graph.states, "previous", "report", "reports"}

    def prompt(self, text: str) -> int:
        """Of a template: filled in with what is known, and with answers for what agents write."""
        if text not in self._prompts:
            self._prompts[text] = self._filled(text)
        return self._prompts[text]

    def _filled(self, text: str) -> int:
        template = self._program.template(text)
        answer, findings = self._words(self.answer), self._words(self.findings)
        names: dict[str, object] = {
            **{name: answer if name in self._written else findings for name in template.names},
            **dict.fromkeys(_NUMBERS, 1),
            **{name: [_finding(findings)] for name in _FINDINGS},
            "input": self._inputs(),
        }
        try:
            return tokens_of(template.render(names))
        except TemplateError:
            # It takes parts of what only a run makes, or an input that is not given.
            written = {path[:2] for path in template.paths if path[0] in self._written | {"input"}}
            return tokens_of(text) + len(written) * self.answer

    def feedback(self, edge: Edge) -> int:
        """Of what an edge back tells the author."""
        return self.findings if edge.feedback is None else self.prompt(edge.feedback)

    def judge(self, rules: RulesAsked, rule: JudgeRule, *, again: bool) -> int:
        """Of what a judge is asked, the form of its answer included, and what it found before."""
        key = (id(rule), again)
        if key not in self._asked:
            self._asked[key] = self._question(rules, rule, again=again)
        return self._asked[key]

    def _question(self, rules: RulesAsked, rule: JudgeRule, *, again: bool) -> int:
        machine, levels = self._program.machine, rules.levels
        found = Finding(id="0" * 8, message=self._words(self.findings), severity=levels.worst)
        known = (found,) if again else ()
        form = form_of(rule, machine.agents[rule.judge], levels, machine.patterns, known)
        schema = tokens_of(json.dumps(form.schema)) if form.schema else 0
        artifact = JudgedArtifact(rules.state.validate_, self._words(self.answer))
        try:
            asked = judge_prompt(rule, artifact, {"input": self._inputs()}, form)
            return schema + tokens_of(asked)
        except TemplateError:
            return schema + self.prompt(rule.prompt or "")

    def _inputs(self) -> object:
        return readable(dict(self._input), self._program.input_type)

    def _words(self, tokens: int) -> str:
        length = tokens * BYTES_A_TOKEN
        return (_WORD * (length // len(_WORD) + 1))[:length]


_NUMBERS = ("revision", "max_revisions", "attempt")
_FINDINGS = ("findings", "warnings", "resolved", "regressed")


def _finding(message: str) -> dict[str, object]:
    return {
        **dict.fromkeys(("id", "severity", "code", "validator", "rule", "key", "location"), ""),
        "message": message,
        "line": None,
        "status": "new",
        "reviewers": [],
    }
