"""The `python` rule: a function of a plug-in judges."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field

from loopkit.language.noun import FUNCTION_PATTERN, Duration, Spelled, Texts
from loopkit.language.validators.rule import Example, FixedRule

PLUGIN_PATTERN = rf"^({FUNCTION_PATTERN}|[A-Za-z_][\w.-]*)$"


PluginName = Annotated[
    str,
    Spelled(
        PLUGIN_PATTERN,
        "bad-plugin",
        "names no function",
        "write `package.module:function`, without `.py`, or an installed plug-in's name",
        re.ASCII,
    ),
]
"""`package.module:function`, or the name of an entry point of the group `loopkit.validators`."""


_TASTE = """
def check(text, context):
    return [] if "tea" in text else ["No tea."]
"""


class PythonRule(FixedRule):
    """Runs a Python function as a validator, in a process of its own."""

    python: PluginName
    """`package.module:function`, or the name under which a package registers its plug-in."""
    with_: dict[str, Any] = Field({}, alias="with")
    """Arguments for the function, as data; not templates."""
    sees: Texts = ()
    """Further values to pass to the function, such as another artifact: `plan`."""
    folder: str | None = None
    """The folder to search first for modules, relative to the machine file. Default: the machine
    file's own folder."""
    timeout: Duration = 60.0
    """The time after which the function is killed; there is no verdict then."""
    env: Texts = ()
    """Environment variables to pass on, besides the harmless ones."""

    kind = "python"
    may_be_lost = True
    example = Example(
        {"python": "taste:check"},
        passes="Some tea.",
        fails="Some water.",
        files={"taste.py": _TASTE},
    )

    @property
    def grades(self) -> bool:
        return True

    @property
    def tells_more(self) -> bool:
        return True

    @property
    def read_codes(self) -> frozenset[str] | None:
        return None

    @property
    def mentions(self) -> Iterator[str]:
        """The names that it reads: the whole input, and those under `sees`."""
        yield "input"
        yield from self.sees

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"`{self.python}` finds nothing"

    def with_paths_from(self, folder: Path) -> Self:
        placed = (folder / (self.folder or ".")).resolve()
        return self.model_copy(update={"folder": str(placed)})

    @property
    def is_entry_point(self) -> bool:
        return ":" not in self.python
