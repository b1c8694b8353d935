"""Runs that are killed again and again, as the suites see them."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

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


def begun(told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points at which there was a run already: killed before its first record there is none."""
    points = [point for point in told[1:] if point["outcome"] is not None]
    assert [point["point"] for point in told[1:] if point not in points] == ["before_1"]
    return points


def assert_alike(told: Sequence[dict[str, Any]], same: Sequence[str] = SAME) -> None:
    """After a resume, each run ends as the unharmed one."""
    for point in begun(told):
        assert {key: point[key] for key in same} == {key: told[0][key] for key in same}, point


def assert_paid_once(told: Sequence[dict[str, Any]]) -> None:
    """No committed call is made twice, and none is lost."""
    for point in begun(told):
        assert point["replies"] == told[0]["replies"], point
        assert point["replies"] <= point["calls"] <= point["replies"] + point["in_doubt"], point


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
    options = [] if mended is None else ["--mended", str(folder / "mended.yaml")]
    if posted:
        lines = [answer.to_json() for answer in posted]
        (folder / "posted.jsonl").write_text("\n".join(lines), encoding="utf-8")
        options += ["--posted", str(folder / "posted.jsonl")]
    if delivered:
        (folder / "delivered.json").write_text(json.dumps(delivered), encoding="utf-8")
        options += ["--delivered", str(folder / "delivered.json")]
    return _told(every, *paths, *options)


def killed_among_models(folder: Path, machine: str, every: int) -> list[dict[str, Any]]:
    """The same for a machine of models, which a server at URL plays: it repeats each prompt."""
    url = _echo().base_url.removesuffix("/v1")
    texts = {"machine": machine.replace("URL", url), "scenario": "scenario: 1\nanswers: {}\n"}
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    paths = [str(folder / name) for name in ("machine.yaml", "scenario.yaml", "work")]
    environment = {**os.environ, "CRASH_KEY": "none"}
    return _told(every, *paths, url, env=environment, has_litellm=True)


@cache
def _echo() -> OpenAIMock:
    """The server of all suites of this process; each run begins with it anew."""
    server = OpenAIMock("--response-style", "echo")
    atexit.register(server.stop)
    return server


def killed(machine: str, by: Callable[..., Any] = killed_at_points, **more: Any) -> Any:
    """A fixture `told`: what the host tells of the unharmed run and of each point."""

    @pytest.fixture(scope="module", name="told")
    def told(every: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
        return by(tmp_path_factory.mktemp("crash"), machine, every=every, **more)

    return told


def _told(every: int, *argv: str, **more: Any) -> list[dict[str, Any]]:
    """What the host tells; the signal has reached each point."""
    host = ran([*HOST, *argv, "--every", str(every)], cwd=ROOT, timeout=600, **more)
    assert host.returncode == 0, host.stderr
    told: list[dict[str, Any]] = [json.loads(line) for line in host.stdout.splitlines()]
    assert [point["point"] for point in told[1:] if point["ended"] != -9] == []
    assert len(told) == 1 + count_points(told[0], every)
    return told
