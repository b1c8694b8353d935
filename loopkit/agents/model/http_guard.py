"""A guard on LiteLLM's HTTP traffic: no redirect to another host, no answer without bound.

LiteLLM's clients follow every redirect and read an answer to its end, however long. So the key
in a header of its own (`x-api-key`) would go wherever a server sends it, with the prompt, and a
server could fill the memory. Requests are watched where they leave, whichever client makes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from traceback import walk_tb
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx

from loopkit.agents.model.failure_cause import CURRENT_RECEIVED, Received

MOST_READ_BYTES = 100_000_000
"""The most that is read of an answer; the longest text of a run takes less in any encoding."""
MOST_PACKED_BYTES = 1_000_000
"""The most of a compressed answer, which may be a thousand times as long."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
PORTS = {"http": 80, "https": 443}

Send = Callable[[httpx.Request], Awaitable[httpx.Response]]


class Refused(Exception):
    """The guard refuses what a server wants; `request` is what the server was sent."""

    def __init__(self, request: httpx.Request) -> None:
        super().__init__(str(request.url.host))
        self.request = request


class SentElsewhere(Refused):
    """A server sent the call on to another host."""


class AnswerTooLong(Refused):
    """A server answers with more than can be kept."""


class UnreadableHeader(Refused):
    """A server answers with a header that httpx can't read."""


def guard_transports(handler: Any) -> None:
    """Watch every transport that LiteLLM makes for its clients.

    Raises ImportError for a version that makes them in another way: nothing would be watched.
    """
    # LiteLLM makes its clients deep inside, each in another way; all get their transport here.
    if not _replace(handler, "create_async_transport", _watching_factory):
        raise ImportError("loopkit does not know how this version of LiteLLM opens connections")
    _replace(handler, "create_httpx_proxy_mounts", _watching_mounts_factory)


def _replace(handler: Any, name: str, wrap: Callable[[Any], Any]) -> bool:
    """Wrap the function of this name, in older versions with an underscore; False without one."""
    names = [known for known in (name, f"_{name}") if known in vars(handler)]
    for known in names:
        make = getattr(handler, known)
        setattr(handler, known, staticmethod(wrap(make)))
    return bool(names)


def _watching_factory(make: Callable[..., Any]) -> Callable[..., Any]:
    def make_watched(
        *args: Any, ssl_context: Any = None, ssl_verify: Any = None, **more: Any
    ) -> Any:
        transport = make(*args, ssl_context=ssl_context, ssl_verify=ssl_verify, **more)
        if transport is None:
            # Without aiohttp, LiteLLM has httpx make one that can't be watched.
            verify = ssl_verify is not False if ssl_context is None else ssl_context
            transport = httpx.AsyncHTTPTransport(verify=verify)
        return _watch(transport)

    return make_watched


def _watching_mounts_factory(make: Callable[..., Any]) -> Callable[..., Any]:
    def make_watched(*args: Any, **more: Any) -> Any:
        mounts = make(*args, **more)
        return mounts and {to: proxy and _watch(proxy) for to, proxy in mounts.items()}

    return make_watched


def _watch(transport: Any) -> Any:
    with suppress(RuntimeError):  # without a loop, it is not used
        _OPEN.setdefault(asyncio.get_running_loop(), []).append(transport)
    transport.handle_async_request = guard_send(transport.handle_async_request)
    return transport


_OPEN: dict[asyncio.AbstractEventLoop, list[Any]] = {}
"""The transports of each event loop. LiteLLM forgets its clients after an hour, and closes none."""


async def close_transports(forget: Callable[[Sequence[Any]], None]) -> None:
    """Close every transport of this event loop, also those that LiteLLM does not know any more.

    `forget` is told of them first, in the same turn: nobody may begin a call over them any more.
    """
    unused = _OPEN.pop(asyncio.get_running_loop(), [])
    forget(unused)
    for transport in unused:
        await transport.aclose()


def guard_send(send: Send) -> Send:
    """Guard `send`, which then raises Refused, as does reading an answer that is too long."""

    async def send_guarded(request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        received = CURRENT_RECEIVED.get() or Received()
        received.request = request
        try:
            response = await send(request)
        except UnicodeEncodeError as error:
            # The headers of the request are bytes by now.
            await _close_answer(error)
            raise UnreadableHeader(request) from error
        received.begin(response.status_code, response.headers)
        if _is_sent_elsewhere(str(request.url), response):
            await response.aclose()
            raise SentElsewhere(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        most = MOST_READ_BYTES if is_plain else MOST_PACKED_BYTES
        response.stream = _Bounded(response.stream, request, most, received)
        return response

    return send_guarded


async def _close_answer(error: UnicodeEncodeError) -> None:
    """Close the connection of an answer that httpx could not make a response of: nobody else can,
    because only the frame in which that failed has its stream.
    """
    for frame, _ in walk_tb(error.__traceback__):
        stream = frame.f_locals.get("stream")
        if isinstance(stream, httpx.AsyncByteStream):
            await stream.aclose()
            return


def _is_sent_elsewhere(url: str, response: httpx.Response) -> bool:
    """Whether a redirect leads to another origin; from http to https it does not."""
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
    """A stream that raises AnswerTooLong after `most` bytes."""

    def __init__(
        self, stream: httpx.AsyncByteStream, request: httpx.Request, most: int, received: Received
    ) -> None:
        self._stream = stream
        self._request = request
        self._most = most
        self._received = received

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > self._most:
                raise AnswerTooLong(self._request)
            self._received.add(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
