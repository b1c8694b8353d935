"""Baselines: findings that a program had before any work become advice; others count."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.identity import Defect, finding_ids
from loopkit.language import CommandRule
from loopkit.language.severities import Severities
from loopkit.validators.fault import MAX_FAULTS, CannotJudge, Fault
from loopkit.validators.setting import Setting


def ids_of(rule: CommandRule, faults: Sequence[Fault], setting: Setting) -> list[str]:
    """What tells these faults apart, before any work and after it."""
    name = rule.code or setting.place
    defects = [Defect(name, f.location, f.exact or f.steady, f.key) for f in faults]
    return finding_ids(setting.validator, defects)


def mark_known(rule: CommandRule, faults: Sequence[Fault], setting: Setting) -> list[Fault]:
    """The faults, those of the baseline as advice; raises CannotJudge where there is none."""
    if not rule.baseline:
        return list(faults)
    known = setting.baselines.get(setting.place)
    if known is None:
        raise CannotJudge(
            f"`{rule.command[0]}` was not run before the first work, so there is no "
            "baseline to compare with; start a new run"
        )
    advisory = setting.severities.advisory
    return [
        fault.replace(
            message=f"{fault.message} (was there before)", severity=advisory, is_known=True
        )
        if identity in known
        else fault
        for fault, identity in zip(faults, ids_of(rule, faults, setting), strict=True)
    ]


def cap_faults(faults: Sequence[Fault], levels: Severities) -> list[Fault]:
    """At most so many faults as one rule names, worst first, and how many more there are."""
    if len(faults) <= MAX_FAULTS:
        return list(faults)

    def badness(fault: Fault) -> tuple[bool, int]:
        return fault.is_known, levels.rank(fault.severity or levels.ungraded)

    ordered = sorted(faults, key=badness)
    rest = ordered[MAX_FAULTS:]
    told = f"{len(rest):,} more findings are not named here"
    worst = rest[0]
    return [
        *ordered[:MAX_FAULTS],
        Fault(told, told, severity=worst.severity, is_known=worst.is_known, value=told),
    ]
