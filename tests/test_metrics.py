"""The figures that a monitor reads of a server or a worker, and whether its journal answers."""

# ruff: noqa: ASYNC110 - nothing else runs in these tests' event loops
from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from loopkit.app import App
from loopkit.journal.journal import open_journal
from loopkit.language.load import load
from loopkit.serving.metrics import Metrics, serve_metrics
from tests.http_site import ASKING, served
from tests.support_postgres import Proxy, url_of
from tests.waiting import LONG_S

PAID = """
loopkit: 1
agents: {writer: {command: [sh, -c, "cat"], price_per_run: 0.25}}
states:
  draft: {agent: writer, prompt: Tea, next: done, on_error: {content: done}}
  done: {final: success}
"""


def figures(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    named = dict(line.rsplit(" ", 1) for line in lines)
    assert len(named) == len(lines)
    told = set(re.findall(r"^# TYPE (\S+) (?:gauge|counter)$", text, re.MULTILINE))
    assert {name.partition("{")[0] for name in named} == told
    assert text.endswith("\n")
    return {name: float(value) for name, value in named.items()}


async def test_a_server_shows_the_figures_of_its_journal_to_whoever_has_the_token(
    tmp_path: Path,
) -> None:
    (tmp_path / "letter.yaml").write_text(ASKING, encoding="utf-8")
    (tmp_path / "paid.yaml").write_text(PAID, encoding="utf-8")
    state = tmp_path / ".loopkit"
    async with served(state, tmp_path / "letter.yaml", may_answer=True) as site:
        for path in ("/metrics", "/healthz"):
            refused = await site.client.get(path, headers={"authorization": ""})
            assert refused.status_code == 401
        first = figures((await site.client.get("/metrics")).text)
        assert first["loopkit_steps_total"] == first['loopkit_runs{state="finished"}'] == 0
        run = (await site.post("/api/runs", machine="letter", input={})).json()["run"]
        await site.until(run, lambda found: found["summary"]["status"] == "waiting")
        async with App.open(state) as other:
            # Another process: its work counts as well, and nobody has to have been asked before.
            active = await other.start(load(tmp_path / "paid.yaml"), {})
            assert (await other.drive(active)).status == "finished"
        answer = await site.client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = figures(answer.text)
        assert found["loopkit_journal_up"] == 1
        assert found["loopkit_steps_total"] == 2
        assert found["loopkit_calls_total"] == 1
        assert found["loopkit_cost_usd_total"] == 0.25
        assert found["loopkit_unpriced_calls_total"] == 0
        async with asyncio.timeout(LONG_S):
            while not found['loopkit_runs{state="finished"}']:
                await asyncio.sleep(0.5)
                found = figures((await site.client.get("/metrics")).text)
        assert found['loopkit_runs{state="waiting"}'] == 1
        assert found["loopkit_steps_total"] == 2
        health = await site.client.get("/healthz")
        assert (health.status_code, health.text) == (200, "ok")


@asynccontextmanager
async def listening(metrics: Metrics) -> AsyncIterator[httpx.AsyncClient]:
    async with await serve_metrics("127.0.0.1", 0, metrics) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            yield client


async def test_a_process_shows_what_it_does_and_what_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "paid.yaml").write_text(PAID, encoding="utf-8")
    journal = open_journal(tmp_path / ".loopkit")
    metrics = Metrics(journal)
    app = App.open(tmp_path / ".loopkit", journal, listeners_of=lambda run: (metrics.hear,))
    async with app, listening(metrics) as client:
        await app.drive(await app.start(load(tmp_path / "paid.yaml"), {}))
        active = await app.start(load(tmp_path / "paid.yaml"), {}, run="paid-2")
        await active.append()
        await active.claim.release()
        await journal.submit("paid-2")
        found = figures((await client.get("/metrics")).text)
        assert (found["loopkit_steps_total"], found["loopkit_cost_usd_total"]) == (1, 0.25)
        assert found["loopkit_due_runs"] == found['loopkit_runs{state="due"}'] == 1
        assert 0 <= found["loopkit_due_oldest_seconds"] < 60
        assert (await client.get("/healthz")).text == "ok"
        assert (await client.get("/runs")).status_code == 404
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(b"\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
        writer.close()


async def test_a_process_whose_journal_is_away_says_so_and_shows_what_it_knows(
    tmp_path: Path,
) -> None:
    proxy = Proxy()
    journal = open_journal(proxy.url(url_of(tmp_path)))
    metrics = Metrics(journal)
    metrics.counts["steps_total"] = 3
    async with listening(metrics) as client:
        for status in (200, 503, 200):
            proxy.is_away = status == 503
            if proxy.is_away:
                proxy.cut()
            async with asyncio.timeout(LONG_S):
                while (health := await client.get("/healthz")).status_code != status:
                    await asyncio.sleep(0.2)
            if proxy.is_away:
                assert health.text == "the journal has not answered for 5 s"
                found = figures((await client.get("/metrics")).text)
                assert (found["loopkit_journal_up"], found["loopkit_steps_total"]) == (0, 3)
                assert "loopkit_due_runs" not in found
    await journal.close()
    proxy.close()
