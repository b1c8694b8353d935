"""Severities of a rule's findings: whether they can block, and whether they can only warn."""

from __future__ import annotations

from loopkit.language import Machine, Rule, ValidateState
from loopkit.language.severities import Severities


def levels_at(machine: Machine, state: ValidateState) -> Severities:
    """The severities as a state counts them."""
    return machine.levels.blocking_from(state.block)


def may_block(rule: Rule, levels: Severities) -> bool:
    """Whether a finding of a rule can block."""
    return levels.blocks(rule.severity or levels.worst)


def may_warn(rule: Rule, state: ValidateState, levels: Severities) -> bool:
    """Whether a finding of a rule can be one that does not block."""
    if state.settle_after is not None or not may_block(rule, levels):
        return True
    if rule.forgives or (rule.asks is not None and state.combine == "majority"):
        return True
    return rule.grades and not levels.blocks(levels.levels[-1])
