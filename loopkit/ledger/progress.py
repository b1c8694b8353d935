"""Whether revising made progress: what two versions must share to be the same, and what repeats."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence

from loopkit.events import Artifact
from loopkit.findings import Report
from loopkit.runstate import Round


def stalled(earlier: Sequence[Round], artifact: Artifact, report: Report, stall: int) -> bool:
    """Whether revising made no progress.

    True when the artifact equals an earlier attempt, or when for some period p
    the last `stall`·p sets of blocking finding ids repeat with period p.
    """
    text = normalised(artifact)
    if any(normalised(entry.judged) == text for entry in earlier):
        return True
    sets = [frozenset(f.id for f in entry.report.blocking) for entry in earlier]
    sets.append(frozenset(f.id for f in report.blocking))
    return any(_repeats(sets, period, stall) for period in range(1, len(sets) // stall + 1))


def _repeats(sets: Sequence[frozenset[str]], period: int, stall: int) -> bool:
    tail = sets[-stall * period :]
    return all(tail[i] == tail[i - period] for i in range(period, len(tail)))


def normalised(artifact: Artifact) -> str:
    """What two versions must share to be the same: see "The findings ledger" of the language."""
    if artifact.is_data:
        return json.dumps(artifact.data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = unicodedata.normalize("NFC", artifact.text).replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n")
