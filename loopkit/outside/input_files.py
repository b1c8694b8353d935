"""The input of a run as a file of JSON, for a program that cannot take it as an argument."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

_PREFIX = "loopkit-input-"


@contextmanager
def input_file(
    name: str, data: Mapping[str, Any], names: frozenset[str]
) -> Iterator[dict[str, str]]:
    """The path of the file under its `name`, if that is among `names`; it goes with the program.

    Nobody else can read it.
    """
    if name not in names:
        yield {}
        return
    with TemporaryDirectory(prefix=_PREFIX) as folder:
        path = Path(folder, "input.json")
        path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
        yield {name: str(path)}


def without_folders(text: str) -> str:
    """The output of a program with the input file by its name alone: its folder always differs."""
    if _PREFIX not in text:
        return text
    return re.sub(rf"{re.escape(gettempdir())}/{_PREFIX}\w{{1,20}}/", "", text)
