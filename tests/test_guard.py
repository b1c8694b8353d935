"""The guard language: what it reads, what it refuses and where, and what its expressions mean."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.language.guard.evaluate import compile_guard, parse_path, parse_requirement, select
from loopkit.language.guard.grammar import KEYWORDS, Guard, GuardError, GuardProblem, expand, parse
from loopkit.language.guard.type_check import GuardType, check

NAMES = {
    "valid": GuardType("bool"),
    "flag": GuardType("bool", optional=True),
    "choice": GuardType("str", ("approve", "revise", "reject")),
    "verdict": GuardType("str", ("pass", "fail")),
    "comment": GuardType("str"),
    "origin": GuardType("str", ("design", "code"), optional=True),
    "error_count": GuardType("int"),
    "warning_count": GuardType("int"),
    "revisions": GuardType("int", bounded=True),
    "input.max_revisions": GuardType("int", bounded=True),
    "score": GuardType("num", optional=True),
    "codes": GuardType("texts", ("E1", "E2")),
}
FACTS = {
    "valid": True,
    "flag": None,
    "choice": "approve",
    "verdict": "fail",
    "comment": "why?",
    "origin": None,
    "error_count": 2,
    "warning_count": 0,
    "revisions": 1,
    "input.max_revisions": 3,
    "score": 0.5,
    "codes": ["E1"],
}


def refusal(text: str, read: Callable[[str], object] = parse) -> GuardProblem:
    with pytest.raises(GuardError) as caught:
        read(text)
    return caught.value.problem


def problems(text: str) -> list[GuardProblem]:
    return check(parse(text), NAMES)


def problem(text: str) -> GuardProblem:
    (only,) = problems(text)
    return only


def marked(text: str, found: GuardProblem) -> str:
    return text[found.column - 1 : found.column - 1 + found.length]


def holds(text: str) -> bool:
    guard = parse(text)
    assert check(guard, NAMES) == []
    return compile_guard(guard)(FACTS)


# Meaning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("valid", True),
        ("not valid", False),
        ("true", True),
        ('choice == "approve"', True),
        ("choice == 'revise'", False),
        ('choice in ["revise", "approve"]', True),
        ('choice not in ["revise", "approve"]', False),
        ('choice in ["reject",]', False),
        ("choice in []", False),
        ("revisions < input.max_revisions", True),
        ("error_count >= 2", True),
        ("error_count > -1", True),
        ("error_count == 2.0", True),
        ("revisions in [0, 2]", False),
        ('"E1" in codes', True),
        ('"E2" in codes', False),
        ('"E2" not in codes', True),
        ("origin == none", True),
        ("origin != none", False),
        ('origin == "code"', False),
        ("flag == true", False),
        ("flag != true", True),
        ("score != none and score < 1", True),
        ("score == none or score > 1", False),
        ("valid == (revisions > 5)", False),
        ("valid or valid and not valid", True),
        ("(valid or valid) and not valid", False),
        ("not valid == false", True),
        (r'comment == "wh\"y\\\n\t?"', False),
        ("valid\n  and true", True),
    ],
)
def test_a_guard_means_what_it_says(text: str, expected: bool):
    assert holds(text) is expected


def test_escapes_in_quoted_text_stand_for_their_characters():
    guard = parse(r"""comment == "a\"b\\c\nd\te" """)
    assert compile_guard(guard)({"comment": 'a"b\\c\nd\te'})


def test_the_names_of_a_guard_are_dotted_ones_whole():
    guard = parse("valid and input.max_revisions < 3 and not valid")
    assert guard.names == {"valid", "input.max_revisions"}


def _joined(word: str):
    return lambda left, right: (f"({left[0]} {word} {right[0]})", f"({left[1]} {word} {right[1]})")


ATOMS = st.sampled_from(
    [
        ("a", "a"),
        ("b", "b"),
        ("x < 3", "x < 3"),
        ("x != -1", "x != -1"),
        ("x in [1, 2]", "x in [1, 2]"),
        ("t == 'p'", "t == 'p'"),
        ("t not in ['p', 'q']", "t not in ['p', 'q']"),
        ("true", "True"),
        ("false", "False"),
        ("a == true", "a == True"),
    ]
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(_joined("and"), inner, inner),
        st.builds(_joined("or"), inner, inner),
        inner.map(lambda pair: (f"not {pair[0]}", f"not {pair[1]}")),
        st.tuples(inner, inner, inner).map(
            lambda all_: tuple(f"{p} or {q} and {r}" for p, q, r in zip(*all_, strict=True))
        ),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS, st.booleans(), st.booleans(), st.integers(-2, 4), st.sampled_from("pqr"))
def test_a_guard_agrees_with_python_on_the_same_expression(
    pair: tuple[str, str], a: bool, b: bool, x: int, t: str
):
    facts = {"a": a, "b": b, "x": x, "t": t}
    types = {
        "a": GuardType("bool"),
        "b": GuardType("bool"),
        "x": GuardType("int"),
        "t": GuardType("str", ("p", "q", "r")),
    }
    guard = parse(pair[0])
    assert check(guard, types) == []
    assert compile_guard(guard)(facts) is eval(pair[1], {}, facts)


# What is no guard


@pytest.mark.parametrize(
    ("text", "wrong", "said", "remedy"),
    [
        ("valid && flag", "&&", "guards have no `&&`", "write `and`"),
        ("valid || flag", "||", "guards have no `||`", "write `or`"),
        ("!valid", "!", "guards have no `!`", "write `not`"),
        ("valid = true", "=", "guards have no `=`", "write `==`"),
        ("x === 1", "===", "guards have no `===`", "write `==`"),
        ("x <> 1", "<>", "guards have no `<>`", "write `!=`"),
        ("x => 1", "=>", "guards have no `=>`", "write `>=`"),
        ("x := 1", ":=", "guards have no `:=`", "write `==`"),
        ("flag is none", "is", "guards have no `is`", "write `==`"),
        ("flag is not none", "is", "guards have no `is`", "write `!=`"),
        ("valid == True", "True", "guards have no `True`", "write `true`"),
        ("flag == None", "None", "guards have no `None`", "write `none`"),
        ("flag == null", "null", "guards have no `null`", "write `none`"),
        ("valid AND flag", "AND", "guards have no `AND`", "write `and`"),
        ("x in [True]", "True", "guards have no `True`", "write `true`"),
        ("1 if valid else 2", "if", "guards have no `if`", "one transition for each case"),
        ("len(codes) > 1", "len(", "guards call no functions", "result"),
        ("codes[0]", "[", "guards have no subscripts", "plan.goal"),
        ("a + 1", "+", "guards do no arithmetic", "computed"),
        ("a - 1", "-", "guards do no arithmetic", "computed"),
        ("-a", "-", "guards do no arithmetic", "computed"),
        ("a ** 2", "**", "guards do no arithmetic", "computed"),
        ("0 < a < 3", "<", "comparisons cannot be chained", "`0 < a and a < …`"),
        ("a == b == c", "==", "comparisons cannot be chained", "`a == b and b == …`"),
        ("choice in [approve]", "approve", "a list holds values, not names", '"approve"'),
        ("x in (1, 2)", "(", "`in` needs a list after it", 'in ["a", "b"]'),
        ("x in 3", "3", "`in` needs a list after it", 'in ["a", "b"]'),
        ("[1] == x", "[", "expected a name or a value here, not `[`", "a list after `in`"),
        ("(a, b)", ",", "`,` is not allowed here", "`and` or `or`"),
        ("{{ valid }}", "{{", "guards have no `{{`", "without the braces"),
        ("a; b", ";", "guards have no `;`", "comparisons"),
        ("“a” == x", "“", "guards have no `“`", 'write `"`'),
        ("a == 'b", "'b", "this quote is never closed", "end the text with '"),
        ("(valid", "valid", "`)` is missing after `valid`", "complete"),
        ("x in [1", "1", "`]` is missing after `1`", "complete"),
        ("valid)", ")", "`)` is not allowed here", "`and` or `or`"),
        ("valid flag", "flag", "`flag` is not allowed here", "`and` or `or`"),
        ("valid and", "and", "a value is missing after `and`", "complete"),
        ("valid == not flag", "not", "expected a name or a value here, not `not`", "( )"),
        ("1_000 < a", "1_000", "guards have no `1_000`", "0.5"),
        ("0x1F < a", "0x1F", "guards have no `0x1F`", "0.5"),
        (".5 < a", ".5", "guards have no `.5`", "0.5"),
        ("a .b", ".b", "guards have no `.b`", "input.size"),
        ("1e999 < a", "1e999", "the number is too large", "smaller"),
        ("9223372036854775808 < a", "9223372036854775808", "the number is too large", "smaller"),
        ("é == 1", "é", "guards have no `é`", "quotes"),
        ("a\x07b", "\x07", "guards have no `U+0007`", "quotes"),
    ],
)
def test_what_the_language_does_not_have_is_refused_by_name_with_a_remedy(
    text: str, wrong: str, said: str, remedy: str
):
    found = refusal(text)
    assert marked(text, found) == wrong
    assert found.message == said
    assert remedy in found.help
    assert found.code == "guard-syntax"


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_guard_is_refused(text: str):
    assert refusal(text).message == "the guard is empty"


def test_a_guard_has_at_most_a_thousand_characters():
    assert parse("valid" + " " * 995)
    assert "at most 1,000" in refusal("valid" + " " * 996).message


@pytest.mark.parametrize(
    "text", ["not " * 240 + "valid", "(" * 500, "(" * 300 + "a" + ")" * 300, "not(" * 100 + "a"]
)
def test_deep_nesting_is_refused_and_breaks_nothing(text: str):
    assert "nested more than 30 deep" in refusal(text).message


def test_nesting_that_people_write_is_fine():
    assert holds("(" * 15 + "valid" + ")" * 15)
    assert holds(" and ".join(["(not (not valid))"] * 40))


def test_no_warning_comes_out_of_a_guard():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ('"a" == "a"', "1 == 1.0", "true == false", '"a" in ["a"]', "1 < 2"):
            compile_guard(parse(text))({})


def test_a_keyword_is_no_name():
    assert {"and", "or", "not", "in", "true", "false", "none", "is", "if"} <= KEYWORDS


FRAGMENTS = st.sampled_from(
    [
        *("valid", "codes", "input.x", "count", "and", "or", "not", "in", "is", "if", "true"),
        *("none", "==", "!=", "<", ">=", "=", "&&", "!", "[", "]", "(", ")", ",", "-", ".", ":"),
        *("1", "2.5", "-3", "'t'", '"q"', "'", '"', "\\", "é", "{{", "f", " ", "\n", "\x00"),
    ]
)
SOUP = st.lists(FRAGMENTS, max_size=14).map(" ".join) | st.lists(FRAGMENTS, max_size=14).map(
    "".join
)


def refused(text: str) -> GuardProblem | None:
    try:
        parse(text)
    except GuardError as error:
        return error.problem
    return None


@given(st.text(max_size=40) | SOUP)
def test_any_text_is_a_guard_or_refused_at_a_place_in_it(text: str):
    wrong = refused(text)
    found = [wrong] if wrong else problems(text)
    for one in found:
        assert 1 <= one.column <= len(text) + 1
        assert one.length >= 1
        assert one.message


def test_an_error_reads_as_its_message():
    with pytest.raises(GuardError, match="guards have no `&&`"):
        parse("valid && flag")


@given(SOUP, st.booleans(), st.sampled_from([None, "t", "q"]), st.sampled_from([None, 1, 2.5]))
def test_a_checked_guard_gives_true_or_false_on_any_facts_of_its_types(
    text: str, valid: bool, name: str | None, count: float | None
):
    types = {
        "valid": GuardType("bool"),
        "input.x": GuardType("str", ("t", "q"), optional=True),
        "count": GuardType("num", optional=True),
        "codes": GuardType("texts"),
    }
    if refused(text):
        return
    guard = parse(text)
    if check(guard, types) == []:
        facts = {"valid": valid, "input.x": name, "count": count, "codes": ["t"]}
        assert type(compile_guard(guard)(facts)) is bool


# Names and types


@pytest.mark.parametrize(
    ("text", "wrong", "said", "remedy"),
    [
        ('choise == "approve"', "choise", "unknown name `choise`", "did you mean `choice`?"),
        ("choice == approve", "approve", "unknown name `approve`", 'quotes: "approve"'),
        ("valid and zzz", "zzz", "unknown name `zzz`", "allowed: `choice`, `codes`"),
        ('choice == "aprove"', '"aprove"', '`choice` is never "aprove"', '`"approve"`'),
        ('"aprove" != choice', '"aprove"', '`choice` is never "aprove"', '`"approve"`'),
        ('choice in ["reject", "x"]', '"x"', '`choice` is never "x"', 'allowed: `"approve"`'),
        ('"E9" in codes', '"E9"', '`codes` never has "E9"', '`"E1"`'),
        ("choice", "choice", "`choice` is a text, not true or false", 'choice == "approve"'),
        ("revisions", "revisions", "`revisions` is a number, not true or false", "revisions > 0"),
        ("valid or 1", "1", "`1` is a number, not true or false", "whole comparison"),
        (
            'choice == "revise" or "reject"',
            '"reject"',
            '`"reject"` is a text, not true or false',
            "in […]",
        ),
        ("codes", "codes", "`codes` is a list, not true or false", '"…" in codes'),
        ('codes == "E1"', "codes", "`codes` is a list", '"…" in codes'),
        ("comment in codes", "comment", "only a quoted text can be looked up in `codes`", '"…"'),
        ('"a" in comment', "comment", "`comment` is a text, not a list", '["a", "b"]'),
        ("none", "none", "none is neither true nor false", "compare"),
        ("valid == 1", "1", "`valid` is true or false and `1` is a number", "true or false"),
        ('error_count == "1"', '"1"', '`error_count` is a number and `"1"` is a text', "a number"),
        (
            "choice == verdict",
            "verdict",
            "`choice` and `verdict` have different values",
            '"approve", "revise"',
        ),
        ("valid == none", "valid", "`valid` is never none", "leave"),
        ('choice in ["approve", none]', "choice", "`choice` is never none", "leave"),
        ("none == none", "none", "only a name can be none", "leave"),
        ("flag", "flag", "`flag` may be none", "flag == true"),
        ("score >= 1", "score", "`score` may be none", "`score != none and …`"),
        ("1 > score", "score", "`score` may be none", "`score != none and …`"),
        ("revisions < none", "none", "none is neither less nor more", "`==`"),
        ('comment < "b"', "comment", "`comment` is a text: it has no order", "`in`"),
        (
            "error_count < warning_count",
            "warning_count",
            "neither `error_count` nor `warning_count` has bounds",
            "`minimum`",
        ),
        (
            "error_count == warning_count",
            "warning_count",
            "neither `error_count` nor `warning_count` has bounds",
            "`minimum`",
        ),
    ],
)
def test_a_mistake_of_names_or_types_is_reported_at_its_words(
    text: str, wrong: str, said: str, remedy: str
):
    found = next(one for one in problems(text) if one.message == said)
    assert marked(text, found) == wrong
    assert remedy in found.help


@pytest.mark.parametrize(
    "text",
    [
        "score != none and score < 1",
        "score == none or score < 1",
        "not (score == none) and score < 1",
        "not (score == none or valid) and score < 1",
        "score in [1, 2] and score < 2",
        "score == 1 and score < 2",
        "(valid and score != none) and (valid or score < 1)",
        "not (score != none and score < 1) or valid",
        "error_count < revisions",
        "revisions <= input.max_revisions",
        "comment == choice",
        "error_count == 1.5",
        "origin in [none]",
        'flag == true and choice == "approve"',
    ],
)
def test_a_guard_that_cannot_fail_has_no_problems(text: str):
    assert problems(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "score != none or score < 1",
        "score == none and score < 1",
        "score < 1 and score != none",
        "not (score != none) and score < 1",
        "(score != none or valid) and score < 1",
        "score in [1, none] and score < 1",
        "score != 1 and score < 2",
    ],
)
def test_a_test_for_none_that_proves_nothing_helps_nothing(text: str):
    assert [found.message for found in problems(text)] == ["`score` may be none"]


def test_all_problems_of_a_guard_are_reported_in_its_order():
    found = problems('choise == 1 and choice == "x" or revisions')
    assert [one.code for one in found] == ["unknown-name", "unknown-value", "guard-type"]
    assert [one.column for one in found] == sorted(one.column for one in found)


# Named guards


def named(**texts: str) -> dict[str, Guard]:
    return {name: parse(text) for name, text in texts.items()}


def test_named_guards_are_put_in_and_keep_together():
    guards = named(ready="valid or flag == true", late="not ready")
    guard = expand(parse("late and ready"), guards)
    assert guard.names == {"valid", "flag"}
    ready = compile_guard(expand(parse("ready and false"), guards))
    assert ready({"valid": True, "flag": None}) is False


def test_problems_inside_a_named_guard_are_reported_at_its_name():
    guards = named(ready='choice == "x" and zzz')
    text = "valid and ready"
    found = check(expand(parse(text), guards), NAMES)
    assert [marked(text, one) for one in found] == ["ready", "ready"]


def test_expanding_leaves_the_named_guards_as_they_are():
    guards = named(ready="not valid")
    expand(parse("valid and ready"), guards)
    assert (guards["ready"].tree.col_offset, guards["ready"].names) == (0, {"valid"})


def test_a_guard_without_named_guards_stays_the_same_one():
    guard = parse("valid")
    assert expand(guard, named(ready="valid")) is guard


@pytest.mark.parametrize(
    ("guards", "circle"),
    [
        ({"a": "a"}, "a -> a"),
        ({"a": "b and valid", "b": "not c", "c": "a"}, "a -> b -> c -> a"),
        ({"a": "b", "b": "c or valid", "c": "not b"}, "b -> c -> b"),
    ],
)
def test_named_guards_in_a_circle_are_refused_with_the_way_round(
    guards: dict[str, str], circle: str
):
    found = refusal("valid and a", lambda text: expand(parse(text), named(**guards)))
    assert found.message == f"named guards use each other in a cycle: {circle}"
    assert (found.column, found.length, found.code) == (11, 1, "named-guard")


def test_a_chain_of_named_guards_that_doubles_is_refused_at_once():
    guards = named(g0="valid", **{f"g{n}": f"g{n - 1} and g{n - 1}" for n in range(1, 60)})
    with pytest.raises(GuardError, match="more than 2,000 names"):
        expand(parse("g40"), guards)


@pytest.mark.parametrize("step", ["g{}", "not g{}"])
def test_a_chain_of_thousands_of_named_guards_is_refused(step: str):
    guards = named(g0="valid", **{f"g{n}": step.format(n - 1) for n in range(1, 3000)})
    with pytest.raises(GuardError, match="nested more than 100 deep"):
        expand(parse("g2999"), guards)


def test_a_guard_as_deep_as_allowed_is_checked_and_compiled():
    deep = parse("(a and ".join([""] * 30) + "a" + ")" * 29)
    guard = expand(parse("not (x or y)"), {"x": deep})
    types = {"a": GuardType("bool"), "y": GuardType("bool")}
    assert check(guard, types) == []
    assert compile_guard(guard)({"a": False, "y": False}) is True


# Requirements

DATA = {
    "name": "plan",
    "size": 3,
    "ratio": 1.0,
    "done": True,
    "none": None,
    "tags": ["a", 1, True],
    "meta": {"id": "x", "count": 9},
    "nodes": [{"id": "n"}, {"id": "m"}],
    "index": "own",
}
AROUND = {"item": {"id": 7}, "index": 4, "artifact": {"nodes": [1, 2]}, "input": {"max": 3}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('name == "plan"', True),
        ('name == "Plan"', False),
        ("size == 3.0", True),
        ("ratio == 1", True),
        ("done == 1", False),
        ("done != 1", True),
        ("done == true", True),
        ("done", True),
        ("size", False),
        ("not size", True),
        ("missing == none", True),
        ("missing.deeper.still == none", True),
        ("name.first == none", True),
        ("missing", False),
        ("not missing", True),
        ("size < 4", True),
        ("size <= 3 and size >= 3.0", True),
        ("missing < 4", False),
        ("missing >= 4", False),
        ("name < 4", False),
        ('name < "zebra"', True),
        ("done < 4", False),
        ("done < size", False),
        ("size < input.max", False),
        ("size == input.max", True),
        ('"a" in tags', True),
        ('"z" in tags', False),
        ("1 in tags", True),
        ("0 in tags", False),
        ("size in tags", False),
        ('"la" in name', True),
        ("3 in name", False),
        ('"id" in meta', True),
        ('"x" in meta', False),
        ('"a" in missing', False),
        ('"a" not in missing', True),
        ('name in ["plan", "draft"]', True),
        ("done in [1, 2]", False),
        ("nodes == nodes", False),
        ("nodes != nodes", True),
        ("nodes.count == 2", True),
        ("name.count == 4", True),
        ("meta.count == 9", True),
        ("size.count == none", True),
        ("missing.count == none", True),
        ("missing.count > 0", False),
        ("item.count == 1", True),
        ("count == none", True),
        ("item.id == 7", True),
        ('index == "own"', True),
        ("artifact.nodes.count <= nodes.count", True),
        ("(size == 3) == done", True),
    ],
)
def test_a_requirement_means_the_same_on_whatever_data_there_is(text: str, expected: bool):
    assert parse_requirement(text).holds(DATA, AROUND) is expected


def test_a_scalar_item_is_reached_as_item():
    requirement = parse_requirement("item > 2 and index == 0")
    assert requirement.holds(3, {"item": 3, "index": 0})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('1 < "a"', '`1` is a number and `"a"` is a text'),
        ('name == "a" or "b"', '`"b"` is a text, not true or false'),
        ("1 == true", "`1` is a number and `true` is true or false"),
        ("3", "`3` is a number, not true or false"),
        ("name ==", "a value is missing after `==`"),
        ("x < none", "none is neither less nor more"),
        ("done > false", "`false` is true or false: it has no order"),
        ("nodes[0] == 1", "guards have no subscripts"),
    ],
)
def test_a_requirement_that_no_data_can_meet_is_refused(text: str, said: str):
    assert refusal(text, parse_requirement).message == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["valid", "input", "x", "count", "codes"]), inner)
    ),
    max_leaves=8,
)


@given(SOUP, JSON, JSON)
def test_a_requirement_is_true_or_false_on_any_data(text: str, value: object, item: object):
    try:
        requirement = parse_requirement(text)
    except GuardError:
        return
    assert type(requirement.holds(value, {"item": item, "input": item})) is bool


@given(JSON, st.sampled_from(["x", "input.x", "codes.count", "1", '"t"', "none"]))
def test_not_equal_is_the_opposite_of_equal_on_any_data(value: object, other: str):
    equal = parse_requirement(f"x == {other}").holds(value, {})
    assert parse_requirement(f"x != {other}").holds(value, {}) is not equal


# Paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("name", [("name", "plan")]),
        ("meta.id", [("meta.id", "x")]),
        ("nodes[].id", [("nodes[0].id", "n"), ("nodes[1].id", "m")]),
        ("tags[]", [("tags[0]", "a"), ("tags[1]", 1), ("tags[2]", True)]),
        ("nodes[].missing", [("nodes[0].missing", None), ("nodes[1].missing", None)]),
        ("nodes[].missing[].id", []),
        ("missing.id", [("missing.id", None)]),
        ("name.id", [("name.id", None)]),
        ("name[]", []),
    ],
)
def test_a_path_leads_to_values_with_their_places(path: str, expected: list[tuple[str, object]]):
    assert select(path, DATA) == expected


def test_brackets_alone_are_the_items_of_a_list_at_the_root():
    assert select("[]", [1, 2]) == [("[0]", 1), ("[1]", 2)]
    assert select("[].id", [{"id": 1}]) == [("[0].id", 1)]
    assert select("[][]", [[1], [2, 3]]) == [("[0][0]", 1), ("[1][0]", 2), ("[1][1]", 3)]
    assert select("[]", {"id": 1}) == [("id", 1)]
    assert select("tasks[].id", {"tasks": {"a": {"id": 1}}}) == [("tasks.a.id", 1)]
    assert select("[]", 1) == []


def test_a_path_is_its_steps():
    assert parse_path("nodes[].file-path") == ("nodes", "[]", "file-path")


@pytest.mark.parametrize(
    ("path", "column"),
    [("", 1), (".a", 1), ("a.", 2), ("a..b", 2), ("a[0]", 2), ("a b", 2), ("[]a", 3), ("a.1", 2)],
)
def test_a_malformed_path_is_refused_where_it_goes_wrong(path: str, column: int):
    found = refusal(path, parse_path)
    assert found.column == column
    assert "nodes[].id" in found.help


@given(st.text(alphabet="ab.[]-1 é", max_size=12), JSON)
def test_any_path_selects_or_is_refused(path: str, data: object):
    try:
        found = select(path, data)
    except GuardError:
        return
    assert all(isinstance(place, str) for place, _ in found)
