"""What a loop makes of a real model: `python benchmarks/effect/run.py --server URL --out DIR`.

Tasks that a program judges are given to a model by several strategies, with the same seeds and the
same number of calls. Every try is kept under --out, and the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from checks import FIND
from gate import Call, Gate, Try
from tasks import BOOKING, KINDS, Task

HERE = Path(__file__).parent
Row = dict[str, Any]
RESAMPLED = 4_000

MACHINE = """
loopkit: 1
input: {{kind: str, task: str, first: str, spec: any}}
limits: {{revisions: {revisions}}}
agents:
  author: {{model: openai/{name}, params: {{max_tokens: {max_tokens}}}, price: 0{form}}}
states:{first}
  write: {{agent: author, prompt: "{{{{ input.task }}}}", output: work, next: check}}
  check:
    validate: work
    by: [{{python: "checks:judge"}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: write{previous}}}
      - {{target: failed}}
  done: {{final: success, result: work}}
  failed: {{final: failure, result: work}}
"""
FIRST = """
  begin: {render: "{{ input.first }}", output: work, next: check}"""


def listed(found: Iterable[str]) -> str:
    return "\n".join(f"- {each}" for each in found)


class Asker:
    """One try: a strategy asks through this, and its answers are judged by this."""

    def __init__(self, gate: Gate, name: str, kind: str, task: Task, calls: list[Call]) -> None:
        self.gate, self.name, self.kind, self.task, self.calls = gate, name, kind, task, calls
        self.prompt = task.prompt
        if kind == "A":
            self.prompt = f"{task.prompt}\n\nAnswer with a JSON object with the fields of the form."

    def ask(self, messages: list[dict[str, str]]) -> str:
        asked: dict[str, Any] = {"model": self.name, "messages": messages}
        if self.kind == "A":
            form = {"name": "booking", "schema": BOOKING, "strict": True}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        status, answer = self.gate.answer(asked)
        if status != 200:
            raise RuntimeError(answer["error"]["message"])
        return answer["choices"][0]["message"]["content"] or ""

    def find(self, text: str) -> list[str]:
        """What is wrong with an answer; one that was cut off is wrong whatever it says."""
        if any(call.is_cut and call.text.strip() == text.strip() for call in self.calls):
            return ["The answer is too long, and was cut off."]
        if self.kind != "A":
            return FIND[self.kind](text, self.task.spec)
        try:
            data = json.loads(text)
        except ValueError:
            return ["The answer is no JSON object."]
        missing = [name for name in BOOKING["required"] if name not in data]
        if missing:
            return [f"`{name}` is missing." for name in missing]
        return FIND["A"](data, self.task.spec)


def hand(asker: Asker) -> str:
    """One conversation: each answer so far, followed by what is wrong with it."""
    messages = [{"role": "user", "content": asker.prompt}]
    text = asker.task.first
    for _ in range(KINDS[asker.kind].calls):
        if text:
            found = listed(asker.find(text))
            said = f"This is not right yet:\n{found}\nPlease answer with a corrected version only."
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": said}]
        text = asker.ask(messages)
        if not asker.find(text):
            break
    return text


def again(asker: Asker) -> str:
    """The same prompt with another seed, without a word of what was wrong."""
    text = ""
    for _ in range(KINDS[asker.kind].calls):
        text = asker.ask([{"role": "user", "content": asker.prompt}])
        if not asker.find(text):
            break
    return text


def avoid(asker: Asker) -> str:
    """The prompt, and after it the mistakes of the answer before."""
    text = asker.task.first
    for _ in range(KINDS[asker.kind].calls):
        prompt = asker.prompt
        if text:
            prompt += f"\n\nMistakes to avoid:\n{listed(asker.find(text))}"
        text = asker.ask([{"role": "user", "content": prompt}])
        if not asker.find(text):
            break
    return text


def loopkit(asker: Asker, previous: str = "") -> str:
    """The product: its own revision, or with `previous:` on the edge."""
    import loopkit as product

    kind = KINDS[asker.kind]
    first = FIRST if asker.task.first else ""
    form = f", structured: native, schema: {json.dumps(BOOKING)}" if asker.kind == "A" else ""
    text = MACHINE.format(
        name=asker.name,
        revisions=kind.calls - 1 + bool(first),
        max_tokens=kind.max_tokens,
        form=form,
        first=first,
        previous=f", previous: {previous}" if previous else "",
    )
    given = {"kind": asker.kind, "task": asker.task.prompt, "spec": asker.task.spec}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checks.py").symlink_to(HERE / "checks.py")
        machine = Path(folder) / "machine.yaml"
        machine.write_text(text, encoding="utf-8")
        done = product.run(machine, {**given, "first": asker.task.first}, state=None)
    if done.suspended:
        raise RuntimeError(str(done.suspended.message))
    work = done.result["work"]
    return work if isinstance(work, str) else json.dumps(work)


def show(asker: Asker) -> str:
    return loopkit(asker, "show")


def hide(asker: Asker) -> str:
    return loopkit(asker, "hide")


def pydantic_ai(asker: Asker) -> str:
    """Output validators that ask for a retry."""
    from peers import Booking
    from pydantic_ai import Agent, ModelRetry, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=asker.gate.url, api_key="none")
    output: Any = NativeOutput(Booking) if asker.kind == "A" else str
    agent = Agent(
        OpenAIChatModel(asker.name, provider=provider),
        output_type=output,
        retries=KINDS[asker.kind].calls - 1,
    )

    @agent.output_validator
    def judge(answer: Any) -> Any:
        text = answer if isinstance(answer, str) else answer.model_dump_json()
        if found := asker.find(text):
            raise ModelRetry("\n".join(found))
        return answer

    answer = agent.run_sync(asker.task.prompt).output
    return answer if isinstance(answer, str) else answer.model_dump_json()


def instructor(asker: Asker) -> str:
    """A response model with a validator, and the library's own retries."""
    import instructor as peer
    from openai import OpenAI
    from peers import Booking
    from tenacity import Retrying, stop_after_attempt

    client = peer.from_openai(
        OpenAI(base_url=asker.gate.url, api_key="none", max_retries=0),
        mode=peer.Mode.JSON_SCHEMA,
    )
    answer = client.chat.completions.create(
        model=asker.name,
        response_model=Booking,
        context={"find": asker.find},
        messages=[{"role": "user", "content": asker.prompt}],
        max_retries=Retrying(stop=stop_after_attempt(KINDS["A"].calls), reraise=True),
    )
    return answer.model_dump_json()


STRATEGIES: dict[str, tuple[str, Callable[[Asker], str]]] = {
    "loopkit": ("ABCD", loopkit),
    "hand": ("ABCD", hand),
    "again": ("ABCD", again),
    "avoid": ("ABCD", avoid),
    "pydantic_ai": ("AC", pydantic_ai),
    "instructor": ("A", instructor),
    "show": ("ABCD", show),
    "hide": ("D", hide),
}
"""The kinds that a strategy runs, and what it does."""


def attempt(gate: Gate, kind: str, task: Task, strategy: str, seed: int) -> Row:
    """Make one try; an exception of a strategy is an answer that was not given."""
    pair = f"{kind}.{task.id}.{seed}"
    name = f"{pair}.{strategy}"
    now = gate.tries[name] = Try(pair, KINDS[kind].max_tokens, KINDS[kind].calls)
    asker = Asker(gate, name, kind, task, now.calls)
    text, error, began = "", "", time.monotonic()
    try:
        text = STRATEGIES[strategy][1](asker)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"[:400]
    answers = [call.text for call in now.calls]
    del gate.tries[name]
    solved = bool(text) and not asker.find(text)
    told = {found for answer in answers[:-1] for found in asker.find(answer)}
    echoes = sum(any(found in answer for found in told) for answer in answers[1:])
    if solved and any(found in text for found in told):
        solved = False
    return {
        "kind": kind, "task": task.id, "strategy": strategy, "seed": seed, "solved": solved,
        "calls": len(answers), "in": sum(call.tokens_in for call in now.calls),
        "out": sum(call.tokens_out for call in now.calls), "error": error, "echoes": echoes,
        "same": sum(one.split() == other.split() for one, other in pairwise(answers)),
        "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


def interval(pairs: Sequence[tuple[str, int]]) -> tuple[float, float]:
    """Where 95 of 100 means of differences lie, in points, if tasks had been drawn anew."""
    by_task: dict[str, list[int]] = {}
    for task, difference in pairs:
        by_task.setdefault(task, []).append(difference)
    groups, draw = list(by_task.values()), random.Random(1)
    means = sorted(
        fmean(value for group in draw.choices(groups, k=len(groups)) for value in group)
        for _ in range(RESAMPLED)
    )
    cut = RESAMPLED // 40
    return 100 * means[cut], 100 * means[-cut - 1]


def tries_of(rows: Iterable[Row], kind: str, strategy: str) -> dict[tuple[str, int], Row]:
    return {
        (row["task"], row["seed"]): row
        for row in rows
        if (row["kind"], row["strategy"]) == (kind, strategy)
    }


def table(rows: list[Row], base: str) -> str:
    """The figures of each strategy, and how `base` differs from it on the same tries."""
    heads = [
        "kind", "strategy", "tries", "first call", "solved", f"`{base}` more by", "95 % interval",
        "calls", "tokens", f"`{base}`: calls", "tokens", "same", "echo",
    ]  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind in KINDS:
        ours = tries_of(rows, kind, base)
        for strategy in STRATEGIES:
            theirs = tries_of(rows, kind, strategy)
            if not theirs:
                continue
            both = [(ours[place], theirs[place]) for place in theirs if place in ours]
            cells = [kind, f"`{strategy}`", str(len(theirs))]
            at_once = fmean(row["solved"] and row["calls"] == 1 for row in theirs.values())
            cells += [f"{100 * at_once:.0f} %"]
            cells += [f"{100 * fmean(row['solved'] for row in theirs.values()):.0f} %"]
            if both and strategy != base:
                pairs = [(one["task"], one["solved"] - other["solved"]) for one, other in both]
                low, high = interval(pairs)
                cells += [f"{100 * fmean(value for _, value in pairs):+.0f} ({len(both)})"]
                cells += [f"{low:+.0f} to {high:+.0f}"]
            else:
                cells += ["", ""]
            solved = [pair for pair in both if pair[0]["solved"] and pair[1]["solved"]]
            for side in (1, 0):
                of = [pair[side] for pair in solved]
                cells += [f"{fmean(row['calls'] for row in of):.2f}" if of else "–"]
                cells += [f"{fmean(row['in'] + row['out'] for row in of):.0f}" if of else "–"]
            revised = sum(max(0, row["calls"] - 1) for row in theirs.values())
            for name in ("same", "echoes"):
                share = sum(row[name] for row in theirs.values()) / revised if revised else 0
                cells += [f"{100 * share:.0f} %"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def jobs_of(args: argparse.Namespace, known: set[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What is to be tried, seed by seed, so that every cell is filled equally."""
    return [
        (kind, task, strategy, seed)
        for seed in range(1, args.seeds + 1)
        for kind in args.kinds
        for task in KINDS[kind].tasks[: args.tasks]
        for strategy in args.strategies.split(",")
        if kind in STRATEGIES[strategy][0] and (kind, task.id, strategy, seed) not in known
    ]


def measure(args: argparse.Namespace, rows: list[Row], kept: Path) -> None:
    known = {(row["kind"], row["task"], row["strategy"], row["seed"]) for row in rows}
    gate = Gate(args.server.split(","), args.out / "answers.jsonl")
    os.environ |= {
        "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": gate.url, "OPENAI_API_BASE": gate.url,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }  # fmt: skip
    jobs, began, lock = jobs_of(args, known), time.monotonic(), threading.Lock()

    def work(job: tuple[Any, ...]) -> None:
        if args.minutes and time.monotonic() - began > 60 * args.minutes:
            return
        row = attempt(gate, *job)
        with lock, kept.open("a", encoding="utf-8") as file:
            rows.append(row)
            file.write(json.dumps(row) + "\n")

    with ThreadPoolExecutor(args.parallel) as pool:
        for number, done in enumerate(as_completed([pool.submit(work, job) for job in jobs]), 1):
            done.result()
            if number % 20 == 0:
                seconds = time.monotonic() - began
                print(f"{number} of {len(jobs)} tries, {seconds:.0f} s", file=sys.stderr)
    gate.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", help="base URLs of OpenAI-compatible servers, with commas")
    parser.add_argument("--out", type=Path, required=True, help="a folder outside the repository")
    parser.add_argument("--kinds", default="ABCD")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--tasks", type=int, help="only the first tasks of each kind")
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--minutes", type=float, help="begin no try after this time")
    parser.add_argument("--base", default="loopkit", help="the strategy that is compared")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    kept = args.out / "tries.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    if args.server:
        measure(args, rows, kept)
    strategies = args.strategies.split(",")
    shown = [row for row in rows if row["kind"] in args.kinds and row["strategy"] in strategies]
    print(table(shown, args.base))


if __name__ == "__main__":
    main()
