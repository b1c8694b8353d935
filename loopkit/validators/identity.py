"""Which findings are the same defect, over rounds and rewordings."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable

from loopkit.text import composed

_LINE = re.compile(
    r"\b(?:(?:at|on|in|near)\s+)?(?:lines?|columns?|col\.?)\s*\d+(?:\s*(?:[-–,]|to|and)\s*\d+)*"
)
_LINE_AFTER_FILE = re.compile(r"(?<=\w)(\.\w{1,8}):\d+(?:[:-]\d+)*")

OF_ARTIFACT = "artifact"
"""Stands for the validator of what is wrong with an artifact, whoever looks at it."""


def finding_id(validator: str, rule: str, location: str, message: str) -> str:
    """Twelve hex digits that stay the same while the defect does.

    Location and message are compared by NFC, without regard to case, white space, a full stop at
    the end, and lines and columns in them ("on line 12", "plan.md:12:5"), so that a defect which
    only moved down the text keeps its id. All other numbers count: "Task 2" is not "Task 3", and
    `nodes[2]` not `nodes[3]`.
    """
    parts = [validator, rule, _normalised(location), _normalised(message)]
    # JSON, because it keeps the parts apart and can spell any text.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def finding_ids(validator: str, defects: Iterable[tuple[str, str, str]]) -> list[str]:
    """An id of its own for each (rule, location, message), in order.

    Equal defects are counted, so that mending one of three is seen as progress: the third loses
    its id, the first two keep theirs.
    """
    seen: Counter[str] = Counter()
    ids = []
    for rule, location, message in defects:
        first = finding_id(validator, rule, location, message)
        seen[first] += 1
        again = f"{location}#{seen[first]}"
        ids.append(first if seen[first] == 1 else finding_id(validator, rule, again, message))
    return ids


def _normalised(text: str) -> str:
    folded = composed(text).casefold()
    placeless = _LINE_AFTER_FILE.sub(r"\1", _LINE.sub(" ", folded))
    return " ".join(placeless.split()).rstrip(".! ")
