"""What a model is sent when it has to write again and the machine words no feedback."""

from __future__ import annotations

import pytest

from tests.providers.conftest import KEY_VARIABLE
from tests.providers.server import ModelServer
from tests.support import Desk, asked_anew

pytestmark = pytest.mark.usefixtures("provider_key")

MACHINE = """
loopkit: 1
limits: {LIMITS}
agents:
  writer: {model: MODEL, base_url: URL, api_key_env: VARIABLE, params: {max_tokens: 50}, session: SESSION}
states:
  write: {agent: writer, prompt: 'PROMPT', output: line, next: check}
  check:
    validate: line
    by:
      - {max_chars: 20, code: too-long}
      - {matches: 'due \\d', message: It lacks a date., code: no-date}
      - {not_matches: maybe, message: Decide.}
    transitions:
      - {guard: valid, target: done}
      - {revise: write, max: 3}
      - {target: failed}
  done: {final: success, result: line}
  failed: {final: failure}
"""  # noqa: E501


class Ask:
    """Runs the machine on a server's answers."""

    def __init__(self, server: ModelServer, desk: Desk) -> None:
        self.server = server
        self.desk = desk

    def prompts(self, *answers: str, **parts: str) -> list[list[str]]:
        """The texts of the messages of each request."""
        values = {
            "MODEL": self.server.model,
            "URL": self.server.base_url,
            "VARIABLE": KEY_VARIABLE,
            "SESSION": "fresh",
            "PROMPT": "Write a line.",
            "LIMITS": "revisions: 3",
        }
        machine = MACHINE
        for name, value in (values | parts).items():
            machine = machine.replace(name, value)
        self.server.say(*answers)
        self.desk.play(machine)
        return [received.texts for received in self.server.requests()]


@pytest.fixture
def ask(openai_server: ModelServer, desk: Desk) -> Ask:
    return Ask(openai_server, desk)


FIRST = "maybe this line is longer than it may be"
"""Too long, without a date, undecided."""
SECOND = "all is to be decided"
"""Still without a date."""
THIRD = "maybe due 9"
"""Undecided again."""
GOOD = "done, due 9"


SHOWN = {"max: 3": "max: 3, previous: show"}


def test_a_fresh_author_gets_what_was_wrong_and_then_its_task(ask: Ask) -> None:
    """The task has the last word, and nothing but the list says that there was an answer."""
    _, second, third = ask.prompts("this is due some day.", SECOND, GOOD)
    told = "the text has 21 characters, at most 20 are allowed (code `too-long`)"
    assert second == [asked_anew("Write a line.", told, "It lacks a date. (code `no-date`)")]
    assert third == [asked_anew("Write a line.", "It lacks a date. (code `no-date`)")]


@pytest.mark.parametrize(
    ("answer", "parts", "is_shown"),
    [
        pytest.param("word " * 400, {}, False, id="some 2,000 bytes"),
        pytest.param("words " * 600, {}, True, id="a text of 600 words"),
        pytest.param("maybe", {}, True, id="a finding with a line"),
        pytest.param("maybe", {"max: 3": "max: 3, previous: hide"}, False, id="hide"),
        pytest.param("no", SHOWN, True, id="show"),
        pytest.param("no", {"max: 3": "max: 3, feedback: Again."}, True, id="words of an edge"),
        pytest.param("no", {"max: 3": "max: 3, from: best"}, True, id="from the best version"),
        pytest.param("no", {"PROMPT": "Write. {{ feedback }}"}, True, id="placed by the prompt"),
    ],
)
def test_a_version_is_shown_where_it_is_the_work_itself(
    ask: Ask, answer: str, parts: dict[str, str], is_shown: bool
) -> None:
    second = ask.prompts(answer, GOOD, **parts)[1][0]
    assert ("Your previous version" in second) == is_shown
    assert second.endswith("\n\nWrite a line.") != is_shown


def test_an_author_that_is_shown_its_version_gets_it_after_its_task(ask: Ask) -> None:
    _, second, third, fourth = ask.prompts(FIRST, SECOND, THIRD, GOOD, **SHOWN)
    assert second == [
        f"""\
Write a line.

Your previous version:

```
{FIRST}
```

Revision 1 of 3. Fix these 3 problems, the most severe first:

- the text has 40 characters, at most 20 are allowed (code `too-long`)
- It lacks a date. (code `no-date`)
- Decide. (line 1)

Reply with the complete new version, not only with what changed."""
    ]
    assert third == [
        f"""\
Write a line.

Your previous version:

```
{SECOND}
```

Revision 2 of 3. Fix this problem:

- It lacks a date. (code `no-date`, not fixed yet)

Fixed since the version before:

- the text has 40 characters, at most 20 are allowed (code `too-long`)
- Decide. (line 1)

Reply with the complete new version, not only with what changed."""
    ]
    assert "Revision 3 of 3, the last one. Fix this problem:" in fourth[0]
    assert "- Decide. (line 1, came back)" in fourth[0]


def test_a_kept_session_gets_the_same_words_without_what_it_wrote(ask: Ask) -> None:
    second = ask.prompts(FIRST, GOOD, SESSION="keep")[1]
    assert second[:2] == ["Write a line.", FIRST]
    assert second[2].startswith("Revision 1 of 3. Fix these 3 problems")
    assert second[2].endswith("Reply with the complete new version, not only with what changed.")
    assert FIRST not in second[2]


@pytest.mark.parametrize(
    ("prompt", "second"),
    [
        ("Write. {{ previous }}", "Write. no\n\nRevision 1"),
        ("Write. {{ feedback }}", "Write. Revision 1"),
    ],
)
def test_what_a_prompt_names_itself_gets_no_label(ask: Ask, prompt: str, second: str) -> None:
    text = ask.prompts("no", GOOD, PROMPT=prompt)[1][0]
    assert text.startswith(second)
    assert text.count("Revision 1") == 1
    assert ("Your previous version" in text) == ("previous" not in prompt)


def test_an_old_answer_that_has_fences_gets_longer_ones(ask: Ask) -> None:
    second = ask.prompts("```\nmaybe\n```", GOOD)[1][0]
    assert "\n````\n```\nmaybe\n```\n````\n" in second


def test_an_empty_old_answer_is_called_that(ask: Ask) -> None:
    assert "\n\nYour previous version was empty.\n\n" in ask.prompts(" ", GOOD, **SHOWN)[1][0]


def test_the_last_revision_is_that_of_all_counters_in_force(ask: Ask) -> None:
    second, third = ask.prompts("no", "no", "no", LIMITS="total_revisions: 2", **SHOWN)[1:]
    assert "Revision 1 of 2. Fix" in second[0]
    assert "Revision 2 of 2, the last one. Fix" in third[0]


@pytest.mark.parametrize("turns", [1, 2])
def test_a_session_of_a_few_turns_never_loses_its_task(ask: Ask, turns: int) -> None:
    texts = ask.prompts("one", "two", "three", "four", SESSION=f"{{keep: {turns}}}")[-1]
    assert texts[:2] == ["Write a line.", "one"]
    assert texts[-2] == "three"
    assert len(texts) == 2 * (turns + 1) + 1
