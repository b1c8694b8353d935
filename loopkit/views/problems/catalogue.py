"""The catalogue of codes: a sentence for each, as in `docs/checks.md`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from loopkit import checks


@lru_cache(maxsize=1)
def meanings() -> Mapping[str, str]:
    """The meaning of every code; the modules of `loopkit.checks` define their own."""
    modules = [import_module(f"{checks.__name__}.{m.name}") for m in iter_modules(checks.__path__)]
    of_checks = (getattr(module, "MEANINGS", {}) for module in modules)
    return {code: text for each in (OF_READING, *of_checks) for code, text in each.items()}


OF_READING: Mapping[str, str] = {
    "unreadable-file": "A file cannot be read, or an included file lies outside the folder.",
    "not-utf-8": "A file is not UTF-8 text.",
    "too-large": "A file is larger than 1,000,000 bytes.",
    "too-deep": "Values are nested more than 64 levels deep.",
    "too-many-values": "A file has more than 200,000 keys and values after expanding aliases.",
    "too-many-machines": "More than 100 other machines are inside a machine.",
    "too-many-problems": "A file has more than 50 mistakes in its YAML; the rest was not read.",
    "empty-file": "A file is empty.",
    "not-a-mapping": "The root of a file is not a mapping.",
    "several-documents": "A second YAML document starts in a file.",
    "several-roots": "There is content after the end of the document.",
    "front-matter": "A Markdown file has no front matter, or front matter without an end.",
    "ignored-key": "A key in the front matter of an agent's file is not read.",
    "conflict-marker": "A merge conflict is unresolved.",
    "forbidden-character": "A character is not allowed in a text file.",
    "odd-blank": "A character looks like a space but is not one, so YAML reads it as text.",
    "tab": "The indentation contains a tab.",
    "directive": "The file starts with a YAML directive.",
    "tag": "A YAML tag is used.",
    "indentation": "The indentation of a line does not match any level above it.",
    "missing-colon": "A line is neither `key: value` nor a list item.",
    "missing-space": "The space after a colon is missing.",
    "missing-separator": "A comma or a closing bracket is missing.",
    "unclosed-bracket": "A bracket is not closed.",
    "unclosed-quote": "A quote is not closed.",
    "text-after-quote": "A text continues after its closing quote.",
    "unknown-escape": "A backslash precedes a character that has no escape.",
    "unquoted-text": "A text needs quotes, because YAML gives one of its characters a meaning.",
    "unquoted-colon": "A colon followed by a space turns a text into a key.",
    "unquoted-comma": "A comma inside `{ }` ends the text before it.",
    "unquoted-bracket": "A bracket inside `{ }` or `[ ]` cannot be part of text.",
    "unquoted-template": "A value starts with the braces of a template.",
    "block-text": "A block text after `|` or `>` is malformed.",
    "syntax": "YAML cannot read this, and no more specific code applies.",
    "duplicate-key": "A key is written twice.",
    "non-text-key": "A key is not a string.",
    "unknown-alias": "An alias has no anchor before it.",
    "recursive-alias": "An alias is inside the value that it refers to.",
    "merge-not-mapping": "`<<` merges something that is not a mapping.",
    "unusable-number": "A number is infinite, not a number, or does not fit into 64 bits.",
    "missing-field": "A required field is missing.",
    "unknown-field": "A field does not exist, or is not allowed here.",
    "wrong-kind": "A value has the wrong type for its field.",
    "unknown-value": "A value is not one of the allowed ones.",
    "empty": "A list or a mapping is empty.",
    "string-too-short": "A text is empty.",
    "string-too-long": "A text has more than 100,000 characters.",
    "greater-than-equal": "A number is below the minimum.",
    "less-than-equal": "A number is above the maximum.",
    "less-than": "A number is not below its limit.",
    "bad-id": "A name is not a valid id.",
    "bad-duration": "A duration has no unit, or an unknown one.",
    "bad-bound": "A value is not a number of revisions.",
    "dead-reference": "A `$ref` of a JSON Schema cannot be resolved.",
    "bad-type": "A type cannot be parsed.",
    "bad-path": "A path is malformed, or cannot lead to what it is for.",
    "bad-source": "The source of a lookup is neither a name nor a file.",
    "bad-plugin": "The name of a plug-in is in neither of the two known forms.",
    "empty-range": "The range of a count, a score or the number of items is empty.",
    "strange-budget": "A budget is given for a state to which the transition does not lead back.",
    "two-directions": "A lookup has both `cover` and `avoid`.",
    "one-direction": "A transition has both or neither of `target` and `revise`.",
    "forward-only": "A forward transition has a key that only revise edges take.",
    "two-ways-out": "A state has both `next` and `transitions`.",
    "no-way-out": "A state has neither `next` nor `transitions`.",
    "two-works": "A state has two keys that each make it a different kind of state.",
    "unknown-rule": "A rule has no key that identifies its kind.",
    "unknown-tool": "A tool has no key that identifies its kind, or is not one of the agent's.",
    "bad-server": "An MCP server is not described by either a command or a URL.",
    "bad-server-tool": "A tool of an MCP server is not written as `SERVER.TOOL`.",
    "bad-digest": "The digest of a tool of an MCP server is not a digest.",
    "given-twice": "A tool has an argument both from the machine and from the model.",
    "unknown-extract": "A field of a text has no key that says how to extract it.",
    "unknown-severity": "A severity is not declared.",
    "unknown-name": "A guard or a template uses a name that is not known at this place.",
    "unknown-filter": "Templates do not have this filter or test.",
    "bad-severities": "The severities are not distinct levels.",
    "no-blocking": "Severities are declared, but not which of them block.",
    "guard-syntax": "A guard cannot be parsed.",
    "guard-type": "The two sides of a comparison do not fit, or a condition is not true or false.",
    "named-guard": "A named guard cannot be used.",
    "template-syntax": "A template cannot be parsed.",
    "template-forbidden": "A template uses a feature that templates here do not have.",
    "template-limit": "A template is too long, or nested too deep.",
    "may-be-missing": "On some path a value does not exist where it is used.",
    "no-effect": "A setting has no effect where it is written.",
}
"""The codes of reading a file, and those that several packages report."""
