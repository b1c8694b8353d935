"""Judging artifacts by rules alone, as the fixed rules of a validator are in a run."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.findings import Answer
from loopkit.language.validators import Rule
from loopkit.machine.program import with_places
from loopkit.validators.fixed_rules import judge_placed
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting


async def judge_deterministic(
    name: str, rules: Sequence[Rule], subject: JudgedArtifact, setting: Setting
) -> Answer:
    """The answer of the validator `name`, from those of its rules that need no model."""
    return await judge_placed(name, with_places(rules), subject, setting)
