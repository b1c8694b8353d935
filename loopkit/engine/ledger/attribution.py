"""Attribution: the states that have to mend each finding, by what its reviewer says."""

from __future__ import annotations

from collections.abc import Iterable

from loopkit.engine.findings import Finding
from loopkit.machine.origins import Origins


def attributed(findings: Iterable[Finding], origins: Origins, author: str) -> tuple[Finding, ...]:
    """The findings in what an author wrote, each with its origins; one without falls to a default.

    What names a state that works later than the author is the author's own.
    """
    return tuple(
        finding.replace(
            origins=origins.of_finding(finding.origins, author), defaulted=not finding.origins
        )
        for finding in findings
    )


def earliest(findings: Iterable[Finding], origins: Origins) -> str | None:
    """The earliest origin of what blocks; none where nothing does or no origins are declared."""
    found = (origin for finding in findings if finding.blocking for origin in finding.origins)
    return next(iter(origins.in_order(found)), None)
