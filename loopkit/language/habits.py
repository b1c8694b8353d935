"""Words that people bring from other tools, and how the same thing is written here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

LONGEST_QUOTED = 40
MODEL = "PROVIDER/MODEL"
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
FIELDS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("if", "when", "condition"), GUARD),
    **dict.fromkeys(("goto", "to", "then"), TARGET),
    **dict.fromkeys(("until", "while"), UNTIL),
    **dict.fromkeys(("retry", "retries"), REVISE),
    **dict.fromkeys(("fallback", "fallbacks"), FALLBACKS),
    **dict.fromkeys(("for_each", "foreach", "map", "items"), EACH),
    **dict.fromkeys(("subflow", "workflow", "submachine"), MACHINE),
    **dict.fromkeys(("regex", "regexp", "pattern"), PATTERN),
}
"""By the foreign word, the answer for each place; a place is known by a field that it allows."""


def remedy_for_field(word: str, allowed: Collection[str], value: object) -> str:
    """How to write a foreign field in this language; "" if the word is not a known one."""
    answers = FIELDS.get(word.casefold(), {})
    answer = next((text for field, text in answers.items() if field in allowed), "")
    return answer.format(value=_quote(value))


def remedy_for_value(path: Sequence[str | int], value: object) -> str:
    """How to write a value of a foreign kind in this language; "" if there is no remedy."""
    field = path[-1] if path else ""
    if len(path) == 2 and path[0] == "agents" and "/" in str(value):
        return f"write `{field}: {{model: {_quote(value, MODEL)}}}`"
    if field in ("agent", "judge") and (isinstance(value, Mapping) or "/" in str(value)):
        model = value.get("model") if isinstance(value, Mapping) else value
        return (
            "define the agent under `agents:`, such as "
            f"`writer: {{model: {_quote(model, MODEL)}}}`, and name it here: `{field}: writer`"
        )
    if field == "retry" and isinstance(value, int):
        return f"write `retry: {{attempts: {value}}}`"
    return ""


def _quote(value: object, otherwise: str = "…") -> str:
    """A short value as it is written in the file, else the text `otherwise`."""
    text = str(value) if isinstance(value, str | int) else ""
    return text if 0 < len(text) <= LONGEST_QUOTED and text.isprintable() else otherwise
