"""`--max-cost` of a batch: one account for all of its lines, over HTTP to a server of our own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer
from tests.waiting import until
from tests.warm import Process

pytestmark = pytest.mark.usefixtures("provider_key")

MACHINE = """
loopkit: 1
input: {n: int}
limits: {LIMITS}
agents:
  writer:
    model: openai/gpt-4o-mini
    base_url: "URL"
    api_key_env: VARIABLE
    price: PRICE
    params: {max_tokens: 10}
states:
  write:
    agent: writer
    prompt: "Note {{ input.n }}."
    output: note
    on_error: {content: aside}
    next: done
  done: {final: success, result: note}
  aside: {final: failure}
"""
BATCH = ["run", "machine.yaml", "--batch", "in.jsonl", "-o", "out.jsonl", "--parallel", "10"]
PRICE = "{input: 15.384615, output: 2969.230769}"
USD_A_CALL = 0.03
"""20 tokens in and 10 out. A call reserves $0.034: 280 for prompt and chat format, and 10 out."""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(own_folder: Path, hostile: HostileServer) -> None:
    hostile.say(*["A note."] * 10)
    write(hostile)
    lines = (json.dumps({"n": number}) for number in range(10))
    Path("in.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write(server: HostileServer, limits: str = "", price: str = PRICE) -> None:
    text = MACHINE
    filled = {"URL": server.base_url, "VARIABLE": KEY_VARIABLE, "LIMITS": limits, "PRICE": price}
    for name, value in filled.items():
        text = text.replace(name, value)
    Path("machine.yaml").write_text(text, encoding="utf-8")


def spent() -> float:
    told = Path("out.jsonl").read_text().splitlines()
    return sum(json.loads(line)["usage"]["cost_usd"] for line in told)


def test_calls_wait_for_each_other_until_the_limit_of_the_batch_is_full(
    hostile: HostileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*BATCH, "--max-cost", "0.20"]) == 3
    # Were nobody waited for, five calls would hold $0.17, and the sixth would be refused.
    assert len(hostile.requests()) == 6
    assert spent() == pytest.approx(6 * USD_A_CALL)
    err = capsys.readouterr().err
    assert "6 of 10 lines · 6 done · " in err
    assert "run the same command again with `--max-cost 0.40`" in err


def test_what_an_earlier_process_spent_counts(hostile: HostileServer) -> None:
    run([*BATCH, "--max-cost", "0.10"])
    assert len(hostile.requests()) == 3
    assert run([*BATCH, "--max-cost", "0.16"]) == 3
    assert len(hostile.requests()) == 5
    Path("out.jsonl").unlink()
    assert run([*BATCH, "--max-cost", "0.16"]) == 3
    assert len(hostile.requests()) == 5
    assert run([*BATCH, "--max-cost", "1"]) == 0
    assert len(hostile.requests()) == 10
    assert spent() == pytest.approx(10 * USD_A_CALL)


def test_what_lines_cost_that_are_taken_out_counts_still(hostile: HostileServer) -> None:
    run([*BATCH, "--max-cost", "0.10"])
    assert len(hostile.requests()) == 3
    ended = {json.loads(line)["line"] for line in Path("out.jsonl").read_text().splitlines()}
    lines = Path("in.jsonl").read_text().splitlines()
    left = ["" if n in ended else line for n, line in enumerate(lines, 1)]
    Path("in.jsonl").write_text("\n".join(left), encoding="utf-8")
    assert run([*BATCH, "--max-cost", "0.10"]) == 3
    assert len(hostile.requests()) == 3


def test_a_run_that_the_batch_has_no_money_for_is_suspended_and_not_sent_to_then(
    hostile: HostileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    write(hostile, limits="cost_usd: 1, then: aside")
    assert run([*BATCH[:-1], "1", "--max-cost", "0.05"]) == 3
    # No other line is begun.
    assert "1 of 10 lines · 1 done · 1 suspended (limit) · " in capsys.readouterr().err
    run(["runs", "ls", "--limit", "100"])
    [refused] = [
        row.split()[0] for row in capsys.readouterr().out.splitlines() if "suspended" in row
    ][:1]
    run(["runs", "show", refused])
    told = capsys.readouterr().out
    assert "the limit `cost_usd` of the batch leaves no room: $0.0300 of $0.0500 used" in told
    assert "run the batch again with a higher limit: --max-cost" in told
    assert run([*BATCH, "--max-cost", "1"]) == 0


def test_without_a_known_price_a_batch_with_a_limit_is_not_started(
    hostile: HostileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("machine.yaml").read_text().replace(f"    price: {PRICE}\n", "")
    text = text.replace("gpt-4o-mini", "some-model")
    Path("machine.yaml").write_text(text, encoding="utf-8")
    assert run([*BATCH, "--max-cost", "1"]) == 2
    assert "price" in capsys.readouterr().err
    assert hostile.requests() == []


def test_a_call_that_was_lost_with_its_process_stays_charged(hostile: HostileServer) -> None:
    hostile.reset()
    hostile.queue(Answer(hang=True))
    hostile.say(*["A note."] * 10)
    one_by_one = [*BATCH[:-1], "1", "--max-cost", "0.05"]
    process = Process(["-m", "loopkit", *one_by_one], has_litellm=True)
    until(hostile.requests, "the call")
    process.send_signal(signal.SIGKILL)
    process.wait()
    # It holds $0.034 of the $0.05, whatever it cost: no other call fits.
    assert run(one_by_one) == 3
    assert len(hostile.requests()) == 1


def test_what_a_resumed_run_had_spent_counts_once(hostile: HostileServer) -> None:
    text = Path("machine.yaml").read_text().replace("next: done", "next: judge")
    judge = """
  judge:
    validate: note
    by: [{matches: better}]
    transitions:
      - {guard: valid, target: done}
      - {revise: write, max: 1, feedback: Again.}
      - {target: aside}
  done:"""
    Path("machine.yaml").write_text(text.replace("\n  done:", judge), encoding="utf-8")
    Path("in.jsonl").write_text('{"n": 1}\n', encoding="utf-8")
    hostile.reset()
    hostile.say("A note.", "A better note.")
    assert run([*BATCH, "--max-cost", "0.05"]) == 3
    assert len(hostile.requests()) == 1
    # The second call reserves $0.035: with what was spent that is $0.065, and $0.095 if it is
    # counted twice.
    assert run([*BATCH, "--max-cost", "0.08"]) == 0
    assert spent() == pytest.approx(2 * USD_A_CALL)
