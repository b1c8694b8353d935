"""Children that ask models: what they need is there before the time of their parent runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.cli import invoke
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


@pytest.mark.usefixtures("provider_key")
def test_options_reach_the_agents_of_children_also_of_those_that_have_begun(
    tmp_path: Path,
    hostile: HostileServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".loopkit").mkdir()
    child = CHILD.replace("MODEL", "openai/small").replace("URL", "http://127.0.0.1:9/v1")
    child = child.replace("output: line,", "output: line, on_error: {content: done},")
    Path("child.yaml").write_text(child.replace("VARIABLE", KEY_VARIABLE), encoding="utf-8")
    first, rest = PARENT.replace("CHILD", "child.yaml").split("  done:")
    second = first.split("states:\n")[1].replace("below", "beside")
    first = first.replace("target: done", "target: beside")
    Path("machine.yaml").write_text(f"{first}{second}  done:{rest}", encoding="utf-8")
    address = ["--base-url", f"writer={hostile.base_url}"]
    hot = ["--param", "writer.temperature=0.3", "--param", "beside/writer.temperature=1"]
    hostile.fail(400, message="No such model")
    assert invoke(["run", "machine.yaml", *address, *hot, "--output", "quiet"]) == 4
    for _ in range(2):
        hostile.say("A line")
    name = capsys.readouterr().err.split("loopkit resume ")[1].split()[0]
    options = ["--model", "below/writer=openai/large", "--price", "writer=2"]
    assert invoke(["resume", name, *options, "--param", "below/writer.temperature=null"]) == 0
    asked = [(one.body["model"], one.body.get("temperature")) for one in hostile.requests()]
    assert asked == [("small", 0.3), ("large", None), ("small", 1)]
