"""The HTTP client that LiteLLM is given: its own go wherever a server sends them, with the key and
the prompt, and read an answer to its end, however long."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import httpx

from loopkit.agents.model.failure_cause import CURRENT_RECEIVED, KEY_HEADERS, Received
from loopkit.plugins import CALL

MOST_READ_BYTES, MOST_PACKED_BYTES = 100_000_000, 1_000_000
"""Of an answer, and of a compressed one, which may be a thousand times as long."""
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=60)
RETRIED = (httpx.ConnectError, httpx.RemoteProtocolError)
Verify = ssl.SSLContext | str | bool


class Refused(Exception):
    """The client refuses to send a request, or to take what came of it."""

    def __init__(self, request: httpx.Request) -> None:
        super().__init__(str(request.url.host))
        self.request = request


class SentElsewhere(Refused):
    """A server sent the call on to another address."""


class AnswerTooLong(Refused):
    """A server answers with more than can be kept."""


class UnsendableHeader(Refused):
    """A header has a control character, or a blank at an end; nothing was sent."""


class UnsendableKey(UnsendableHeader):
    """The header is the one with the key."""


class Lost(httpx.NetworkError):
    """A connection was not made, or broke. For httpx's own classes LiteLLM may try again."""


class Client(httpx.AsyncClient):
    """A client for every event loop; `close_connections` closes its connections there."""

    def __init__(self, verify: Verify) -> None:
        # What one call was given goes with no other.
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        super().__init__(transport=_Transport(verify), timeout=None, cookies=no_cookies)

    async def aclose(self) -> None:
        """Do nothing: others send over the same connections."""


async def close_connections() -> None:
    """Close the connections of this event loop; a later call there opens new ones."""
    for pool in _POOLS.pop(asyncio.get_running_loop(), {}).values():
        await pool.aclose()


_Pools = dict[tuple[Verify, str], httpx.AsyncHTTPTransport]
_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pools] = WeakKeyDictionary()
"""The connections of each event loop, by how it verifies and by proxy."""


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, verify: Verify) -> None:
        self._verify = verify

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; raises what httpx raises, ValueError for a bad address, or Refused."""
        if request.url.userinfo:
            raise ValueError("credentials encoded in URL")
        if (request.url.port or 0) > 65_535:
            raise ValueError("Port out of range")
        for name, value in request.headers.items():
            if not value.isprintable() or value != value.strip():
                raise (UnsendableKey if name in KEY_HEADERS else UnsendableHeader)(request)
        request.headers["accept-encoding"] = "identity"
        if (call := CALL.get()) and request.method == "POST":
            # Many servers refuse another body under the same key.
            body = await request.aread()
            digest = hashlib.sha256(call.encode() + b"\0" + body).hexdigest()
            request.headers.setdefault("idempotency-key", f"{quote(call)[:128]}-{digest}")
        received = CURRENT_RECEIVED.get() or Received()
        proxy = _proxy_to(request.url)
        pool = self._pool(proxy)
        received.request = request
        try:
            response = await pool.handle_async_request(request)
        except RETRIED as error:
            is_of_proxy = proxy and isinstance(error, httpx.ConnectError)
            failed = httpx.ProxyError if is_of_proxy else Lost
            raise failed(str(error), request=request) from error
        received.begin(response.status_code, response.headers)
        if response.has_redirect_location:
            await response.aclose()
            raise SentElsewhere(request)
        response.stream = _Bounded(response, request, received)
        return response

    def _pool(self, proxy: str) -> httpx.AsyncHTTPTransport:
        pools = _POOLS.setdefault(asyncio.get_running_loop(), {})
        kind = (self._verify, proxy)
        if kind not in pools:
            pools[kind] = httpx.AsyncHTTPTransport(
                verify=self._verify, limits=LIMITS, proxy=proxy or None
            )
        return pools[kind]


def _proxy_to(url: httpx.URL) -> str:
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all", "")
    if not proxy or proxy_bypass(url.host) or proxy_bypass(url.netloc.decode()):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


class _Bounded(httpx.AsyncByteStream):
    """The body of an answer, which is kept in `received`; raises AnswerTooLong."""

    def __init__(
        self, response: httpx.Response, request: httpx.Request, received: Received
    ) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        self._most = MOST_READ_BYTES if is_plain else MOST_PACKED_BYTES
        self._stream = response.stream
        self._request = request
        self._received = received

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        try:
            async for chunk in self._stream:
                read += len(chunk)
                if read > self._most:
                    raise AnswerTooLong(self._request)
                self._received.add(chunk)
                yield chunk
        except RETRIED as error:
            raise Lost(str(error), request=self._request) from error

    async def aclose(self) -> None:
        await self._stream.aclose()
