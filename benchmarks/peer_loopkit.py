"""loopkit, whole: start a run, drive it, release it; the journal is a file or in memory.

In memory a run is forgotten when it is over, because no other engine keeps anything there; in the
mode `kept` the runs pile up.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from commits import count_commits
from loop import STEPS, Job, produce, require_final

from loopkit.agents.players import Messages
from loopkit.app import App
from loopkit.language.load import Loaded, load

MACHINE = Path(__file__).with_name("notes.yaml")


async def write(prompt: str, _: Messages) -> str:
    """The stub, as any function that plays an agent."""
    # A revision is asked for by the prompt, the previous note and the feedback, in this order.
    parts = prompt.split("\n\n")
    return produce(parts[-1] if len(parts) > 1 else "")


async def one(app: App, loaded: Loaded, *, keeps: bool) -> object:
    active = await app.start(loaded, {})
    state = await app.drive(active)
    if len(state.route) != STEPS or state.finished is None:
        raise AssertionError(f"the run went {state.route} and is {state.status}")
    if not keeps:
        await app.remove(state.run)
    return state.finished.result["note"]


async def main() -> None:
    job = Job.asked()
    state_folder = job.folder / ".loopkit"
    app = App.open(state_folder if job.durable else None, functions={"writer": write})
    loaded = load(MACHINE)
    commits = partial(count_commits, state_folder / "journal.db") if job.durable else None
    for _ in job.rounds(commits):
        require_final(await one(app, loaded, keeps=job.mode != "memory"))
    job.report()
    await app.close()


asyncio.run(main())
