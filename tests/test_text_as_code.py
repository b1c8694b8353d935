"""Text of a model is never code: which commands are refused, and that their remedy works."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from loopkit.checks import check
from loopkit.language.load import load_text
from tests.conftest import CommandLine

MACHINE = """
loopkit: 1
agents: {writer: {command: [cat, answer.txt]}}
states:
  draft: {agent: writer, prompt: Write., output: title, on_error: {content: failed}, next: save}
  save: {run: RUN, transitions: [{guard: exit_code == 0, target: done}, {target: failed}]}
  done: {final: success, result: save}
  failed: {final: failure}
"""
HARMFUL = """
sh -c @|/bin/bash -lc @|bash -euxc @|bash -euo pipefail -c @|bash -c -e @|sh -ceuo pipefail @
sh -c -- @|zsh -fc @|fish -c @|python3.12 -c @|python -Wignore -Ic @|python -X importtime -c @
python -c@|python -m @|node -e @|node --eval=@|node -pe @|node --require x -e @|deno eval @
bun -e @|perl -pe @|perl -Mstrict -lane @|perl -e 1 -e @|ruby -ne @|php -r @|lua5.4 -e @
Rscript -e @|osascript -e x -e @|pwsh -NoProfile -Command a @|powershell.exe -c @|env A=1 sh -c @
env -S @|timeout -k 5 10 sh -c @|nice -n 5 bash -c @|sudo -u me sh -c @|xargs -I{} sh -ec @
nohup sh -c @|stdbuf -oL sh -c @|uv run --with x python -c @|poetry run python -c @|npx -c @
npx tsx -e @|npm exec -- sh -c @|docker exec -it box sh -c @|docker run --rm -e A=1 img sh -c @
docker compose exec web sh -c @|find . -exec sh -c @ ;|flock lock sh -c @|busybox sh -c @|su -c @
ssh -p 22 host @|watch -n 5 @|timeout 5 env nice sh -c @|@|bin/@|timeout 5 @|env A=1 @|sudo @
uv run @|docker exec box @|nice -n 5 @|sh @|sh -@|python -@|julia -E @
"""
HARMLESS = """
sh -c x sh @|sh -c x -- @|bash -euo pipefail -c x _ @|python -c x @|python s.py -c @
python -m pytest @|node -e x -- @|node x.js -e @|perl -e x -- @|perl -ne x @|php -r x -- @
fish -c x @|grep -e @|git commit -m @|timeout 5 cat @|env A=1 cat @|env -i cat @
docker exec box cat @|uv run s.py @|uv add @|npm install @|xargs grep @|sh s.sh @|claude -p @
codex exec @|npx prettier @|sudo -u @ cat|echo @
"""


def commands(lines: str) -> list[str]:
    return [each for line in lines.strip().splitlines() for each in line.split("|")]


def errors(argv: list[str]) -> list[str]:
    problems = check(load_text(MACHINE.replace("RUN", json.dumps(argv)), "m.yaml", Path()))
    assert {p.code for p in problems if p.severity == "error"} <= {"text-as-code"}
    return [problem.path for problem in problems if problem.severity == "error"]


@pytest.mark.parametrize("command", commands(HARMFUL))
def test_an_answer_is_refused_where_a_program_expects_code_or_its_name(command: str):
    words = command.split(" ")
    at = next(index for index, word in enumerate(words) if "@" in word)
    argv = [word.replace("@", "{{ title }}") for word in words]
    assert errors(argv) == [f"states.save.run.{at}"]


@pytest.mark.parametrize("command", commands(HARMLESS))
def test_an_answer_is_an_argument_like_any_other(command: str):
    assert errors([word.replace("@", "{{ title }}") for word in command.split(" ")]) == []


@pytest.mark.parametrize(
    "argv", [["sh", "-ec"], ["env", "-i", "python3", "-c"], ["perl", "-pe"], ["node", "-e"]]
)
def test_the_remedy_works_as_it_is_printed(argv: list[str], own_folder: Path, cli: CommandLine):
    program = next(word for word in argv if word in ("sh", "python3", "perl", "node"))
    if shutil.which(program) is None:
        pytest.skip(f"the system has no {program}")
    answer = "-e 'Tea' $(touch pwned) `touch pwned` \"; import os"
    Path("answer.txt").write_text(answer, encoding="utf-8")
    run = [program if word == "python3" else word for word in argv]
    Path("m.yaml").write_text(MACHINE.replace("RUN", json.dumps([*run, "echo {{ title }}"])))
    told = cli(1, "check", "m.yaml")
    remedy = re.search(r"after the code: `(\[.*\])`", told.out + told.err)
    assert remedy is not None
    Path("m.yaml").write_text(MACHINE.replace("RUN", remedy[1]))
    assert cli(0, "check", "m.yaml")
    assert cli(0, "run", "m.yaml").out.strip() == answer
    assert not Path("pwned").exists()
