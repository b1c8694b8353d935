"""Machines in which one text is written, judged and revised, in a few words.

Most tests play such a machine, and each cares about a few parts of it alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

AUTHOR = "agents: {author: {command: [none]}}"
SUCCESSES = ("accepted", "done", "advised")


def loop(
    by: str,
    ways: Mapping[str, str],
    *rows: str,
    top: str = AUTHOR,
    draft: str = "draft: {agent: author, prompt: Write., output: plan}",
    judge: str = "judge",
    state: str = "",
    ends: str = "",
    result: str = "",
) -> str:
    """A machine file with a state `draft` and a state of the name `judge` that judges its output.

    `ways` tells the target of each guard; `rows` are the transitions after those. `top` is what
    stands above the states, and `state` what the judging state declares besides. Where the
    transitions lead to and `ends` does not declare is a final state: one of `SUCCESSES` with
    `result`, or a failure.
    """
    name = draft.partition(":")[0]
    output = re.search(r"output: (?:\{name: )?(\w+)", draft)
    transitions = [f"{{guard: {guard}, target: {target}}}" for guard, target in ways.items()]
    transitions += rows
    declared = re.findall(r"^(\w+):", ends, re.MULTILINE)
    targets = dict.fromkeys(re.findall(r"target: (\w+)", "\n".join(transitions)))
    success = f"{{final: success, result: {result}}}" if result else "{final: success}"
    lines = [
        "loopkit: 1",
        top.strip("\n"),
        "states:",
        f"  {draft[:-1]}, next: {judge}}}",
        f"  {judge}:",
        f"    validate: {output[1] if output else name}",
        f"    by: {by}",
        *(f"    {line}" for line in state.splitlines()),
        "    transitions:",
        *(f"      - {row}" for row in transitions),
        *(
            f"  {target}: {success if target in SUCCESSES else '{final: failure}'}"
            for target in targets
            if target not in (*declared, name, judge)
        ),
        *(f"  {line}" for line in ends.strip("\n").splitlines()),
    ]
    return "\n".join(lines) + "\n"
