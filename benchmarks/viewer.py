"""How long the viewer takes to show a run of 500 steps: `python benchmarks/viewer.py`.

Needs `loopkit-runner[serve]`, and for the figures of a browser playwright and a Chromium of the
system.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from table import machine

TOKEN = "a-token-for-benchmarks"
AIMS = {"the page, in a browser": 1000}
LOOP = """
loopkit: 1
name: loop
agents: {{writer: {{model: openai/gpt-5-mini}}, critic: {{model: openai/gpt-5-mini}}}}
validators: {{good: {{judge: critic, rubric: [Is it good?]}}}}
states:
  note: {{agent: writer, prompt: "Write a note. {{{{ feedback }}}}", next: check}}
  check: {{validate: note, by: [good], transitions: [
    {{guard: valid, target: done}}, {{guard: cap_reached, target: gave_up}},
    {{revise: note, max: {rounds}}}]}}
  done: {{final: success, result: note}}
  gave_up: {{final: failure}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how often each is measured")
    parser.add_argument("--steps", type=int, default=500, help="of the run that is shown")
    given = parser.parse_args()
    if given.rounds < 1 or given.steps < 4:
        parser.error("--rounds must be at least 1, and --steps at least 4")
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = made_run(folder, given.steps // 2)
        for number in range(1, given.rounds + 1):
            print(f"round {number} of {given.rounds}", file=sys.stderr)
            with serving(folder) as url:
                size = _measure(url, run, times)
    print(
        f"{given.rounds} rounds. {machine()} The page has {size / 1000:.0f} kB.\n\n{table(times)}"
    )


def made_run(folder: Path, rounds: int) -> str:
    """A run of so many rounds of two steps, each with a call; its id."""
    folder.joinpath("loop.yaml").write_text(LOOP.format(rounds=rounds), encoding="utf-8")
    found = [{"message": f"Finding {i} of the note is wrong"} for i in range(7)]
    failed = {"data": {"verdict": "fail", "findings": found[:3]}}
    passed = {"data": {"verdict": "pass", "findings": []}}
    agents = {
        "writer": [f"Note {i}\n" + "It has a line like any other.\n" * 40 for i in range(rounds)],
        "critic": [failed] * (rounds - 1) + [passed],
    }
    script = folder / "loop.scenario.yaml"
    script.write_text(json.dumps({"scenario": 1, "agents": agents}), encoding="utf-8")
    _loopkit(folder, "run", "loop.yaml", "--script", script.name, "--output", "quiet")
    return _loopkit(folder, "runs", "ls").splitlines()[1].split()[0]


def _loopkit(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [_program(), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"loopkit {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _program() -> str:
    return str(Path(sys.executable).with_name("loopkit"))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server that has not read the run yet."""
    with subprocess.Popen(
        [_program(), "serve", "--port", "0"],
        cwd=folder, env={**os.environ, "LOOPKIT_TOKEN": TOKEN}, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stderr is not None
        found = re.search(r"serving at (\S+)", server.stderr.readline())
        assert found is not None
        try:
            yield found[1]
        finally:
            server.terminate()
            server.communicate()


def _measure(url: str, run: str, times: dict[str, list[float]]) -> int:
    """All figures of one round; the size of the page in bytes."""
    address = f"{url}/runs/{run}"
    page = timed(times["the page, from a server just started"], lambda: fetched(address))
    timed(times["the page again"], lambda: fetched(address))
    seq = re.search(rb'data-seq="(\d+)"', page)
    assert seq is not None
    last = f"{address}?since={int(seq[1]) - 5}"
    timed(times["what the last step has changed"], lambda: fetched(last))
    if browser := shutil.which("chromium") or shutil.which("google-chrome"):
        _in_browser(browser, url, address, times["the page, in a browser"])
    return len(page)


def fetched(address: str) -> bytes:
    asked = Request(address, headers={"Authorization": f"Bearer {TOKEN}", "Accept": "text/html"})
    with urlopen(asked) as answer:
        read: bytes = answer.read()
    return read


def timed(times: list[float], work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    done = work()
    times.append((time.perf_counter() - began) * 1000)
    return done


def _in_browser(program: str, url: str, address: str, times: list[float]) -> None:
    """From asking for the page until the browser has drawn it with all its steps."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=flags)
        page = chromium.new_page()
        page.goto(f"{url}/login")
        page.fill("input[name=token]", TOKEN)
        page.click("main button")
        page.wait_for_url(f"{url}/")
        drawn = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
        timed(times, lambda: (page.goto(address), page.evaluate(drawn)))
        assert page.locator("#steps .step").count() >= 4
        chromium.close()


def table(times: dict[str, list[float]]) -> str:
    rows = [
        f"| {name} | {min(spent):.0f} | {statistics.median(spent):.0f} "
        f"| {f'≤ {AIMS[name]:,}' if name in AIMS else ''} |"
        for name, spent in times.items()
    ]
    return "\n".join(("| ms | minimum | median | aim |", "|---|---|---|---|", *rows))


if __name__ == "__main__":
    main()
