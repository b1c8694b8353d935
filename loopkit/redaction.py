"""Keeping secrets of the environment out of everything that is stored or shown."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

SECRET_NAME = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE
)
SHORTEST = 8
"""Characters; shorter values would be found in ordinary words."""

Redact = Callable[[str], str]


def redactor(environment: Mapping[str, str], names: Iterable[str] = ()) -> Redact:
    """A function that replaces each secret in a text by the name of its variable in brackets.

    Secrets are the values of variables called like one (`…_API_KEY`, `…_TOKEN`), and of `names`;
    also as they stand in an address, in JSON and in Base64, and broken over lines.
    """
    named = {*names, *(name for name in environment if SECRET_NAME.search(name))}
    secrets = {
        form: name
        for name in sorted(named)
        if len(value := environment.get(name, "").strip()) >= SHORTEST
        for form in _forms(value)
    }
    if not secrets:
        return lambda text: text
    # Longest first: one secret may begin like another.
    longest_first = sorted(secrets, key=len, reverse=True)
    whole = re.compile("|".join(map(re.escape, longest_first)))

    def redact(text: str) -> str:
        text = whole.sub(lambda found: f"[{secrets[found[0]]}]", text)
        joined = "".join(text.split())
        for secret in longest_first:
            if secret in joined:
                text = _replaced_if_broken(text, secret, f"[{secrets[secret]}]")
        return text

    return redact


def _replaced_if_broken(text: str, secret: str, by: str) -> str:
    """The text with the secret replaced where white space stands in it."""
    return re.sub(r"\s*".join(map(re.escape, secret)), lambda _: by, text)


def _forms(value: str) -> Iterator[str]:
    """The ways in which a server may write a secret that it repeats."""
    raw, in_json = value.encode(errors="surrogateescape"), json.dumps(value)[1:-1]
    yield from (value, quote(raw, safe=""), quote(raw), quote_plus(raw))
    yield from (in_json, in_json.replace("/", "\\/"))
    for encoded in (b64encode(raw), urlsafe_b64encode(raw)):
        # What follows the secret decides about its last characters and the padding.
        yield encoded.decode()[: len(raw) * 8 // 6]
