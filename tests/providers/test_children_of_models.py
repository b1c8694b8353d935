"""Children that ask models: what they need is there before the time of their parent runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import HostileServer
from tests.warm import ran

CHILD = """
loopkit: 1
agents: {writer: {model: MODEL, base_url: URL, api_key_env: VARIABLE, price: 1}}
states:
  write: {agent: writer, prompt: Write a line., output: line, next: done}
  done: {final: success, result: line}
"""
PARENT = """
loopkit: 1
states:
  below: {machine: CHILD, transitions: [{guard: outcome == "done", target: done}, {target: failed}]}
  done: {final: success}
  failed: {final: failure}
"""
WATCHED = """
import asyncio
from pathlib import Path
from loopkit.agents.model import client
from loopkit.app import App
from loopkit.language.load import load

def listener(run):
    return lambda stored: print(run.count("/"), stored.event.type, client._loaded is not None)

async def play():
    async with App.open(Path(".loopkit"), listeners_of=lambda run: (listener(run),)) as app:
        await app.drive(await app.start(load(Path("grandparent.yaml")), {}))

asyncio.run(play())
"""


@pytest.mark.usefixtures("provider_key")
def test_the_library_behind_models_is_loaded_before_the_first_child_works(
    tmp_path: Path, hostile: HostileServer
) -> None:
    parts = {"MODEL": hostile.model, "URL": hostile.base_url, "VARIABLE": KEY_VARIABLE}
    child = CHILD
    for name, value in parts.items():
        child = child.replace(name, value)
    (tmp_path / "child.yaml").write_text(child, encoding="utf-8")
    for name, below in (("parent", "child"), ("grandparent", "parent")):
        text = PARENT.replace("CHILD", f"{below}.yaml")
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    hostile.say("A line")
    watched = ran(["-c", WATCHED], cwd=tmp_path)
    assert watched.returncode == 0, watched.stderr
    told = [line.split() for line in watched.stdout.splitlines()]
    assert ["0", "finished", "True"] in told
    assert {loaded for depth, _, loaded in told if depth != "0"} == {"True"}
