"""Content faults as findings: what is wrong with a faulty artifact."""

from __future__ import annotations

from loopkit.engine.events import Artifact
from loopkit.engine.findings import Finding
from loopkit.engine.identity import OF_ARTIFACT, finding_id


def fault_finding(artifact: Artifact, severity: str) -> Finding:
    """The author's content fault as a blocking finding."""
    return Finding(
        id=finding_id(OF_ARTIFACT, artifact.fault_code, "", artifact.fault_code),
        message=f"{artifact.name}: {artifact.fault}",
        severity=severity,
        validator=OF_ARTIFACT,
        rule=artifact.fault_code,
        code=artifact.fault_code,
        # A schema is broken in many ways; all other faults are one each.
        identified=artifact.fault_code != "schema",
    )
