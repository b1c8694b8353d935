"""Redaction: secrets of the environment are removed from all that is stored or shown."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from loopkit.text import KNOWN_KEY

Redact = Callable[[str], str]


def redactor(environment: Mapping[str, str], names: Iterable[str] = ()) -> Redact:
    """A function that replaces each secret in a text by the name of its variable in brackets.

    Secrets are the values of variables called like one (`…_API_KEY`, `…_TOKEN`), those of
    `names`, and in the URLs of any variable `user:password` and the password; also as they stand
    in an address, in JSON and in Base64, and broken over lines. Values of letters only, or of
    fewer than 8 characters, stay: they would be found in ordinary words.
    """
    known = _names_by_form(environment, names)
    if not known:
        return str

    def redact(text: str) -> str:
        parts: list[str] = []
        kept = 0
        for start, end, secret in _occurrences(text, known):
            parts += (text[kept:start], f"[{known[secret]}]")
            kept = end
        return "".join((*parts, text[kept:])) if parts else text

    return redact


def redact_data(value: Any, redact: Redact) -> Any:
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

    def find_secret(text: str) -> str | None:
        for _start, _end, secret in _occurrences(text, known):
            return f"the value of `{known[secret]}`"
        if (found := KNOWN_KEY.search(text)) is None:
            return None
        begins = found[0] if found[0].startswith("-") else found[0][:4]
        return f"a key that begins with `{begins}`"

    return find_secret


def _names_by_form(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for name, value in _secrets(environment, names):
        if not _is_ordinary(value):
            known |= {form: name for form in forms_of(value) if form not in known}
    return known


def _secrets(environment: Mapping[str, str], names: Iterable[str]) -> Iterable[tuple[str, str]]:
    values = dict(environment)  # because `os.environ` decodes what it is asked for each time
    named = {*names, *filter(names_secret, values)}
    for name in sorted({*named, *values}):
        value = values.get(name, "").strip()
        if name in named and value:
            yield name, value
        for credential in credentials_in(value):
            yield name, credential


def _is_ordinary(value: str) -> bool:
    return value.isalpha() or len(without_white_space(value)) < SHORTEST


SHORTEST = 8
"""Characters; shorter values would be found in ordinary words."""
_Span = tuple[int, int, str]


def _occurrences(text: str, words: Iterable[str]) -> list[_Span]:
    """(start, end, word) of each place of words without white space, in order; of those that
    overlap the whole and the longest word."""
    joined = _join_overlaps(sorted(_find(without_white_space(text), words)))
    return list(_restore_places(text, joined)) if joined else []


def _find(text: str, words: Iterable[str]) -> Iterator[_Span]:
    for word in words:
        start = text.find(word)
        while start >= 0:
            yield start, start + len(word), word
            start = text.find(word, start + 1)


def _join_overlaps(spans: Iterable[_Span]) -> list[_Span]:
    joined: list[_Span] = []
    for start, end, word in spans:
        if joined and start < joined[-1][1]:
            first, last, longest = joined.pop()
            start = first
            end = max(last, end)
            word = max(longest, word, key=len)
        joined.append((start, end, word))
    return joined


def _restore_places(text: str, spans: Iterable[_Span]) -> Iterator[_Span]:
    """Spans in the text without white space, converted to spans in the original text."""
    chunks = [match.span() for match in re.finditer(r"\S+", text)]
    starts, length = [], 0
    for first, last in chunks:
        starts.append(length)
        length += last - first

    def original_place(at: int) -> int:
        chunk = bisect_right(starts, at) - 1
        return chunks[chunk][0] + at - starts[chunk]

    for start, end, word in spans:
        yield original_place(start), original_place(end - 1) + 1, word


_WHOLE = r"KEY|PASS|PAT|PW|SK|CREDS?|(?<=_)PWD"
"""Words that mean a secret only by themselves: KEYBOARD, COMPASS, PATH, DESK and PWD mean none."""
_ENDS = (
    r"PASSWORDS?|PASSWD|PASSPHRASE|SECRETS?|CREDENTIALS?|TOKEN"
    r"|(?:ACCESS|ACCOUNT|API|AUTH|ENCRYPTION|MASTER|PRIVATE|SECRET|SIGNING)_?KEYS?"
    r"|(?:DB|MYSQL|PG|SMTP|SSH|USER)PASS"
)
"""Words that mean one also at the end of others, as in PGPASSWORD: of a MONKEY only the end is."""

_SECRET_NAME = re.compile(
    rf"(?:(?:^|[_.-])(?:{_WHOLE})|(?:{_ENDS}))\d*(?:[_.-]|$)|_AUTH$", re.IGNORECASE
)


@lru_cache(1024)
def names_secret(variable: str) -> bool:
    return _SECRET_NAME.search(variable) is not None


def credentials_in(value: str) -> Iterator[str]:
    """The `user:password` and the password of each URL in a text, as written and decoded."""
    for rest in value.split("://")[1:]:
        url = (rest.split() or [""])[0]
        authority = re.split(r"[/?#]", url, maxsplit=1)[0]
        written = authority.rpartition("@")[0] or _raw_credentials(url, authority)
        password = written.partition(":")[2]
        if password:
            yield from dict.fromkeys((written, unquote(written), password, unquote(password)))


def _raw_credentials(url: str, authority: str) -> str:
    """The credentials of a URL whose password has an unescaped special character; else ""."""
    _host, colon, port = authority.rpartition(":")
    return url.rpartition("@")[0] if colon and port and not port.isdecimal() else ""


_ESCAPED = re.compile(r"(?<=%)[0-9A-Fa-f]{2}|(?<=\\u)[0-9A-Fa-f]{4}")


def forms_of(value: str) -> Iterator[str]:
    """The value as it is, in an address, in JSON and inside Base64; each without white space."""
    raw = value.encode(errors="surrogateescape")
    in_json = [json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
    written = (
        *(value, quote(raw, safe=""), quote(raw), quote_plus(raw)),
        *in_json,
        *(text.replace("/", "\\/") for text in in_json),
    )
    cased = (cased for form in written for cased in _in_both_cases(form))
    yield from dict.fromkeys(without_white_space(form) for form in (*cased, *_in_base64(raw)))


def _in_both_cases(form: str) -> Iterator[str]:
    """The form as it is, and with its escapes, such as `%2F`, in lower case and in capitals."""
    yield form
    yield _ESCAPED.sub(lambda digits: digits[0].lower(), form)
    yield _ESCAPED.sub(lambda digits: digits[0].upper(), form)


def without_white_space(text: str) -> str:
    """The text without white space, with which a secret may have been broken over lines."""
    return "".join(text.split())


def _in_base64(raw: bytes) -> Iterator[str]:
    """The part common to the Base64 of all texts with these bytes, as in `user:secret`.

    Three bytes are four characters, so there are three ways to stand in it. Characters that what
    stands before or behind decides about as well are left out.
    """
    for before in range(3):
        bits = 8 * (before + len(raw))
        for encode in (b64encode, urlsafe_b64encode):
            encoded = encode(bytes(before) + raw).decode()
            yield encoded[-(-8 * before // 6) : bits // 6]
