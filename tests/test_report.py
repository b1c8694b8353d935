"""Runs as files: what a report says, that it stands alone, and that nothing in it does anything."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import loopkit
from loopkit.cli import invoke as run
from loopkit.engine.telemetry import Figures
from loopkit.views.page.rendering import difference
from loopkit.views.page.run_page import RunPage, csp_hash, html_report, markdown_report
from loopkit.views.run_view import RunViews
from tests.html_page import parsed
from tests.support import PASS, PLAN_REVIEW, ROOT, CommandLine, Desk, Played, fails, scenario

SCENARIO = ROOT / "machines/plan_review/scenario.yaml"
ISSUE = (ROOT / "machines/plan_review/issue.md").read_text()
LOOP = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}, critic: {model: openai/gpt-5-mini}}
validators: {good: {judge: critic, rubric: [Is it good?]}}
limits: {revisions: 3, total_revisions: 3}
states:
  note: {agent: writer, prompt: "Write. {{ feedback }}", next: check}
  check: {validate: note, by: [good], transitions: [
    {guard: valid, target: ask}, {guard: cap_reached, target: ask}, {revise: note}]}
  ask:
    human: "Good? <b>really</b>"
    choices: [yes, again, no]
    show: [note, report]
    transitions:
      - {guard: choice == "yes", target: done}
      - {guard: choice == "again", revise: note, feedback: "{{ comment }}"}
      - {target: stopped}
  done: {final: success}
  stopped: {final: failure}
"""
HOSTILE = (
    "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>"
    "\x1b[31mred\x1b[0m \u202eesrever\u202c ```\n# heading\n| a | b |\n{{ 7*7 }} {% raw %}"
)


def page_of(desk: Desk, name: str) -> RunPage:
    async def read() -> RunPage:
        async with desk._app() as app:
            return await RunViews(app, RunPage).view(name)

    return asyncio.run(read())


def played_plan_review(desk: Desk) -> Played:
    return desk.play(PLAN_REVIEW, SCENARIO, {"issue": ISSUE})


def loop(desk: Desk, *verdicts: dict[str, Any], texts: list[Any] | None = None) -> Played:
    written = texts or [f"Text {i}" for i in range(len(verdicts))]
    return desk.play(LOOP, scenario(agents={"writer": written, "critic": list(verdicts)}))


def test_a_report_names_every_step_call_version_and_finding_and_the_result(durable: Desk) -> None:
    played = played_plan_review(durable)
    page = parsed(html_report(page_of(durable, played.state.run)))
    steps = [one["id"] for one in page.all("li", "step")]
    entered = [s.seq for s in played.stored if s.event.type == "entered"]
    assert steps == [f"step-{seq}" for seq in entered]
    calls = [one["id"] for one in page.all(class_="call")]
    assert calls == [f"call-{s.seq}" for s in played.stored if s.event.type == "intended"]
    versions = [one["id"] for one in page.all(class_="version")]
    assert versions == [*(f"version-plan-{n}" for n in (1, 2, 3)), "version-validation-1"]
    for report in played.reports:
        for finding in report.findings:
            assert " ".join(finding.message.split()) in page.text
    assert "accepted (success)" in page.text
    assert "approve by script" in page.text
    first_prompt = played.prompts("architect")[0]
    assert " ".join(first_prompt.split())[:300] in page.text


def test_a_report_stands_alone_and_is_small(durable: Desk) -> None:
    text = html_report(page_of(durable, played_plan_review(durable).state.run))
    assert len(text.encode()) < 150_000
    page = parsed(text)
    every = page.all()
    assert not {one.tag for one in every} & {"script", "link", "img", "iframe", "object"}
    assert not [a for a in every if a.attributes.keys() & {"src", "style", "srcset", "action"}]
    links = [one["href"] for one in page.all("a")]
    assert all(link.startswith("#") for link in links)
    assert {link[1:] for link in links} <= {one.attributes.get("id") for one in every}
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (policy,) = [a["content"] for a in page.all("meta") if "http-equiv" in a.attributes]
    assert f"style-src '{csp_hash(style)}'" in policy
    assert "default-src 'none'" in policy
    assert "url(" not in style
    assert "@import" not in style


def test_each_attempt_is_shown_by_what_it_changed(durable: Desk) -> None:
    played = loop(durable, fails("a"), fails("b"), PASS, texts=["one\ntwo", "one\n2", "one\n2\n3"])
    page = page_of(durable, played.state.run)
    (note,) = page.steps.versions.values()
    assert difference(note, 1) is None
    changes = [change for n in (2, 3) if (change := difference(note, n)) is not None]
    changed = [change.lines for change in changes]
    assert changed[0][1:] == [" one", "-two", "+2"]
    assert "+3" in changed[1]


IN_WORDS = "prompt: Judge it., verdict: {findings: '^- (?P<message>.+)$'}"
MILD = {"message": "w", "severity": "warning"}
WITH_MILD = {"verdict": "fail", "findings": [{"message": "a", "severity": "error"}, MILD]}


def says(*messages: str) -> str:
    return "\n".join([*(f"- {message}" for message in messages), "", "Verdict: FAIL"])


@pytest.mark.parametrize(
    ("rule", "loops", "critic", "cells"),
    [
        ("rubric: [Is it good?]", "max: 3",
         [fails("gone", "stays"), fails("stays"), fails("gone", "stays"), PASS],
         {"gone": "resolved new resolved regressed resolved",
          "stays": "resolved new recurring recurring resolved"}),
        # The run stops with the version that it went back to, and with what that has.
        ("rubric: [Is it good?]", "max: 3, from: best", [{"data": WITH_MILD}, fails("b", "c")],
         {"a": "new new resolved", "w": "new new resolved", "b": "withdrawn - new"}),
        (IN_WORDS, "max: 3", [says("a", "b"), says("c"), says("b", "d"), says("d", "a")],
         {"a": "regressed new not_named_again - regressed",
          "b": "not_named_again new not_named_again regressed not_named_again",
          "d": "recurring - - new recurring"}),
    ],
    ids=["own form", "from best", "in words"],
)  # fmt: skip
def test_a_finding_has_one_status_in_all_that_shows_it(
    durable: Desk, rule: str, loops: str, critic: list[Any], cells: dict[str, str]
) -> None:
    text = LOOP.replace("rubric: [Is it good?]", rule)
    text = text.replace("revise: note", f"revise: note, {loops}")
    played = durable.play(text, scenario(agents={"writer": ["1", "2", "3", "4"], "critic": critic}))
    shown = page_of(durable, played.state.run)
    figures = Figures()
    for stored in shown.history:
        figures.take(stored.event, stored.at)
    known = {defect.message: defect.status for defect in figures.defects}
    table = markdown_report(shown)
    rows = [
        " ".join(filter(None, (cell.text for cell in [*row.all("th"), *row.all("td")])))
        for row in parsed(html_report(shown)).all("tr")
    ]
    for message, words in cells.items():
        now, *rounds = [word.strip("-").replace("_", " ") for word in words.split()]
        assert known[message] == now
        assert f"| {message} | {' | '.join([now, *rounds])} |" in table
        row = f"{message} good {' '.join(filter(None, [now, *rounds]))}"
        assert [one for one in rows if one.endswith(row)]


def test_an_open_question_is_shown_with_its_choices_and_why_one_is_closed(durable: Desk) -> None:
    played = loop(durable, fails("a"), fails("b"), fails("c"), fails("d"))
    shown = page_of(durable, played.state.run)
    page = parsed(html_report(shown))
    assert "Good? <b>really</b>" in page.text
    assert not page.all("b")
    assert "again (with a comment) closed: all 3 revisions are used up" in page.text
    assert "--set" not in page.text
    asked = shown.asked
    assert asked is not None
    assert asked.raisable == {"revisions": 4, "total_revisions": 4}
    assert [each.past for each in asked.findings] == [""]
    assert [shown.change is not None for shown in asked.artifacts] == [True]


def test_a_suspended_run_says_why_and_what_leads_on(durable: Desk) -> None:
    machine = LOOP.replace("limits: {", "limits: {agent_calls: 3, ")
    played = durable.play(
        machine, scenario(agents={"writer": ["a", "b"], "critic": [fails("x"), fails("y")]})
    )
    assert played.state.status == "suspended"
    text = html_report(page_of(durable, played.state.run))
    assert played.state.suspended is not None
    assert played.state.suspended.message.split("`")[0] in parsed(text).text
    assert "<code>loopkit resume" in text


def test_a_cost_that_is_not_known_is_called_unknown_once(durable: Desk) -> None:
    script = scenario(agents={"writer": [{"reply": "A", "cost_usd": None}], "critic": [PASS]})
    shown = page_of(durable, durable.play(LOOP, script).state.run)
    assert "<dt>cost</dt><dd>unknown</dd>" in html_report(shown)


def test_nothing_stands_before_the_amounts_of_a_call_that_took_no_time(durable: Desk) -> None:
    reply = {"reply": "A note.", "usage": {"input": 1000, "output": 204}, "cost_usd": 0.02}
    played = durable.play(LOOP, scenario(agents={"writer": [reply], "critic": [PASS]}))
    text = html_report(page_of(durable, played.state.run))
    assert text.count("1,204 tokens · $0.0200</span>") == 2
    assert 'class="amounts"> ·' not in text


def test_hostile_texts_are_only_text(durable: Desk) -> None:
    huge = HOSTILE + "x" * 5_000_000 + HOSTILE
    path = durable.write(
        "loop.yaml",
        LOOP.replace("judge: critic", "min_chars: 900")
        .replace(", rubric: [Is it good?]", "")
        .replace(", critic: {model: openai/gpt-5-mini}", ""),
    )
    texts = [HOSTILE, huge]
    result = loopkit.run(
        loopkit.load(path),
        agents={"writer": lambda *_: texts.pop(0) if texts else huge},
        state=durable.state_folder,
    )
    shown = page_of(durable, result.run)
    text = html_report(shown)
    assert len(text) < 400_000
    page = parsed(text)
    assert not page.all("script") + page.all("img")
    assert not [name for one in page.all() for name in one.attributes if name[:2] == "on"]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "esrever" in page.text
    assert re.search(r"4,9\d\d,\d\d\d characters left out", page.text)
    assert "loopkit runs call" in page.text


def test_markdown_says_the_same_and_hostile_texts_stay_in_their_places(durable: Desk) -> None:
    played = loop(durable, fails(HOSTILE), PASS, texts=[HOSTILE, HOSTILE + "\nmore"])
    text = markdown_report(page_of(durable, played.state.run))
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {token.type for token in [*tokens, *inline]}
    assert not kinds & {"html_block", "html_inline", "image", "link_open"}
    headings = [t.content for i, t in enumerate(tokens) if tokens[i - 1].type == "heading_open"]
    assert "Steps" in headings
    assert "heading" not in headings
    rows = [token for token in tokens if token.type == "tr_open"]
    assert len(rows) >= 6
    assert "\x1b" not in text


def test_markdown_of_a_finished_run_has_its_diagram_steps_and_result(durable: Desk) -> None:
    text = markdown_report(page_of(durable, played_plan_review(durable).state.run))
    assert "stateDiagram-v2" in text
    assert "| validate | 2 | fail\\, 2 blocking findings\\, severity critical |" in text
    assert "## Result" in text
    assert "```diff\n@@" in text


def test_a_report_of_a_long_run_is_cut_and_says_so(durable: Desk) -> None:
    machine = LOOP.replace("3", "150").replace(
        "{judge: critic, rubric: [Is it good?]}", "[{min_chars: 9000}]"
    )
    machine = machine.replace(", critic: {model: openai/gpt-5-mini}", "")
    texts = [f"Text {i} " + "x" * i for i in range(151)]
    played = durable.play(machine, scenario(agents={"writer": texts}))
    assert len(played.route) > 300
    text = html_report(page_of(durable, played.state.run))
    assert "earlier steps left out" in text
    assert "earlier versions of note left out" in text
    assert len(text) < 1_000_000


def test_the_children_of_a_run_are_listed_with_their_outcomes(durable: Desk) -> None:
    durable.write(
        "child.yaml",
        """
loopkit: 1
input: {text: str}
states:
  note: {render: "{{ input.text }}", next: done}
  done: {final: success}
""",
    )
    machine = """
loopkit: 1
input: {items: [{id: str}]}
states:
  all:
    each: input.items
    as: item
    key: item.id
    max_items: 5
    machine: child.yaml
    input: {text: "{{ item.id }}"}
    transitions: [{guard: failed == 0, target: done}, {target: done}]
  done: {final: success}
"""
    played = durable.play(machine, inputs={"items": [{"id": "a"}, {"id": "b"}]})
    page = parsed(html_report(page_of(durable, played.state.run)))
    assert "all: 2 items" in page.text
    for child in played.state.children["all"].values():
        assert child.started.child in page.text


def test_the_command_writes_both_formats_and_refuses_others(
    durable: Desk, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    played = played_plan_review(durable)
    monkeypatch.chdir(durable.folder)
    name = played.state.run
    assert run(["report", name, "-o", "run.html"]) == 0
    assert run(["report", name, "-o", "run.md"]) == 0
    assert Path("run.html").read_text().startswith("<!doctype html>")
    assert Path("run.md").read_text().startswith("# Run ")
    told = cli(2, "report", name, "-o", "run.pdf").err
    assert "`-o run.pdf`: the name has to end in .html or .md" in told
    assert run(["report", "nobody-1", "-o", "run.md"]) == 2
