import json
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from loopkit.engine.findings import Answer, Defect, finding_id, finding_ids
from loopkit.language.datatypes.datatype import conform
from loopkit.language.datatypes.notation import parse_type
from loopkit.language.template.sandbox import FieldedText
from loopkit.language.validators import Rules
from loopkit.outside.processes import CommandResult
from loopkit.text.json_text import NoJson, extract_json, json_in, parse_json
from loopkit.validators.data import JudgedArtifact, NoData, data_of
from loopkit.validators.fault import MAX_FAULTS
from loopkit.validators.setting import Setting
from tests.judging import judge_deterministic

PLANS = Path(__file__).parent / "data" / "plans"
RULES = TypeAdapter(Rules)
SETTING = Setting(names={}, facts={}, patterns={})
STRUCTURE = [
    {"matches": r"^### Task \d+(\.\d+)?:", "outside_code": True, "code": "TASKS"},
    {"section": "Goal", "message": "The plan has no goal"},
    {"min_chars": 200, "message": "The plan is only a title"},
]


def plan(name):
    return JudgedArtifact("plan", (PLANS / name).read_bytes().decode())


def text(content):
    return JudgedArtifact("plan", content)


def data(value):
    return JudgedArtifact("graph", "", value, is_data=True)


async def judge(rules, subject, setting=SETTING, name="structure") -> Answer:
    notation = rules if isinstance(rules, list) else [rules]
    return await judge_deterministic(name, RULES.validate_python(notation), subject, setting)


async def messages(rules, subject, setting=SETTING):
    answer = await judge(rules, subject, setting)
    assert answer.verdict != "error", answer.reason
    return [finding.message for finding in answer.findings]


async def reason(rules, subject, setting=SETTING):
    answer = await judge(rules, subject, setting)
    assert answer.verdict == "error"
    assert answer.findings == ()
    return answer.error_class, answer.reason


# The whole answer


@pytest.mark.parametrize("name", ["good.md", "good_crlf.md", "good_other_white_space.md"])
async def test_a_good_plan_passes_whatever_its_white_space(name):
    assert await judge(STRUCTURE, plan(name)) == Answer(validator="structure", verdict="pass")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("headers_in_code_only.md", ["TASKS"]),
        ("title_only.md", ["TASKS", "section[1]", "min_chars[2]"]),
        ("chatter.md", ["TASKS", "section[1]"]),
        ("empty.md", ["TASKS", "section[1]", "min_chars[2]"]),
    ],
)
async def test_everything_that_is_wrong_with_a_plan_is_found_at_once(name, found):
    answer = await judge(STRUCTURE, plan(name))
    assert answer.verdict == "fail"
    assert [finding.rule for finding in answer.findings] == found
    assert all(finding.blocking for finding in answer.findings)


async def test_a_finding_says_where_it_comes_from():
    rules = [{"min_chars": 1}, {"not_matches": "DRAFT", "code": "OPEN", "severity": "warning"}]
    answer = await judge(rules, text("a\n\nDRAFT"), name="style")
    [finding] = answer.findings
    assert (finding.validator, finding.rule, finding.code) == ("style", "OPEN", "OPEN")
    assert (finding.severity, finding.line, finding.location) == ("warning", 3, "")
    assert finding.id == finding_id("style", "OPEN", "", "DRAFT")


async def test_warnings_alone_warn_and_one_error_fails():
    warning = {"min_chars": 9, "severity": "warning"}
    assert (await judge(warning, text("x"))).verdict == "warn"
    answer = await judge([warning, {"min_chars": 9}], text("x"))
    assert answer.verdict == "fail"
    assert [finding.severity for finding in answer.findings] == ["warning", "error"]


async def test_a_rule_whose_guard_is_false_is_left_out():
    rules = [{"min_chars": 9, "guard": "input.strict"}, {"max_chars": 0}]
    strict = SETTING.replace(facts={"input.strict": True})
    lax = SETTING.replace(facts={"input.strict": False})
    assert len(await messages(rules, text("x"), strict)) == 2
    [finding] = (await judge(rules, text("x"), lax)).findings
    assert finding.rule == "max_chars[1]"


async def test_a_validator_whose_rules_are_all_left_out_is_not_applicable():
    first = SETTING.replace(facts={"attempt": 1})
    rules = [{"min_chars": 9, "guard": "attempt > 1"}, {"section": "Goal", "guard": "attempt > 2"}]
    answer = await judge(rules, text(""), first)
    assert answer.verdict == "not_applicable"
    assert answer.findings == ()
    assert "`attempt > 1`" in answer.reason
    assert "`attempt > 2`" in answer.reason


async def test_a_guard_that_names_what_is_not_known_is_an_error():
    answer = await reason({"min_chars": 9, "guard": "input.strict"}, text(""))
    assert answer == (
        "fatal",
        "the guard `input.strict` names `input.strict`, which is not known here",
    )


async def test_a_text_is_looked_for_with_or_without_regard_to_capitals():
    for more, verdict in (({}, "fail"), ({"ignore_case": True}, "pass")):
        assert (await judge({"contains": "Tea", **more}, text("Some TEA."))).verdict == verdict
    rule = {"not_contains": " tea ", "ignore_case": True}
    found = (await judge(rule, text("Some TEA.\nMilk.\nTea."))).findings
    assert [(one.message, one.line) for one in found] == [
        ("`tea` is not allowed", 1),
        ("`tea` is not allowed", 3),
    ]


async def test_judges_are_left_to_the_caller():
    rules = [{"judge": "critic"}, {"min_chars": 9}]
    [finding] = (await judge(rules, text("x"))).findings
    assert finding.rule == "min_chars[1]"
    assert (await judge({"judge": "critic"}, text("x"))).verdict == "not_applicable"


async def test_warnings_do_not_hide_a_rule_that_could_not_judge():
    rules = [{"min_chars": 9, "severity": "warning"}, {"command": ["no-such-program-here"]}]
    answer = await judge(rules, text("x"))
    assert (answer.verdict, answer.error_class) == ("error", "fatal")
    assert len(answer.findings) == 1


async def test_of_two_errors_the_fatal_one_gives_the_class():
    slow = {"command": ["sleep", "5"], "timeout": "50ms"}
    answer = await judge([slow, {"command": ["no-such-program-here"]}], text("x"))
    assert answer.error_class == "fatal"
    assert "'sleep'" in answer.reason
    assert "no-such-program-here" in answer.reason
    assert (await judge(slow, text("x"))).error_class == "transient"


# Messages


async def test_a_message_sees_the_artifact_and_what_was_judged():
    message = "{{ artifact }}|{{ plan }}|{{ value }}|{{ item }}|{{ index }}|{{ attempt }}"
    setting = SETTING.replace(names={"attempt": 2})
    found = await messages({"not_matches": "b.", "message": message}, text("abc bd"), setting)
    assert found == ["abc bd|abc bd|bc||0|2", "abc bd|abc bd|bd||1|2"]


async def test_a_message_sees_the_fields_of_the_artifact():
    fielded = FieldedText("x")
    fielded.fields = {"goal": "speed"}
    setting = SETTING.replace(names={"plan": fielded})
    rule = {"min_chars": 9, "message": "{{ artifact.goal }} {{ plan.goal }}"}
    assert await messages(rule, text("x"), setting) == ["speed speed"]


async def test_another_version_of_the_artifact_is_not_taken_for_the_one_that_is_judged():
    setting = SETTING.replace(names={"plan": "old"})
    rule = {"min_chars": 9, "message": "{{ artifact }} {{ plan }}"}
    assert await messages(rule, text("new"), setting) == ["new new"]


@pytest.mark.parametrize("message", ["{{ nope }}", "{{ 1 +", "{{ artifact | nope }}", "{{ '' }}"])
async def test_a_message_that_cannot_be_made_is_an_error_and_no_finding(message):
    error_class, why = await reason({"min_chars": 9, "message": message}, text("x"))
    assert error_class == "fatal"
    assert "min_chars[0]" in why


async def test_a_passing_rule_never_fills_its_message():
    assert (await judge({"min_chars": 0, "message": "{{ nope }}"}, text("x"))).verdict == "pass"


# Rules for text


CODE = "```\n# DRAFT\n```\n"
OUTSIDE = {"matches": "^# ", "outside_code": True}
TITLED = {"section": "Goal", "or_title": True}
EMPTY = 'the section "Goal" has no text under it'


@pytest.mark.parametrize(
    ("rule", "content", "found"),
    [
        ({"matches": "^b$"}, "a\r\nb\r\nc", ""),
        ({"matches": "^a\nb$"}, "a\r\nb", ""),
        ({"matches": "^x"}, "a", "nothing in the text matches `^x`"),
        ({"matches": "^# "}, CODE, ""),
        (OUTSIDE, "```\ncode\n```", "nothing in the text outside code matches `^# `"),
        (
            OUTSIDE,
            CODE,
            "nothing in the text outside code matches `^# `; what matches stands inside code",
        ),
        ({"not_matches": "DRAFT", "outside_code": True}, CODE, ""),
        ({"not_matches": "DRAFT"}, CODE, "`DRAFT` is not allowed (nothing may match `DRAFT`)"),
        ({"matches": "x", "count": {"min": 2}}, "x x x", ""),
        (
            {"matches": "x", "count": {"min": 2}},
            "x",
            "`x` matches 1 time in the text, at least 2 are needed",
        ),
        ({"matches": "x", "count": {"min": 0, "max": 2}}, "x x", ""),
        (
            {"matches": "x", "count": {"min": 0, "max": 0}},
            "x",
            "`x` matches 1 time, at most 0 are allowed",
        ),
        (
            {"matches": "x", "count": {"max": 1}},
            "x x x",
            "`x` matches 3 times, at most 1 is allowed",
        ),
        ({"matches": "x", "count": {"min": 0}}, "", ""),
        (
            {"section": "Goal"},
            "x",
            'no section "Goal": it needs a heading or a label `**Goal:**`, with text under it',
        ),
        ({"section": "Goal"}, "# A\n\ntext\n\n## Goal\n", EMPTY),
        (TITLED, "# A\n\ntext\n\n## Goal\n", EMPTY),
        (TITLED, "# A\n\ntext", ""),
        (TITLED, "# A\n", 'no section "Goal", and no title with text under it'),
        ({"min_chars": 3}, "abc", ""),
        ({"min_chars": 3}, "  ab \n\n", "the text has 2 characters, at least 3 are needed"),
        ({"min_chars": 3}, "a\r\nb", ""),
        ({"min_chars": 4}, "a\r\nb", "the text has 3 characters, at least 4 are needed"),
        ({"min_chars": 2}, "é", "the text has 1 character, at least 2 are needed"),
        ({"max_chars": 3}, " a\r\nb ", ""),
        ({"max_chars": 999}, "x" * 1000, "the text has 1,000 characters, at most 999 are allowed"),
        ({"min_chars": 1}, "", "the text has 0 characters, at least 1 is needed"),
        ({"min_chars": 0}, "", ""),
        ({"min_chars": 9, "message": "Too short.\n"}, "", "Too short."),
    ],
)
async def test_a_rule_for_text_says_what_it_finds(rule, content, found):
    assert await messages(rule, text(content)) == [found] * bool(found)


async def test_a_long_match_is_shortened_and_put_on_one_line():
    [message] = await messages({"not_matches": r"(?s)x.*"}, text("x\n" + "y" * 200))
    assert message.startswith("`x yyy")
    assert "y…`" in message
    assert len(message) < 130


async def test_a_name_under_patterns_is_used_instead_of_the_literal():
    named = SETTING.replace(patterns={"task": r"^### Task \d+:"})
    assert await messages({"matches": "task"}, text("### Task 1: a"), named) == []
    assert await messages({"not_matches": "task"}, text("a task"), named) == []
    assert len(await messages({"not_matches": "task"}, text("a task"))) == 1


async def test_each_forbidden_match_is_a_finding_with_its_line():
    answer = await judge({"not_matches": "DRAFT|TBD"}, text("DRAFT\r\n\r\nx TBD y\r\nDRAFT"))
    assert [finding.line for finding in answer.findings] == [1, 3, 4]
    assert answer.findings[1].message == "`TBD` is not allowed (nothing may match `DRAFT|TBD`)"


async def test_a_text_that_is_wrong_everywhere_has_fifty_findings():
    assert len(await messages({"not_matches": "x"}, text("x" * 1000))) == MAX_FAULTS == 50


async def test_a_pattern_that_would_search_for_ever_is_a_fatal_error_that_names_it():
    started = time.process_time()
    error_class, why = await reason({"matches": "(a|aa)+$"}, text("a" * 60 + "b"))
    assert time.process_time() - started < 4
    assert error_class == "fatal"
    assert "`(a|aa)+$` took longer than 2 s" in why


async def test_text_rules_judge_the_json_of_data():
    assert await messages({"min_chars": 11}, data({"a": "é"})) == [
        "the text has 10 characters, at least 11 are needed"
    ]
    assert await messages({"matches": '"a": "é"'}, data({"a": "é"})) == []


# schema


GRAPH = {"nodes": [{"id": "str", "size": "int"}]}


@pytest.mark.parametrize(
    "content",
    [
        '{"nodes": [{"id": "a", "size": 1}]}',
        "nodes:\n  - id: a\n    size: 1\n",
        '\ufeff{"nodes": []}',
    ],
)
async def test_json_and_yaml_of_the_right_shape_pass(content):
    assert await messages({"schema": GRAPH}, text(content)) == []


async def test_each_part_that_is_wrong_is_a_finding_at_its_location():
    value = {"nodes": [{"id": "a", "size": 1}, {"id": 2, "size": "big"}]}
    for subject in (data(value), text(json.dumps(value))):
        answer = await judge({"schema": GRAPH}, subject)
        assert [finding.location for finding in answer.findings] == ["nodes[1].id", "nodes[1].size"]
        assert answer.findings[0].message == "nodes[1].id: 2 is not of type 'string'"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "the artifact is empty, but JSON is expected"),
        ("  \n", "the artifact is empty"),
        ('{"nodes": [', "not JSON: expecting value at line 1, column 12"),
        ('{"nodes": [],}', "not JSON: "),
        ('```json\n{"nodes": []}\n```', "not JSON: "),
        ("Here is the graph.", "neither JSON (expecting value at line 1, column 1) nor YAML: "),
        ('{"nodes": NaN}', "NaN is not a JSON number"),
        ('{"nodes": 1e999}', "1e999 is too large a number"),
        ('{"nodes": [], "nodes": []}', 'an object has the key "nodes" twice'),
        ("nodes: []\nnodes: []", "nor YAML: "),
        ("[" * 100_000, "nested more than 64 levels deep"),
        ("[" * 70 + "]" * 70, "nested more than 64 levels deep"),
    ],
)
async def test_what_is_no_data_is_one_finding_that_says_why(content, why):
    [message] = await messages({"schema": GRAPH}, text(content))
    assert why in message
    [message] = await messages({"require": "nodes.count > 0"}, text(content)) or [message]
    assert message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"nodes": [float("-inf")]}])
async def test_numbers_that_are_not_finite_are_faults_of_data(value):
    [message] = await messages({"schema": {"$comment": "anything"}}, data(value))
    assert "not a finite number" in message


@pytest.mark.parametrize(
    "content",
    [
        'Sure!\n\n```json\n{"nodes": []}\n```\nHope it helps {well}.',
        'Sure: {"nodes": []} as you asked [1].',
        '```\n{"nodes": []}\n```',
        '{"nodes": []}\n\nDone.',
        'First:\n```json\n{"nodes": []}\n```\nAgain:\n```json\n{ "nodes" : [ ] }\n```',
        "Here:\n```yaml\nnodes: []\n```",
        '- In a list:\n\n  ```json\n  {"nodes":\n  []}\n  ```',
    ],
)
async def test_tolerant_takes_data_out_of_fences_and_prose(content):
    assert await messages({"schema": GRAPH, "tolerant": True}, text(content)) == []
    assert await messages({"schema": GRAPH}, text(content)) != []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"a": 1} and {"a": 2}', "several different values"),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', "several different values"),
        ('cut off: {"nodes": [{"id": "a"}, {"id": "b"', "at line 1, column 44"),
        ('{"nodes": [{"id": "a"},]}', "at line 1, column 2"),
        ('{"a": [1, 2, {"b": 1}, oops]} {"a": 1}', "at line 1, column 24"),
        ("{'a': {\"b\": 1}}", "property name"),
        ('```json\n{"a": 1,}\n```', "in the fence, "),
        ("no data at all", "there is none in the text"),
        ("- [ ] open, see [1]\n- items: [2]", "there is none in the text"),
        ("a {brace} and [x]", "there is none in the text"),
    ],
)
def test_where_it_is_unclear_which_json_was_meant_none_is_taken(content, why):
    found = extract_json(content)
    assert isinstance(found, NoJson)
    assert why in found.reason


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("7", 7),
        ("null", None),
        ('see [1]: {"a": 1}', {"a": 1}),
        ("items:\n\n  [1, 2]\n\nthat is all", [1, 2]),
        ("[1]: a note\n\n[ ] a box\n\n[2]", [2]),
        ('x [{"a": 1}, {"a": 2}] y', [{"a": 1}, {"a": 2}]),
        ('```python\nx = [0]\n```\n```json\n{"a": 1}\n```', {"a": 1}),
        ("```json\n42\n```", 42),
    ],
)  # fmt: skip
def test_the_one_json_value_of_a_text_is_taken(content, value):
    assert extract_json(content) == value


def test_a_ref_that_leads_nowhere_is_a_mistake_of_the_rule():
    with pytest.raises(ValidationError, match="leads nowhere"):
        RULES.validate_python([{"schema": {"$ref": "#/nope"}}])


# require


async def test_a_requirement_is_tried_on_the_whole_artifact():
    value = {"nodes": [1, 2], "limit": 2}
    assert await messages({"require": "nodes.count <= limit"}, data(value)) == []
    assert await messages({"require": "nodes.count > limit"}, data(value)) == [
        "`nodes.count > limit` is required"
    ]


async def test_each_item_that_fails_is_a_finding_at_its_location():
    value = {"nodes": [{"size": 0}, {"size": 2}, {"size": -1}]}
    rule = {"require": "size > 0", "each": "nodes[]"}
    answer = await judge(rule, data(value))
    assert [finding.location for finding in answer.findings] == ["nodes[0]", "nodes[2]"]
    assert answer.findings[0].message == 'nodes[0]: `size > 0` is required, it is {"size": 0}'


async def test_a_requirement_sees_item_index_artifact_and_the_names_of_the_setting():
    setting = SETTING.replace(names={"input": {"known": ["a", "b"]}})
    value = {"ids": ["a", "b", "c"], "first": "a"}
    rule = {"require": "item in input.known or item == artifact.first", "each": "ids[]"}
    answer = await judge(rule, data(value), setting)
    assert [finding.location for finding in answer.findings] == ["ids[2]"]
    rule = {
        "require": "index < 1",
        "each": "ids[]",
        "message": "{{ index }}: {{ item }} {{ value }}",
    }
    assert await messages(rule, data(value), setting) == ["1: b b", "2: c c"]


async def test_a_path_that_leads_to_no_item_passes():
    rule = {"require": "size > 0", "each": "nodes[]"}
    for value in ({"nodes": []}, {}, [], 1, None):
        assert await messages(rule, data(value)) == []


async def test_a_requirement_reads_data_out_of_a_fence():
    assert await messages({"require": "a == 1"}, text('```json\n{"a": 1}\n```')) == []


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"require": "a ="}, "require[0]: "),
        ({"require": "a == 1", "each": "a[0]"}, "require[0]: "),
        ({"matches": "("}, "`(` is not a regular expression"),
        ({"schema": {"$ref": "#"}}, "refers to itself"),
    ],
)
async def test_a_rule_that_cannot_be_tried_is_a_fatal_error(rule, told):
    error_class, why = await reason(rule, data({"a": 1}))
    assert error_class == "fatal"
    assert told in why


# command


def script(code, *arguments):
    return [sys.executable, "-c", code, *arguments]


async def test_exit_0_passes_and_the_artifact_is_on_stdin():
    code = "import sys; sys.exit(sys.stdin.read() != 'the plan\\n')"
    assert await messages({"command": script(code)}, text("the plan\r\n")) == []
    code = "import sys, json; sys.exit(json.load(sys.stdin) != {'a': 1})"
    assert await messages({"command": script(code)}, data({"a": 1})) == []


async def test_arguments_and_stdin_are_templates_and_each_stays_one_argument():
    code = "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(1)"
    setting = SETTING.replace(names={"input": {"branch": "a b; rm *"}})
    rule = {
        "command": script(code, "{{ input.branch }}", "{{ artifact }}{{ plan }}"),
        "stdin": "<{{ artifact }}>",
    }
    [message] = await messages(rule, text("x"), setting)
    assert "['a b; rm *', 'xx'] <x>" in message


async def test_a_failing_command_shows_the_end_of_its_output():
    code = (
        "import sys; print('x\\n' * 2000, 'last out'); print('last err', file=sys.stderr); exit(1)"
    )
    [message] = await messages({"command": script(code)}, text(""))
    assert message.startswith(f"`{sys.executable}` ended with exit code 1:\n…\nx\nx\n")
    assert message.endswith("x\n last out\nlast err")
    assert 1990 < len(message.partition("…\n")[2]) <= 2000
    [message] = await messages({"command": script("print('x' * 3000); exit(1)")}, text(""))
    assert message.endswith("…\n" + "x" * 2000)


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [
        (r"print('\x1b[1;31mred\x1b[0m\x1b]8;;http://x\x07link\x07 \x00bell\x08\ta\r\nb')",
         None, f"`{sys.executable}` ended with exit code 1:\nredlink bell\ta\nb"),
        ("", None, f"`{sys.executable}` ended with exit code 1 and printed nothing"),
        ("print('E501')", "Lint: {{ value }}", "Lint: E501"),
    ],
)  # fmt: skip
async def test_a_failing_command_is_told_without_colours_or_in_the_words_of_its_rule(
    code, message, told
):
    rule = {"command": script(f"{code}; exit(1)".removeprefix("; ")), "message": message}
    assert await messages(rule, text("")) == [told]


async def test_fail_codes_fail_and_every_other_code_is_a_fatal_error():
    rule = {"command": script("print('usage: …'); exit(4)"), "fail_codes": [4, 5]}
    assert len(await messages(rule, text(""))) == 1
    error_class, why = await reason({**rule, "fail_codes": [1, 2]}, text(""))
    assert error_class == "fatal"
    assert "ended with exit code 4, which is not a verdict: 0 passes and 1, 2 fails" in why
    assert "usage: …" in why


async def test_a_command_that_cannot_start_is_a_fatal_error():
    error_class, why = await reason({"command": ["no-such-program-here"]}, text(""))
    assert (error_class, "no-such-program-here" in why) == ("fatal", True)
    error_class, _why = await reason({"command": ["cat", "{{ artifact }}"]}, text("a\0b"))
    assert error_class == "fatal"


async def test_a_command_that_takes_too_long_is_a_transient_error():
    code = "import time; print('so far', flush=True); time.sleep(600)"
    for limit_s in (0.5, 10, 100):  # a busy machine takes its time to come so far
        rule = {"command": script(code), "timeout": f"{limit_s}s"}
        error_class, why = await reason(rule, text(""))
        assert error_class == "transient"
        assert f"{limit_s} s" in why
        if "so far" in why:
            return
    raise AssertionError(why)


async def test_a_command_gets_only_the_secrets_that_its_rule_names(monkeypatch):
    monkeypatch.setenv("PLAN_API_KEY", "s3cret")
    code = "import os; print(os.environ.get('PLAN_API_KEY')); exit(1)"
    assert (await messages({"command": script(code)}, text("")))[0].endswith("None")
    rule = {"command": script(code), "env": ["PLAN_API_KEY"]}
    assert (await messages(rule, text("")))[0].endswith("s3cret")


async def test_the_caller_may_play_the_results_of_commands():
    calls = []

    async def play(argv, *, cwd, env, stdin, timeout_s):
        calls.append((argv, cwd, stdin, timeout_s))
        return CommandResult(1, "played", "", truncated=False)

    setting = SETTING.replace(run=play)
    rule = {"command": ["pytest", "-q"], "timeout": "90s"}
    assert await messages(rule, text("x"), setting) == ["`pytest` ended with exit code 1:\nplayed"]
    assert calls == [(["pytest", "-q"], None, "x", 90.0)]


async def test_a_template_of_a_command_that_cannot_be_filled_is_an_error():
    error_class, why = await reason({"command": ["echo", "{{ nope }}"]}, text(""))
    assert (error_class, why.startswith("command[0]: ")) == ("fatal", True)


# Which findings are the same


async def ids(rules, subject):
    return [finding.id for finding in (await judge(rules, subject)).findings]


async def test_mending_one_of_three_equal_defects_resolves_one_id():
    rule = {"not_matches": "DRAFT"}
    three = await ids(rule, text("DRAFT DRAFT DRAFT"))
    assert len(set(three)) == 3
    assert await ids(rule, text("DRAFT DRAFT")) == three[:2]


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ({"not_matches": "DRAFT"}, "DRAFT", "\n\nmore\nDRAFT"),
        ({"min_chars": 99}, "one", "two more"),
        ({"max_chars": 1}, "one", "two more"),
        ({"matches": "x", "count": {"min": 9}}, "x", "x x"),
        ({"min_chars": 99, "message": "only {{ value }}"}, "one", "two more"),
        ({"require": "a > 9"}, '{"a": 1}', '{"a": 2}'),
        ({"schema": {"a": "int"}}, '{"a": ', '{"a": 1,,'),
    ],
)
async def test_a_place_in_a_text_or_a_measure_does_not_make_another_defect(rule, before, after):
    assert await ids(rule, text(before)) == await ids(rule, text(after))


async def test_times_and_addresses_do_not_make_another_defect_of_a_failing_command():
    def rule(printed):
        return {"command": script(f"print({printed!r}); exit(1)")}

    first = await ids(rule("2 failed in 0.52s, <A at 0x7f3a>"), text(""))
    assert first == await ids(rule("3 failed in 1s, <A at 0x11ff>"), text(""))
    assert first != await ids(rule("setup failed in 1s"), text(""))


async def test_other_rules_locations_and_validators_are_other_defects():
    rules = [{"min_chars": 9}, {"min_chars": 9}]
    assert len(set(await ids(rules, text("")))) == 2
    rule = {"require": "a > 9", "each": "[]"}
    assert len(set(await ids(rule, data([1, 2])))) == 2
    assert finding_id("v", "r", "", "m") != finding_id("w", "r", "", "m")
    assert finding_id("a", "bc", "", "m") != finding_id("ab", "c", "", "m")


@pytest.mark.parametrize(
    ("message", "other", "is_same"),
    [
        ("The goal is unclear", "The  goal\nis unclear.", True),
        ("The goal is unclear", "THE GOAL IS UNCLEAR!", True),
        ("The goal is unclear", "The goal is unclear on line 12", True),
        ("The goal is unclear", "On lines 3-5 the goal is unclear.", True),
        ("Bad link at line 3, column 7", "Bad link at line 12, column 1", True),
        ("plan.md:3:1 is vague", "plan.md:14 is vague", True),
        ("Pr\u00fcfung", "Pru\u0308fung", True),
        ("Task 2 is vague", "Task 3 is vague", False),
        ("nodes[2]", "nodes[3]", False),
    ],
)
def test_a_message_or_a_place_is_compared_without_case_white_space_and_lines(
    message, other, is_same
):
    for ids in ([finding_id("v", "r", "", text) for text in (message, other)],
                [finding_id("v", "r", text, "") for text in (message, other)]):  # fmt: skip
        assert (ids[0] == ids[1], len(ids[0])) == (is_same, 12)


@pytest.mark.parametrize("message", ["Same words.", "x" * 5000], ids=["short", "long"])
def test_two_validators_that_say_the_same_have_a_defect_each(message: str) -> None:
    """And each has it again in the next round."""
    told = [finding_id(validator, "rule", "here", message) for validator in ("a", "b", "a", "b")]
    assert told[:2] == told[2:]
    assert told[0] != told[1]


@settings(deadline=None)
@given(st.lists(st.builds(Defect, *[st.text(max_size=3)] * 4)), st.booleans())
def test_ids_of_one_validator_are_all_different(defects, shares_keys):
    ids = finding_ids("v", defects, shares_keys=shares_keys)
    assert len(set(ids)) == len(defects)


# Anything at all


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)
EVERY_RULE = [
    {"matches": r"^\w+$", "outside_code": True, "count": {"min": 1, "max": 3}},
    {"not_matches": r"\s", "message": "{{ value }} {{ artifact }}"},
    {"section": "Goal", "or_title": True},
    {"min_chars": 5},
    {"max_chars": 50},
    {"schema": {"a": [{"b": "int"}], "c": "optional x|y"}, "tolerant": True},
    {"require": "a.count > 0 and c != 'x'", "each": "a[].b", "severity": "warning"},
]
ANYTHING = parse_type({"$comment": "anything"})
TEXT = st.text() | st.lists(
    st.sampled_from(["{", "}", "[", "]", '"', ":", ",", "a", "1", "```", "json", "\n", "NaN", "- "])
).map("".join)


@settings(deadline=None)
@given(TEXT | st.text(alphabet="ab\ud800\0\r\n#*`"))
async def test_no_text_whatsoever_keeps_the_rules_from_judging(content):
    answer = await judge(EVERY_RULE, text(content))
    assert answer.verdict in ("pass", "warn", "fail"), answer.reason


@settings(deadline=None)
@given(JSON)
async def test_no_data_whatsoever_keeps_the_rules_from_judging(value):
    answer = await judge(EVERY_RULE, data(value))
    assert answer.verdict in ("pass", "warn", "fail"), answer.reason


@settings(deadline=None)
@given(JSON)
def test_json_is_read_as_it_was_written(value):
    written = json.dumps(value)
    read = parse_json(written)
    finite = not conform(value, ANYTHING)[1]
    assert json.dumps(read) == written if finite else isinstance(read, NoJson)


@settings(deadline=None)
@given(TEXT)
def test_no_text_is_too_much_for_reading_data(content):
    extract_json(content)
    found = json_in(content)
    assert all(isinstance(value, dict | list) for value in found.values)
    for tolerant in (False, True):
        value = data_of(text(content), tolerant=tolerant)
        assert not isinstance(value, NoData) or value.reason


@pytest.mark.parametrize(
    "content",
    [
        '{"a":' * 20_000,
        "[1," * 20_000,
        '["' * 20_000,
        "{ " * 20_000,
        "[[]," * 20_000,
        "[0" * 20_000,
    ],
    ids=lambda content: content[:5],
)
def test_hostile_json_is_refused_quickly(content):
    started = time.process_time()
    assert isinstance(extract_json(content), NoJson)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("half", [r"\ud800", r"\uDBFF x", r"\udc00\ud800"])
def test_half_a_surrogate_pair_is_refused(half: str) -> None:
    for written in (f'{{"a": ["{half}"]}}', f'{{"{half}": 1}}'):
        for refused in (parse_json(written), extract_json(f"It is {written}.")):
            assert isinstance(refused, NoJson)
            assert "half a surrogate pair" in refused.reason
    assert parse_json(r'"\ud83d\ude00 \\ud800"') == "😀 \\ud800"
