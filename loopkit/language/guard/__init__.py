"""The guard language: conditions on facts, checked before a run and unable to fail in one.

It is allow-listed: what the grammar does not name cannot be written. `parse` a text, `expand` the
named guards in it, `check` names and types, `compile_guard`; for data whose fields are not known
beforehand, `parse_requirement`.
"""

from loopkit.language.guard.evaluate import compile_guard
from loopkit.language.guard.expand import expand, readable
from loopkit.language.guard.grammar import KEYWORDS, parse
from loopkit.language.guard.paths import parse_path, select
from loopkit.language.guard.requirement import parse_requirement
from loopkit.language.guard.tokens import GuardError, GuardProblem
from loopkit.language.guard.tree import Guard
from loopkit.language.guard.type_check import GuardType, check

__all__ = [
    "KEYWORDS",
    "Guard",
    "GuardError",
    "GuardProblem",
    "GuardType",
    "check",
    "compile_guard",
    "expand",
    "parse",
    "parse_path",
    "parse_requirement",
    "readable",
    "select",
]
