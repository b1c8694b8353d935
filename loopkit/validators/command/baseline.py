"""Baselines: findings from before any work become advice; others count."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.identity import Defect, finding_ids
from loopkit.language import CommandRule
from loopkit.language.severities import Severities
from loopkit.validators.fault import MAX_FAULTS, CannotJudge, Fault
from loopkit.validators.setting import Setting


def ids_of(rule: CommandRule, faults: Sequence[Fault], setting: Setting) -> list[str]:
    """The ids of these faults, which are the same before any work and after it."""
    name = rule.code or setting.place
    defects = [Defect(name, f.location, f.exact or f.steady, f.key) for f in faults]
    return finding_ids(setting.validator, defects)


def mark_known(rule: CommandRule, faults: Sequence[Fault], setting: Setting) -> list[Fault]:
    """The faults, with those of the baseline as advice; raises CannotJudge without a baseline."""
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
    """At most MAX_FAULTS faults, worst first, and one more that counts the rest."""
    if len(faults) <= MAX_FAULTS:
        return list(faults)

    def badness(fault: Fault) -> tuple[bool, int]:
        return fault.is_known, levels.rank(fault.severity or levels.ungraded)

    ordered = sorted(faults, key=badness)
    rest = ordered[MAX_FAULTS:]
    message = f"{len(rest):,} more findings are not named here"
    worst = rest[0]
    return [
        *ordered[:MAX_FAULTS],
        Fault(message, message, severity=worst.severity, is_known=worst.is_known, value=message),
    ]
