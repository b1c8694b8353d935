"""Keeping secrets of the environment out of everything that is stored or shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

SECRET_NAME = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE
)
SHORTEST = 8
"""Characters; shorter values would be found in ordinary words."""

Redact = Callable[[str], str]


def redactor(environment: Mapping[str, str], names: Iterable[str] = ()) -> Redact:
    """A function that replaces each secret in a text by the name of its variable in brackets.

    Secrets are the values of variables called like one (`…_API_KEY`, `…_TOKEN`), and of `names`.
    """
    named = {*names, *(name for name in environment if SECRET_NAME.search(name))}
    secrets = {
        value: name
        for name in sorted(named)
        if len(value := environment.get(name, "").strip()) >= SHORTEST
    }
    if not secrets:
        return lambda text: text
    # Longest first: one secret may begin like another.
    longest_first = sorted(secrets, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return lambda text: pattern.sub(lambda found: f"[{secrets[found[0]]}]", text)
