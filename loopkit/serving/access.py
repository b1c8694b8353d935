"""Access: who may use a server, from where, under which names.

A program sends the token. A browser sends it once, or follows a link that works once, and gets a
cookie. Pages of other sites in the same browser can send requests here, too. So the name of the
server, which such a page cannot change, and the origin of the page are compared exactly.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

SHORTEST_TOKEN = 16
"""Characters: more than can be guessed."""
LINK_LASTS_S = 600.0
MOST_SESSIONS = 1_000
SAFE_METHODS = frozenset({"GET", "HEAD"})
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LOGIN = "/login"
ASSETS = "/assets/"


class Refusal(NamedTuple):
    status: int
    message: str


def host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    return host_in_url(host) in LOOPBACK or host.startswith("127.")


def is_anywhere(host: str) -> bool:
    """Whether a server that listens there listens on every address of the computer."""
    return host in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


def origins_of(host: str, port: int) -> frozenset[str]:
    names = {host_in_url(host), *(LOOPBACK if is_loopback(host) or is_anywhere(host) else ())}
    shown = "" if port == 80 else f":{port}"
    return frozenset(f"http://{name}{shown}" for name in names)


@dataclass
class Access:
    """Decides about each request by its method, path and headers."""

    token: str
    origins: frozenset[str]
    """Scheme, host and port of the server's own pages, as browsers write them."""
    cookie: str = "loopkit"
    """The name of the cookie, which differs for servers on other ports."""
    has_pages: bool = True
    """Whether people use it in browsers. Without pages there is no signing in, and every request
    from a page of another origin is refused, even with the token."""
    clock: Callable[[], float] = time.monotonic
    """Returns seconds."""
    _sessions: dict[str, None] = field(default_factory=dict)
    _codes: dict[str, float] = field(default_factory=dict)
    """The codes of unused links, each with the time at which it expires."""

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(urlsplit(origin).netloc for origin in self.origins)

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request is refused; None if it is allowed. Header names are in lower case."""
        if headers.get("host", "").lower() not in self.hosts:
            return Refusal(421, "this server has another name; give it with `--url` at its start")
        by_token = self._by_token(headers.get("authorization", ""))
        if by_token is False:
            return Refusal(401, "the token is wrong")
        if self._is_foreign(method, headers.get("origin"), by_token=bool(by_token)):
            return Refusal(403, "a page of another origin may change nothing here")
        is_signed_in = self.is_signed_in(headers.get("cookie", ""))
        if by_token or (self.has_pages and (is_open(path) or is_signed_in)):
            return None
        sign_in = "sign in, or send" if self.has_pages else "send"
        return Refusal(401, f"{sign_in} `Authorization: Bearer TOKEN`")

    def _is_foreign(self, method: str, origin: str | None, *, by_token: bool) -> bool:
        """Whether a page of another origin has sent the request, and it has to be refused."""
        if not self.has_pages:
            return origin is not None and origin not in self.origins
        return method not in SAFE_METHODS and not by_token and origin not in self.origins

    def _by_token(self, authorization: str) -> bool | None:
        """Whether the token in the header is right; None without the header."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return False if authorization else None
        return self.is_token(token.strip())

    def is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())

    def is_signed_in(self, cookies: str) -> bool:
        pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
        return any(name == self.cookie and value in self._sessions for name, _, value in pairs)

    def is_encrypted(self, host: str) -> bool:
        return f"https://{host.lower()}" in self.origins

    def sign_in(self) -> str:
        """Begin a session and return the value of its cookie."""
        session = secrets.token_urlsafe(32)
        self._sessions[session] = None
        if len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def sign_out(self, cookies: str) -> None:
        for pair in cookies.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self.cookie:
                self._sessions.pop(value, None)

    def new_link(self) -> str:
        """A path that signs a browser in; it works once, for `LINK_LASTS_S` seconds."""
        code = secrets.token_urlsafe(24)
        self._codes[code] = self.clock() + LINK_LASTS_S
        return f"{LOGIN}/{code}"

    def use_code(self, code: str) -> bool:
        """Use up the code of a link, and return whether it was valid."""
        return self._codes.pop(code, -LINK_LASTS_S) > self.clock()


def is_open(path: str) -> bool:
    return path == LOGIN or path.startswith((f"{LOGIN}/", ASSETS))
