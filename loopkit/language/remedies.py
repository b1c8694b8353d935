"""Remedies for what is no field or no value: how the same thing is written here.

Words that people bring from other tools have an answer, and so have values of a foreign kind.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from loopkit.document.problems import closest
from loopkit.document.writing import inline
from loopkit.language.section import ARGUMENTS, ID_HELP, as_id

LONGEST_QUOTED = 40
MODEL = "PROVIDER/MODEL"
MODEL_FORM = f"`model: {MODEL}`, such as `model: openai/gpt-5-mini`"
VERSION = "the version of the language that is read"
GUARD = {
    "guard": "a condition is called `guard` here: write `guard: {value}`",
    "transitions": "a condition is the guard of a transition: "
    "`transitions: [{{guard: {value}, target: STATE}}, {{target: OTHER}}]`",
}
TARGET = {
    "target": "the state that comes next is called `target`: write `target: {value}`; "
    "to go back for a revision, `revise: {value}`",
    "next": "the state that comes next is called `next`: write `next: {value}`",
}
UNTIL = {
    "guard": "a loop ends where a transition leads on: put `{{guard: {value}, target: STATE}}` "
    "before the one that revises",
    "transitions": "a loop is a state with one transition forward and one back: "
    "`transitions: [{{guard: {value}, target: STATE}}, {{revise: STATE, max: 3}}]`",
}
REVISE = {
    "revise": "to send work back, write `revise: STATE`, and `max: 3` for the number of revisions",
    "agent": "failed calls are retried by the agent: put `retry: {{attempts: 3}}` under `agents:`; "
    "to have work revised, write a transition `{{revise: STATE, max: 3}}`",
    "transitions": "to have work revised, write a transition `{{revise: STATE, max: 3}}`",
}
PATTERN = {
    "matches": "write `matches: PATTERN` for what has to be there, `not_matches: PATTERN` for what "
    "must not be there",
}
FALLBACKS = {
    "price_per_run": "only an agent with a `model` takes fallbacks; to ask a model where a program "
    "fails, lead to a state that asks it: `on_error: {{transient: STATE, fatal: STATE}}`",
}
EACH = {
    "next": "to run a machine for each item of a list, write `each: {value}`, with `as`, `key` and "
    "`machine`",
}
MACHINE = {"next": "to run another machine, write `machine: {value}`, and its `input`"}
KEY = {
    "api_key_env": "a key comes from the environment: write `api_key_env: NAME`, with the name of "
    "the variable that holds it",
}
OF_PROVIDER = {"params": "write `params: {{{word}: {value}}}`"}
OPTIONS = (
    "temperature", "max_tokens", "max_completion_tokens", "top_p", "top_k", "seed", "stop",
    "reasoning_effort", "presence_penalty", "frequency_penalty", "response_format", "extra_body",
)  # fmt: skip
MODEL_OF_STATE = {
    "next": "a model belongs to an agent: write `writer: {{model: {value}}}` under `agents:`, and "
    "`agent: writer` here",
}
FIELDS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("if", "when", "condition"), GUARD),
    **dict.fromkeys(("goto", "to", "then"), TARGET),
    **dict.fromkeys(("until", "while"), UNTIL),
    **dict.fromkeys(("retry", "retries"), REVISE),
    **dict.fromkeys(("fallback", "fallbacks"), FALLBACKS),
    **dict.fromkeys(("for_each", "foreach", "map", "items"), EACH),
    **dict.fromkeys(("subflow", "workflow", "submachine"), MACHINE),
    **dict.fromkeys(("regex", "regexp", "pattern"), PATTERN),
    **dict.fromkeys(("api_key", "apikey", "key", "token", "secret"), KEY),
    **dict.fromkeys(OPTIONS, OF_PROVIDER),
    **dict.fromkeys(("model", "llm"), MODEL_OF_STATE),
}
"""By the foreign word, the answer for each place; a place is known by a field that it allows."""


def remedy_for_field(word: str, allowed: Collection[str], value: object) -> str:
    """How to write a foreign field in this language; "" if the word is not a known one."""
    word = closest(word, OPTIONS, 0.8) or word
    answers = FIELDS.get(word.casefold(), {})
    answer = next((text for field, text in answers.items() if field in allowed), "")
    return answer.format(word=word, value=_quote(value))


def remedy_for_value(path: Sequence[str | int], value: Any, expected: str = "") -> str:
    """How to write a value of a foreign kind in this language; "" if there is no remedy.

    `expected` is the kind that belongs there, or the code of what is wrong.
    """
    field = next((step for step in reversed(path) if isinstance(step, str)), "")
    if len(path) == 2 and path[0] == "agents" and "/" in str(value):
        return f"write `{field}: {{model: {_quote(value, MODEL)}}}`"
    # The second step is a name that the author gave.
    remedies = [VALUES.get(field) if len(path) != 2 else None, KINDS.get(expected)]
    found = (remedy(field, value) for remedy in remedies if remedy is not None)
    return next(filter(None, found), "")


def _command(field: str, value: Any) -> str:
    is_known = isinstance(value, str | list) and value
    return f"write `{field}: {inline(_argv_of(value))}`; {ARGUMENTS}" if is_known else ""


def _variables(_: str, value: Any) -> str:
    names = list(value) if isinstance(value, Mapping) else re.findall(VARIABLE, str(value))[:1]
    return f"write `env: {inline(names)}`: the environment has their values"


def _choices(_: str, value: Any) -> str:
    words = value.split(",") if isinstance(value, str) and "," in value else []
    if isinstance(value, Mapping):
        words = [value[key] for key in ("name", "id") if key in value] or list(value)
    if not words:
        return ""
    listed = ", ".join(as_id(str(word)) for word in words)
    return f"write `choices: [{listed}]`, and where each leads under `transitions`"


def _agent(field: str, value: Any) -> str:
    if not isinstance(value, Mapping) and "/" not in str(value):
        return ""
    model = value.get("model") if isinstance(value, Mapping) else value
    return (
        "define the agent under `agents:`, such as "
        f"`writer: {{model: {_quote(model, MODEL)}}}`, and name it here: `{field}: writer`"
    )


def _mapping(field: str, value: Any) -> str:
    match value[0] if isinstance(value, list) and value else value:
        case {"name": name} | {"id": name}:
            return f"write `{name}:` instead of `- name: {name}`, with its other keys below"
        case {**fields} if fields:
            return f"write `{next(iter(fields))}:` without the `- `"
        case str() as name if field == "workspace":
            return f"write `workspace: {{path: {name}}}`"
        case str() as name if field == "input" or isinstance(value, list):
            return f"write `{field}: {{{name}: {'str' if field == 'input' else '…'}}}`"
    return ""


VARIABLE = r"[A-Za-z_]\w*"
Remedy = Callable[[str, Any], str]
VALUES: Mapping[str, Remedy] = {
    **dict.fromkeys(("loopkit", "scenario"), lambda field, _: f"write `{field}: 1`, {VERSION}"),
    **dict.fromkeys(("run", "command", "notify"), _command),
    **dict.fromkeys(("agent", "judge"), _agent),
    "api_key_env": lambda _, value: f"write `{value[2:-1]}`" if str(value)[:2] == "${" else "",
    "choices": _choices,
    "env": _variables,
    "model": lambda _, value: "" if isinstance(value, str | list) else f"write {MODEL_FORM}",
    "retry": lambda _, value: f"write `retry: {{attempts: {value}}}`" if value in range(99) else "",
}
"""By the field whose value is wrong."""
KINDS: Mapping[str, Remedy] = {
    "a mapping": _mapping,
    "bad-id": lambda _, value: f"write `{as_id(value)}`; {ID_HELP}" if value else "",
}
"""By what should stand there, where the field has no remedy."""


def _argv_of(value: str | list[str]) -> list[str]:
    """The words of a command that was written as one text, or as the first item of a list."""
    text, *rest = [value] if isinstance(value, str) else value or [""]
    # The blanks of a template do not part words.
    masked = re.sub(r"\{\{.*?\}\}", lambda found: found[0].replace(" ", "\0"), str(text))
    try:
        words = [word.replace("\0", " ") for word in shlex.split(masked)]
    except ValueError:
        words = []
    is_for_shell = not words or re.search(r"[|&;<>$`*?\n]", re.sub(r"\{\{.*?\}\}", "", str(text)))
    return [*(["sh", "-c", text] if is_for_shell else words), *rest]


def _quote(value: object, otherwise: str = "…") -> str:
    """A short value as it is written in the file, else the text `otherwise`."""
    try:
        text = value if isinstance(value, str) else inline(value)
    except TypeError:
        # Another machine that was read in its place.
        return otherwise
    return text if 0 < len(text) <= LONGEST_QUOTED and text.isprintable() else otherwise
