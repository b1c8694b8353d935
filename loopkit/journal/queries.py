"""The SQL statements of `queries.sql`, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

_HEADING = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def parse_queries(text: str) -> Mapping[str, str]:
    """The parts of `text` by the name in the comment line above each."""
    _preamble, *parts = _HEADING.split(text)
    return MappingProxyType(dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True)))


SQL = parse_queries(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))

MIGRATIONS: Sequence[Sequence[str]] = (
    SQL["migration_1"].split(";"),
    SQL["migration_2"].split(";"),
)
"""The statements that lead from each schema version to the next, from an empty file on."""

STAND_INS: Mapping[int, str] = MappingProxyType({2: SQL["stand_in_2"]})
"""By schema version: the statement that replaces its tables if an earlier one may only be read."""
