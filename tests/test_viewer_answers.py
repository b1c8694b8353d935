"""Answering, delivering, starting and ending on the pages, as a browser without JavaScript does."""

# ruff: noqa: ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from loopkit.app import App
from loopkit.engine.payloads import HumanAnswer
from tests.html_page import Element, parsed
from tests.http_site import ASKED_IN_DOUBT, ASKING, TOKEN, Served, served
from tests.test_outside import FILE, FOLDER, GOOD, MACHINE, PARENT, PLAIN
from tests.waiting import until
from tests.warm import Process

pytestmark = pytest.mark.usefixtures("own_folder")
STATE = Path(".loopkit")
DATA = (MACHINE % ", schema: {goal: str}").replace("{section: Goal}", "{require: \"goal != ''\"}")
EDITED = """
loopkit: 1
name: edited
input: {text: str}
states:
  draft: {render: "{{ input.text }}", output: letter, next: ask}
  ask:
    human: Right?
    show: [letter]
    edit: letter
    choices: [done]
    next: over
  over: {final: success, result: letter}
"""
CAPPED = """
loopkit: 1
name: capped
limits: {total_revisions: 1}
states:
  draft: {render: "Tea.", output: letter, next: ask}
  ask:
    human: Again?
    show: [letter]
    choices: [again, enough]
    transitions:
      - {guard: choice == "again", revise: draft, max: 5, feedback: "{{ comment }}"}
      - {target: over}
  over: {final: success}
"""
ORIGINS = """
loopkit: 1
name: origins
origins: [research, write]
states:
  research: {render: "Facts.", output: facts, next: write}
  write: {render: "Text.", output: text, next: check}
  check:
    validate: text
    by: [{section: Goal}, {section: Risks}]
    next: ask
  ask:
    human: Who mends it?
    show: [text, report]
    choices: [send_back, accept]
    transitions:
      - {guard: choice == "send_back", revise: {origin: [research, write]}, max: 3}
      - {target: over}
  over: {final: success}
"""
FORM = """
loopkit: 1
name: form
states:
  ask:
    human: What is it?
    form:
      stamps: {type: int, minimum: 1, maximum: 9}
      insured: bool
      kind: card|letter
      to: [str]
      marks: {type: [wet|cold], default: [cold]}
      more: {type: {at: str}, default: {at: x}}
      remark: optional str
    choices: [send, drop]
    next: over
  over: {final: success}
"""
FILLED = {
    "form.stamps": "2",
    "form.insured": "true",
    "form.kind": "letter",
    "form.to": "ann\r\nbob",
    "form.marks": ["wet", "cold"],
    "form.more": '{"at": "Main"}',
    "form.remark": "",
}
READ = {
    "stamps": 2,
    "insured": True,
    "kind": "letter",
    "to": ["ann", "bob"],
    "marks": ["wet", "cold"],
    "more": {"at": "Main"},
    "remark": None,
}


class Visitor:
    """A browser without JavaScript: it keeps cookies, and sends forms as they stand in pages."""

    def __init__(self, site: Served, client: httpx.AsyncClient) -> None:
        self.site = site
        self.client = client
        self.page = Element("", {})
        self.status = 0
        self.path = ""

    async def open(self, path: str) -> Element:
        return self._shown(await self.client.get(path, follow_redirects=True))

    async def send(
        self,
        id_: str = "answer",
        *,
        headers: Mapping[str, str] | None = None,
        **typed: str | Sequence[str] | None,
    ) -> Element:
        """Send a form of the page with what is typed into it; None takes a field out."""
        form = self.page.find("form", id=id_)
        fields = {**sent_as_it_is(form), **{k.replace("__", "."): v for k, v in typed.items()}}
        body = urlencode({k: v for k, v in fields.items() if v is not None}, doseq=True)
        return await self.post(form["action"], body, headers)

    async def post(self, path: str, body: str, headers: Mapping[str, str] | None = None) -> Element:
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.site.url}
        answer = await self.client.post(
            path, content=body, headers={**kind, **(headers or {})}, follow_redirects=True
        )
        return self._shown(answer)

    def _shown(self, answer: httpx.Response) -> Element:
        self.status, self.path = answer.status_code, answer.url.path
        self.page = parsed(answer.text)
        return self.page

    @property
    def fault_of(self) -> dict[str, str]:
        """What the page says is wrong, by field."""
        return {
            one["id"].removeprefix("e-"): one.text for one in self.page.all("p", class_="fault")
        }


def sent_as_it_is(form: Element) -> dict[str, Any]:
    """What a browser sends of a form in which nobody has done anything."""
    sent: dict[str, Any] = {}
    for one in form.all():
        name, kind = one.attributes.get("name"), one.attributes.get("type", "")
        if name is None or "disabled" in one.attributes:
            continue
        if one.tag == "textarea":
            sent[name] = one.raw.removeprefix("\n").replace("\n", "\r\n")
        elif one.tag == "select":
            sent[name] = one.find("option", selected="")["value"]
        elif kind in ("radio", "checkbox"):
            if "checked" in one.attributes:
                sent[name] = [*sent.get(name, []), one["value"]]
        else:
            sent[name] = one.attributes.get("value", "")
    return sent


@pytest.fixture
async def visitor() -> AsyncIterator[Any]:
    """Opens a site with these machines as a visitor who has signed in."""
    opened: list[Any] = []

    async def visit(*machines: str, may_answer: bool = True) -> Visitor:
        for number, machine in enumerate(machines):
            Path(f"{number}.yaml").write_text(machine, encoding="utf-8")
        paths = [Path(f"{number}.yaml") for number in range(len(machines))] if may_answer else []
        context = served(STATE, *paths, may_answer=may_answer)
        site = await context.__aenter__()
        client = httpx.AsyncClient(base_url=site.url, timeout=60, trust_env=False, verify=False)
        client.headers["Accept"] = "text/html"
        opened.append((context, client))
        signed_in = await client.post("/login", data={"token": TOKEN}, headers={"Origin": site.url})
        assert signed_in.status_code == 303
        return Visitor(site, client)

    yield visit
    for context, client in reversed(opened):
        await client.aclose()
        await context.__aexit__(None, None, None)


async def asked(visitor: Visitor, **inputs: Any) -> str:
    """A run of the first machine that asks somebody, with its page open."""
    machine = (await visitor.site.get("/api/machines"))["machines"][0]["name"]
    begun = await visitor.site.post("/api/runs", machine=machine, input=inputs)
    assert begun.status_code == 201, begun.text
    run = str(begun.json()["run"])
    await visitor.site.until(run, lambda told: bool(told["questions"]))
    await visitor.open(f"/runs/{run}")
    return run


async def is_over(visitor: Visitor, run: str) -> dict[str, Any]:
    return await visitor.site.until(run, lambda told: told["summary"]["outcome"] is not None)


# Answers


async def test_an_answer_leads_to_the_page_of_the_run_with_everything_stored(visitor: Any) -> None:
    user = await visitor(FORM)
    run = await asked(user)
    await user.send(choice="send", comment="Two\r\nlines.", by="Ann Ö.", **FILLED)
    assert (user.status, user.path) == (200, f"/runs/{run}")
    answer = (await is_over(user, run))["answers"]["ask"]
    assert answer["form"] == READ
    assert (answer["choice"], answer["comment"], answer["by"]) == ("send", "Two\nlines.", "Ann Ö.")


async def test_the_name_is_remembered_in_the_browser(visitor: Any) -> None:
    user = await visitor(ASKING)
    await asked(user)
    await user.send(choice="send", by="Ann Ö.; x=1")
    await asked(user)
    assert user.page.find("input", name="by")["value"] == "Ann Ö.; x=1"
    await user.send(choice="send")
    assert user.status == 200


async def test_what_is_refused_comes_back_as_it_was_typed_with_each_fault_at_its_field(
    visitor: Any,
) -> None:
    user = await visitor(FORM)
    run = await asked(user)
    typed = {
        **FILLED, "form.stamps": "ten", "form.kind": "parcel", "form.more": '{"at": 1',
        "form.marks": "wet", "form.remark": "\n <b>x</b> ",
    }  # fmt: skip
    await user.send(comment="<script>", by="ann", **typed)
    assert user.status == 422
    assert user.fault_of.keys() == {"form.stamps", "form.kind", "form.more", "choice"}
    assert user.fault_of["form.stamps"] == (
        "takes a whole number, at least 1, at most 9; ten is not"
    )
    stamps = user.page.find("input", name="form.stamps")
    assert stamps["aria-invalid"] == "true"
    told = [user.page.find(id=one).text for one in stamps["aria-describedby"].split()]
    assert told == ["A whole number, at least 1, at most 9", user.fault_of["form.stamps"]]
    again = sent_as_it_is(user.page.find("form", id="answer"))
    assert again["form.stamps"] == "ten"
    assert again["form.more"] == '{"at": 1'
    assert again["form.to"] == "ann\r\nbob"
    assert again["form.marks"] == ["wet"]
    assert again["form.remark"] == "\r\n <b>x</b> "
    assert again["comment"] == "<script>"
    assert [one["href"] for one in user.page.find(role="alert").all("a")] == [
        "#f-form.stamps", "#f-form.kind", "#f-form.more", "#f-choice",
    ]  # fmt: skip
    assert (await user.site.get(f"/api/runs/{run}"))["summary"]["status"] == "waiting"


async def test_fields_say_to_browsers_what_they_take(visitor: Any) -> None:
    more = """      day: {type: string, format: date}
      colour: red|green|blue|white|black|yellow|pink
      weight: {type: num, minimum: 0.5}
"""
    user = await visitor(FORM.replace("      insured", f"{more}      insured"))
    await asked(user)

    def field(name: str) -> Element:
        return user.page.find(id=f"f-form.{name}")

    stamps, weight = field("stamps").attributes, field("weight").attributes
    assert (stamps["type"], stamps["min"], stamps["max"], stamps["step"]) == (
        "number", "1", "9", "1",
    )  # fmt: skip
    assert (weight["min"], weight["step"]) == ("0.5", "any")
    assert "required" in stamps
    assert field("day")["type"] == "text"
    assert field("colour").tag == "select"
    assert field("kind").tag == field("insured").tag == field("marks").tag == "fieldset"
    assert field("kind").find("legend").text == "kind"
    assert all("required" in one.attributes for one in field("kind").all("input"))
    assert "required" not in field("remark").attributes
    labels = {one["for"] for one in user.page.all("label") if "for" in one.attributes}
    assert {f"f-form.{name}" for name in ("stamps", "weight", "day", "colour", "to")} <= labels


async def test_nothing_that_is_needed_can_be_left_out(visitor: Any) -> None:
    user = await visitor(FORM)
    await asked(user)
    await user.send()
    assert user.fault_of == {
        "form.stamps": "is needed", "form.insured": "is needed", "form.kind": "is needed",
        "choice": "choose one", "by": "is needed",
    }  # fmt: skip


async def test_a_missing_comment_and_a_name_of_nobody_are_told_where_they_belong(
    visitor: Any,
) -> None:
    user = await visitor(ASKING)
    await asked(user)
    await user.send(choice="again", by="ann")
    assert (user.status, list(user.fault_of)) == (422, ["comment"])
    assert sent_as_it_is(user.page.find("form", id="answer"))["choice"] == ["again"]
    await user.send(choice="send", by="timeout")
    assert user.fault_of == {"by": "timeout is nobody's name: say who answers"}
    await user.send(choice="send", by="x" * 201)
    assert "at most 200 characters" in user.fault_of["by"]


async def test_the_same_answer_twice_is_one(visitor: Any) -> None:
    """A button that is pressed twice, and the page before that is sent again."""
    user = await visitor(ASKING)
    run = await asked(user)
    form = user.page.find("form", id="answer")
    fields = {**sent_as_it_is(form), "choice": "again", "comment": "Shorter.", "by": "ann"}
    body = urlencode(fields, doseq=True)
    await asyncio.gather(*(user.post(form["action"], body) for _ in range(2)))
    assert user.status == 200
    await user.site.until(run, lambda told: len(told["route"]) == 3 and bool(told["questions"]))
    await user.post(form["action"], body)
    assert (user.status, user.path) == (200, f"/runs/{run}")
    assert len((await user.site.get(f"/api/runs/{run}"))["route"]) == 3


async def test_who_answers_too_late_sees_who_did_and_loses_nothing(visitor: Any) -> None:
    user = await visitor(ASKING)
    run = await asked(user)
    await user.site.post(f"/api/runs/{run}/answer", choice="again", comment="Longer.", by="bob")
    await user.site.until(run, lambda told: len(told["route"]) == 3 and bool(told["questions"]))
    await user.send(choice="send", comment="Fine & <good>.", by="ann", form__stamps="7")
    assert user.status == 409
    late = user.page.find(id="late")
    assert "bob has answered it with again." in late.text
    kept = zip(late.all("dt"), late.all("dd"), strict=True)
    assert {name.text: said.text for name, said in kept} == {
        "stamps": "7", "choice": "send", "comment": "Fine & <good>.",
    }  # fmt: skip
    # The new question is there, and nothing of the old answer in it.
    form = sent_as_it_is(user.page.find("form", id="answer"))
    assert (form["comment"], form["form.stamps"], form["by"]) == ("", "1", "ann")
    assert (await user.site.get(f"/api/runs/{run}"))["summary"]["status"] == "waiting"


@pytest.mark.parametrize(
    ("machine", "path", "first", "typed", "told"),
    [
        (
            ASKING,
            "answer",
            {"choice": "drop"},
            {"choice": "send", "comment": "Fine."},
            "bob has answered it with drop.",
        ),
        (PLAIN, "reply", {"artifact": GOOD}, {"artifact": "Fine."}, "bob has delivered it."),
    ],
    ids=["answer", "delivery"],
)
async def test_who_is_too_late_for_a_run_that_is_over_sees_who_did_and_loses_nothing(
    machine: str,
    path: str,
    first: dict[str, str],
    typed: dict[str, str],
    told: str,
    visitor: Any,
) -> None:
    user = await visitor(machine)
    run = await asked(user)
    await user.site.post(f"/api/runs/{run}/{path}", **first, by="bob")
    await is_over(user, run)
    await user.send(**typed, by="ann")
    assert user.status == 409
    assert told in user.page.find(id="late").text
    assert "Fine." in user.page.find(id="late").text
    assert not user.page.all("form", id="answer")


async def test_an_answer_on_its_way_counts_before_the_run_has_taken_it(visitor: Any) -> None:
    """Another process has left an answer for whoever drives the run next."""
    user = await visitor(ASKING)
    run = await asked(user)
    async with App.open(STATE) as app:
        assert await app.post(run, HumanAnswer(choice="drop", by="bob"))
    await user.open(f"/runs/{run}")
    await user.send(choice="send", comment="Mine.", by="ann")
    assert user.status == 409
    late = user.page.find(id="late").text
    assert "bob has answered it with drop" in late
    assert "Mine." in late


async def test_a_closed_choice_says_why_and_can_be_opened_by_a_greater_total(
    visitor: Any,
) -> None:
    user = await visitor(CAPPED)
    run = await asked(user)
    assert not user.page.all("input", name="limit.total_revisions")
    await user.send(choice="again", comment="More.", by="ann")
    await user.site.until(run, lambda told: len(told["route"]) == 3 and bool(told["questions"]))
    await user.open(f"/runs/{run}")
    shut = next(one for one in user.page.all("label") if "again" in one.text)
    assert "closed:" in shut.text
    assert "--set" not in shut.text
    await user.send(choice="again", comment="More.")
    assert "is closed" in user.fault_of["choice"]
    await user.send(choice="again", comment="More.", limit__total_revisions="1")
    assert "an answer can only raise it" in user.fault_of["limit.total_revisions"]
    await user.send(choice="again", comment="More.", limit__total_revisions="3")
    assert user.status == 200
    told = await user.site.until(run, lambda told: len(told["route"]) == 5)
    assert told["limits"] == {"total_revisions": 3}


async def test_a_choice_that_nothing_opens_can_not_be_chosen(visitor: Any) -> None:
    user = await visitor(CAPPED.replace("limits: {total_revisions: 1}\n", "").replace("5", "1"))
    run = await asked(user)
    await user.send(choice="again", comment="More.", by="ann")
    await user.site.until(run, lambda told: len(told["route"]) == 3 and bool(told["questions"]))
    await user.open(f"/runs/{run}")
    again, enough = user.page.all("input", name="choice")
    assert "disabled" in again.attributes
    assert "disabled" not in enough.attributes


async def test_findings_are_given_to_other_states_also_to_several(visitor: Any) -> None:
    user = await visitor(ORIGINS)
    run = await asked(user)
    report = (await user.site.get(f"/api/runs/{run}"))["report"]
    first, second = (f"origin.{one['id']}" for one in report["findings"])
    form = sent_as_it_is(user.page.find("form", id="answer"))
    assert form[first] == form[second] == ["write"]
    await user.send(choice="send_back", by="ann", **{first: None})
    assert user.fault_of == {first: "choose at least one state"}
    await user.open(f"/runs/{run}")
    await user.send(choice="send_back", by="ann", **{first: ["research", "write"]})
    assert user.status == 200
    told = await user.site.until(run, lambda told: "ask" in told["answers"])
    given = told["answers"]["ask"]["origins"]
    assert given == {report["findings"][0]["id"]: ["research", "write"]}


async def test_an_artifact_that_nobody_has_touched_is_not_edited(visitor: Any) -> None:
    user = await visitor(EDITED)
    run = await asked(user, text="\nA\r\nb \n")
    await user.send(choice="done", by="ann")
    told = await is_over(user, run)
    assert told["answers"]["ask"]["edit"] is None
    assert told["result"]["letter"] == "\nA\r\nb \n"


async def test_a_long_artifact_is_edited_behind_a_link(visitor: Any) -> None:
    user = await visitor(EDITED)
    odd = "\n\r\n\ufeff<textarea></textarea> & &amp; \"'\u202e\u200b\t\nthree\rfour  \n"
    text = odd + "A line of the letter.\r\n" * 20_000
    run = await asked(user, text=text)
    assert not user.page.all("textarea", name="edit")
    await user.open(user.page.find("a", href=f"/runs/{run}?edit#h-question")["href"])
    shown = sent_as_it_is(user.page.find("form", id="answer"))["edit"]
    await user.send(choice="done", by="ann", edit=f"{shown}The end.")
    assert user.status == 200
    assert (await is_over(user, run))["result"]["letter"] == f"{text}The end."


# Deliveries


async def test_a_text_is_delivered_and_judged(visitor: Any) -> None:
    user = await visitor(PLAIN)
    run = await asked(user)
    shown = user.page.find("section", id="question")
    assert shown.find("h2").text == "Wanted from outside"
    assert "Write a plan." in shown.text
    assert "waits for somebody outside" in user.page.text
    await user.send(artifact="No goals.", by="ann")
    assert (user.status, user.path) == (200, f"/runs/{run}")
    await user.site.until(
        run,
        lambda told: (
            "section" in (told["questions"] or [{"question": {"text": ""}}])[0]["question"]["text"]
        ),
    )
    await user.open(f"/runs/{run}")
    await user.send(artifact=GOOD.replace("\n", "\r\n"))
    assert (await is_over(user, run))["result"] == {"plan": GOOD}


async def test_data_is_looked_at_before_it_is_delivered(visitor: Any) -> None:
    user = await visitor(DATA)
    run = await asked(user)
    assert '"goal"' in user.page.find(id="schema").text
    await user.send(artifact='{"goal": "Tea",}', by="ann")
    assert (user.status, list(user.fault_of)) == (422, ["artifact"])
    assert user.fault_of["artifact"].startswith("is not JSON: ")
    assert sent_as_it_is(user.page.find("form", id="answer"))["artifact"] == '{"goal": "Tea",}'
    await user.send(artifact='{"goal": "Tea"}')
    assert (await is_over(user, run))["result"] == {"plan": {"goal": "Tea"}}


async def test_a_folder_is_delivered_as_it_lies_in_the_workspace(visitor: Any) -> None:
    Path("src").mkdir()
    Path("src/a.txt").write_text("coffee\n", encoding="utf-8")
    user = await visitor(FOLDER)
    run = await asked(user)
    told = (await user.site.get(f"/api/runs/{run}"))["questions"][0]["question"]["wanted"]
    assert told["workspace"] in user.page.find("section", id="question").text
    assert not user.page.all("textarea", name="artifact")
    Path(told["workspace"], "src/a.txt").write_text("tea\n", encoding="utf-8")
    await user.send(by="ann")
    assert (await is_over(user, run))["summary"]["success"] is True


async def test_a_file_or_a_text_is_delivered_where_either_does(visitor: Any) -> None:
    user = await visitor(FILE.replace("plan.md}", "plan.md, else: reply}"))
    run = await asked(user)
    form = sent_as_it_is(user.page.find("form", id="answer"))
    assert form["what"] == ["workspace"]
    await user.send(what="text", by="ann")
    assert user.fault_of == {"artifact": "is needed"}
    await user.send(what="text", artifact=GOOD, by="ann")
    assert (await is_over(user, run))["result"] == {"plan": GOOD}


async def test_what_a_child_owes_or_asks_is_given_on_its_own_page(visitor: Any) -> None:
    Path("child.yaml").write_text(PLAIN, encoding="utf-8")
    user = await visitor(PARENT)
    run = await asked(user)
    [child] = [one["run"] for one in (await user.site.get(f"/api/runs/{run}"))["questions"]]
    await user.open(f"/runs/{child}")
    assert not user.page.all("a", id="cancel")
    await user.send(artifact=GOOD, by="ann")
    assert (user.status, user.path) == (200, f"/runs/{child}")
    assert (await is_over(user, run))["summary"]["success"] is True


# Starting

INPUTS = """
loopkit: 1
name: letter
description: Writes letters.
input:
  topic: {type: str, description: What it is about.}
  words: {type: int, default: 100, minimum: 10}
  extra: {type: {to: [str]}, default: {to: []}}
states:
  draft: {render: "{{ input.topic }} {{ input.words }}", output: letter, next: over}
  over: {final: success, result: letter}
"""


async def test_a_run_is_started_with_what_its_form_says(visitor: Any) -> None:
    user = await visitor(INPUTS)
    await user.open("/")
    await user.open(user.page.find("a", href="/start/letter")["href"])
    assert "Writes letters." in user.page.text
    await user.send(input__words="5", input__extra="[")
    assert user.status == 422
    assert user.fault_of.keys() == {"input.topic", "input.words", "input.extra"}
    await user.send(input__topic="Tea\r\nand cake", input__words="20", input__extra='{"to": ["a"]}')
    assert user.status == 200
    assert user.path.startswith("/runs/letter-")
    told = await is_over(user, user.path.removeprefix("/runs/"))
    assert told["input"] == {"topic": "Tea\nand cake", "words": 20, "extra": {"to": ["a"]}}


async def test_a_form_that_is_sent_twice_starts_one_run(visitor: Any) -> None:
    user = await visitor(INPUTS)
    await user.open("/start/letter")
    form = sent_as_it_is(user.page.find("form", id="answer"))
    body = urlencode({**form, "input.topic": "Tea"})
    await asyncio.gather(*(user.post("/start/letter", body) for _ in range(3)))
    assert len((await user.site.get("/api/runs"))["runs"]) == 1
    # The same page with another input is another run, and so is a page that was opened anew.
    await user.post("/start/letter", urlencode({**form, "input.topic": "Cake"}))
    await user.open("/start/letter")
    await user.send(input__topic="Tea")
    assert len((await user.site.get("/api/runs"))["runs"]) == 3


async def test_an_input_that_only_the_machine_can_refuse_is_told_on_the_page(
    visitor: Any,
) -> None:
    chosen = """
loopkit: 1
name: chosen
input: {who: optional str}
agents: {a: {command: [cat]}, b: {command: [cat]}}
states:
  draft: {agent: {from: input.who, of: {a: a, b: b}}, prompt: Write., output: text, next: over}
  over: {final: success}
"""
    user = await visitor(chosen)
    await user.open("/start/chosen")
    await user.send()
    assert (user.status, user.fault_of.keys()) == (422, {"input.who"})
    await user.send(input__who="c")
    assert user.status == 422
    told = user.page.find(role="alert")
    assert "no agent for c" in told.text
    # What is between backticks in a message is code on a page.
    assert [one.text for one in told.all("code")] == ["who", "draft", "c", "a", "b"]
    assert (await user.site.get("/api/runs"))["runs"] == []


async def test_only_machines_that_were_named_have_a_page(visitor: Any) -> None:
    user = await visitor(INPUTS)
    for name in ("other", "0.yaml", "..%2f0.yaml"):
        await user.open(f"/start/{name}")
        assert user.status == 404
        await user.post(f"/start/{name}", "once=x&input.topic=Tea")
        assert user.status == 404
    assert (await user.site.get("/api/runs"))["runs"] == []


# Going on and ending


async def test_a_run_is_cancelled_with_a_reason_after_a_question(visitor: Any) -> None:
    user = await visitor(ASKING)
    run = await asked(user)
    await user.open(user.page.find("a", id="cancel")["href"])
    assert (await user.site.get(f"/api/runs/{run}"))["summary"]["status"] == "waiting"
    await user.send(reason="The issue is closed.")
    assert (user.status, user.path) == (200, f"/runs/{run}")
    assert "The issue is closed." in user.page.find(id="stopped").text
    assert not user.page.all("a", id="cancel")
    await user.open(f"/runs/{run}/cancel")
    assert user.path == f"/runs/{run}"
    await user.post(f"/runs/{run}/cancel", "reason=")
    assert user.status == 409
    assert "cancelled" in user.page.find(id="told").text


async def test_a_run_that_was_suspended_goes_on_with_a_button(visitor: Any) -> None:
    once = """
loopkit: 1
name: once
agents: {writer: {command: [sh, -c, "test -e ready && cat"]}}
states:
  draft: {agent: writer, prompt: Tea., output: text, next: over}
  over: {final: success, result: text}
"""
    user = await visitor(once)
    begun = await user.site.post("/api/runs", machine="once")
    run = begun.json()["run"]
    await user.site.until(
        run, lambda told: told["suspended"] is not None and not told["summary"]["is_driven"]
    )
    await user.open(f"/runs/{run}")
    Path("ready").touch()
    await user.send("resume")
    assert (user.status, user.path) == (200, f"/runs/{run}")
    assert (await is_over(user, run))["result"] == {"text": "Tea."}
    await user.post(f"/runs/{run}/resume", "")
    assert (user.status, user.path) == (200, f"/runs/{run}")


@pytest.fixture
def driver() -> Iterator[Process]:
    """Another process that drives a run of `slow`, and calls its agent."""
    Path("slow.yaml").write_text(ASKED_IN_DOUBT, encoding="utf-8")
    process = Process(["-m", "loopkit", "run", "slow.yaml"])
    try:
        until(Path("begun").exists)
        yield process
    finally:
        Path("go").touch()
        process.send_signal(signal.SIGKILL)
        process.wait(60)


async def test_who_drives_a_run_elsewhere_is_told_instead_of_taking_it_away(
    visitor: Any, driver: Process
) -> None:
    user = await visitor(ASKED_IN_DOUBT)
    [listed] = (await user.site.get("/api/runs"))["runs"]
    await user.open(f"/runs/{listed['run']}")
    assert not user.page.all("form", id="resume")
    busy = await user.site.post(f"/api/runs/{listed['run']}/resume")
    assert f"process {driver.pid}" in busy.json()["error"]["message"]
    await user.post(f"/runs/{listed['run']}/resume", "")
    assert busy.status_code == user.status == 409
    assert f"process {driver.pid}" in user.page.find(id="told").text
    await user.open(f"/runs/{listed['run']}/cancel")
    await user.send(reason="Enough.")
    assert user.status == 202
    told = user.page.find(id="told").text
    assert "it ends the work in hand and cancels the run" in told
    run = await user.site.until(
        listed["run"], lambda told: told["summary"]["status"] == "cancelled"
    )
    assert run["summary"]["outcome"] is None


async def test_a_call_in_doubt_is_decided_on_the_page(visitor: Any, driver: Process) -> None:
    user = await visitor(ASKED_IN_DOUBT)
    [listed] = (await user.site.get("/api/runs"))["runs"]
    run = listed["run"]
    driver.send_signal(signal.SIGKILL)
    driver.wait(60)
    await user.site.until(run, lambda told: told["summary"]["status"] == "interrupted")
    await user.open(f"/runs/{run}")
    await user.send("resume")
    await user.site.until(run, lambda told: bool(told["questions"]))
    await user.open(f"/runs/{run}")
    assert "Make it again, or let it count as failed?" in user.page.find(id="question").text
    assert [one["value"] for one in user.page.all("input", name="choice")] == ["retry", "fail"]
    Path("go").touch()
    await user.send(choice="retry", by="ann")
    assert user.status == 200
    assert (await is_over(user, run))["summary"]["outcome"] == "done"


# Who may


async def test_without_answer_the_question_is_shown_with_the_line_that_answers_it(
    visitor: Any,
) -> None:
    run = await asked(await visitor(ASKING))
    user = await visitor(may_answer=False)
    await user.open(f"/runs/{run}")
    shown = user.page.find("section", id="question")
    assert "Send it?" in shown.text
    assert f"loopkit answer {run} send" in [one.text for one in shown.all("code")]
    assert not [one for one in user.page.all("form") if one["action"] != "/logout"]
    for path in ("answer", "deliver", "resume", "cancel"):
        await user.post(f"/runs/{run}/{path}", "question=ask:1&choice=send&by=ann")
        assert user.status == 403
    for path in ("/start/letter", f"/runs/{run}/cancel"):
        await user.open(path)
        assert user.status == 403


async def test_without_answer_what_is_wanted_is_shown_with_the_line_that_delivers_it(
    visitor: Any,
) -> None:
    run = await asked(await visitor(PLAIN))
    user = await visitor(may_answer=False)
    await user.open(f"/runs/{run}")
    shown = user.page.find("section", id="question")
    assert f"loopkit reply {run} FILE" in [one.text for one in shown.all("code")]
    assert not shown.all("form")


async def test_a_form_of_somebody_who_is_signed_out_can_be_sent_again_after_signing_in(
    visitor: Any,
) -> None:
    user = await visitor(ASKING)
    run = await asked(user)
    form = sent_as_it_is(user.page.find("form", id="answer"))
    body = urlencode({**form, "choice": "send", "by": "ann"})
    user.client.cookies.clear()
    await user.post(f"/runs/{run}/answer", body)
    assert user.status == 401
    assert user.page.find("h1").text == "You are signed out"
    assert user.page.find("a", href="/login")["target"] == "_blank"
    assert (await user.site.get(f"/api/runs/{run}"))["summary"]["status"] == "waiting"
    await user.client.post("/login", data={"token": TOKEN}, headers={"Origin": user.site.url})
    await user.post(f"/runs/{run}/answer", body)
    assert (user.status, user.path) == (200, f"/runs/{run}")
    assert (await is_over(user, run))["summary"]["outcome"] == "sent"


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"choice": "send"}', "application/json", 415),
        (b"choice=%ff", "application/x-www-form-urlencoded", 400),
        (b"choice=\xff", "application/x-www-form-urlencoded", 400),
        (b"a=1&" * 10_001, "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * 20_000_000, "application/x-www-form-urlencoded", 413),
    ],
)
async def test_what_is_no_form_is_refused(
    visitor: Any, body: bytes, kind: str, status: int
) -> None:
    user = await visitor(ASKING)
    run = await asked(user)
    headers = {"Content-Type": kind, "Origin": user.site.url}
    refused = await user.client.post(f"/runs/{run}/answer", content=body, headers=headers)
    assert refused.status_code == status


async def test_who_asks_for_the_address_of_a_form_is_led_to_the_run(visitor: Any) -> None:
    user = await visitor(ASKING)
    run = await asked(user)
    for form in ("answer", "deliver", "resume"):
        await user.open(f"/runs/{run}/{form}")
        assert (user.status, user.path) == (200, f"/runs/{run}")
