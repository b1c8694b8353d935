"""The inbox of a run, when the process that drove it died with messages in there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loopkit.app import App
from loopkit.language.load import load

MACHINE = """
loopkit: 1
agents: {writer: {command: [writer]}}
states:
  write: {agent: writer, prompt: Write., output: note, next: done, on_error: {content: failed}}
  done: {final: success, result: note}
  failed: {final: failure}
"""


async def test_a_run_that_was_cancelled_asks_nobody_when_it_is_resumed(tmp_path: Path) -> None:
    machine, asked = tmp_path / "machine.yaml", []
    machine.write_text(MACHINE, encoding="utf-8")

    def write(prompt: str, _: Any) -> str:
        asked.append(prompt)
        return "A note."

    async with App.open(tmp_path / ".loopkit", functions={"writer": write}) as dying:
        active = await dying.start(load(machine), {})
        await active.append()
        run = active.state.run
        async with App.open(tmp_path / ".loopkit") as other:
            assert "it cancels the run after the step in hand" in await other.cancel(run, "Enough.")
        # As after a kill: nobody has looked into the inbox.
        await active.claim.release()
    async with App.open(tmp_path / ".loopkit", functions={"writer": write}) as app:
        state = await app.drive(await app.resume(run))
    assert (state.status, asked) == ("cancelled", [])
