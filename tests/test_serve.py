"""`loopkit serve` as a process: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from loopkit.cli import invoke
from tests import waiting
from tests.http_site import ASKING, SLOW, TOKEN, folder_with, serving, silent, waiting_run
from tests.terminal import Terminal
from tests.test_journal_read_only import FORBIDDEN, usable
from tests.warm import ran_loopkit

STATE = Path(".loopkit")

_folder = folder_with(letter=ASKING, slow=SLOW)


def contents() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in STATE.rglob("*") if path.is_file()}


def test_a_server_that_only_shows_works_where_nothing_can_be_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    usable(FORBIDDEN)
    run = waiting_run(capsys)
    before = contents()
    paths = [STATE, *STATE.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with serving(under=tuple(FORBIDDEN)) as server, server.client() as client:
            assert client.get(f"/api/runs/{run}").json()["summary"]["status"] == "waiting"
            assert client.get(f"/api/runs/{run}/artifacts/letter/1").status_code == 200
            with client.stream("GET", "/api/events?from=0",
                               headers={"Accept": "text/event-stream"}) as events:  # fmt: skip
                assert any('"waiting"' in line for line in events.iter_lines())
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 143
        assert contents() == before
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


def _first(events: httpx.Response, count: int) -> list[str]:
    lines: list[str] = []
    for line in events.iter_lines():
        lines.append(line)
        if len(lines) == count:
            break
    return lines


def test_a_server_that_only_shows_changes_no_file_of_the_journal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = waiting_run(capsys)
    before = contents()
    with serving() as server, server.client() as client:
        for path in ("runs", f"runs/{run}", f"runs/{run}/events", f"runs/{run}/artifacts"):
            assert client.get(f"/api/{path}").status_code == 200
        assert client.post(f"/api/runs/{run}/answer", json={"choice": "send"}).status_code == 403
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 130
    # SQLite keeps its readers in a file of its own, which holds nothing.
    after = {name: data for name, data in contents().items() if name in before}
    assert after == before
    assert all(name.endswith(("-shm", "-wal")) for name in contents().keys() - before.keys())


def test_the_token_is_in_nothing_that_is_printed_and_in_no_url() -> None:
    with serving("letter.yaml", "--answer") as server, server.client() as client:
        run = client.post("/api/runs", json={"machine": "letter"}).json()["run"]
        client.get(f"/api/runs/{run}?token={TOKEN}")
        client.get("/api/runs", headers={"Authorization": f"Bearer {TOKEN}x"})
        with httpx.Client(base_url=server.url, trust_env=False) as browser:
            page = server.found(r"sign in with the token: (\S+)")
            signed = browser.post(page, data={"token": TOKEN}, headers={"Origin": server.url})
            assert signed.status_code == 303
            assert browser.get("/api/runs").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 143
    assert TOKEN not in server.log.read_text()
    assert all(TOKEN.encode() not in data for data in contents().values())


def test_a_new_token_and_a_link_are_shown_at_a_terminal_only() -> None:
    with serving("--answer", token="") as server:
        assert server.found(r"nobody can sign in, .* give it in (LOOPKIT_TOKEN) or .*")
        assert "the token, for programs" not in server.log.read_text()
        assert "/login" not in server.log.read_text()
    terminal = Terminal(["serve", "--port", "0", "--answer"])
    shown = terminal.wait_for(r"the token, for programs: \S+\s")
    link = re.search(r"sign in, once and within\s+ten minutes:\s+(\S+)", shown)
    assert link is not None
    assert httpx.get(link[1], trust_env=False).status_code == 303
    url = re.search(r"serving at (\S+)", shown)
    token = re.search(r"for programs: (\S{30,})", shown)
    assert url is not None
    assert token is not None
    headers = {"Authorization": f"Bearer {token[1]}"}
    assert httpx.get(f"{url[1]}/api/runs", headers=headers, trust_env=False).status_code == 200
    terminal.signal(signal.SIGINT)
    assert terminal.end() == 130


def test_a_token_comes_from_a_file_as_well_and_has_to_be_long() -> None:
    Path("token").write_text(f"{TOKEN}\n", encoding="utf-8")
    with (
        serving("--answer", "--token-file", "token", token="") as server,
        server.client() as client,
    ):
        assert client.get("/api/runs").status_code == 200
    for bad, cause in (("short", "at least 16"), ("", "at least 16"), ("ü" * 20, "ASCII")):
        Path("token").write_text(bad, encoding="utf-8")
        refused = ran_loopkit("serve", "--answer", "--token-file", "token")
        assert refused.returncode == 2
        assert cause in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_programs_of_runs_do_not_see_the_token() -> None:
    Path("letter.yaml").write_text(
        'loopkit: 1\nname: letter\nnotify: [sh, -c, "env > seen"]\n'
        "states:\n  a: {render: x, output: a, next: b}\n  b: {final: success}\n",
        encoding="utf-8",
    )
    with serving("letter.yaml", "--answer") as server, server.client() as client:
        client.post("/api/runs", json={"machine": "letter"})
        waiting.until(lambda: Path("seen").exists() and Path("seen").read_text() != "")
    assert "LOOPKIT_TOKEN" not in Path("seen").read_text()


@pytest.mark.parametrize(
    ("argv", "cause"),
    [
        (["letter.yaml"], "only with `--answer`"),
        (["missing.yaml", "--answer"], "missing.yaml"),
        (["--url", "runs.example"], "write `https://HOST`"),
        (["--url", "https://runs.example/path"], "write `https://HOST`"),
        (["--url", "https://runs.example?run=1"], "write `https://HOST`"),
        (["--url", "https://ann@runs.example"], "write `https://HOST`"),
        (["--url", "https://runs.example:99999"], "write `https://HOST`"),
        (["--url", "https://:443"], "write `https://HOST`"),
        (["--url", "https://[::1"], "write `https://HOST`"),
        (["--host", "203.0.113.1"], "cannot listen at 203.0.113.1"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_sentence(argv: list[str], cause: str) -> None:
    refused = ran_loopkit("serve", "--port", "0", *argv)
    assert refused.returncode in (2, 4)
    assert cause in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_port_that_is_taken_is_told_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = ran_loopkit("serve", "--answer", "--port", str(port))
    assert refused.returncode == 4
    assert f"cannot listen at 127.0.0.1:{port}" in refused.stderr
    assert "`--port`" in refused.stderr


def test_a_server_that_others_can_reach_says_so_loudly() -> None:
    with serving("--answer", "--host", "0.0.0.0", "--url", "https://Runs.example:443/") as server:
        log = server.log.read_text()
        assert log.startswith("WARNING: the server listens at 0.0.0.0, where others can reach it")
        assert server.url == "https://runs.example"
        assert server.found("sign in with the token: (.*)") == "https://runs.example/login"


def test_the_first_signal_stores_the_step_in_hand_and_ends_also_clients_that_do_not_read() -> None:
    large = ASKING.replace("default: tea", f"default: {'tea' * 250_000}")
    Path("letter.yaml").write_text(large, encoding="utf-8")
    with serving("letter.yaml", "slow.yaml", "--answer") as server, server.client() as client:
        letter = client.post("/api/runs", json={"machine": "letter"}).json()["run"]
        server.until(client, letter, "waiting")
        run = client.post("/api/runs", json={"machine": "slow"}).json()["run"]
        waiting.until(Path("begun").exists)
        with silent(server.url, f"/api/runs/{letter}/events"):
            Path("go").touch()
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 143
            took = time.monotonic() - began
        assert "the server ends; steps in hand are finished first" in server.log.read_text()
        assert "Traceback" not in server.log.read_text()
    # A busy machine may take longer; without an end of its own it would be for ever.
    assert took < 15
    assert invoke(["resume", run, "--output", "quiet"]) == 0


def test_the_second_signal_ends_at_once_and_programs_first() -> None:
    with serving("slow.yaml", "--answer") as server, server.client() as client:
        run = client.post("/api/runs", json={"machine": "slow"}).json()["run"]
        waiting.until(Path("begun").exists)
        server.process.send_signal(signal.SIGINT)
        waiting.until(lambda: "steps in hand" in server.log.read_text())
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 130
        assert "aborted; runs that it drove can be resumed" in server.log.read_text()
    # A killed process may take a moment to be gone.
    waiting.until(lambda: not programs_here(), "the end of the programs")
    Path("go").touch()
    assert invoke(["runs", "show", run]) == 0


def programs_here() -> list[str]:
    """The command lines of processes that work in this folder, but for this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.name != str(os.getpid()) and (process / "cwd").resolve() == Path.cwd():
                found.append((process / "cmdline").read_text())
    return [line for line in found if "until test" in line]


def test_a_server_that_is_killed_while_people_watch_loses_nothing() -> None:
    with serving("letter.yaml", "--answer") as server, server.client() as client:
        run = client.post("/api/runs", json={"machine": "letter"}).json()["run"]
        told = server.until(client, run, "waiting")
        with client.stream("GET", f"/api/runs/{run}/events",
                           headers={"Accept": "text/event-stream"}) as events:  # fmt: skip
            seen = [line for line in _first(events, 12) if line.startswith('data: {"run"')]
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(60)
    with serving("letter.yaml", "--answer") as server, server.client() as client:
        assert client.get(f"/api/runs/{run}").json()["questions"] == told["questions"]
        listed = client.get(f"/api/runs/{run}/events").json()["events"]
        shown = [json.loads(line.removeprefix("data: ")) for line in seen]
        assert shown
        assert listed[: len(shown)] == shown
        assert client.post(f"/api/runs/{run}/answer", json={"choice": "send"}).status_code == 200
        server.until(client, run, "finished")
