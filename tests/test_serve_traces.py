"""Traces of runs that servers drive, as a real collector receives them."""

# ruff: noqa: ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from loopkit.app import App
from loopkit.language.load import load
from loopkit.observability.otel.library import Emitter
from loopkit.observability.otel.observer import TelemetryObserver
from tests.collector import Collector, collector
from tests.http_site import ASKING, TOKEN, serving
from tests.test_opentelemetry import KILLED, tree
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """What servers send, each span at once."""
    with collector() as received:
        for name, value in {**received.environment, "OTEL_BSP_SCHEDULE_DELAY": "10"}.items():
            monkeypatch.setenv(name, value)
        yield received


def test_a_run_of_two_servers_of_which_the_first_is_killed_is_one_trace(
    collected: Collector,
) -> None:
    Path("killed.yaml").write_text(KILLED, encoding="utf-8")
    with serving("killed.yaml", "--answer") as server, server.client() as client:
        run = client.post("/api/runs", json={"machine": "killed"}).json()["run"]
        collected.wait_for("invoke_agent first")
        until(Path("begun").exists, "the step")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(60)
    before = list(collected.spans)
    assert [span.name for span in before] == ["run first", "invoke_agent first"]
    with serving("--answer") as server, server.client() as client:
        assert client.get(f"/api/runs/{run}").json()["summary"]["status"] == "interrupted"
        assert client.post(f"/api/runs/{run}/resume", json={}).status_code == 200
        server.until(client, run, "finished")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 143
    assert tree(collected.spans) == [
        ("run first", "invoke_agent first"),
        ("invoke_agent first", "invoke_workflow killed"),
        ("run second", "invoke_agent second"),
        ("run second", "invoke_agent second"),
        ("invoke_agent second", "invoke_workflow killed"),
        ("invoke_workflow killed", ""),
    ]
    assert len({span.trace for span in collected.spans}) == 1
    whole = collected.spans[-1]
    assert whole.start <= before[0].start
    assert whole.attributes["gen_ai.conversation.id"] == run
    sent = repr([collected.spans, collected.points, collected.resources])
    assert TOKEN not in sent


async def test_what_is_known_of_families_goes_with_them() -> None:
    Path("letter.yaml").write_text(
        ASKING.replace("choices: [send, again, drop]", "choices: [send, again, drop]\n"
                       "    timeout: 1ms\n    otherwise: drop"), encoding="utf-8",
    )  # fmt: skip
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    observer = TelemetryObserver(Emitter(provider, None))
    loaded = load(Path("letter.yaml"))
    async with App.open(Path(".loopkit"), observe=lambda: [observer]) as app:
        for count in range(20):
            active = await app.start(loaded, {"topic": "tea"})
            assert len(observer._roots) >= 1
            state = await app.drive(active)
            while state.finished is None:
                active = await app.resume(state.run)
                state = await app.drive(active)
            assert len(exported.get_finished_spans()) == count + 1
        waiting = await app.start(loaded, {"topic": "tea"})
        del active, state
        gc.collect()
        assert len(observer._roots) == 1
        await app.drive(waiting)
        del waiting
        gc.collect()
        assert len(observer._roots) == 0
