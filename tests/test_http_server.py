"""Connections with a server: how their responses are sent."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.http_site import served


async def test_no_response_waits_for_a_word_of_the_clients_kernel(tmp_path: Path) -> None:
    async with served(tmp_path / ".loopkit", may_answer=True) as site:
        assert await site.get("/api/runs")
        [connection] = site.server.server_state.connections
        theirs = connection.transport.get_extra_info("socket")
        assert theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
