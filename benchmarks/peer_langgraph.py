"""LangGraph; `durable` is its SQLite saver with `durability="sync"`: saved before the next step."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from commits import count_commits
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from loop import Job, produce, require_final, validate


class Notes(TypedDict):
    note: str
    feedback: str
    revision: int


def write(state: Notes) -> dict[str, Any]:
    return {"note": produce(state["feedback"])}


def judge(state: Notes) -> dict[str, Any]:
    revision = state["revision"] + 1
    return {"feedback": validate(state["note"], revision), "revision": revision}


def way(state: Notes) -> str:
    return "write" if state["feedback"] and state["revision"] < 5 else END


def compiled(database: Path | None) -> Any:
    graph = StateGraph(Notes)
    graph.add_node("write", write)
    graph.add_node("judge", judge)
    graph.add_edge(START, "write")
    graph.add_edge("write", "judge")
    graph.add_conditional_edges("judge", way, ["write", END])
    if database is None:
        return graph.compile()
    return graph.compile(SqliteSaver(sqlite3.connect(database, check_same_thread=False)))


def one(number: int, app: Any, *, durable: bool) -> str:
    begun = {"note": "", "feedback": "", "revision": 0}
    if not durable:
        return str(app.invoke(begun)["note"])
    thread = {"configurable": {"thread_id": f"run-{number}"}}
    return str(app.invoke(begun, thread, durability="sync")["note"])


def main() -> None:
    job = Job.asked()
    database = job.folder / "langgraph.db"
    app = compiled(database if job.durable else None)
    for number in job.rounds(partial(count_commits, database) if job.durable else None):
        require_final(one(number, app, durable=job.durable))
    job.report()


main()
