"""A guard on LiteLLM's HTTP traffic: no redirect to another host, no answer without bound.

LiteLLM's clients follow every redirect and read an answer to its end, however long. So the key
in a header of its own (`x-api-key`) would go wherever a server sends it, with the prompt, and a
server could fill the memory. Requests are watched where they leave, whichever client makes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx

from loopkit.agents.model.received import Received, now_received

MOST_BYTES = 100_000_000
"""Of an answer; the longest text that is kept takes less, however it is written."""
MOST_PACKED_BYTES = 1_000_000
"""Of a compressed one, which may be a thousand times as long."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
PORTS = {"http": 80, "https": 443}

Send = Callable[[httpx.Request], Awaitable[httpx.Response]]


class Refused(Exception):
    """What a server wants is not done; `request` is what it was sent."""

    def __init__(self, request: httpx.Request) -> None:
        super().__init__(str(request.url.host))
        self.request = request


class SentElsewhere(Refused):
    """A server sent the call on to another host."""


class AnswerTooLong(Refused):
    """A server answers with more than can be kept."""


def guard_transports(handler: Any) -> None:
    """Let every transport that LiteLLM makes for its clients be watched.

    Raises ImportError for a version that makes them in another way: nothing would be watched.
    """
    # Its clients are made deep inside of it, each in another way; all get their transport here.
    if not _replace(handler, "create_async_transport", _watched):
        raise ImportError("loopkit does not know how this version of LiteLLM opens connections")
    _replace(handler, "create_httpx_proxy_mounts", _watched_mounts)


def _replace(handler: Any, name: str, watched: Callable[[Any], Any]) -> bool:
    """Whether there is a function of this name, with or without the underscore of older ones."""
    names = [known for known in (name, f"_{name}") if known in vars(handler)]
    for known in names:
        make = getattr(handler, known)
        setattr(handler, known, staticmethod(watched(make)))
    return bool(names)


def _watched(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, ssl_context: Any = None, ssl_verify: Any = None, **more: Any) -> Any:
        transport = make(*args, ssl_context=ssl_context, ssl_verify=ssl_verify, **more)
        if transport is None:
            # Without aiohttp, LiteLLM leaves it to httpx to make one that nobody can watch.
            verify = ssl_verify is not False if ssl_context is None else ssl_context
            transport = httpx.AsyncHTTPTransport(verify=verify)
        return _watch(transport)

    return made


def _watched_mounts(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **more: Any) -> Any:
        mounts = make(*args, **more)
        return mounts and {to: proxy and _watch(proxy) for to, proxy in mounts.items()}

    return made


def _watch(transport: Any) -> Any:
    with suppress(RuntimeError):  # where no loop runs, nobody uses it
        _OPEN.setdefault(asyncio.get_running_loop(), []).append(transport)
    transport.handle_async_request = guard_send(transport.handle_async_request)
    return transport


_OPEN: dict[asyncio.AbstractEventLoop, list[Any]] = {}
"""The transports of each event loop. LiteLLM forgets its clients after an hour, and closes none."""


async def close_transports() -> None:
    """Close every transport of this event loop, also those that LiteLLM does not know any more."""
    for transport in _OPEN.pop(asyncio.get_running_loop(), ()):
        await transport.aclose()


def guard_send(send: Send) -> Send:
    """Sending one request; raises SentElsewhere, and its answer AnswerTooLong while it is read."""

    async def sent(request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        response = await send(request)
        heard = now_received() or Received()
        heard.begin(request, response.status_code)
        if _is_sent_elsewhere(str(request.url), response):
            await response.aclose()
            raise SentElsewhere(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        most = MOST_BYTES if is_plain else MOST_PACKED_BYTES
        response.stream = _Bounded(response.stream, request, most, heard)
        return response

    return sent


def _is_sent_elsewhere(url: str, response: httpx.Response) -> bool:
    """Whether a redirect leads to another origin; from http to https is none."""
    location = response.headers.get("location")
    if response.status_code not in REDIRECTS or not location:
        return False
    here, there = urlsplit(url), urlsplit(urljoin(url, location))
    ports = (_port(here), _port(there))
    is_safe = there.scheme in (here.scheme, "https")
    is_same = ports[0] == ports[1] or ports == (80, 443)
    return not (here.hostname == there.hostname and is_safe and is_same)


def _port(parts: SplitResult) -> int | None:
    return parts.port or PORTS.get(parts.scheme)


class _Bounded(httpx.AsyncByteStream):
    """A stream that ends in an error once it brought more than so many bytes."""

    def __init__(
        self, stream: httpx.AsyncByteStream, request: httpx.Request, most: int, heard: Received
    ) -> None:
        self._stream = stream
        self._request = request
        self._most = most
        self._heard = heard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > self._most:
                raise AnswerTooLong(self._request)
            self._heard.add(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
