"""The floor of model calls: CONCURRENCY asyncio loops over `litellm.acompletion`, nothing kept."""

from __future__ import annotations

import asyncio
import time

from caller import Asked, told

from loopkit.agents.model.client import FIXED, close, ready


async def main(asked: Asked) -> None:
    litellm = await ready()

    async def loop(calls: int) -> None:
        for _ in range(calls):
            await litellm.acompletion(
                model="openai/gpt-4o-mini",
                messages=[{"role": "user", "content": asked.prompt}],
                api_key="none",
                base_url=asked.base_url,
                max_tokens=100,
                **FIXED,
            )

    await asyncio.gather(*[loop(asked.warming) for _ in range(asked.concurrency)])
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*[loop(asked.calls) for _ in range(asked.concurrency)])
    told(asked, time.perf_counter() - started, time.process_time() - cpu)
    await close()


asyncio.run(main(Asked.read()))
