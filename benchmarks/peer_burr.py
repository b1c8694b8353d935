"""Burr, with its own SQLite persister for `durable`: every step is saved before the next."""

from __future__ import annotations

import os
from functools import partial

os.environ["BURR_TELEMETRY_ENABLED"] = os.environ["HAMILTON_TELEMETRY_ENABLED"] = "false"

from burr.core import ApplicationBuilder, Graph, GraphBuilder, State, action, expr
from burr.core.persistence import SQLitePersister
from commits import count_commits
from loop import Job, produce, require_final, validate


@action(reads=["feedback"], writes=["note"])
def write(state: State) -> State:
    return state.update(note=produce(state["feedback"]))


@action(reads=["note", "revision"], writes=["feedback", "revision"])
def judge(state: State) -> State:
    revision = state["revision"] + 1
    return state.update(feedback=validate(state["note"], revision), revision=revision)


def one(number: int, graph: Graph, persister: SQLitePersister | None) -> str:
    builder = ApplicationBuilder().with_graph(graph).with_entrypoint("write")
    builder = builder.with_state(note="", feedback="", revision=0)
    if persister is not None:
        builder = builder.with_identifiers(app_id=f"run-{number}", partition_key="loops")
        builder = builder.with_state_persister(persister)
    app = builder.build()
    while app.has_next_action():
        app.step()
    return str(app.state["note"])


def main() -> None:
    job = Job.asked()
    revise = expr("feedback != '' and revision < 5")
    graph = GraphBuilder().with_actions(write=write, judge=judge)
    graph = graph.with_transitions(("write", "judge"), ("judge", "write", revise)).build()
    database = job.folder / "burr.db"
    persister = SQLitePersister.from_values(str(database)) if job.durable else None
    if persister is not None:
        persister.initialize()
    for number in job.rounds(partial(count_commits, database) if job.durable else None):
        require_final(one(number, graph, persister))
    job.report()


main()
