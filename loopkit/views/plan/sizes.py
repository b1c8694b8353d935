"""Assumed sizes of prompts in tokens: their known parts, and answers of one length."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any

from loopkit.agents.model.answer_caps import longest_answer
from loopkit.engine.findings import Finding
from loopkit.engine.findings_for import plain_finding
from loopkit.language import JudgeRule, ModelAgent
from loopkit.language.template import TemplateError
from loopkit.machine.asked import RulesAsked
from loopkit.machine.edges import Edge
from loopkit.machine.program import Program
from loopkit.machine.readable import readable
from loopkit.machine.scope import FOUND
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.judges.forms import form_of
from loopkit.validators.judges.prompt import judge_prompt

BYTES_A_TOKEN = 4
FINDINGS_SHARE = 4
"""The findings of a judge are assumed to be shorter than an answer by this factor."""
_WORD = "word "


def tokens_of(text: str) -> int:
    return ceil(len(text.encode()) / BYTES_A_TOKEN)


class Sizes:
    """Sizes of everything that runs of a machine send, with as much of the input as is known."""

    def __init__(
        self, program: Program, inputs: Mapping[str, Any], answer: int, *, is_limited: bool
    ) -> None:
        """`answer` is the assumed number of tokens of an answer, unless its agent allows fewer."""
        self.findings = ceil(answer / FINDINGS_SHARE)
        self._answer = answer
        self._is_limited = is_limited
        self._program = program
        self._prompts: dict[tuple[str, str], int] = {}
        self._asked: dict[tuple[str, str, int, bool], int] = {}
        self._input = inputs
        artifacts, states = program.graph.artifacts, program.graph.states
        self._written = {
            **dict.fromkeys(("report", "reports"), answer),
            **{name: self.artifact_size(name) for name in states},
            **{name: max(map(self.artifact_size, by)) for name, by in artifacts.items()},
        }

    def answer(self, agent: ModelAgent, model: str) -> int:
        """The size of an answer: the assumed size, or the maximum of the model if that is less."""
        longest = longest_answer(agent, model, is_limited=self._is_limited)
        return self._answer if longest is None else min(self._answer, longest)

    def artifact_size(self, state: str) -> int:
        """The size of the artifact of a state."""
        agents = self._program.machine.agents_at(state)
        lengths = [
            self.answer(one, m) for one in agents if isinstance(one, ModelAgent) for m in one.model
        ]
        return max(lengths, default=self._answer)

    def prompt(self, state: str, text: str) -> int:
        """The size of a template, filled in with the input, and with answers for artifacts."""
        key = (state, text)
        if key not in self._prompts:
            self._prompts[key] = self._prompt_size(state, text)
        return self._prompts[key]

    def _prompt_size(self, state: str, text: str) -> int:
        template = self._program.template(text)
        written = {**self._written, "previous": self.artifact_size(state)}
        names: dict[str, object] = {
            **{name: self._words(written.get(name, self.findings)) for name in template.names},
            **dict.fromkeys(_NUMBERS, 1),
            **{name: [self._finding()] for name in FOUND},
            "input": self._inputs(),
        }
        try:
            return tokens_of(template.render(names))
        except TemplateError:
            # It uses fields that only a run knows, or an input that is not known.
            paths = {path[:2] for path in template.paths if path[0] in {*written, "input"}}
            return tokens_of(text) + sum(written.get(path[0], self._answer) for path in paths)

    def feedback(self, edge: Edge) -> int:
        """The size of the feedback that a revise edge gives the author."""
        return self.findings if edge.feedback is None else self.prompt(edge.target, edge.feedback)

    def judge(self, state: str, validator: str, number: int, *, again: bool) -> int:
        """The size of a judge's prompt, with the schema of its answer and, if `again`, its earlier
        findings."""
        key = (state, validator, number, again)
        if key not in self._asked:
            asked = self._program.plans[state].rules
            assert asked is not None
            rules = {(name, index): rule for name, index, rule in asked.judges}
            self._asked[key] = self._question(state, asked, rules[validator, number], again=again)
        return self._asked[key]

    def _question(self, state: str, rules: RulesAsked, rule: JudgeRule, *, again: bool) -> int:
        machine, levels = self._program.machine, rules.levels
        found = Finding(id="0" * 8, message=self._words(self.findings), severity=levels.worst)
        known = (found,) if again else ()
        form = form_of(
            rule, machine.agents[rule.judge], levels, machine.patterns, known, machine.origins
        )
        schema = tokens_of(json.dumps(form.schema)) if form.schema else 0
        judged = rules.state.validate_
        artifact = JudgedArtifact(judged, self._words(self._written.get(judged, self._answer)))
        try:
            asked = judge_prompt(rule, artifact, {"input": self._inputs()}, form)
            return schema + tokens_of(asked)
        except TemplateError:
            return schema + self.prompt(state, rule.prompt or "")

    def _finding(self) -> dict[str, object]:
        found = Finding(id="", message=self._words(self.findings), severity="")
        return plain_finding(found, self._program.report_items)

    def _inputs(self) -> object:
        return readable(dict(self._input), self._program.input_type)

    def _words(self, tokens: int) -> str:
        length = tokens * BYTES_A_TOKEN
        return (_WORD * (length // len(_WORD) + 1))[:length]


_NUMBERS = ("revision", "max_revisions", "attempt")
