"""The catalogue of codes: a sentence for each, the same as in `docs/checks.md`, for tools."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from loopkit import checks


@lru_cache(maxsize=1)
def meanings() -> Mapping[str, str]:
    """The meaning of every code: those of each module of `loopkit.checks` stand in it."""
    modules = [import_module(f"{checks.__name__}.{m.name}") for m in iter_modules(checks.__path__)]
    of_checks = (getattr(module, "MEANINGS", {}) for module in modules)
    return {code: text for each in (OF_READING, *of_checks) for code, text in each.items()}


OF_READING: Mapping[str, str] = {
    "unreadable-file": "A file cannot be read, or a text from a file lies outside the folder.",
    "not-utf-8": "A file is not UTF-8 text.",
    "too-large": "A file is larger than 1,000,000 bytes.",
    "too-deep": "More than 64 levels are nested.",
    "too-many-values": "A file has more than 200,000 keys and values, aliases expanded.",
    "too-many-problems": "A file has more than 50 mistakes in its YAML; the rest was not read.",
    "empty-file": "A file is empty.",
    "not-a-mapping": "The root of a file is not a mapping.",
    "several-documents": "A second YAML document starts in a file.",
    "several-roots": "There is content after the end of the document.",
    "conflict-marker": "A merge was left unfinished.",
    "forbidden-character": "A character can't be in a text file.",
    "odd-blank": "A blank is not a space, so YAML reads it as text.",
    "tab": "The indentation contains a tab.",
    "directive": "The file starts with a YAML directive.",
    "tag": "A YAML tag is used.",
    "indentation": "A line is indented to a column where nothing can start.",
    "missing-colon": "A line is neither `key: value` nor a list item.",
    "missing-space": "The space after a colon is missing.",
    "missing-separator": "A comma or a closing bracket is missing.",
    "unclosed-bracket": "A bracket is not closed.",
    "unclosed-quote": "A quote is not closed.",
    "text-after-quote": "A text goes on behind its closing quote.",
    "unknown-escape": "A backslash precedes a character that cannot be escaped.",
    "unquoted-text": "A text has to be in quotes to be one.",
    "unquoted-colon": "A colon with a space makes a key of what was meant as text.",
    "unquoted-comma": "A comma inside `{ }` ends the text before it.",
    "unquoted-bracket": "A bracket inside `{ }` or `[ ]` cannot be part of text.",
    "unquoted-template": "A value starts with the braces of a template.",
    "block-text": "The lines of a text below `|` or `>` do not fit its start.",
    "syntax": "YAML cannot read this, and the cause is none of the others.",
    "duplicate-key": "A key is written twice.",
    "non-text-key": "A key is not text.",
    "unknown-alias": "An alias has no anchor above it.",
    "recursive-alias": "An alias is inside the value that it refers to.",
    "merge-not-mapping": "`<<` merges something that is not a mapping.",
    "unusable-number": "A number is infinite, none, or too long for 64 bits.",
    "missing-field": "A required field is not there.",
    "unknown-field": "There is no such field, or it does not belong here.",
    "wrong-kind": "A value is of another kind than its field.",
    "unknown-value": "A value is not one of those allowed.",
    "empty": "A list or a mapping has nothing in it.",
    "string-too-short": "A text is empty.",
    "string-too-long": "A text has more than 100,000 characters.",
    "greater-than-equal": "A number is below what is allowed.",
    "less-than-equal": "A number is above what is allowed.",
    "bad-id": "A name is not an id.",
    "bad-duration": "A time has no unit, or an unknown one.",
    "bad-bound": "This is not a number of revisions.",
    "dead-reference": "A `$ref` of a JSON Schema cannot be resolved.",
    "bad-type": "A type cannot be read.",
    "bad-path": "A path does not lead to a part of a report.",
    "bad-source": "The source of a lookup is neither a name nor a file.",
    "bad-plugin": "A plug-in is named in no known way.",
    "empty-range": "A count or a score allows no number at all.",
    "one-direction": "A transition has neither or both of `target` and `revise`.",
    "forward-only": "A key of revise edges stands on a forward one.",
    "two-ways-out": "A state has both `next` and `transitions`.",
    "no-way-out": "A state has neither `next` nor `transitions`.",
    "two-works": "A state has two keys that carry work.",
    "unknown-rule": "A rule has no key that says what it wants.",
    "unknown-extract": "A field of a text is taken in no known way.",
    "unknown-severity": "There is no such severity.",
    "unknown-name": "A guard or a template names what is not known where it stands.",
    "unknown-filter": "Templates have no such filter or test.",
    "bad-severities": "The severities are not different levels.",
    "no-blocking": "Nothing says which severities block.",
    "guard-syntax": "A guard cannot be read.",
    "guard-type": "The two sides of a comparison do not fit, or a condition is not true or false.",
    "named-guard": "A named guard cannot be used.",
    "template-syntax": "A template cannot be read.",
    "template-forbidden": "A template does what templates here cannot.",
    "template-limit": "A template is longer or nested deeper than is allowed.",
    "may-be-missing": "On some way a value does not exist where it is needed.",
    "no-effect": "Something is written where it does nothing.",
}
"""Those of reading a file, and those that several rooms find."""
