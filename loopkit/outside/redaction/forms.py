"""Forms of a secret: the encodings in which a program or a server may repeat it."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 8
"""Characters; shorter values would be found in ordinary words."""
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
