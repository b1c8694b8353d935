"""The tutorial's commands, in its order, print what it shows; messages and pages are there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests import warm
from tests.providers.openai_mock import OpenAIMock
from tests.support import ROOT, Desk

TUTORIAL = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str, str]] = re.findall(
    r"(?:`([\w.]+)`[^`\n]*:\n\n)?^```(\w*)\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL
)
"""The file that a block is, its language and its text."""
CHANGES = {
    r"-[0-9a-f]{6}\b": "-ID",
    r"workspace: .*": "workspace: FOLDER",
    r"\d+(\.\d+)? m?s\b": "TIME",
    r"\d\d-\d\d \d\d:\d\d\b": "DATE",
    r"\$\d+\.\d+": "PRICE",
    r" +$": "",
}
"""What is another in each run, and what stands for it."""
UNTIL_SECOND_CALL = 'until [ "$(grep -cs asks "$PRINTED")" = 2 ]; do sleep 0.02; done'
"""Instead of a pause, because the first call may take longer here."""


def as_in_any_run(text: str) -> str:
    for found, instead in CHANGES.items():
        text = re.sub(found, instead, text, flags=re.MULTILINE)
    return text.strip()


def assert_shows(shown: str, printed: str) -> None:
    """A line `…` of what is shown stands for any lines."""
    parts = re.split(r"^…$", shown, flags=re.MULTILINE)
    pattern = ".*".join(re.escape(as_in_any_run(part)) for part in parts)
    assert re.fullmatch(pattern, as_in_any_run(printed), re.DOTALL), printed


def test_every_command_of_the_tutorial_prints_what_stands_below_it(tmp_path: Path) -> None:
    folder, program = tmp_path / "first", tmp_path / "bin/loopkit"
    folder.mkdir()
    program.parent.mkdir()
    server = OpenAIMock()
    server.say("On Friday at 18:00 we move our database, for half an hour.")
    paths = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **paths, "LOOPKIT_STATE": f"{tmp_path}/state"}
    environment |= {"OPENAI_BASE_URL": server.base_url, "PRINTED": f"{tmp_path}/printed"}
    ran = 0
    for (name, language, text), after in zip(BLOCKS, [*BLOCKS[1:], ("", "", "")], strict=True):
        if language == "yaml":
            (folder / name).write_text(text, encoding="utf-8")
        if language != "sh":
            continue
        # What is killed has to be the process itself.
        kills = "kill" in text
        argv = [sys.executable, "-m", "loopkit"] if kills else warm.command("-m", "loopkit")
        program.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        with (tmp_path / "printed").open("wb") as printed:
            done = subprocess.run(
                ["bash", "-c", re.sub(r"sleep \d+", lambda _: UNTIL_SECOND_CALL, text)],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=printed, stderr=subprocess.STDOUT, timeout=300, check=False,
            )  # fmt: skip
        ran += 1
        told = (tmp_path / "printed").read_text(encoding="utf-8")
        if after[1]:
            assert done.returncode == 0, told
        elif after[2]:
            assert_shows(after[2], told)
        else:
            assert (done.returncode, len(server.requests())) == (5, 1), told
    server.stop()
    assert ran == len(re.findall("^```sh$", TUTORIAL, re.MULTILINE)) > 9
    assert (folder / "notice.svg").read_bytes() == (ROOT / "docs/tutorial.svg").read_bytes()


def how_to(name: str, start: str) -> str:
    """The block of a how-to that starts with a line."""
    text = (ROOT / f"docs/how-to/{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if block.startswith(f"{start}\n"))


def printed_by(argv: list[str], block: str, text: str) -> str:
    done = subprocess.run([*argv, block], input=text, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_sections_of_a_document_are_all_of_it_with_equal_ones_and_code() -> None:
    parts = ["# Tea\n\n", "## Same\n\nA\n\n", "## Code\n\n````sh\n## no\n```\n## no\n````\n"]
    parts += [parts[1], "## End\n~~~\n## no\n```\n"]
    told = printed_by([sys.executable, "-c"], how_to("translation", "# cut.py"), "".join(parts))
    assert [part["text"] for part in json.loads(told)["parts"]] == parts


def test_links_are_checked_without_what_stands_around_them_and_with_their_lines() -> None:
    link, script = "http://127.0.0.1:9/A-100", how_to("http-check", "# links.sh")
    told = printed_by(["sh", "-c"], script, f'{link}.\n\n"{link}?a=1",\n')
    answers = f"reply:1: {link} does not answer", f"reply:3: {link}?a=1 does not answer"
    assert told.splitlines() == [*answers]


def test_a_coding_program_changes_no_test(desk: Desk) -> None:
    played = """
scenario: 1
agents: {coder: [{reply: Done., files: {tests/test_calc.py: ""}}, {fault: bad_request}]}
commands: {tests: [{exit_code: 1}]}
"""
    run = desk.play(how_to("coding", "loopkit: 1"), played, {"task": "Make add() add."})
    [undone] = [one for one in run.reports[0].findings if not one.blocking]
    assert "tests/test_calc.py" in undone.message


def test_every_message_that_is_explained_is_one_of_loopkit() -> None:
    page = (ROOT / "docs/how-to/messages.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "loopkit").rglob("*.py"))
    messages = re.findall(r"^`([^`]+)` \|", page, re.MULTILINE)
    parts = (part for message in messages for part in re.split(r"…|, |: |\w+\)", message))
    words = {part.strip() for part in parts}
    assert {word for word in words if word not in code} == set()
    assert len(messages) > 15


def test_what_assistants_read_names_pages_that_are_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "docs/llms.txt").read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
    how_tos = {f"how-to/{path.name}" for path in (ROOT / "docs/how-to").glob("*.md")}
    assert how_tos - {*links} == set()
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert {page for page in how_tos if f"({page})" not in index} == set()
