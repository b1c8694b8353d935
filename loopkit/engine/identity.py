"""Identity of findings: which are the same defect, over rounds and rewordings."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import lru_cache

from loopkit.text import as_nfc
from loopkit.values import Value

_LINE = re.compile(
    r"\b(?:(?:at|on|in|near)\s+)?(?:lines?|columns?|col\.?)\s*\d+(?:\s*(?:[-–,]|to|and)\s*\d+)*"
)
_LINE_AFTER_FILE = re.compile(r"(?<=\w)(\.\w{1,8}):\d+(?:[:-]\d+)*")

REMEMBERED_CHARS = 1000
"""The most characters of a finding whose id is cached: a few words, not megabytes."""

OF_ARTIFACT = "artifact"
"""The validator of content faults, whoever looks at the artifact."""

OF_JUDGE = "judge"
"""The rule of all findings of judges. The codes that these give vary too much to identify any."""

OF_CHECK = "judge.check"
"""The rule of findings from false checks in a judge's report."""


class Defect(Value, frozen=True):
    """What tells one defect of a validator from another."""

    rule: str
    location: str = ""
    message: str = ""
    key: str = ""
    """Its reviewer's name for it, however the rest is worded; if there is one, it alone counts."""


def finding_id(validator: str, rule: str, location: str, message: str) -> str:
    """Twelve hex digits that stay the same while the defect does.

    Location and message are compared by NFC, without regard to case, white space, a full stop at
    the end, and lines and columns in them ("on line 12", "plan.md:12:5"), so that a defect which
    only moved down the text keeps its id. All other numbers count: "Task 2" is not "Task 3", and
    `nodes[2]` not `nodes[3]`.
    """
    is_short = len(location) + len(message) <= REMEMBERED_CHARS
    return (_remembered_id if is_short else _finding_id)(validator, rule, location, message)


def _finding_id(validator: str, rule: str, location: str, message: str) -> str:
    return _digest([validator, rule, _normalise(location), _normalise(message)])


_remembered_id = lru_cache(maxsize=1024)(_finding_id)
"""`_finding_id` with a cache, because defects recur over rounds and runs."""


def finding_ids(
    validator: str, defects: Iterable[Defect], *, shares_keys: bool = False
) -> list[str]:
    """An id of its own for each defect, in order.

    Equal defects are counted, so that mending one of three is seen as progress: the third loses
    its id, the first two keep theirs. With `shares_keys` one key is one defect whichever validator
    names it.
    """
    seen: dict[str, int] = {}
    ids = []
    for defect in defects:
        scope = "" if defect.key and shares_keys else validator
        first = _id(scope, defect)
        seen[first] = seen.get(first, 0) + 1
        ids.append(first if seen[first] == 1 else _id(scope, defect, f"#{seen[first]}"))
    return ids


def _id(scope: str, defect: Defect, number: str = "") -> str:
    if not defect.key:
        return finding_id(scope, defect.rule, f"{defect.location}{number}", defect.message)
    key = " ".join(as_nfc(defect.key).casefold().split())
    return _digest([scope, defect.rule, "key", key, number])


def _digest(parts: list[str]) -> str:
    # JSON, because it keeps the parts apart and can spell any text.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _normalise(text: str) -> str:
    folded = as_nfc(text).casefold()
    placeless = _LINE_AFTER_FILE.sub(r"\1", _LINE.sub(" ", folded))
    return " ".join(placeless.split()).rstrip(".! ")
