"""Every code of a problem, in the table `codes.txt`, from which `docs/checks.md` is made.

A row has the code; `error`, `warning` or `note`, and `key` where its place is the key, both as far
as the check does not say otherwise; its meaning, an example, and what to do.
"""

from __future__ import annotations

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
_ROWS = (row.split(" | ") for row in TABLE.read_text(encoding="utf-8").splitlines() if " | " in row)
CODES: Mapping[str, Code] = {
    code: Code(
        meaning.replace("\\|", "|"),
        cast("Severity", kind.removesuffix(" key")),
        kind.endswith(" key"),
    )
    for code, kind, meaning, *_ in _ROWS
}
