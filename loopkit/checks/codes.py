"""Every code of a problem, in the table `codes.txt`.

A row has the code; `warning` or `note` where it is no error, and `key` where its place is the key,
both as far as the check does not say otherwise; and its meaning, in the words of `docs/checks.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from loopkit.document.problems import Severity
from loopkit.values import Value


class Code(Value, frozen=True):
    meaning: str
    severity: Severity = "error"
    at_key: bool = False


def _code(meaning: str, kind: str = "error") -> Code:
    severity = cast("Severity", kind.removesuffix("key").strip() or "error")
    return Code(meaning, severity, kind.endswith("key"))


_ROWS = Path(__file__).with_name("codes.txt").read_text(encoding="utf-8").splitlines()
CODES: Mapping[str, Code] = {
    code: _code(*reversed(rest)) for code, *rest in (row.split(" | ") for row in _ROWS)
}
