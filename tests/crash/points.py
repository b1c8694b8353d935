"""Runs that are killed again and again, as the suites see them."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from loopkit.engine.payloads import HumanAnswer
from tests.providers.openai_mock import OpenAIMock
from tests.support import ROOT
from tests.warm import ran

HOST = ["-m", "tests.crash.host"]
AGENT = ["sh", str(ROOT / "tests/crash/agent.sh")]
SAME = ("outcome", "result", "artifacts", "counters", "attempts", "route", "prompts")
"""What a run that was killed has in common with the unharmed one in the end."""


def count_points(unharmed: Mapping[str, Any], every: int) -> int:
    """How many points there are: two at one of so many appends, and one in one of so many calls."""
    return 2 * len(range(0, unharmed["appends"], every)) + len(range(0, unharmed["calls"], every))


def killed_at_points(
    folder: Path,
    machine: str,
    every: int = 1,
    answers: str = "{}",
    mended: str | None = None,
    files: Mapping[str, str] = {},
    posted: Sequence[HumanAnswer] = (),
    delivered: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """What the host tells of the unharmed run, then of one of so many points, or of each.

    With `mended`, the run is repaired by this machine where it is suspended. `files` stand beside
    the machine. What is `posted` answers its questions, one after the other; what is `delivered`
    comes from outside.
    """
    texts = {"machine": machine, "scenario": f"scenario: 1\nanswers: {answers}\n"}
    texts |= {} if mended is None else {"mended": mended}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    paths = [str(folder / name) for name in ("machine.yaml", "scenario.yaml", "work")]
    options = ["--every", str(every)]
    options += [] if mended is None else ["--mended", str(folder / "mended.yaml")]
    if posted:
        lines = [answer.to_json() for answer in posted]
        (folder / "posted.jsonl").write_text("\n".join(lines), encoding="utf-8")
        options += ["--posted", str(folder / "posted.jsonl")]
    if delivered:
        (folder / "delivered.json").write_text(json.dumps(delivered), encoding="utf-8")
        options += ["--delivered", str(folder / "delivered.json")]
    return _told(*paths, *options)


def killed_among_models(folder: Path, machine: str, every: int) -> list[dict[str, Any]]:
    """The same for a machine of models, which a server at URL plays: it repeats each prompt."""
    url = _echo().base_url.removesuffix("/v1")
    texts = {"machine": machine.replace("URL", url), "scenario": "scenario: 1\nanswers: {}\n"}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    paths = [str(folder / name) for name in ("machine.yaml", "scenario.yaml", "work")]
    options = ["--every", str(every)]
    return _told(*paths, url, *options, env={**os.environ, "CRASH_KEY": "none"}, has_litellm=True)


@cache
def _echo() -> OpenAIMock:
    """The server of all suites of this process; each run begins with it anew."""
    server = OpenAIMock("--response-style", "echo")
    atexit.register(server.stop)
    return server


def _told(*argv: str, **more: Any) -> list[dict[str, Any]]:
    host = ran([*HOST, *argv], cwd=ROOT, timeout=600, **more)
    assert host.returncode == 0, host.stderr
    return [json.loads(line) for line in host.stdout.splitlines()]
