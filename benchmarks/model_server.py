"""A loopback server that answers every request like a model, after DELAY milliseconds."""

from __future__ import annotations

import asyncio
import json
import re
import sys

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
REPLY = json.dumps({
    "id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
    "choices": [{
        "index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "A note that is never long enough."},
    }],
    "usage": {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60},
}).encode()  # fmt: skip
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


async def serve(delay_s: float) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = LENGTH.search(head)
                await reader.readexactly(int(found[1]) if found else 0)
                await asyncio.sleep(delay_s)
                writer.write(HEAD % len(REPLY) + REPLY)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
