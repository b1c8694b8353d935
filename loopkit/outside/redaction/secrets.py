"""Texts that look like secrets: names of variables, keys of providers, passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote

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
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])|AIza[A-Za-z0-9_-]{35}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r")|-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
)
"""Keys that have a recognisable form."""


@lru_cache(1024)
def names_secret(variable: str) -> bool:
    """Whether a variable is called like one that holds a secret."""
    return _SECRET_NAME.search(variable) is not None


def key_in(text: str) -> str | None:
    """The beginning by which a key in a text is known; None where there is none."""
    found = _KNOWN.search(text)
    return found and (found[0] if found[0].startswith("-") else found[0][:4])


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
