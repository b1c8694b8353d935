"""What must hold after the faults, counted in the journal and in the logs of the programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

Counts = dict[str, int]
ZERO = (
    "runs that did not end", "runs that somebody still owns or is to continue",
    "committed calls made again", "replies lost", "calls that no record intends",
    "gaps in seq", "epochs out of order", "intended after the reply",
    "intended that are neither committed nor in doubt", "programs beside another of their run",
    "programs alive after the next claim",
)  # fmt: skip
"""What has to be zero."""


@dataclass
class Run:
    name: str
    is_at_rest: bool
    records: list[tuple[int, int, float, str, dict[str, Any]]] = field(default_factory=list)
    """Each with seq, epoch, time, type and data."""


@dataclass
class Found:
    counts: Counts = field(default_factory=lambda: dict.fromkeys(ZERO, 0))
    examples: list[str] = field(default_factory=list)

    def add(self, what: str, where: str = "", number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number
        if what in ZERO and number and len(self.examples) < 50:
            self.examples.append(f"{what}: {where}")


def runs_in(db: psycopg.Connection[Any], schema: str) -> dict[str, Run]:
    owned = f'SELECT id, run, owner IS NULL AND due_at IS NULL FROM "{schema}".runs'
    found = {row: Run(name, rests) for row, name, rests in db.execute(owned.encode())}
    told = f'SELECT run_id, seq, epoch, at, type, data FROM "{schema}".records ORDER BY run_id, seq'
    for row, seq, epoch, at, kind, data in db.execute(told.encode()):
        found[row].records.append((seq, epoch, at, kind, json.loads(data)))
    return {run.name: run for run in found.values()}


def log_of(folder: Path, name: str) -> list[dict[str, Any]]:
    try:
        lines = (folder / f"{name}.log").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    # A line without sync may be cut off where a program was killed.
    return [json.loads(line) for line in lines if line.endswith("}")]


def count(runs: Iterable[Run], logs: Path) -> Found:
    found = Found()
    for run in runs:
        found.add("runs")
        found.add("records", number=len(run.records))
        _count_records(run, found)
        _count_calls(run, log_of(logs, run.name), found)
    return found


def _count_records(run: Run, found: Found) -> None:
    epoch = 0
    is_over = any(kind == "finished" and data["success"] for *_, kind, data in run.records)
    if not is_over:
        found.add("runs that did not end", f"{run.name}: {_end(run)}")
    elif not run.is_at_rest:
        found.add("runs that somebody still owns or is to continue", run.name)
    for number, (seq, own_epoch, _, kind, _) in enumerate(run.records, 1):
        if seq != number:
            found.add("gaps in seq", f"{run.name}: {seq} is number {number}")
            break
        if own_epoch != epoch + (kind == "claimed"):
            found.add("epochs out of order", f"{run.name}, seq {seq}")
        epoch = own_epoch
        found.add("claims", number=kind == "claimed")


def _end(run: Run) -> str:
    *_, kind, data = run.records[-1] if run.records else ("nothing", {})
    return f"{kind} {data.get('message', '')}".strip()


def _count_calls(run: Run, log: Sequence[Mapping[str, Any]], found: Found) -> None:
    intended: dict[str, str] = {}
    """The task of each open call."""
    opened, settled, replied = set[str](), set[str](), dict[str, tuple[float, str]]()
    doubts = 0
    for seq, _, at, kind, data in run.records:
        if kind == "intended":
            task = intended[data["key"]] = data["task"]
            opened.add(f"{seq}")
            if task in replied:
                found.add("intended after the reply", f"{run.name}, seq {seq}: {task}")
        elif kind in ("replied", "failed", "in_doubt"):
            task = intended[data["key"]]
            settled.add(f"{seq}")
            doubts += kind == "in_doubt"
            found.add(f"calls {kind}")
            if kind == "replied":
                replied[task] = at, data["text"].split()[0]
    if len(opened) != len(settled):
        where = f"{run.name}: {len(opened)} and {len(settled)}"
        found.add("intended that are neither committed nor in doubt", where)
    _compare(run, log, replied, set(intended.values()), found)
    called = sum(line["what"] == "called" for line in log)
    found.add("calls made", number=called)
    if called > len(opened):
        where = f"{run.name}: {called} made, {len(opened)} intended"
        found.add("calls that no record intends", where, called - len(opened))


def _compare(
    run: Run,
    log: Sequence[Mapping[str, Any]],
    replied: Mapping[str, tuple[float, str]],
    intended: set[str],
    found: Found,
) -> None:
    claims = [at for *_, at, kind, _ in run.records if kind == "claimed"]
    ended = {line["id"] for line in log if line["what"] == "ended"}
    began: dict[str, float] = {}
    for line in log:
        task = f"{line['state']}:{line['round']}:{'author' if line['state'] == 'work' else 'run'}"
        if line["what"] == "called":
            began[line["id"]] = line["at"]
            if not line["alone"]:
                where = f"{run.name}, {task}, {line['id']} at {line['at']}"
                found.add("programs beside another of their run", where)
            if task not in intended:
                found.add("calls that no record intends", f"{run.name}: {task}")
            if task in replied and line["at"] > replied[task][0]:
                found.add("committed calls made again", f"{run.name}: {task}, {line['id']}")
            continue
        begun = began.get(line["id"], line["at"])
        if later := [at for at in claims if begun < at < line["at"]]:
            where = f"{run.name}, {task}, {line['id']}: {line['at'] - later[0]:.2f} s after it"
            found.add("programs alive after the next claim", where)
            claims = [at for at in claims if at not in later]
    rounds = next((d["input"]["rounds"] for *_, k, d in run.records if k == "started"), 0)
    is_over = any(kind == "finished" for *_, kind, _ in run.records)
    wanted = {
        f"{s}:{n + 1}:{r}"
        for n in range(rounds)
        for s, r in (("work", "author"), ("measure", "run"))
    }
    lacking = (wanted if is_over else set()) - set(replied)
    unknown = {task for task, (_, me) in replied.items() if me not in ended}
    for task in lacking | unknown:
        found.add("replies lost", f"{run.name}: {task}")


def waits(runs: Mapping[str, Run], faults: Iterable[Mapping[str, Any]]) -> list[float]:
    """The seconds until each run that a fault hit had a driver again."""
    found: list[float] = []
    for fault in faults:
        for name in fault["runs"]:
            if name in runs:
                claims = [at for *_, at, kind, _ in runs[name].records if kind == "claimed"]
                found += [at - fault["at"] for at in claims if at > fault["at"]][:1]
    return found
