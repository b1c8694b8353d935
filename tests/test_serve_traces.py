"""Traces of runs that servers drive, as a real collector receives them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector import Collector, collector
from tests.http_site import TOKEN, serving
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
    sent = repr([collected.spans, collected.resources])
    assert TOKEN not in sent
