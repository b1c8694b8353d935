"""A server behind a URL: streamable HTTP, with responses of bounded size."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from loopkit.outside.mcp.stdio import LONGEST_MESSAGE, Heard

LONGEST_STREAM = 20 * LONGEST_MESSAGE
"""Bytes of one response, which may stream many messages."""


@asynccontextmanager
async def website(address: Mapping[str, Any], heard: Heard) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of messages of a server on the network."""
    # The client reads from the environment how the network is reached.
    os.environ.update(address["network"])
    # The caller keeps the time. Compressed responses would have no bounded size.
    headers = {"Accept-Encoding": "identity", **address["headers"]}
    async with (
        httpx2.AsyncClient(
            headers=headers,
            timeout=None,
            event_hooks={"response": [_Bounded(heard).bound]},
        ) as client,
        streamable_http_client(
            address["url"], http_client=client, max_sse_event_size=LONGEST_MESSAGE
        ) as streams,
    ):
        yield streams


class _Bounded:
    """Notes the status of responses, and stops reading a response that does not end."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    async def bound(self, response: httpx2.Response) -> None:
        self._heard.status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            self._heard.fault = "it sent a packed response, which nobody asked for"
            raise httpx2.DecodingError(self._heard.fault)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            is_stream = "text/event-stream" in response.headers.get("content-type", "")
            most = LONGEST_STREAM if is_stream else LONGEST_MESSAGE
            response.stream = _Counted(response.stream, most, self._heard)


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int, heard: Heard) -> None:
        self._stream = stream
        self._left = most
        self._heard = heard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            self._left -= len(data)
            if self._left < 0:
                raise httpx2.ReadError(
                    f"one of its responses is longer than {LONGEST_MESSAGE:,} bytes"
                )
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()
