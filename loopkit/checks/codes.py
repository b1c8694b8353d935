"""Every code of a problem, in the table `codes.txt`, from which `docs/reference/checks.md` is made.

Each has the code, with `error`, `warning` or `note`, and `key` where its place is the key, both as
far as the check does not say otherwise; then its meaning, an example or –, and what to do or –.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from loopkit.document.problems import Severity
from loopkit.values import Value


class Code(Value, frozen=True):
    meaning: str
    severity: Severity
    at_key: bool


TABLE = Path(__file__).with_name("codes.txt")
ENTRY = re.compile(r"(?m)^([a-z0-9-]+): (\w+)( key)?\n    (.+)\n    (.+)\n    (.+)$")
CODES: Mapping[str, Code] = {
    code: Code(meaning, cast("Severity", severity), bool(key))
    for code, severity, key, meaning, *_ in ENTRY.findall(TABLE.read_text(encoding="utf-8"))
}
