"""Judging artifacts by rules alone, as the fixed rules of a validator are in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopkit.engine.findings import Answer
from loopkit.language.validators import Rule
from loopkit.machine.program import with_places
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.fixed_rules import judge_placed
from loopkit.validators.setting import Setting


async def judge_deterministic(
    name: str, rules: Sequence[Rule], subject: JudgedArtifact, setting: Setting
) -> Answer:
    """The answer of the validator `name`, from those of its rules that need no model."""
    return await judge_placed(name, with_places(rules), subject, setting)


async def judge_by(rule: Rule, artifact: object, **names: Any) -> Answer:
    """The answer of one rule on the artifact `plan`, which is a text or data."""
    setting = Setting(names=names, facts={}, patterns={})
    subject = JudgedArtifact("plan", "", artifact, is_data=True)
    if isinstance(artifact, str):
        subject = JudgedArtifact("plan", artifact)
    return await judge_deterministic("rules", [rule], subject, setting)


def told_in(answer: Answer) -> list[str]:
    """What an answer with a verdict finds."""
    assert answer.verdict in ("pass", "fail"), answer.reason
    return [finding.message for finding in answer.findings]
