"""YAML text to documents: values, places, and everything that can be wrong with a file."""

import gc
import json
import os
import re
import time
import timeit
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from loopkit.document.document import Node, looks_like_unquoted_colon
from loopkit.document.problems import MAX_BYTES, ProblemsFound, Span, render
from loopkit.document.reading import read, read_file

# Time limits would measure the machine that the tests run on.
patient = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

MACHINE = """\
loopkit: 1
description: Draft a plan, judge it, revise it.
input:
  issue: str
  max_revisions: {type: int, default: 2, minimum: 0, maximum: 5}
limits:
  revisions: input.max_revisions      # per edge
  cost_usd: 1.00
agents:
  architect: &base
    model: some/model
    system: "You are an \\"architect\\".\\n"
    params: {max_tokens: 8000}
  critic:
    <<: *base
    session: fresh
validators:
  structure:
    - {matches: '^### Task \\d+:', message: 'No "### Task N:" found'}
    - {section: Goal, message: The plan has no goal}
feedback:
  revise_plan: |
    Your plan had these issues:
    {% for finding in findings %}
    - {{ finding.message }}
    {% endfor %}
states:
  draft:
    agent: architect
    prompt: |
      Write a plan.

      {{ input.issue | untrusted }}
    next: validate
  validate:
    validate: draft
    by: [structure, critic]
    transitions:
      - {guard: valid, target: done}
      - {guard: cap_reached or stalled, target: failed}
      - guard: verdict == "fail"
        revise: draft
        feedback: revise_plan
  done: {final: success}
  failed: {final: failure}
"""


def problems(text):
    with pytest.raises(ProblemsFound) as caught:
        read(text, "plan.yaml")
    return caught.value.problems


def problem(text):
    (only,) = problems(text)
    return only


def place(found):
    return (found.span.line, found.span.column)


def cut(text, span):
    """Return the piece of the text that a one-line span marks."""
    assert span.line == span.end_line
    return re.split(r"\r\n|\r|\n", text)[span.line - 1][span.column - 1 : span.end_column - 1]


def nodes(node):
    yield node
    if isinstance(node.value, tuple):
        for item in node.value:
            yield from nodes(item)
    elif not isinstance(node.value, str | int | float | None):
        for entry in node.value.values():
            yield from nodes(entry.node)


# Values


def test_a_machine_is_read_as_plain_data():
    plain = read(MACHINE, "plan.yaml").plain()
    assert list(plain)[:3] == ["loopkit", "description", "input"]
    assert plain["limits"] == {"revisions": "input.max_revisions", "cost_usd": 1.0}
    assert plain["agents"]["architect"]["system"] == 'You are an "architect".\n'
    assert plain["validators"]["structure"][0]["matches"] == r"^### Task \d+:"
    assert plain["states"]["draft"]["prompt"] == "Write a plan.\n\n{{ input.issue | untrusted }}\n"
    assert plain["states"]["validate"]["transitions"][2]["guard"] == 'verdict == "fail"'


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((text, None) for text in ("", "~", "null", "Null", "NULL")),
        *((text, True) for text in ("true", "True", "TRUE")),
        *((text, False) for text in ("false", "False", "FALSE")),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("012", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("-1e3", -1000.0),
        ("1E-2", 0.01),
        *((text, text) for text in ("yes", "no", "on", "off", "y", "tRUE", "nULL")),
        *(
            (text, text)
            for text in ("2001-01-01", "1_000", "1:30", "0b1", "0O7", "-0x1", "1e", ".")
        ),
        *((text, text) for text in ("+", "-.", "--1", "1.2.3", "0o8", "0xG", "٣", "=", "<")),
        ("'1'", "1"),
        ('"true"', "true"),
        ('"\\u00e9\\x41\\n"', "éA\n"),
        ('"\\ud83d\\ude00"', "😀"),
        ("'it''s'", "it's"),
        ("two words", "two words"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(written, value):
    found = read(f"key: {written}", "f").plain()["key"]
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "written",
    [
        *(".nan", ".NaN", ".inf", "-.INF", "1e999", "9223372036854775808", "-9223372036854775809"),
        *("0xFFFFFFFFFFFFFFFFF", "1" * 5000),
    ],
)
def test_numbers_that_json_cannot_carry_are_refused_where_they_are(written):
    found = problem(f"a: 1\nkey: {written}")
    assert (found.code, place(found)) == ("unusable-number", (2, 6))
    assert len(found.message) < 100


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("|\n  one\n   two\n\n  three\n\n", "one\n two\n\nthree\n"),
        ("|-\n  one\n", "one"),
        ("|+\n  one\n\n", "one\n\n"),
        ("|2\n   one\n", " one\n"),
        (">\n  one\n  two\n\n  three\n", "one two\nthree\n"),
        ("one\n  two", "one two"),
        ('"one\n  two\\\n  three"', "one twothree"),
    ],
)
def test_text_on_several_lines_is_put_together(written, value):
    assert read(f"key: {written}", "f").plain() == {"key": value}


def test_the_raw_text_of_a_scalar_is_kept():
    document = read("a: 1.10\nb: 'x'\nc: [1]", "f")
    assert [document.node([key]).raw for key in "abc"] == ["1.10", "x", ""]


@pytest.mark.parametrize(
    ("written", "style"),
    [
        ("x", "plain"),
        ("''", "single"),
        ('""', "double"),
        ("|\n  x", "literal"),
        (">\n  x", "folded"),
        ("[]", "flow"),
        ("{}", "flow"),
        ("\n  - x", "block"),
        ("\n  x: y", "block"),
        ("", "plain"),
    ],
)
def test_the_style_of_a_value_is_kept(written, style):
    assert read(f"key: {written}", "f").node(["key"]).style == style


def test_plain_data_shares_nothing_between_two_uses_of_an_alias():
    plain = read("a: &a {x: [1]}\nb: *a", "f").plain()
    plain["a"]["x"].append(2)
    assert plain["b"] == {"x": [1]}


def test_a_document_cannot_be_changed():
    root = read("a: 1", "f").root
    with pytest.raises(TypeError):
        root.value["b"] = root.value["a"]


json_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | json_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_text, inner, max_size=4),
    max_leaves=20,
)


@settings(patient, max_examples=50)
@given(st.dictionaries(json_text, json_data), st.sampled_from([None, 2]))
def test_every_json_object_is_read_as_json_reads_it(data, indent):
    text = json.dumps(data, indent=indent)
    assert read(text, "f").plain() == json.loads(text)


# Places


def test_every_value_knows_where_it_is_written():
    document = read(MACHINE, "plan.yaml")
    path = ["agents", "architect", "params", "max_tokens"]
    assert document.span(path) == Span("plan.yaml", 13, 26, 13, 30)
    assert document.span(path, key=True) == Span("plan.yaml", 13, 14, 13, 24)
    assert cut(MACHINE, document.span(["validators", "structure", 0, "matches"])) == (
        r"'^### Task \d+:'"
    )
    assert cut(MACHINE, document.span(["states", "validate", "by"])) == "[structure, critic]"
    assert cut(MACHINE, document.span(["limits", "revisions"])) == "input.max_revisions"


def test_a_block_ends_where_its_last_value_ends():
    document = read(MACHINE, "plan.yaml")
    assert document.span(["states", "draft"]) == Span("plan.yaml", 29, 5, 34, 19)
    assert document.span(["feedback", "revise_plan"]) == Span("plan.yaml", 22, 16, 26, 17)
    assert document.span([]) == Span("plan.yaml", 1, 1, 45, 27)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_line_ends_and_a_byte_order_mark_change_no_value_and_no_place(ending, mark, last):
    text = mark + MACHINE.rstrip("\n").replace("\n", ending) + last.replace("\n", ending)
    document, expected = read(text, "f"), read(MACHINE, "f")
    assert document.plain() == expected.plain()
    assert [node.span for node in nodes(document.root)] == [
        node.span for node in nodes(expected.root)
    ]


@pytest.mark.parametrize("written", ["value", "'va lue'", '"va\\"lue"', "[1, {a: b}]", "12"])
@pytest.mark.parametrize("before", ["", "&anchor ", "&anchor\n  ", "&anchor # note\n  "])
def test_an_anchor_is_no_part_of_the_value(written, before):
    text = f"key: {before}{written} # comment\nother: *anchor" if before else f"key: {written}"
    assert cut(text, read(text, "f").span(["key"])) == written


def test_an_anchor_of_nothing_is_no_trouble():
    document = read("a: &x\nb: *x\nc: [&y , *y]", "f")
    assert document.plain() == {"a": None, "b": None, "c": [None, None]}
    assert document.span(["a"]) == Span("f", 1, 6, 1, 6)


def test_a_missing_part_of_a_path_gives_the_place_of_what_is_there():
    document = read(MACHINE, "plan.yaml")
    assert document.span(["agents", "nobody", "model"]) == document.span(["agents"])
    assert document.span(["limits", "cost_usd", 0]) == document.span(["limits", "cost_usd"])
    assert document.span(["states", "nope"], key=True) == document.span(["states"], key=True)
    transitions = ["states", "validate", "transitions"]
    for wrong in (3, -1, "0"):
        assert document.span([*transitions, wrong]) == document.span(transitions)
    assert document.span([0]) == document.root.span


def test_a_list_item_has_its_own_place_for_a_key():
    document = read("a:\n  - b", "f")
    assert document.span(["a", 0], key=True) == Span("f", 2, 5, 2, 6)


def test_a_node_is_found_by_its_path_or_not_at_all():
    document = read(MACHINE, "plan.yaml")
    assert document.node(["agents", "critic", "session"]).value == "fresh"
    assert document.node([]) is document.root
    for path in (["agents", "x"], ["agents", 0], ["loopkit", "x"], ["agents", "critic", "x", "y"]):
        assert document.node(path) is None


def test_an_alias_has_the_place_of_its_definition_and_of_its_use():
    text = "base: &b {x: [1]}\nuse: *b\nboth: {inner: *b}"
    document = read(text, "f")
    span, also = document.places(["both", "inner", "x", 0])
    assert cut(text, span) == "1"
    assert [(label, cut(text, use)) for label, use in also] == [("used here", "*b")]
    assert also[0][1].line == 3
    assert document.node(["use"]).used_at == Span("f", 2, 6, 2, 8)
    assert document.places(["base", "x"])[1] == ()
    assert cut(text, document.places(["use", "x"], key=True)[0]) == "x"


def test_an_alias_of_an_alias_has_the_places_of_both_uses():
    document = read("a: &a {x: 1}\nb: &b {y: *a}\nc: *b", "f")
    span, also = document.places(["c", "y", "x"])
    assert (span.line, [use.line for _, use in also]) == (1, [3, 2])


def test_a_block_that_ends_with_an_alias_ends_behind_it():
    document = read("a: &x 1\nb:\n  - *x\nc: 2", "f")
    assert document.span(["b"]) == Span("f", 3, 3, 3, 7)


def test_a_key_that_is_an_alias_is_the_text_and_has_the_place_of_its_use():
    document = read("a: &k name\n*k : 1", "f")
    assert document.plain() == {"a": "name", "name": 1}
    assert document.span(["name"], key=True) == Span("f", 2, 1, 2, 3)


# Merge keys


def test_merged_fields_have_the_place_of_their_definition_and_of_the_merge():
    text = "base: &b {x: 1}\nuse:\n  <<: *b\n  y: 2"
    span, also = read(text, "f").places(["use", "x"])
    assert cut(text, span) == "1"
    assert [(label, cut(text, use), use.line) for label, use in also] == [("used here", "*b", 3)]


@pytest.mark.parametrize(
    ("fields", "merged"),
    [
        ("<<: *a, x: 9", {"x": 9, "y": 2}),
        ("x: 9, <<: *a", {"x": 9, "y": 2}),
        ("<<: [*a, *b]", {"x": 1, "y": 2, "z": 4}),
        ("<<: [*b, *a]", {"x": 3, "z": 4, "y": 2}),
        ("<<: {v: 1}", {"v": 1}),
        ("<<: [], w: 1", {"w": 1}),
        ("'<<': 1", {"<<": 1}),
    ],
)
def test_own_fields_win_over_merged_ones_and_earlier_ones_over_later(fields, merged):
    plain = read(f"a: &a {{x: 1, y: 2}}\nb: &b {{x: 3, z: 4}}\nc: {{{fields}}}", "f").plain()["c"]
    assert plain == merged
    assert list(plain) == list(merged)


def test_merged_fields_stand_where_the_merge_key_stands():
    plain = read("a: &a {p: 1, q: 2}\nb: {first: 0, <<: *a, last: 3}", "f").plain()
    assert list(plain["b"]) == ["first", "p", "q", "last"]


@pytest.mark.parametrize("value", ["*a", "[*a]", "1", "text", ""])
def test_only_mappings_can_be_merged(value):
    found = problem(f"a: &a [x]\nb:\n  <<: {value}".replace("&a [x]", "&a x"))
    assert (found.code, found.span.line) == ("merge-not-mapping", 3)


def test_two_merge_keys_are_a_duplicate():
    found = problem("a: &a {x: 1}\nb: {<<: *a, <<: *a}")
    assert (found.code, found.message) == ("duplicate-key", "the key `<<` is written twice")


# What YAML allows and we do not


def test_a_duplicate_key_is_reported_at_the_second_one_with_the_place_of_the_first():
    found = problem("a:\n  b: 1\n  c: 2\n  b: 3")
    assert (found.code, place(found)) == ("duplicate-key", (4, 3))
    ((label, first),) = found.also
    assert (label, first.line) == ("first written here", 2)


def test_all_problems_of_the_tree_are_reported_at_once():
    found = problems("a: 1\na: 2\nb: !!str x\nc: *nope\n4: .nan\nb: [1, &z [*z]]")
    assert [each.code for each in found] == [
        "duplicate-key",
        "tag",
        "unknown-alias",
        "unusable-number",
        "non-text-key",
        "recursive-alias",
        "duplicate-key",
    ]
    assert all(each.help and each.span for each in found)


def test_problems_before_a_syntax_error_are_reported_with_it():
    found = problems("a: !x 1\nb: @c")
    assert [(each.code, each.span.line) for each in found] == [("tag", 1), ("unquoted-text", 2)]


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "~", "[a]", "{a: 1}", "? [a]\n"])
def test_keys_have_to_be_text(key):
    found = problem(f"ok: 1\n{key}: x")
    assert (found.code, found.span.line) == ("non-text-key", 2)
    assert "quotes" in found.help or "name: value" in found.help


TAGS = ("!!str", "!!python/object:os.system", "!x", "!", "!<tag:x>", "!a!b")
DIRECTIVES = ("%YAML 1.2", "%YAML 1.1", "%YAML 1.3", "%TAG ! x", "%YAML 1." + "9" * 5000)
EMPTY = ("", "\n\n", "# only a comment", "---\n", "\ufeff", "---\n...\n")
MARKERS = ("<<<<<<< a", ">>>>>>> b")
ESCAPES = ("\\0", "\\x00", "\\ud800", "\\udc00\\ud800")


@pytest.mark.parametrize(
    ("code", "where", "text"),
    [
        *(("tag", (2, 6), f"ok: 1\nkey: {tag} text") for tag in TAGS),
        *(("tag", (1, 6), f"key: !!x {x}") for x in ("[1]", "{a: 1}", "\n  - 1", "\n  a: 1")),
        *(("directive", (2, 1), f"# note\n{line}\n---\na: 1") for line in DIRECTIVES),
        *(("empty-file", (1, 1), text) for text in EMPTY),
        *(("conflict-marker", (2, 1), f"a: 1\n{line}\nb: 2") for line in MARKERS),
        *(("forbidden-character", (1, 4), f'a: "x{escape}"') for escape in ESCAPES),
        ("forbidden-character", (2, 1), "a: 1\n\ufeffb: 2"),
        ("non-text-key", (2, 1), "a: 1\n: x"),
        ("duplicate-key", (2, 1), "a: 1\n'a': 2"),
        ("duplicate-key", (2, 1), 'a: 1\n"\\x61": 2'),
    ],
)
def test_what_is_no_part_of_the_language_is_refused_where_it_is(code, where, text):
    found = problem(text)
    assert (found.code, place(found)) == (code, where)


def test_an_unknown_alias_suggests_an_anchor_that_is_there():
    found = problem("base: &base 1\nuse: *bsae")
    assert (found.code, place(found)) == ("unknown-alias", (2, 6))
    assert "did you mean `base`?" in found.help


def test_text_in_asterisks_is_told_to_be_quoted():
    assert "quotes" in problem("a: *important*").help


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: {c: *x}}", "a: &x\n  - b: *x"])
def test_a_value_cannot_contain_itself(text):
    found = problem(text)
    assert found.code == "recursive-alias"
    assert found.message == "the alias `*x` is inside the value that it refers to"


def test_an_anchor_may_be_used_again_and_the_latest_counts():
    assert read("a: &x 1\nb: &x 2\nc: *x", "f").plain()["c"] == 2
    assert read("a: &x [&x 1, *x]\nb: *x", "f").plain() == {"a": [1, 1], "b": 1}


def test_a_document_may_have_its_marks():
    assert read("--- # start\na: 1\n...\n# end", "f").plain() == {"a": 1}


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2", "a: 1\n...\n---\nb: 2"])
def test_a_second_document_is_refused_where_it_starts(text):
    found = problem(text)
    assert (found.code, cut(text, found.span)) == ("several-documents", "---")


@pytest.mark.parametrize(
    ("text", "kind"), [("- a", "a list"), ("text", "text"), ("12", "a number"), ("true", "true")]
)
def test_the_root_has_to_be_a_mapping(text, kind):
    found = problem(text)
    assert found.code == "not-a-mapping"
    assert kind in found.message


# Merge conflicts, characters, limits


def test_each_merge_conflict_is_reported_as_one_instead_of_a_syntax_error():
    side = "<<<<<<< HEAD\na: 1\n||||||| base\na: 0\n=======\na: 2\n>>>>>>> other\n"
    found = problems(f"x: 1\n{side}y: 2\n{side}")
    assert [each.code for each in found] == ["conflict-marker"] * 2
    assert [each.span.line for each in found] == [2, 10]
    assert [span.line for _, span in found[0].also] == [4, 6, 8]


def test_a_row_of_equals_signs_behind_a_conflict_is_no_part_of_it():
    found = problem('<<<<<<< a\n=======\n>>>>>>> b\nx: "T\n=======\n"')
    assert [span.line for _, span in found.also] == [2, 3]


def test_an_underlined_title_is_no_conflict():
    assert read('a: |\n Title\n =======\nb: "T\n=======\nx"', "f").plain()["b"] == "T ======= x"


@pytest.mark.parametrize(
    "char", ["\0", "\x1b", "\x7f", "\x85", "\x9f", "\u2028", "\ufffe", "\ud800"]
)
def test_characters_that_nobody_sees_are_refused_where_they_are(char):
    found = problem(f"a: 1\nb: x{char}y")
    assert (found.code, place(found)) == ("forbidden-character", (2, 5))
    assert f"U+{ord(char):04X}" in found.message


def test_only_the_first_of_very_many_forbidden_characters_are_reported():
    assert len(problems("\0" * 900_000)) == 20


def test_a_text_over_one_megabyte_is_refused_by_its_bytes():
    room = MAX_BYTES - len("a: ")
    assert len(read("a: " + "x" * room, "f").plain()["a"]) == room
    assert problem("a: " + "x" * (room + 1)).code == "too-large"
    assert problem("a: " + "é" * (room // 2 + 1)).code == "too-large"


def test_sixty_four_levels_are_read_and_one_more_is_refused():
    read("a: " + "[" * 63 + "]" * 63, "f")
    found = problem("a: " + "[" * 64 + "]" * 64)
    assert (found.code, place(found)) == ("too-deep", (1, 67))


def test_levels_are_counted_through_aliases():
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 80))
    assert read("".join(chain.splitlines(keepends=True)[:63]), "f").plain()
    found = problem(chain)
    assert (found.code, found.span.line) == ("too-deep", 64)


def test_the_deepest_part_of_an_anchor_counts_wherever_it_stands():
    inner = "[" * 40 + "]" * 40
    assert read(f"a: &a [{inner}, &b x]\nb: " + "[" * 20 + "*a" + "]" * 20, "f")
    assert problem(f"a: &a [{inner}, &b x]\nb: " + "[" * 23 + "*a" + "]" * 23).code == "too-deep"


@pytest.mark.parametrize("unit", ["[", "{", "- ", "? ", "[\n", "[{a: "])
def test_very_deep_nesting_is_refused_without_a_recursion_error(unit):
    started = time.process_time()
    assert problems(unit * 100_000)[-1].code == "too-deep"
    assert time.process_time() - started < 1


def test_a_few_aliases_that_grow_without_bounds_are_refused_at_once():
    rows = [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    started = time.process_time()
    found = problem("\n".join(["a0: &a0 {k0: 1}", *rows]))
    assert found.code == "too-many-values"
    assert found.span.line > 5
    assert time.process_time() - started < 0.5


def test_up_to_two_hundred_thousand_expanded_values_are_read():
    item = "[" + ", ".join(["x"] * 98) + "]"
    text = f"a: &a {item}\nb: [" + ", ".join(["*a"] * 1980) + "]"
    assert len(read(text, "f").plain()["b"]) == 1980
    assert problem(text.replace("1980", "") + "\nc: [" + ", ".join(["*a"] * 100) + "]")


def test_a_machine_of_two_hundred_states_is_read_in_a_fraction_of_a_second():
    state = "  s{0}:\n    agent: a\n    prompt: |\n      Write it.\n\n      {{{{ input.issue }}}}\n"
    edges = "    transitions:\n      - {{guard: valid, target: s{1}}}\n      - {{target: s{1}}}\n"
    padding = f"    # {'-' * 120}\n"
    text = "loopkit: 1\nstates:\n" + "".join(
        (state + edges + padding).format(n, n + 1) for n in range(200)
    )
    assert len(text) > 50_000
    # Measured 0.2 s on an idle two-core machine; the limit leaves room for a busy one.
    seconds = timeit.repeat(
        lambda: read(text, "f"), gc.enable, time.process_time, number=1, repeat=3
    )
    assert min(seconds) < 1


# Slips

SLIPS = [
    ("prompt: {{ input.issue }}", "unquoted-template", (1, 9), "quotes"),
    ("prompt: {{ input.issue }} and more", "unquoted-template", (1, 9), "quotes"),
    ("prompt: {{ a['b'] }}: x", "unquoted-template", (1, 9), "quotes"),
    ("prompt: {{ a | join(', ') }}", "unquoted-template", (1, 9), "quotes"),
    ("prompt: {{ input.issue }}\n  and more", "unquoted-template", (1, 9), "quotes"),
    ("prompt: {% if x %}a{% endif %}", "unquoted-template", (1, 9), "quotes"),
    ("a: {feedback: {{ comment }}}", "unquoted-template", (1, 15), "quotes"),
    ("a: {feedback: Asked {{ comment }}}", "unquoted-template", (1, 21), "quotes"),
    ("run:\n  - {{ input.x }}", "unquoted-template", (2, 5), "quotes"),
    ("a:\n- {guard: x in [a, b], target: y}", "unquoted-bracket", (2, 16), "quotes"),
    ('a:\n- {guard: "C" in codes, target: y}', "text-after-quote", (2, 15), "other kind of quotes"),
    ('guard: "C" in codes', "text-after-quote", (1, 12), "other kind of quotes"),
    ("a: 'it's'", "text-after-quote", (1, 8), "twice"),
    ('a: {guard: x == "a, b", target: y}', "unquoted-comma", (1, 12), "single quotes"),
    ('a: {guard: x == "a, b, c:d", target: y}', "unquoted-comma", (1, 12), "single quotes"),
    ('a: [x == "a, b", y]', "unquoted-comma", (1, 5), "single quotes"),
    ("a: {target:done}", "missing-space", (1, 5), "write `target: done`"),
    ("loopkit:1\nname: x", "missing-space", (1, 1), "write `loopkit: 1`"),
    ("a: 1\nb:2\nc: 3", "missing-space", (2, 1), "write `b: 2`"),
    ("a:\n  - b:1\n    c: 2", "missing-space", (2, 5), "write `b: 1`"),
    ("description: Goal: fast", "unquoted-colon", (1, 14), "quotes"),
    ("a:\n  - message: Goal: fast", "unquoted-colon", (2, 14), "quotes"),
    ("a: {b: c: d}", "unquoted-colon", (1, 9), "quotes"),
    ("a: @x", "unquoted-text", (1, 4), "quotes"),
    ("a: `x`", "unquoted-text", (1, 4), "quotes"),
    ("a: %x", "unquoted-text", (1, 4), "quotes"),
    ("a: - b", "unquoted-text", (1, 4), "next line"),
    ("a: * b", "unquoted-text", (1, 4), "quotes"),
    ("a: *valid == 3", "unquoted-text", (1, 4), "quotes"),
    ("a: [b,, c]", "unquoted-text", (1, 7), "quotes"),
    ("guard: !valid", "tag", (1, 8), "write `not`"),
    ("guard: !(valid)", "tag", (1, 8), "write `not`"),
    ("a: 1\nb: 'x\nc: 3", "unclosed-quote", (2, 4), "close it"),
    ('a: "x\nb: "y"', "unclosed-quote", (1, 4), "close it"),
    ('a: "x\n---\nb: 1', "unclosed-quote", (1, 4), "close it"),
    ('a: "x\\', "unclosed-quote", (1, 4), "close it"),
    (r'a: "^\d+"', "unknown-escape", (1, 6), "single quotes"),
    (r'a: "\x4"', "unknown-escape", (1, 5), "single quotes"),
    (r'a: "\UFFFFFFFF"', "syntax", (1, 2), "correct it"),
    ("a: [1, 2\nb: 3", "unclosed-bracket", (1, 4), "add `]`"),
    ("a: {x: 1", "unclosed-bracket", (1, 4), "add `}`"),
    ('a: {b: "x\n  y"', "unclosed-bracket", (1, 4), "add `}`"),
    ("a: [1,\n\n  \n", "unclosed-bracket", (1, 7), "close it"),
    ('a: {x: "1"', "unclosed-bracket", (1, 4), "add `}`"),
    ("a: [x # y]\nb: 1", "unclosed-bracket", (1, 4), "starts a comment"),
    ("a: [1, 2}", "missing-separator", (1, 9), "quotes"),
    ('a: [1, "2"}', "missing-separator", (1, 11), "quotes"),
    ("a: {b: [1] c: 2}", "missing-separator", (1, 12), "quotes"),
    ("a: | text", "block-text", (1, 4), "next line"),
    ("guard: >= 5", "block-text", (1, 8), "quote"),
    ("a: 1\n  b: 2", "indentation", (2, 3), "same column"),
    ("a:\n    x: 1\n  y: 2", "indentation", (3, 3), "same column"),
    ("  a: 1\nb: 2", "several-roots", (2, 1), "one mapping"),
    ("a:\n  - x\n - y", "indentation", (3, 2), "same column"),
    ("a: 1\n- b", "indentation", (2, 1), "same column"),
    ("{a: 1}\nb: 2", "several-roots", (2, 1), "one mapping"),
    ("a: 1\nb\nc: 2", "missing-colon", (2, 1), "colon"),
    ("a:\n\tb: 1", "tab", (2, 1), "spaces"),
    ("a:\tb", "tab", (1, 3), "space"),
    ("a:\n  b: 1\n\xa0 c: 2", "odd-blank", (3, 1), "space"),
    ("a:\n  b: 1\n  \u3000- c", "missing-colon", (3, 3), "colon"),
    ("a:\n  - b: 1\n  \xa0\xa0c: 2", "odd-blank", (3, 3), "space"),
    ("key\xa0: 2", "odd-blank", (1, 4), "space"),
    ("a:\n  b:\xa0x\n  c: 1", "odd-blank", (2, 5), "space"),
    ("a:\n  b:\xa0\n    c: 1", "odd-blank", (2, 5), "space"),
    ("a: {b:\xa0c}", "odd-blank", (1, 7), "space"),
    ("a:\n  -\xa0b", "odd-blank", (2, 4), "space"),
    ("a: b\xa0\nc: 1", "odd-blank", (1, 5), "space"),
    ("a: 1\n\xa0\nb: 1", "odd-blank", (2, 1), "space"),
    ("a: {b:\u200bc}", "odd-blank", (1, 7), "space"),
    ("a:\n  - revise: draft, max: 3", "unquoted-colon", (2, 5), "`- {revise: draft, max: 3}`"),
    ("a:\n  - guard: 'b', target: c", "unquoted-colon", (2, 5), "`- {guard: 'b', target: c}`"),
    ("a:\n  done: final: success", "unquoted-colon", (2, 9), "`done: {final: success}`"),
]


@pytest.mark.parametrize(("text", "code", "where", "remedy"), SLIPS)
def test_common_slips_have_their_own_message_place_and_remedy(text, code, where, remedy):
    found = problem(text)
    assert (found.code, place(found)) == (code, where)
    assert remedy in found.help


@pytest.mark.parametrize(
    "text",
    [
        "a: Hello {{ name }}",
        "a: '{{ name }}'",
        'a: {b: "{{ name }}"}',
        "a: {b: {c: 1}}",
        "a: {b, c}",
        'a: {size: 5", color: red}',
        'a: [5", 6]',
        'a: &size 5"\nb: [*size, *size]',
        "a: {http://x.org}",
        "a: [python:3.11, x]",
        "a: http://x.org/y",
        "a: {b: http://x.org/y}",
        "a: 100%",
        "a: x # y",
        "a: [x, y,]",
        "a: Bonjour\xa0! Remarque:\xa0oui",
    ],
)
def test_what_only_looks_like_a_slip_is_read(text):
    assert read(text, "f").plain()


def test_a_template_is_underlined_as_a_whole():
    text = "a: 1\nprompt: {{ input.issue }}"
    assert cut(text, problem(text).span) == "{{ input.issue }}"


@pytest.mark.parametrize(
    ("item", "meant"),
    [
        ("The plan: has a colon", "The plan: has a colon"),
        ("Version: 1.10", "Version: 1.10"),
        ("Note:", "Note:"),
        ("{a: b}", None),
        ("'a': b", None),
        ("a: 'b'", None),
        ("a: [b]", None),
        ("a: b\n    c: d", None),
        ("a: b\n     more", None),
        ("text", None),
    ],
)
def test_a_list_item_with_a_colon_gives_the_text_that_was_meant(item, meant):
    node = read(f"rubric:\n  - {item}", "f").node(["rubric", 0])
    assert isinstance(node, Node)
    assert looks_like_unquoted_colon(node) == meant


# Places inside texts

TEXTS = """\
literal: |  # note
  one
    two {{ x }}

  four
indented: |2-
    keep
anchored: &t |+
  deep

alias: *t
plain: some {{ x }} text   # note
single: 'some {{ x }} text'
double: "some {{ x }} text"
escaped: "a\\tb {{ x }}"
doubled: 'it''s {{ x }}'
folded: >
  some
  {{ x }}
long: some
  {{ x }}
number: 12
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("key", "inside", "piece", "at"),
    [
        ("literal", (1, 1, 3), "one", 2),
        ("literal", (2, 7, 7), "{{ x }}", 3),
        ("literal", (3, 1, 5), "", 4),
        ("literal", (4, 2, 99), "our", 5),
        ("indented", (1, 3, 4), "keep", 7),
        ("anchored", (1, 1, 4), "deep", 9),
        ("alias", (1, 1, 4), "deep", 9),
        ("plain", (1, 6, 7), "{{ x }}", 12),
        ("single", (1, 6, 7), "{{ x }}", 13),
        ("double", (1, 6, 7), "{{ x }}", 14),
        ("double", (1, 6, 99), "{{ x }} text", 14),
        ("plain", (1, 99, 9), "", 12),
    ],
)
def test_a_place_inside_a_text_is_found_in_the_file(ending, key, inside, piece, at):
    text = TEXTS.replace("\n", ending)
    span = read(text, "f").inside([key], *inside)
    assert (cut(text, span), span.line) == (piece, at)


TRANSFORMED = ("escaped", "doubled", "folded", "long", "number", "missing")


@pytest.mark.parametrize(
    ("key", "line"),
    [*((key, 1) for key in TRANSFORMED), *(("literal", line) for line in (0, -1, 5, 10**9))],
)
def test_of_a_text_that_was_transformed_or_lacks_the_line_the_place_is_the_whole(key, line):
    document = read(TEXTS, "f")
    assert document.inside([key], line, 3, 2) == document.span([key])


# Files


def test_a_file_is_read_under_the_name_that_it_is_shown_as(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\n")
    assert read_file(path).file == str(path)
    document = read_file(path, "plan.yaml")
    assert (document.file, document.text, document.plain()) == ("plan.yaml", "a: 1\r\n", {"a": 1})


def file_problem(path):
    with pytest.raises(ProblemsFound) as caught:
        read_file(path, "shown.yaml")
    (found,) = caught.value.problems
    assert found.span.file == "shown.yaml"
    assert found.help
    return found


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    assert "No such file" in file_problem(tmp_path / "none.yaml").message
    assert "folder" in file_problem(tmp_path).message
    assert file_problem(tmp_path / "nul\0byte").code == "unreadable-file"
    assert file_problem(tmp_path / ("x" * 5000)).code == "unreadable-file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_named(tmp_path):
    path = tmp_path / "secret.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    assert "Permission denied" in file_problem(path).message


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_that_is_not_utf_8_is_reported_at_its_first_wrong_byte(tmp_path, mark):
    path = tmp_path / "latin.yaml"
    path.write_bytes(mark + "a: 1\r\nb: é".encode() + b"\xe9\n")
    found = file_problem(path)
    assert (found.code, place(found)) == ("not-utf-8", (2, 5))
    assert "0xe9" in found.message
    path.write_bytes(mark + b"a: \xe9\n")
    assert place(file_problem(path)) == (1, 4)


def test_a_file_in_utf_16_is_recognised(tmp_path):
    path = tmp_path / "wide.yaml"
    path.write_text("a: 1", encoding="utf-16")
    assert "UTF-16" in file_problem(path).message


def test_a_file_over_one_megabyte_is_refused_unread():
    found = file_problem(Path("/dev/zero"))
    assert found.code == "too-large"


# Total, and silent


def outcome(reader, *arguments):
    """Return the document, or else the problems."""
    try:
        return reader(*arguments), ()
    except ProblemsFound as found:
        return None, found.problems


def check_total(text):
    """Read the text: whatever comes of it has places in the text, and problems have remedies."""
    document, found = outcome(read, text, "f")
    if document is None:
        assert found
        assert render(found, {"f": text})
        check_problems(found, re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")))
        return
    assert isinstance(document.plain(), dict)
    for node in nodes(document.root):
        span = node.span
        assert (1, 1) <= (span.line, span.column) <= (span.end_line, span.end_column)
        if node.style == "plain" and span.line == span.end_line:
            assert cut(document.text, span) == node.raw


def check_problems(found, rows):
    for each in found:
        assert each.message
        assert each.help
        for span in (each.span, *(span for _, span in each.also)):
            assert 1 <= span.line <= len(rows)
            assert 1 <= span.column <= len(rows[span.line - 1]) + 1
            assert (span.line, span.column) <= (span.end_line, span.end_column)


FRAGMENTS = [
    *("{{", "}}", "[", "]", "{", "}", ":", "-", "#", "'", '"', "|", ">", "*", "&", "!", "%", "@"),
    *("`", "?", ",", "\\", "=", ".", "~", "<<", "*base", "&x", "*x", "!!str", "---", "...", "|2"),
    *(
        ">+",
        "\\U",
        "\\x",
        "%YAML",
        "<<<<<<<",
        "=======",
        ">>>>>>>",
        "1e999",
        ".nan",
        "é",
        "日",
        "🙂",
    ),
]
BLANKS = [" ", "\n", "\t", "\r", "\r\n", "\xa0", "\0", "\x1b", "\ufeff", "\u2028", "\ud800"]
yaml_pieces = st.sampled_from(
    [*FRAGMENTS, *BLANKS, ": ", "- ", "\n- ", "\n  ", " #", "\n%", "{{", "a", "a: ", "1"]
)


@patient
@given(st.lists(yaml_pieces, max_size=40).map("".join))
@example("a: 'x\udfff'")
@example("a: " + "\\UFFFFFFFF")
@example("% ")
@example("a: |\n \n  x")
def test_no_text_breaks_the_reader(text):
    check_total(text)


@patient
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(MACHINE)), st.integers(0, 12), yaml_pieces | st.text(max_size=3)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_edit_of_a_machine_breaks_the_reader(edits):
    text = MACHINE
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    check_total(text)


@patient
@given(st.lists(st.tuples(st.integers(0, len(MACHINE) - 1), st.integers(0, 255)), max_size=4))
def test_no_bytes_break_the_reader(tmp_path, changes):
    content = bytearray(MACHINE.encode())
    for offset, byte in changes:
        content[offset] = byte
    path = tmp_path / "machine.yaml"
    path.write_bytes(content)
    document, found = outcome(read_file, path)
    assert document or found
    assert all(each.span and each.help for each in found)


@patient
@given(st.integers(0, len(MACHINE)))
def test_no_machine_that_is_cut_off_breaks_the_reader(length):
    check_total(MACHINE[:length])


def test_the_reader_prints_and_warns_nothing(capfd, recwarn):
    for text, *_ in SLIPS:
        problems(text)
    read("a: &x 1.\nb: &x 1e5\nc: *x\nd: 010\ne: 2001-01-01\n", "f").plain()
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


# Much that is wrong

LOTS = {
    "undefined aliases": "- *a\n" * 190_000,
    "undefined aliases in brackets": "[" + "*a, " * 240_000 + "]",
    "different undefined aliases": "".join(f"- *b{i}\n" for i in range(90_000)),
    "tags": "- !a b\n" * 140_000,
    "one long tag": "!" * 999_999,
    "one long anchor": "&" * 999_999,
    "one long alias": "*" * 999_999,
    "one long directive": "%" * 999_999,
    "one key": "a: 1\n" * 190_000,
    "one key in braces": "{" + "a: 1, " * 160_000 + "}",
    "numbers as keys": "".join(f"{i}: 1\n" for i in range(90_000)),
    "huge numbers": "- 99999999999999999999999\n" * 38_000,
    "templates": "a: {{ b }}\n" * 90_000,
    "templates in brackets": "[" + "{{ b }}, " * 90_000 + "]",
    "odd quotes": "[" + 'a", ' * 190_000 + "]",
    "missing spaces": "{" + "a:b, " * 190_000 + "}",
    "odd blanks": "\u00a0a\u00a0: 1\n" * 70_000,
    "merge keys": "<<: 1\n" * 140_000,
    "conflicts": "<<<<<<< a\n" * 90_000,
    "one conflict": "<<<<<<< a\n" + "|||||||\n" * 90_000,
    "question marks": "? " * 499_999,
    "dashes": "- " * 499_999,
    "braces": "{" * 999_999,
    "tabs": "\t" * 999_999,
    "control characters": "\x01" * 999_999,
}


@pytest.mark.parametrize("name", LOTS)
def test_a_file_with_very_much_wrong_is_told_at_once_and_in_few_words(name: str) -> None:
    started_s = time.process_time()
    found = problems(LOTS[name])
    told = render(found, {"plan.yaml": LOTS[name]})
    # A few hundredths of a second; reading all of it would take ten and more.
    assert time.process_time() - started_s < 4
    assert found
    assert len(told) < 2_600


def test_after_fifty_mistakes_the_rest_of_a_file_is_not_read() -> None:
    found = problems("a: 1\n" * 1_000)
    assert [problem.code for problem in found] == ["duplicate-key"] * 50 + ["too-many-problems"]
    assert problems("a: 1\n" * 51)[-1].code == "duplicate-key"


def test_the_index_of_an_only_item_that_is_written_without_a_list_is_left_out() -> None:
    document = read("single: {one: 1}\nlisted:\n- one\n", "a.yaml")
    assert document.as_written(("single", 0)) == ("single",)
    assert document.as_written(("listed", 0)) == ("listed", 0)
    assert document.as_written(("single", "one")) == ("single", "one")
