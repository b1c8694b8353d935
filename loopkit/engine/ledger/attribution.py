"""Attribution: the states that have to fix each finding, by what its reviewer says."""

from __future__ import annotations

from collections.abc import Iterable

from loopkit.engine.findings import Finding
from loopkit.machine.origins import Origins


def attribute(findings: Iterable[Finding], origins: Origins, author: str) -> tuple[Finding, ...]:
    """The findings in an author's artifact, each with its origins; without any, with the default.

    A finding that names a state after the author goes to the author.
    """
    return tuple(
        finding.replace(
            origins=origins.of_finding(finding.origins, author), defaulted=not finding.origins
        )
        for finding in findings
    )


def earliest(findings: Iterable[Finding], origins: Origins) -> str | None:
    """The earliest origin of blocking findings; None without any, or without declared origins."""
    found = (origin for finding in findings if finding.blocking for origin in finding.origins)
    return next(iter(origins.in_order(found)), None)
