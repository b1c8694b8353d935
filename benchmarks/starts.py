"""What commands cost to start, and `check` of larger machines: `python benchmarks/starts.py`.

Each command is a process of its own, and all of them follow one another in each round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from measure import cpu_ms
from table import cpu_table, machine

IMPORTS = "import click, pydantic, jinja2, ruamel.yaml, regex; pydantic.BaseModel"
PARSES = "import sys, ruamel.yaml as y; y.YAML(typ='safe', pure=True).load(open(sys.argv[1]))"
AIMS = {
    "loopkit --help": 60,
    "loopkit check machines/plan_review.yaml": 250,
    "loopkit check 200.yaml": 500,
    "loopkit check 2000.yaml": 6000,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is started")
    rounds: int = parser.parse_args().rounds
    if rounds < 1:
        parser.error("--rounds must be at least 1")
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        commands = _commands(Path(folder))
        for argv in commands.values():
            cpu_ms(argv)  # fills the caches of byte code and of the disk
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr)
            for name, argv in commands.items():
                times[name].append(cpu_ms(argv))
    print(f"{rounds} rounds. {machine()}\n\n{cpu_table(times, AIMS)}")


def _commands(folder: Path) -> dict[str, list[str]]:
    """The commands under the names that the table shows: floors, then ours."""
    floors = {f"python -c '{code}'": ["-c", code] for code in ("pass", "import click", IMPORTS)}
    for states in (200, 2000):
        file = folder / f"{states}.yaml"
        file.write_text(chain(states), encoding="utf-8")
        floors[f"ruamel.yaml reads {file.name}"] = ["-c", PARSES, str(file)]
    bare = {name: [sys.executable, *arguments] for name, arguments in floors.items()}
    own = {name: _own(name.split()[1:], folder) for name in AIMS}
    return bare | own


def _own(arguments: list[str], folder: Path) -> list[str]:
    program = Path(sys.executable).with_name("loopkit")
    generated = (str(folder / word) if (folder / word).is_file() else word for word in arguments)
    return [str(program), *generated]


def chain(states: int) -> str:
    """Drafts and checks in a row; each reads the draft before it and revises its own."""
    agents = "agents: {writer: {model: openai/gpt-5-mini}}"
    lines = ["loopkit: 1", "input: {issue: str}", agents, "states:"]
    last = states // 2 - 1
    for n in range(last + 1):
        onward = f"d{n + 1}" if n < last else "done"
        before = f" {{{{ d{n - 1} }}}}" if n else ""
        lines += [
            f"  d{n}: {{agent: writer, prompt: 'Write {{{{ input.issue }}}}.{before}', "
            f"next: c{n}}}",
            f"  c{n}: {{validate: d{n}, by: [{{min_chars: 9}}], transitions: "
            f"[{{guard: valid, target: {onward}}}, {{revise: d{n}, max: 1}}, {{target: failed}}]}}",
        ]
    lines += ["  done: {final: success}", "  failed: {final: failure}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
