"""What coding programs are started with, and what is read in what they have really printed."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.document.reading import read_file
from loopkit.programs import PROGRAMS
from loopkit.programs.faults import Fault, failed_by
from loopkit.programs.port import Counted, Options, Reading
from tests.support import ROOT

NOW = datetime(2026, 1, 1, 10, tzinfo=UTC)
HOUR = 3600.0
NOTHING = Counted()
FOLDER = ROOT / "tests" / "data" / "programs"
RECORDED: dict[str, dict[str, Any]] = {
    name: read_file(FOLDER / f"{name}.yaml", shown_as=name).plain() for name in PROGRAMS
}
"""The outcomes of each program: what it printed, and what that leads to."""
OUTCOMES = [(name, outcome) for name, recorded in RECORDED.items() for outcome in recorded]


def read(
    name: str, stdout: str, *, stderr: str = "", exit_code: int = 0, before: Counted = NOTHING
) -> Reading:
    reader = PROGRAMS[name].reader()
    for line in stdout.split("\n"):
        reader.feed(line)
    return reader.finish(stderr, exit_code, before, NOW)


def read_recorded(name: str, outcome: str) -> Reading:
    recorded = RECORDED[name][outcome]
    after = recorded["leads_to"].get("after")
    return read(
        name,
        recorded.get("stdout", ""),
        stderr=recorded.get("stderr", ""),
        exit_code=recorded["exit"],
        before=read_recorded(name, after).total if after else NOTHING,
    )


@pytest.mark.parametrize(("name", "outcome"), OUTCOMES)
def test_a_recorded_outcome_leads_to_what_it_means(name: str, outcome: str) -> None:
    found, expected = read_recorded(name, outcome), RECORDED[name][outcome]["leads_to"]
    assert found.text == expected.get("text")
    assert (found.failed.why if found.failed else None) == expected.get("why")
    if found.failed:
        assert (expected.get("says") or "") in found.failed.message
        assert found.failed.status == expected.get("status")
        assert found.failed.retry_after_s == expected.get("retry_after_s")
    if "session" in expected:
        assert found.session == expected["session"]
    if "tokens" in expected:
        assert [found.turn.tokens_in, found.turn.tokens_out] == expected["tokens"]
    if "cost_usd" in expected:
        assert found.turn.cost_usd == pytest.approx(expected["cost_usd"])
    if "actions" in expected:
        assert [f"{action.kind} {action.name}" for action in found.actions] == expected["actions"]
    assert list(found.denied) == expected.get("denied", [])
    assert found.unknown == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_action_is_told_with_the_line_that_has_it(name: str) -> None:
    reader = PROGRAMS[name].reader()
    lines = RECORDED[name]["edit"]["stdout"].splitlines()
    told = [len(reader.feed(line)) for line in lines]
    assert sum(told) == 1
    assert told[-1] == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_not_known_is_skipped_and_counted(name: str) -> None:
    recorded = RECORDED[name]["text"]
    printed = 'A warning.\n{"type": "new", "data": [1]}\n[]\n' + recorded["stdout"]
    found = read(name, printed)
    assert (found.text, found.unknown) == (recorded["leads_to"]["text"], 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


def with_another_value(data: st.DataObject, value: Any) -> Any:
    """The value with anything at one place inside it."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: with_another_value(data, value[key])}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        return [with_another_value(data, value[0]), *value[1:]]
    return data.draw(JSON)


@given(data=st.data())
def test_no_value_of_a_field_breaks_a_reader(data: st.DataObject) -> None:
    name, outcome = data.draw(st.sampled_from([one for one in OUTCOMES if one[1] != "no_login"]))
    recorded = RECORDED[name][outcome]
    lines = recorded.get("stdout", "{}").splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = json.dumps(with_another_value(data, json.loads(lines[number])))
    found = read(name, "\n".join(lines), exit_code=recorded["exit"])
    assert (found.text is None) == (found.failed is not None)
    json.dumps([asdict(action) for action in found.actions])


@pytest.mark.parametrize(
    ("said", "why", "seconds"),
    [
        ("You've hit your limit · resets 3pm (Europe/Berlin)", "quota", 4 * HOUR),
        ("5-hour limit reached ∙ resets 3pm", "quota", 5 * HOUR),
        ("Claude AI usage limit reached|1767268800", "quota", 2 * HOUR),
        ("You've hit your usage limit. Try again in 2 hours 5 minutes.", "quota", 7500),
        ("Your quota will reset after 3h20m5s.", "quota", 12_005),
        ("Credit balance is too low", "quota", None),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit", None),
        ("API Error: 529 Overloaded", "server", None),
        ("unexpected status 503 Service Unavailable", "server", None),
        ("unexpected status 403 Forbidden: no access to this model", "sign_in", None),
        ("Invalid API key · Please run /login", "sign_in", None),
        ("ran out of room in the model's context window", "context", None),
        ("This appears to violate our Usage Policy", "refusal", None),
        ("Something else went wrong", "other", None),
    ],
)
def test_the_cause_and_the_wait_are_read_in_the_sentence_of_a_provider(
    said: str, why: str, seconds: float | None
) -> None:
    failed = failed_by(Fault(said), NOW)
    assert (failed.why, failed.retry_after_s, failed.message) == (why, seconds, said)


def test_words_in_a_prompt_are_no_failure() -> None:
    prompt = "usage limit reached, try again in 2 hours; Error: 401"
    asked = json.dumps({"type": "message", "role": "user", "content": prompt})
    printed = asked + "\n" + RECORDED["gemini"]["text"]["stdout"]
    assert read("gemini", printed, stderr=f"Error: {prompt}").failed is None


def test_a_program_that_does_not_know_a_flag_says_so() -> None:
    printed = (
        "Unknown arguments: safe-mode, safeMode\n--max-session-turns  Reached max turns end it"
    )
    failed = read("qwen", "", stderr=printed, exit_code=1).failed
    assert failed
    assert (failed.why, failed.message) == ("other", "Unknown arguments: safe-mode, safeMode")


def test_a_call_that_failed_leaves_the_sums_of_its_session() -> None:
    first = read_recorded("codex", "resume.1")
    failed = read("codex", RECORDED["codex"]["500"]["stdout"], exit_code=1, before=first.total)
    assert failed.total == first.total == Counted(1000, 10)
    second = read("codex", RECORDED["codex"]["resume"]["stdout"], before=failed.total)
    assert (second.turn, second.total) == (Counted(2300, 50), Counted(3300, 60))


def test_usage_that_is_in_a_file_is_read_as_the_last_line() -> None:
    spent = {"requests": {"count": 2}, "usage": {"inputTokens": 1100, "outputTokens": 20}}
    written = json.dumps({"modelMetrics": {"one": spent, "other": spent}}, indent=2)
    reader = PROGRAMS["copilot"].reader()
    for line in [*RECORDED["copilot"]["text"]["stdout"].splitlines(), written]:
        reader.feed(line)
    found = reader.finish("", 0, Counted(1000, 10), NOW)
    assert (found.turn, found.total) == (Counted(1200, 30), Counted(2200, 40))


ASKED = Options(
    model="m/one", effort="high", permissions="all", tools=("Bash(ls)",), max_turns=7,
    instructions='Be "brief".\nAlways.', base_url="http://localhost:1/v1", config="none",
    auth="key", args=("--own", "flag"),
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_option_is_obeyed_or_refused_with_a_remedy(name: str) -> None:
    program, plain = PROGRAMS[name], Options()
    without = program.command(plain, None)
    for option in {field.name for field in fields(Options)} - {"auth"}:
        command = program.command(replace(plain, **{option: getattr(ASKED, option)}), None)
        assert (command == without) == (option in program.lacks), option
    assert all(program.lacks.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_nobody_asked_for_is_not_allowed(name: str) -> None:
    program = PROGRAMS[name]
    usual = program.command(Options(), None).argv
    only_of_all = {*program.command(Options(permissions="all"), None).argv} - {*usual}
    assert only_of_all
    for permissions in ("read", "edit"):
        argv = program.command(replace(ASKED, permissions=permissions), "session-1").argv
        assert not only_of_all & {*argv}
        assert argv[0] == program.executable
        assert "session-1" in " ".join(argv)
    assert not {*program.key_variables} & {*program.passed}


def test_what_a_preset_switches_off_stays_off() -> None:
    own = Options(base_url="http://localhost:1/v1")
    assert PROGRAMS["claude"].command(own, None).env["CLAUDE_CODE_MAX_RETRIES"] == "0"
    codex = PROGRAMS["codex"].command(own, None).argv
    assert "model_providers.loopkit.request_max_retries=0" in codex
    assert "model_providers.loopkit.stream_max_retries=0" in codex


def test_who_only_reads_is_refused_every_tool_that_writes() -> None:
    reads = Options(permissions="read")
    argv = PROGRAMS["claude"].command(reads, None).argv
    refused = {*argv[argv.index("--disallowedTools") + 1 :]}
    assert refused == {"Edit", "Write", "NotebookEdit", "Bash"}
    rules = PROGRAMS["opencode"].command(reads, None).env["OPENCODE_PERMISSION"]
    assert json.loads(rules) == {"bash": "deny", "edit": "deny"}


def test_a_quota_whose_moment_is_in_a_record_of_its_own_has_its_wait() -> None:
    rejected = {"status": "rejected", "resetsAt": int(NOW.timestamp() + HOUR)}
    limit = {"type": "rate_limit_event", "rate_limit_info": rejected}
    last = {"type": "result", "is_error": True, "result": "You've hit your limit"}
    last |= {"api_error": "usage_limit_reached"}
    failed = read("claude", f"{json.dumps(limit)}\n{json.dumps(last)}").failed
    assert failed
    assert (failed.why, failed.retry_after_s) == ("quota", HOUR)
