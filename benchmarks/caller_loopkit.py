"""loopkit, whole: CONCURRENCY loops over runs of an agent state that is revised to its cap."""

from __future__ import annotations

import asyncio
import os
import time

from caller import Asked, told

from loopkit.app import App
from loopkit.language.load import Loaded, load_text

CALLS_A_RUN = 5

MACHINE = """
loopkit: 1
limits: {{revisions: {revisions}, stall: 1000000, cost_usd: 1000}}
agents:
  writer:
    model: openai/gpt-4o-mini
    base_url: {base_url}
    api_key_env: BENCHMARK_KEY
    params: {{max_tokens: 100}}
states:
  draft: {{agent: writer, prompt: {prompt}, output: note, next: judge}}
  judge:
    validate: note
    by: [{{min_chars: 1000}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{guard: cap_reached, target: failed}}
      - {{revise: draft}}
  done: {{final: success, result: note}}
  failed: {{final: failure, result: note}}
"""


async def runs(app: App, loaded: Loaded, asked: Asked, calls: int) -> None:
    async def loop() -> None:
        for _ in range(calls // CALLS_A_RUN):
            state = await app.drive(await app.start(loaded, {}))
            if state.usage.agent_calls != CALLS_A_RUN or state.finished is None:
                raise AssertionError(f"{state.usage.agent_calls} calls, {state.suspended}")

    await asyncio.gather(*[loop() for _ in range(asked.concurrency)])


async def main(asked: Asked) -> None:
    os.environ["BENCHMARK_KEY"] = "none"
    app = App.open(asked.folder / ".loopkit")
    text = MACHINE.format(base_url=asked.base_url, prompt=asked.prompt, revisions=CALLS_A_RUN - 1)
    loaded = load_text(text, "benchmark", asked.folder)
    await runs(app, loaded, asked, asked.warming)
    started, cpu = time.perf_counter(), time.process_time()
    await runs(app, loaded, asked, asked.calls)
    told(asked, time.perf_counter() - started, time.process_time() - cpu)
    await app.close()


asyncio.run(main(Asked.read()))
