"""Templates: what they print, cannot reach and cannot cost, and what is checked before."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopkit.language.template.errors import TemplateError
from loopkit.language.template.grammar import Anything, Fields, Items, Scalar
from loopkit.language.template.rendering import _compile, check, parse
from loopkit.language.template.sandbox import FILTERS, TESTS, FieldedText, fence_as_data, mark_of

FINDING = Fields({"message": Scalar(), "code": Scalar(), "at": Scalar(optional=True)})
SHAPES = {
    "input": Fields({"issue": Scalar(), "note": Scalar(optional=True), "tags": Items(Scalar())}),
    "findings": Items(FINDING),
    "plan": Fields({"goal": Scalar(), "items": Items(Scalar())}),
    "previous": Anything(optional=True),
    "answer": Fields({"comment": Scalar()}, others=Anything(), optional=True),
    "feedback": Scalar(),
}
DATA = {
    "input": {"issue": "It {{ breaks }}", "tags": ["b", "a"]},
    "findings": [
        {"message": "no goal", "code": "goal"},
        {"message": "too short", "code": "size"},
        {"message": "no steps", "code": "goal"},
    ],
    "plan": FieldedText("# Plan", {"goal": "g", "items": [1, 2]}),
    "feedback": "do better",
}


def rendered(text: str, /, **names: object) -> str:
    return parse(text).render({**DATA, **names})


def refused(text: str) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        parse(text)
    return caught.value


def failed(text: str, /, **names: object) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        rendered(text, **names)
    return caught.value


def problems(text: str) -> list[TemplateError]:
    return check(parse(text), SHAPES)


def marked(text: str, error: TemplateError) -> str:
    line = text.split("\n")[error.line - 1]
    return line[error.column - 1 : error.column - 1 + error.length]


# What is printed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("ends in a line end\n", "ends in a line end\n"),
        ("{{ input.issue }}", "It {{ breaks }}"),
        ("{{ input['issue'] }}", "It {{ breaks }}"),
        ("{{ plan }} for {{ plan.goal }}", "# Plan for g"),
        ("{{ plan.items }}", "[1, 2]"),
        ("{{ input.tags }}", '["b", "a"]'),
        ("{{ input.tags[0] }}{{ input.tags.1 }}{{ input.tags[-1] }}", "baa"),
        ("{{ {'k': [true, none, 1.5, 'é\"']} }}", '{"k": [true, null, 1.5, "é\\""]}'),
        ("{{ true }} {{ false }} {{ none }} {{ 3 }} {{ 0.1 }}", "true false  3 0.1"),
        ("{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 7 % 4 }} {{ -(2 - 3) }}", "7 3 3.5 3 1"),
        ("{{ 'a' ~ 1 ~ true ~ none ~ ['x'] }}", 'a1true["x"]'),
        ("{{ 'a' + 'b' }}{{ [1] + [2] }}{{ '=' * 5 }}", "ab[1, 2]====="),
        ("{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' in 'abc' }}", "true false true"),
        ("{{ [1, 2, 3][1:] }} {{ 'abc'[::2] }}", "[2, 3] ac"),
        ("{{ 'yes' if input.tags else 'no' }}", "yes"),
        ("{{ range(3) }} {{ range(1, 6, 2) | list }}", "[0, 1, 2] [1, 3, 5]"),
        ("{% raw %}{{ x }}{% endraw %}{# gone #}", "{{ x }}"),
        ("{% set x = 2 %}{{ x + 1 }}", "3"),
        ("{% for x in 'ab' %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/2 2/2 "),
        (
            "{% for x in 'ab' %}{{ loop.first }}{{ loop.previtem | d('-') }} {% endfor %}",
            "true- falsea ",
        ),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x }}", "a1"),
        ("{% filter upper %}a{{ plan.goal }}{% endfilter %}", "AG"),
    ],
)
def test_a_template_prints_what_it_says(text: str, expected: str):
    assert rendered(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  {% for x in [1, 2] %}\n- {{ x }}\n  {% endfor %}\nEnd\n", "- 1\n- 2\nEnd\n"),
        ("{% if 1 %}  {% else %}{% endif %} \n\nb\n\t{# no #}\n", "\nb\n"),
        ("{% set x = [1,\n2] %}\n{#\nno\n#}\n{{ x }}", "[1, 2]"),
        ("{% raw %}\n  {% if %}\n{% endraw %}\n{% raw %}{% endraw %}\nb", "  {% if %}\nb"),
        ("{% if 1 %}\r\na\r\n{% endif %}\r\nb", "a\nb"),
        (
            "{% for x in [1, 2] %}\n- {{ x }}{% if x > 1 %} (hot){% endif %}\n{% endfor %}\nEnd",
            "- 1\n- 2 (hot)\nEnd",
        ),
        ("a {# no #}\n  {% if 1 %}b{% endif %}\n{{ 2 }}{% set x = 1 %}\nc", "a \n  b\n2\nc"),
        ("a {% set x = [1,\n2] %}\nb {#\n#}\nc", "a \nb \nc"),
        ("a{% raw %} {%{% endraw %}\n{{ 'b\n' }}{% if 1 %}\nc{% endif %}", "a {%\nb\n\nc"),
        ("{{ 1 -}}\n  {% if 1 %}\n 2{% endif %}", "1 2"),
    ],
)
def test_a_line_of_tags_alone_leaves_nothing_behind_and_one_with_text_stays_a_line(
    text: str, expected: str
):
    assert rendered(text) == expected


def test_a_sign_in_a_tag_says_what_becomes_of_its_line():
    loop = "A:\n{%- for x in [1, 2] %}\n- {{ x }}\n{%- endfor %}\n{%+ if 1 %}\nb {% if 1 -%}\n c"
    assert rendered(f"{loop}{{% endif %}}{{% endif %}}") == "A:\n- 1\n- 2\n\nb c"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ findings | map(attribute='code') | unique | join(', ') }}", "goal, size"),
        ("{{ findings | join('; ', attribute='message') }}", "no goal; too short; no steps"),
        (
            "{{ findings | selectattr('code', 'eq', 'size') | join(attribute='message') }}",
            "too short",
        ),
        ("{% for k, v in plan_data | items %}{{ k }}={{ v }};{% endfor %}", "a=1;b=[2];"),
        (
            "{% for code, all in findings | groupby('code') %}{{ code }}{{ all | count }}"
            "{% endfor %}",
            "goal2size1",
        ),
        (
            "{% for g in findings | groupby('code') %}{{ g.grouper }}{{ g.list | count }}"
            "{% endfor %}",
            "goal2size1",
        ),
        ("{{ input.tags | sort | join }} {{ input.tags | reverse | list }}", 'ab ["a", "b"]'),
        (
            "{{ [3, 1, 2] | max }} {{ [3, 1, 2] | sum }} {{ [{'n': 2}] | sum(attribute='n') }}",
            "3 6 2",
        ),
        (
            "{{ [1, 2, 3] | batch(2) }} {{ [1, 2, 3] | batch(2, 0) }}",
            "[[1, 2], [3]] [[1, 2], [3, 0]]",
        ),
        ("{{ 'a\nb\n\nc' | indent(2) }}", "a\n  b\n\n  c"),
        ("{{ 'a\n\nb' | indent('> ', first=true, blank=true) }}", "> a\n> \n> b"),
        ("{{ 'ab cd ef' | truncate(7) }} {{ 'abc' | truncate(3) }}", "ab... abc"),
        ("{{ 'abcdef' | truncate(5, true, '…') }}", "abcd…"),
        ("{{ 'a-b' | replace('-', '+') }} {{ ' a ' | trim }} {{ 'a' | center(3) }}|", "a+b a  a |"),
        ("{{ 'don\\'t stop' | title }} {{ 'aB' | lower | upper | capitalize }}", "Don't Stop Ab"),
        ("{{ 'one two, three' | wordcount }}", "3"),
        ("{{ '%.2f of %s' | format(0.5, ['x']) }}", '0.50 of ["x"]'),
        (
            "{{ 2.345 | round(1) }} {{ '7' | int + 1 }} {{ '0.5' | float }} {{ -1 | abs }}",
            "2.3 8 0.5 1",
        ),
        ("{{ {'b': 1} | tojson }} {{ {'b': 1} | tojson(indent=1) }}", '{"b": 1} {\n "b": 1\n}'),
        ("{{ [] | upper }}{{ {'a': none} | string }}", '[]{"a": null}'),
        (
            "{{ 3 is odd }} {{ 'a' is string }} {{ plan_data is mapping }} {{ 1 is in [1] }}",
            "true true true true",
        ),
        (
            "{{ no | default('x') }} {{ no.at.all | d('y') }} {{ none | default('z', true) }}",
            "x y z",
        ),
        ("{{ nothing is defined }} {{ nothing is none }} {{ none is none }}", "false true true"),
        ("{{ [1, 2] is sharing([2]) }} {{ 'ab' is sharing('a') }}", "true false"),
        ("{{ 'a' is sharing({'a': 0}) }} {{ [none] is sharing(none) }}", "true false"),
    ],
)
def test_filters_and_tests_work_on_plain_data(text: str, expected: str):
    assert rendered(text, plan_data={"a": 1, "b": [2]}) == expected


def test_every_filter_and_test_of_the_language_compiles():
    for name in FILTERS:
        _compile(parse(f"{{{{ x | {name} }}}}").text)
    for name in TESTS:
        _compile(parse(f"{{{{ x is {name} }}}}").text)


def test_braces_in_inserted_text_are_inert():
    attack = "{{ 7 * 7 }}{% for x in range(9) %}{# #}"
    assert rendered(
        "{{ a }}|{{ b.c }}|{{ d | upper }}", a=attack, b={"c": attack}, d="{{ e }}"
    ) == (f"{attack}|{attack}|{{{{ E }}}}")


def test_the_names_given_are_not_changed():
    names = {"xs": [3, 1], "d": {"k": [1]}}
    before = repr(names)
    parse("{% set xs = xs + [2] %}{{ xs | sort | reverse | list }}{{ d.k }}").render(names)
    assert repr(names) == before


def test_the_same_text_is_parsed_once():
    assert parse("{{ same }}") is parse("{{ same }}")


# Texts with fields


def test_a_text_with_fields_is_that_text():
    text = FieldedText("body", {"goal": "g"})
    assert (text, text + "!", text.fields["goal"]) == ("body", "body!", "g")
    assert type(rendered("{{ x }}", x=text)) is str


def test_the_fields_of_a_text_cannot_be_changed():
    given_fields = {"goal": "g"}
    text = FieldedText("body", given_fields)
    given_fields["goal"] = "other"
    assert text.fields == {"goal": "g"}
    with pytest.raises(TypeError):
        text.fields["goal"] = "x"


def test_the_fields_of_a_text_win_over_its_methods():
    assert (
        rendered("{{ x.upper }}{{ x.items }}", x=FieldedText("", {"upper": 1, "items": 2})) == "12"
    )


# What cannot be reached


class Spy:
    secret = "leaked"

    def method(self) -> str:
        return "leaked"


@pytest.mark.parametrize(
    "path",
    [
        "x.secret",
        "x.method",
        "x.__class__",
        "x['__class__']",
        "text.__class__",
        "text.upper",
        "text['format']",
        "data.keys",
        "data.__class__",
        "list.append",
        "list.__len__",
        "number.real",
        "fielded.fields",
        "fielded.encode",
        "none.__class__",
    ],
)
def test_no_method_and_no_attribute_of_an_object_can_be_reached(path: str):
    names = {
        "x": Spy(),
        "text": "abc",
        "data": {"a": 1},
        "list": [1],
        "number": 3,
        "fielded": FieldedText("abc", {"a": 1}),
    }
    assert parse(f"{{{{ {path} is defined }}}}").render(names) == "false"
    assert failed(f"{{{{ {path} }}}}", **names).code == "missing-value"


@pytest.mark.parametrize("name", ["cycle", "changed", "_length", "__class__", "depth"])
def test_a_loop_has_its_places_and_nothing_else(name: str):
    text = "{% for x in [1] %}{{ loop." + name + " is defined }}{% endfor %}"
    assert rendered(text) == "false"


@pytest.mark.parametrize("name", ["self", "context", "environment", "caller", "varargs", "super"])
def test_nothing_of_the_template_engine_can_be_printed(name: str):
    assert failed(f"{{{{ {name} }}}}").code in ("missing-value", "template-data")


def test_an_object_that_is_no_data_cannot_be_printed():
    for text in ("{{ x }}", "{{ [x] }}", "{{ x ~ '' }}", "{{ x | upper }}", "{{ x | tojson }}"):
        assert failed(text, x=Spy()).message == "a value of type `Spy` cannot be printed"


@pytest.mark.parametrize(
    ("text", "word", "said"),
    [
        ("a\n{% include 'x' %}", "include", "templates have no `include`"),
        ("{% import 'x' as y %}", "import", "templates have no `import`"),
        ("{% from 'x' import y %}", "import", "templates have no `import`"),
        ("{% extends 'x' %}", "extends", "templates have no `extends`"),
        ("{% block a %}{% endblock %}", "block", "templates have no `block`"),
        ("{% macro m() %}{% endmacro %}", "macro", "templates have no `macro`"),
        ("{% call m() %}{% endcall %}", "call", "templates have no `call`"),
        ("{% with a = 1 %}{% endwith %}", "with", "templates have no `with`"),
        (
            "\n{% autoescape true %}{% endautoescape %}",
            "autoescape",
            "templates have no `autoescape`",
        ),
        ("{% set ns.a = 1 %}", "{% set ns.a = 1 %}", "templates have no `namespace`"),
        ("{{ 2 ** 3 }}", "**", "templates have no `**`"),
        ("{% do x %}", "do", "unknown tag `do`"),
        ("{{ x() }}", "x", "templates call no functions and no methods"),
        ("{{ input.issue.upper() }}", "upper", "templates call no functions and no methods"),
        ("{{ ''.join([]) }}", "join", "templates call no functions and no methods"),
        ("{{ x | uper }}", "uper", "unknown filter `uper`"),
        ("{{ x | attr('y') }}", "attr", "unknown filter `attr`"),
        ("{{ x | safe }}", "safe", "unknown filter `safe`"),
        ("{{ x is callable }}", "callable", "unknown test `callable`"),
    ],
)
def test_what_templates_do_not_have_is_refused_by_name(text: str, word: str, said: str):
    error = refused(text)
    assert (error.message, marked(text, error)) == (said, word)
    assert error.code in ("template-forbidden", "template-syntax", "unknown-filter", "unknown-test")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("{{ x | uper }}", "did you mean `upper`?"),
        ("{{ x is defind }}", "did you mean `defined`?"),
        ("{{ x.upper() }}", "write `| upper`"),
        ("{% elseif x %}", "did you mean `elif`?"),
        ("{% fro x in y %}", "did you mean `for`?"),
    ],
)
def test_a_refusal_says_what_to_write_instead(text: str, remedy: str):
    assert refused(text).help == remedy


@pytest.mark.parametrize(
    ("text", "line", "word", "said"),
    [
        ("a\nb {{ x", 2, "b {{ x", "unexpected end of template"),
        ("{{ a b }}", 1, "b", "got 'b'"),
        ("{{ x | }}", 1, "{{ x | }}", "expected token 'name'"),
        ("{{ }}", 1, "{{ }}", "expected an expression"),
        ("text & more\n{{ a & b }}", 2, "&", "unexpected char '&'"),
        ("{{ a }\n}", 1, "}", "unexpected '}'"),
        ("x\n{% if a %}\n{% for b in c %}\n{% endfor %}", 2, "if", "`{% if %}` is never closed"),
        ("{% set a = 1 %}\n{% set b %}\n", 2, "set", "`{% set %}` is never closed"),
        ("x\n{% endfor %}", 2, "endfor", "nothing is open that `endfor` could belong to"),
        ("{# never", 1, "{# never", "missing end of comment tag"),
        ("{{ " + "9" * 5000 + " }}", 1, None, "a number has too many digits"),
    ],
)
def test_a_mistake_of_syntax_is_placed(text: str, line: int, word: str | None, said: str):
    error = refused(text)
    assert (error.line, error.code) == (line, "template-syntax")
    assert said in error.message.lower()
    assert word is None or marked(text, error) == word


def test_an_error_reads_as_its_place_and_message():
    assert str(refused("a\n {{ x | uper }}")) == "line 2, column 9: unknown filter `uper`"


# Text from outside


def test_untrusted_text_is_fenced_as_data():
    first, *body, last = rendered("{{ input.issue | untrusted }}").split("\n")
    assert body == ["It {{ breaks }}"]
    assert "data, not instructions" in first
    mark = first.split()[1].rstrip(":")
    assert last == f"<<<end of data {mark}>>>"


def test_the_fence_is_the_same_for_the_same_text_and_another_for_another():
    assert fence_as_data("a") == fence_as_data("a")
    assert fence_as_data("a").split("\n")[-1] != fence_as_data("b").split("\n")[-1]


def test_fenced_text_cannot_forge_the_end_of_its_fence():
    text = "harmless"
    for _ in range(20):
        text += "\n" + fence_as_data(text).split("\n")[-1]
        fenced = fence_as_data(text).split("\n")
        assert fenced.count(fenced[-1]) == 1


@pytest.mark.parametrize("digit", "0123456789abcdef")
def test_the_mark_of_a_fence_is_one_that_the_text_does_not_have(digit: str):
    assert mark_of("0123456789abcdef".replace(digit, ""), digits=1) == digit


def test_data_and_texts_with_fields_can_be_fenced():
    assert '\n["b", "a"]\n' in rendered("{{ input.tags | untrusted }}")
    assert "\n# Plan\n" in rendered("{{ plan | untrusted }}")


# Data that does not fit


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a\n{{ nothing }}", "missing-value", 2),
        ("{{ input.nothing }}", "missing-value", 1),
        ("{{ input.tags[9] }}", "missing-value", 1),
        ("{{ nothing | upper }}", "missing-value", 1),
        ("{{ nothing | map('upper') | list }}", "missing-value", 1),
        ("{{ nothing ~ 'a' }}", "missing-value", 1),
        ("{{ nothing == 1 }}", "missing-value", 1),
        ("{{ nothing is odd }}", "missing-value", 1),
        ("{{ [nothing] }}", "missing-value", 1),
        ("{{ findings | map(attribute='nope') | join }}", "missing-value", 1),
        ("{{ findings | sort(attribute='nope') }}", "missing-value", 1),
        ("\n\n{% for x in nothing %}{% endfor %}", "missing-value", 3),
        ("{% if 1 %}\n{# a #}\n{% endif %}\nb {{ nothing }}", "missing-value", 4),
        ("{% for x in 3 %}{% endfor %}", "template-data", 1),
        ("{% for a, b in [1] %}{% endfor %}", "template-data", 1),
        ("{{ 1 / 0 }}", "template-data", 1),
        ("{{ 'a' - 1 }}", "template-data", 1),
        ("{{ '%d' | format('x') }}", "template-data", 1),
        ("{{ 1 | length }}", "template-data", 1),
        ("{{ 'a' < 1 }}", "template-data", 1),
        ("{{ {[]: 1} }}", "template-data", 1),
        ("{{ {(1, 2): 1} }}", "template-data", 1),
        ("{{ ['a'] | sum }}", "template-data", 1),
        ("{{ nan }}", "template-data", 1),
    ],
)
def test_data_that_does_not_fit_is_an_error_in_its_line(text: str, code: str, line: int):
    error = failed(text, nan=float("nan"))
    assert (error.code, error.line) == (code, line)
    assert error.__cause__ is not None


def test_a_missing_value_is_false_in_a_condition_and_nowhere_else():
    assert rendered("{% if nothing %}a{% elif not nothing.x %}b{% endif %}") == "b"
    assert rendered("{{ nothing or 'c' }}") == "c"
    assert failed("{{ nothing and 'c' }}").code == "missing-value"


def test_what_is_missing_is_named_not_what_is_read_from_it():
    assert "'nothing'" in failed("{{ nothing.at.all }}").message
    assert "`tag`" in failed("{{ input.tag.first.second }}").message


# Bounds

BIG = "word wörd\n" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'x' * 1000000000 }}",
        "{{ [0] * 1000000000 }}",
        "{{ range(1001) }}",
        "{{ range(1000000000000) }}",
    ],
)
def test_a_single_huge_operation_is_refused_before_it_starts(text: str):
    started = time.process_time()
    assert failed(text).code in ("template-limit", "template-data")
    assert time.process_time() - started < 1


def test_the_loops_of_one_rendering_go_round_at_most_100_000_times():
    text = "{% for a in range(1000) %}{% for b in range(99) %}{% endfor %}{% endfor %}"
    assert rendered(text) == ""
    assert "100,000 times" in failed(text + text).message
    assert rendered(text) == ""  # each rendering has a budget of its own


def test_a_template_prints_at_most_two_million_characters():
    assert len(rendered("{{ a }}{{ a }}", a="x" * 1_000_000)) == 2_000_000
    assert "2,000,000 characters" in failed("{{ a }}{{ a }}!", a="x" * 1_000_000).message


def test_what_people_write_is_far_from_the_bounds():
    findings = [{"message": "a" * 100, "code": "c", "line": n} for n in range(5_000)]
    text = (
        "{% for f in findings %}\n- {{ loop.index }}. {{ f.message | indent(2) }}"
        "{{ ' (line %s)' | format(f.line) if f.line > 3 else '' }}\n{% endfor %}"
    )
    assert rendered(text, findings=findings).count("\n") == 5_000


def test_a_template_has_at_most_100_000_characters():
    assert parse("x" * 100_000)
    assert "at most 100,000" in refused("x" * 100_001).message


@pytest.mark.parametrize(
    "text",
    [
        "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
        "{{ " + "[" * 200 + "]" * 200 + " }}",
        "{{ " + "not " * 3_000 + "1 }}",
        "{{ 1" + " + 1" * 20_000 + " }}",
        "{{ a" + ".b" * 40_000 + " }}",
        "{{ a" + " | d" * 20_000 + " }}",
        "{% if a %}" * 60 + "{% endif %}" * 60,
        "{% if a %}" * 5_000,
        "{% for a in b %}" * 11 + "{% endfor %}" * 11,
    ],
)
def test_deep_nesting_is_refused_and_breaks_nothing(text: str):
    assert refused(text).code in ("template-limit", "template-syntax")


def test_nesting_as_deep_as_allowed_compiles():
    for text in (
        "{% for a in [1] %}" * 10 + "{{ a }}" + "{% endfor %}" * 10,
        "{% if true %}" * 45 + "1" + "{% endif %}" * 45,
        "{{ " + "[" * 46 + "1" + "]" * 46 + " | length }}",
        "{{ 1" + " + 0" * 46 + " }}",
        "{{ 1" + " and 1" * 46 + " }}",
        "{{ 1" + " | d" * 46 + " }}",
    ):
        assert rendered(text) == "1"


def test_data_nested_thousands_deep_cannot_be_printed_and_breaks_nothing():
    deep: list[object] = []
    for _ in range(200_000):
        deep = [deep]
    assert failed("{{ deep }}", deep=deep).code == "template-limit"


# What a template reads


@pytest.mark.parametrize(
    ("text", "names", "paths"),
    [
        ("plain", set(), set()),
        ("{{ input.issue }}", {"input"}, {("input", "issue")}),
        ("{{ input['issue'] }} {{ plan }}", {"input", "plan"}, {("input", "issue"), ("plan",)}),
        ("{% for f in findings %}{{ f.code }}{% endfor %}", {"findings"}, {("findings",)}),
        ("{% set x = plan.goal %}{{ x.y }}", {"plan"}, {("plan", "goal")}),
        ("{{ x }}{% set x = 1 %}{{ x }}", {"x"}, {("x",)}),
        ("{% for x in y %}{% endfor %}{{ x }}", {"x", "y"}, {("x",), ("y",)}),
        (
            "{{ (a or b.c) | default(d[e.f]) }}",
            set("abde"),
            {("a",), ("b", "c"), ("d",), ("e", "f")},
        ),
        ("{% if a is defined and b.c > 1 %}{% endif %}", {"a", "b"}, {("a",), ("b", "c")}),
    ],
)
def test_a_template_knows_what_it_reads(text: str, names: set[str], paths: set[tuple[str, ...]]):
    template = parse(text)
    assert (template.names, template.paths) == (names, paths)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("{{ task }}", ("task",)),
        ("{{ input.task }}", ("input", "task")),
        ("{{input['task']}}", ("input", "task")),
        (" {{ task }}", None),
        ("{{ task }}\n", None),
        ("{{ task }}{{ task }}", None),
        ("{{ task | upper }}", None),
        ("{{ 'task' }}", None),
        ("task", None),
        ("", None),
    ],
)
def test_one_expression_and_nothing_else_is_known_as_such(text: str, whole: tuple[str, ...] | None):
    assert parse(text).whole == whole


# What is checked before


@pytest.mark.parametrize(
    ("text", "line", "word", "said", "remedy"),
    [
        ("{{ inptu.issue }}", 1, "inptu", "unknown name `inptu`", "did you mean `input`?"),
        ("a\n  b {{ input.isue }}", 2, "isue", "`input` has no field `isue`", "`issue`"),
        ("{{ input['isue'] }}", 1, "isue", "`input` has no field `isue`", "`issue`"),
        (
            "{% for finding in findings %}\n- {{ finding.mesage }}\n{% endfor %}",
            2,
            "mesage",
            "`finding` has no field `mesage`",
            "`message`",
        ),
        ("isue: {{ input.isue }}", 1, "isue", "`input` has no field `isue`", "`issue`"),
        ("{{ feedback.x }}", 1, "x", "`feedback` has no field `x`", "single value"),
        ("{{ findings.message }}", 1, "message", "`findings` has no field `message`", "a list"),
        ("{{ findings[0].mesage }}", 1, "mesage", "this has no field `mesage`", "`message`"),
        ("{{ (findings | first).mesage }}", 1, "mesage", "this has no field `mesage`", "`message`"),
        ("{% set x = findings[0] %}{{ x.mes }}", 1, "mes", "`x` has no field `mes`", "`message`"),
        ("{{ findings | map(attribute='mesage') }}", 1, "mesage", "this has no field", "`message`"),
        ("{{ findings | groupby('coed') }}", 1, "coed", "this has no field `coed`", "`code`"),
        ("{% for f in findings %}{{ loop.idx }}{% endfor %}", 1, "idx", "`loop` has no", "`index`"),
        ("{{ input.note }}", 1, "note", "`input.note` may be missing here", "{% if input.note %}"),
        ("{{ previous }}", 1, "previous", "`previous` may be missing here", "default"),
        ("{{ previous.x.y }}", 1, "previous", "`previous` may be missing here", "default"),
        ("{% for x in previous %}{% endfor %}", 1, "previous", "`previous` may be", "default"),
        ("{{ plan.goal if plan }}", 1, "if", "this `if` has no `else`", "else"),
        ("{% if inptu %}{% endif %}", 1, "inptu", "unknown name `inptu`", "`input`"),
        ("{{ inptu | default('') }}", 1, "inptu", "unknown name `inptu`", "`input`"),
        ("{{ inptu is defined }}", 1, "inptu", "unknown name `inptu`", "`input`"),
        ("{% for x in plan.items if x.y %}{% endfor %}", 1, "y", "`x` has no field `y`", "single"),
        ("{% set a %}{{ inptu }}{% endset %}", 1, "inptu", "unknown name `inptu`", "`input`"),
        ("{% filter indent(zzz) %}{% endfilter %}", 1, "zzz", "unknown name `zzz`", "allowed"),
        ("{{ [1, {'a': zzz}, (2, zzz)] }}", 1, "zzz", "unknown name `zzz`", "allowed"),
        (
            "{% if previous and previous.at %}{% for previous in findings %}{{ previous.at }}"
            "{% endfor %}{% endif %}",
            1,
            "at",
            "`previous.at` may be missing here",
            "default",
        ),
        ("{{ range(zzz) }}", 1, "zzz", "unknown name `zzz`", "allowed: `answer`, `feedback`"),
        ("{{ plan.items[zzz:] }}", 1, "zzz", "unknown name `zzz`", "allowed"),
        ("{{ 1 is divisibleby(zzz) }}", 1, "zzz", "unknown name `zzz`", "allowed"),
        ("{% for x in findings %}{% endfor %}{{ x }}", 1, "x", "unknown name `x`", "allowed"),
        ("{% if plan %}{% set a = 1 %}{% endif %}\n{{ a }}", 2, "a", "`a` may be missing", "if a"),
    ],
)
def test_a_name_or_field_that_is_not_there_is_reported_where_it_stands(
    text: str, line: int, word: str, said: str, remedy: str
):
    first = problems(text)[0]
    assert (first.line, marked(text, first)) == (line, word)
    assert first.message.startswith(said)
    assert remedy in first.help


@pytest.mark.parametrize(
    "text",
    [
        "{{ input.issue }}{{ plan }}{{ plan.goal }}{{ findings }}",
        "{% for f in findings %}{{ loop.index }}{{ f.message }}{% endfor %}",
        "{% for f in findings if f.at %}{{ f.at }}{% else %}none{% endfor %}",
        "{% if input.note %}{{ input.note }}{% endif %}",
        "{% if input.note is defined %}{{ input.note }}{% endif %}",
        "{% if input.note is not none %}{{ input.note }}{% endif %}",
        "{% if not input.note %}-{% else %}{{ input.note }}{% endif %}",
        "{% if input.note is undefined %}{% elif previous %}{{ input.note }}{% endif %}",
        "{% if previous and previous.x %}{{ previous.x }}{% endif %}",
        "{% if previous and answer.comment %}{{ answer.comment }}{{ previous }}{% endif %}",
        "{{ input.note | default('-') }}{{ previous.x.y | d('') }}{{ input.note or '' }}",
        "{{ input.note if input.note else '-' }}{{ '-' if not previous else previous.x }}",
        "{{ input.note is defined }}{{ previous is none }}",
        "{% if answer %}{{ answer.comment }}{{ answer.other.field }}{% endif %}",
        "{% set n = input.note | default('-') %}{{ n }}",
        "{% if plan %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}",
        "{% for a, b in input | items %}{{ a }}{{ b }}{% endfor %}",
        "{% for code, all in findings | groupby('code') %}{{ all[0].message }}{% endfor %}",
        "{{ findings | map(attribute='message') | join(', ') }}{{ (findings | first).message }}",
        "{{ findings | selectattr('at') | sort(attribute='code') | list }}",
        "{% for f in findings | reverse %}{{ f.message }}{% endfor %}{{ findings[:2][0].code }}",
        "{% set input = {'x': 1} %}{{ input.x }}",
        "{% for f in findings %}{{ (loop.previtem | default(f)).message }}{% endfor %}",
    ],
)
def test_a_use_that_cannot_fail_is_no_problem(text: str):
    assert problems(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "{% if input.note %}{% endif %}{{ input.note }}",
        "{% if input.note or plan %}{{ input.note }}{% endif %}",
        "{% if not input.note %}{{ input.note }}{% endif %}",
        "{% if input.note is none %}{{ input.note }}{% endif %}",
        "{% if plan %}{{ input.note }}{% endif %}",
        "{{ input.note if plan else '' }}",
        "{{ input.note and plan }}",
        "{{ input.note | upper }}",
        "{{ input.note ~ '' }}",
        "{{ input.note == 'a' }}",
    ],
)
def test_a_condition_that_proves_nothing_helps_nothing(text: str):
    assert [error.message for error in problems(text)] == ["`input.note` may be missing here"]


def test_a_place_is_inside_the_braces_where_the_word_is_outside_them_too():
    (found,) = problems("inptu: {# #}{{ plan }}, {{ inptu }}")
    assert (found.line, found.column, found.length) == (1, 28, 5)


def test_all_problems_of_a_template_are_reported_in_the_order_of_the_text():
    text = "{{ zzz }}\n{% if plan %}{{ input.isue }}{% endif %}\n{{ previous }}{{ inptu }}"
    found = problems(text)
    assert [(error.line, error.code) for error in found] == [
        (1, "unknown-name"),
        (2, "unknown-field"),
        (3, "may-be-missing"),
        (3, "unknown-name"),
    ]


def test_a_template_without_problems_renders_on_data_of_its_shapes():
    text = (
        "{% for f in findings %}{{ f.message }}{% if f.at %}{{ f.at }}{% endif %}{% endfor %}"
        "{{ input.note | default('-') }}{% if previous %}{{ previous }}{% endif %}"
    )
    assert problems(text) == []
    assert rendered(text) == "no goaltoo shortno steps-"
    assert rendered(text, previous="p").endswith("-p")


# Any text at all

EXPRESSIONS = st.recursive(
    st.sampled_from(
        [
            *("input.issue", "findings", "plan.goal", "loop.index", "loop", "self", "nothing.at"),
            *("1", "2.5", "'a'", '"%s"', "true", "none", "[]", "{}", "()", "range(3)", "big", "x"),
        ]
    ),
    lambda inner: st.one_of(
        st.builds(
            "{} {} {}".format,
            inner,
            st.sampled_from(
                ["+", "-", "*", "/", "//", "%", "~", "==", "<", "in", "and", "or", "is"]
            ),
            inner,
        ),
        st.builds("({}) | {}".format, inner, st.sampled_from(sorted(FILTERS))),
        st.builds("({}) | {}({})".format, inner, st.sampled_from(sorted(FILTERS)), inner),
        st.builds("({}) | map('{}')".format, inner, st.sampled_from(["upper", "step", "~", "+"])),
        st.builds("({}) is {}".format, inner, st.sampled_from(sorted(TESTS))),
        st.builds("({}) is {}({})".format, inner, st.sampled_from(sorted(TESTS)), inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{}, {}][{}:]".format, inner, inner, inner),
        st.builds("{{'a': {}}}.a".format, inner),
    ),
    max_leaves=6,
)
STATEMENTS = st.recursive(
    st.one_of(EXPRESSIONS.map("{{{{ {} }}}}".format), st.just("text\n"), st.just("}} %} {")),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{{% if {} %}}{}{{% else %}}{}{{% endif %}}".format, EXPRESSIONS, inner, inner),
        st.builds("{{% for x in {} %}}{}{{% endfor %}}".format, EXPRESSIONS, inner),
        st.builds(
            "{{% for x in {} if {} %}}{}{{% endfor %}}".format, EXPRESSIONS, EXPRESSIONS, inner
        ),
        st.builds("{{% set x = {} %}}{}".format, EXPRESSIONS, inner),
        st.builds("{{% set x %}}{}{{% endset %}}{{{{ x }}}}".format, inner),
        st.builds(
            "{{% filter {} %}}{}{{% endfilter %}}".format, st.sampled_from(sorted(FILTERS)), inner
        ),
    ),
    max_leaves=4,
)
NOISE = st.lists(
    st.sampled_from(
        [
            *("{{", "}}", "{%", "%}", "{#", "#}", "-%}", "if", "for", "x", "in", "set", "raw", "|"),
            *("endif", "endfor", "endraw", "include 'x'", "macro m()", "autoescape true", ".", "("),
            *"1=)['\"\\\r\n éﬁ\x00\ud800",
            "**",
        ]
    ),
    max_size=12,
).map(" ".join)


def outcome(text: str) -> str | TemplateError:
    try:
        template = parse(text)
        _compile(text)
        return template.render({**DATA, "big": BIG})
    except TemplateError as error:
        return error


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30) | NOISE | STATEMENTS)
def test_any_text_is_a_template_that_renders_or_a_template_error(text: str):
    found = outcome(text)
    assert isinstance(found, TemplateError) or type(found) is str


@settings(deadline=None)
@given(NOISE | STATEMENTS)
def test_every_problem_of_any_template_has_a_place_in_it(text: str):
    found = outcome(text)
    errors = [found] if isinstance(found, TemplateError) else problems(text)
    lines = text.replace("\r", "\n").count("\n") + 1
    for error in errors:
        assert 1 <= error.line <= lines
        assert error.column >= 1
        assert error.length >= 1
        assert error.message


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(JSON)
def test_data_is_printed_as_json_that_reads_back_the_same(value: object):
    printed = rendered("{{ [value] }}", value=value)
    assert json.loads(printed) == [value]
