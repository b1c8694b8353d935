"""Text as nobody would write it: runs of one sign, half-open brackets, odd characters, floods."""

from __future__ import annotations

from random import Random

SIGNS = (
    " ", "\t", "\n", "\r", "\r\n", "\u00a0", "\u2003", "\u2028", "\x00", "\x1b[31m", "\u202e",
    "\ufeff", "\ud800", "\u0301", "é", "字", "🙂", "`", "```", "~~~", "#", "# ", "## Goal\n", "*",
    "**", "_", "- ", "- [ ] ", "1. ", "> ", "|", "---\n", "===\n", "[", "]", "(", ")", "[[", "](",
    "![", "<", "</", "<!--", "-->", "&", "&amp;", "\\", '"', "'", "''", '\\"', "{", "}", "{{", "}}",
    "{%", "%}", "${", "{#", ":", ": ", ",", "a", "A ", "aa\n", "0", "9", "1e9", "-", "+", ".", "..",
    "../", "/", "%s", "%", "$", "^", "?", "!", "@", "PASS", "FAIL", "VERDICT: ", "null", "true",
    "NaN", "### Task 1:", "<?xml", "<!DOCTYPE", "data:", "http://", "sk-", "\n\n", "    ", "\f",
)  # fmt: skip
LENGTHS = (0, 1, 2, 3, 7, 30, 100, 1_000, 10_000, 60_000)


def text(random: Random, most: int = 60_000) -> str:
    """A text of a few runs."""
    made = "".join(_run(random, most) for _ in range(random.choice((1, 1, 2, 3, 5, 20))))
    return made[:most]


def _run(random: Random, most: int) -> str:
    signs = "".join(random.choices(SIGNS, k=random.choice((1, 1, 1, 2, 3, 6))))
    length = min(most, random.choice(LENGTHS))
    return (signs * (length // max(1, len(signs)) + 1))[:length]


def mutated(random: Random, original: str) -> str:
    """A text with some of it cut out, doubled, or replaced by runs."""
    for _ in range(random.choice((1, 1, 2, 5))):
        start = random.randrange(len(original) + 1)
        end = min(len(original), start + random.choice((0, 0, 1, 5, 40, 400)))
        middle = random.choice(
            ("", original[start:end] * 2, random.choice(SIGNS), _run(random, 500))
        )
        original = original[:start] + middle + original[end:]
    return original
