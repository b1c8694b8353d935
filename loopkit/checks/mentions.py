"""Names mentioned in a text, read generously: a name is unused only if no text mentions it."""

from __future__ import annotations

import re
from functools import lru_cache

from loopkit.values import Value

# An unclosed tag reaches to the end, so that the text is searched only once.
CODE = re.compile(r"\{\{.*?(?:\}\}|\Z)|\{%.*?(?:%\}|\Z)", re.DOTALL)
TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)", re.DOTALL)
PATH = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*")
HYPHENED = re.compile(r"[\w-]+")


class Mentions(Value, frozen=True):
    """The words of the code of a text; quoted words count, because they may be fields."""

    names: frozenset[str]
    whole: frozenset[str]
    """The names that occur somewhere without a field."""


@lru_cache(maxsize=4096)
def in_template(text: str) -> Mentions:
    """The names in the `{{ }}` and `{% %}` of a template."""
    return in_code(" ; ".join(CODE.findall(text)))


@lru_cache(maxsize=4096)
def in_code(text: str) -> Mentions:
    """The names in an expression: a guard, a condition, a path, the inside of a template."""
    bare = TEXT.sub(" ", text)
    paths = [re.split(r"\s*\.\s*", path) for path in PATH.findall(bare)]
    texts = [found[1:-1] for found in TEXT.findall(text)]
    quoted = [*texts, *(word for found in texts for word in re.findall(r"\w+", found))]
    # In a guard that is a name, in a template it is arithmetic.
    hyphened = HYPHENED.findall(bare)
    names = frozenset([*(step for path in paths for step in path), *quoted, *hyphened])
    return Mentions(names, frozenset(path[0] for path in paths if len(path) == 1))
