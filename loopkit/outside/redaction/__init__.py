"""Redaction: secrets of the environment are removed from all that is stored or shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from loopkit.outside.redaction.forms import SHORTEST, forms_of, without_white_space
from loopkit.outside.redaction.occurrences import Occurrences
from loopkit.outside.redaction.secrets import credentials_in, key_in, names_secret

__all__ = [
    "SHORTEST",
    "Redact",
    "names_secret",
    "ordinary_values",
    "redact_data",
    "redactor",
    "secret_finder",
]

Redact = Callable[[str], str]


def redactor(environment: Mapping[str, str], names: Iterable[str] = ()) -> Redact:
    """A function that replaces each secret in a text by the name of its variable in brackets.

    Secrets are the values of variables called like one (`…_API_KEY`, `…_TOKEN`), those of
    `names`, and in the URLs of any variable `user:password` and the password; also as they stand
    in an address, in JSON and in Base64, and broken over lines. Values of letters only, or of
    fewer than 8 characters, stay: they would be found in ordinary words. The work is linear in
    the text, and hardly grows with the number of secrets.
    """
    known = _names_by_form(environment, names)
    if not known:
        return str
    occurrences = Occurrences(known)

    def redact(text: str) -> str:
        parts: list[str] = []
        kept = 0
        for start, end, secret in occurrences.within(text):
            parts += (text[kept:start], f"[{known[secret]}]")
            kept = end
        return "".join((*parts, text[kept:])) if parts else text

    return redact


def redact_data(value: Any, redact: Redact) -> Any:
    """The data with every text in it redacted."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {redact(str(key)): redact_data(item, redact) for key, item in value.items()}
        case list() | tuple():
            return [redact_data(item, redact) for item in value]
        case _:
            return value


def ordinary_values(environment: Mapping[str, str], names: Iterable[str] = ()) -> Sequence[str]:
    """The variables whose secret is not taken out of texts, because it could be any word."""
    ordinary = (name for name, value in _secrets(environment, names) if _is_ordinary(value))
    return list(dict.fromkeys(ordinary))


def secret_finder(
    environment: Mapping[str, str], names: Iterable[str] = ()
) -> Callable[[str], str | None]:
    """A function that names the secret in a text, or returns None if there is none.

    That is the secret of a variable, or a key that is known by how its provider lets it begin.
    """
    known = _names_by_form(environment, names)
    occurrences = Occurrences(known)

    def find_secret(text: str) -> str | None:
        for _start, _end, secret in occurrences.within(text):
            return f"the value of `{known[secret]}`"
        begins = key_in(text)
        return begins and f"a key that begins with `{begins}`"

    return find_secret


def _names_by_form(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Each form in which a secret may be written, with the name of its variable."""
    known: dict[str, str] = {}
    for name, value in _secrets(environment, names):
        if not _is_ordinary(value):
            known |= {form: name for form in forms_of(value) if form not in known}
    return known


def _secrets(environment: Mapping[str, str], names: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Each secret of the environment with the name of its variable."""
    values = dict(environment)  # because `os.environ` decodes what it is asked for each time
    named = {*names, *filter(names_secret, values)}
    for name in sorted({*named, *values}):
        value = values.get(name, "").strip()
        if name in named and value:
            yield name, value
        for credential in credentials_in(value):
            yield name, credential


def _is_ordinary(value: str) -> bool:
    """Whether a value is so common that it also occurs in texts without the secret."""
    return value.isalpha() or len(without_white_space(value)) < SHORTEST
