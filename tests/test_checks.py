"""Checks: golden pairs of machines and problems, and the proof of exits against counting out.

Each `cases/err/NAME.yaml` has what `render` prints for it in `NAME.out`. After a change that is
meant, run with `LOOPKIT_REWRITE_CASES=1`, and read every line of the difference before it is kept.
"""

import itertools
import os
import re
import shutil
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopkit.checks import CHECKS, check, problems_in
from loopkit.checks.exits import check_exits
from loopkit.checks.subject import Subject
from loopkit.document.problems import ProblemsFound, place_of, render
from loopkit.document.reading import read_file
from loopkit.language.guard.evaluate import compile_guard, truth
from loopkit.language.guard.grammar import parse
from loopkit.language.load import load_document, load_text
from tests.support import MACHINES

CASES = Path(__file__).parent / "cases"
REWRITE = "LOOPKIT_REWRITE_CASES"


@cache
def problems_of(path):
    """Return the problems of a machine file, and the texts that they are in."""
    try:
        document = read_file(path, path.name)
        loaded = load_document(document, path.parent, path.stem)
    except ProblemsFound as found:
        return problems_in(found), texts_of(path, found.problems)
    family = loaded.family
    return check(loaded), {file: text for one in family for file, text in one.source.texts.items()}


def texts_of(path, problems):
    """Return the texts of a machine file and of other machines that could not be loaded."""
    files = {path.name, *(problem.span.file for problem in problems)}
    machines = [file for file in files if file.endswith(".yaml")]
    return {file: (path.parent / file).read_text(encoding="utf-8") for file in machines}


def checked(text):
    return check(load_text(text, "machine.yaml", CASES))


def codes(text):
    return {problem.code for problem in checked(text)}


@pytest.mark.parametrize("path", sorted(CASES.glob("err/*.yaml")), ids=lambda path: path.stem)
def test_mistakes_are_told_where_they_are(path):
    shown = render(*problems_of(path)) + "\n"
    expected = path.with_suffix(".out")
    if os.environ.get(REWRITE):
        expected.write_text(shown, encoding="utf-8")
    assert shown == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted([*CASES.glob("ok/*.yaml"), *MACHINES]), ids=lambda path: path.stem
)
def test_a_sound_machine_has_no_problems(path):
    problems, texts = problems_of(path)
    # Shipped machines run programs that whoever starts them names, which they are told of.
    assert render([one for one in problems if one.code != "text-as-code"], texts) == ""
    assert {one.severity for one in problems} <= {"note"}


HELP = re.compile(r"(?m)^  help: .*(?:\n {8}.*)*")
WORD = re.compile(r"\w+")


@pytest.mark.parametrize("path", sorted(CASES.glob("err/*.remedy")), ids=lambda path: path.stem)
def test_a_remedy_that_is_followed_literally_makes_the_machine_sound(path, tmp_path):
    """Each line has what is replaced by what; all that is written new stands in a remedy."""
    machine = path.with_suffix(".yaml")
    text = machine.read_text(encoding="utf-8")
    told = "\n".join(HELP.findall(path.with_suffix(".out").read_text(encoding="utf-8")))
    for line in path.read_text(encoding="utf-8").splitlines():
        old, new = line.split(" => ")
        assert text.count(old) == 1, old
        assert {*WORD.findall(new)} <= {*WORD.findall(f"{told} {old}")}, new
        text = text.replace(old, new)
    if code := re.search(r"`rules\.py`:\n((?: {8}.*\n?)+)", told):
        (tmp_path / "rules.py").write_text(dedent(code[1]), encoding="utf-8")
    problems = check(load_text(text, machine.name, tmp_path))
    assert render([one for one in problems if one.severity != "note"], {machine.name: text}) == ""


WRITTEN = re.compile(r"(?s)(?:did you mean|write|quote it:) `([^`…]+)`(?:[?;].*)?")
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")
PARTS_MARKED = (
    *("guards call no functions", "templates call no functions", "guards have no `=`"),
    *("this JSON Schema has no keyword", "unknown detail", "there is no MCP server"),
)
"""How messages begin of which a part of what has to be written anew is marked, or more than it."""
DEEPER = {"bad-path", "item-path", "may-be-missing", "unknown-plugin"}
"""What is only looked at where a name is known."""


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copies") / "err"
    return shutil.copytree(CASES / "err", folder, ignore=shutil.ignore_patterns("*.out"))


@pytest.mark.parametrize("path", sorted(CASES.glob("err/*.yaml")), ids=lambda path: path.stem)
def test_what_a_remedy_says_to_write_mends_the_place_at_which_it_stands(path, copies):
    problems, texts = problems_of(path)
    for number, problem in enumerate(problems):
        machine = copies / f"{path.stem}_{number}.yaml"
        meant = WRITTEN.fullmatch(problem.help)
        is_here = problem.span.file == path.name and problem.path
        is_here = is_here and not problem.message.startswith(PARTS_MARKED)
        if meant is None or PLACEHOLDER.search(meant[1]) or not is_here:
            continue
        written = rewritten(texts[path.name], read_file(path, path.name), problem, meant[1])
        machine.write_text(written, encoding="utf-8")
        after, _ = problems_of(machine)
        told = [(one.code, one.message) for one in problems if one != problem]
        left = [one for one in after if one.path == problem.path and one.severity == "error"]
        new = [one for one in left if (one.code, one.message) not in told]
        assert [one for one in new if one.code not in DEEPER or one == problem] == [], problem.help


def rewritten(text, document, problem, meant):
    """The text with what a problem marks written anew, or all of the field that is named."""
    steps = [int(step) if step.isdigit() else step for step in problem.path.split(".")]
    start = end = problem.span
    key, colon, _ = meant.partition(":")
    if colon and key in steps:
        steps = steps[: len(steps) - steps[::-1].index(key)]
        start, end = document.span(steps, key=True), document.span(steps)
    before = sum(map(len, text.splitlines(keepends=True)[: start.line - 1])) + start.column - 1
    after = sum(map(len, text.splitlines(keepends=True)[: end.end_line - 1])) + end.end_column - 1
    return text[:before] + meant + text[after:]


def test_problems_come_in_the_order_of_their_places():
    found, _ = problems_of(CASES / "err" / "unused.yaml")
    places = [place_of(problem) for problem in found]
    assert len(places) > 5
    assert places == sorted(places)


def test_every_expected_text_has_its_machine():
    texts = {path.stem for path in CASES.glob("err/*.out")}
    assert texts == {path.stem for path in CASES.glob("err/*.yaml")}


def test_every_problem_has_a_place_and_a_code_and_says_what_is_wrong():
    for path in CASES.glob("err/*.yaml"):
        found, _ = problems_of(path)
        assert found, path.name
        for problem in found:
            assert problem.span is not None, path.name
            assert problem.message
            assert problem.message.strip() == problem.message
            assert not problem.message.endswith(".")
            assert set(problem.code) <= set("abcdefghijklmnopqrstuvwxyz-"), problem.code


def test_each_rule_is_total_on_machines_in_which_other_things_are_wrong():
    for path in CASES.glob("err/*.yaml"):
        try:
            loaded = load_document(read_file(path, path.name), path.parent, path.stem)
        except ProblemsFound:
            continue
        subject = Subject.of(loaded)
        for one in CHECKS:
            assert all(problem.message for problem in one(subject)), one


# -- machines with many states -----------------------------------------------------------------


def chain(states, links):
    """Return a machine of render states, each linked to `links` states of the next rank."""
    rows = ["loopkit: 1", "agents: {w: {model: openai/m}}", "states:"]
    rows.append("  start: {agent: w, prompt: Write., next: s0_0, on_error: {content: done}}")
    for rank in range(states):
        for place in range(links):
            ways = [f"s{rank + 1}_{other}" for other in range(links)]
            ways = ways if rank < states - 1 else ["done"]
            edges = [f"{{guard: attempt == {n + 1}, target: {way}}}" for n, way in enumerate(ways)]
            edges[-1] = f"{{target: {ways[-1]}}}"
            rows.append(f"  s{rank}_{place}:")
            rows.append(f"    transitions: [{', '.join(edges)}]")
    rows.append("  done: {final: success, result: start}")
    return "\n".join(rows)


def test_many_ways_are_not_walked_one_by_one():
    # 2 ** 60 ways lead from the author to the end.
    assert {*codes(chain(60, 2))} <= {"unreachable-state"}


def test_a_long_chain_of_states_is_no_deep_recursion():
    assert codes(chain(1100, 1)) == set()


# -- the proof of exits ------------------------------------------------------------------------

VALIDATE = """\
loopkit: 1
input: {{strict: bool, tries: {{type: int, minimum: 0, maximum: 2}}}}
agents: {{w: {{model: openai/m}}}}
states:
  draft: {{agent: w, prompt: Write., next: check}}
  check:
    validate: draft
    by: [{{not_matches: TODO}}{warning}]
    transitions:
{transitions}
  done: {{final: success, result: draft}}
"""
HUMAN = """\
loopkit: 1
input: {{strict: bool, tries: {{type: int, minimum: 0, maximum: 2}}}}
agents: {{w: {{model: openai/m}}}}
states:
  draft: {{agent: w, prompt: Write., next: ask, on_error: {{content: done}}}}
  ask:
    human: Good?
    choices: [yes, no, again]
    form: {{urgent: bool, size: small|large}}
    transitions:
{transitions}
  done: {{final: success, result: draft}}
"""
NUMBERS = st.integers(0, 3)
COMPARISONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def compared(name):
    return st.builds("{} {} {}".format, st.just(name), COMPARISONS, NUMBERS)


def is_one_of(name, words):
    word = st.sampled_from(words).map(lambda word: f'"{word}"')
    return st.builds("{} {} {}".format, st.just(name), st.sampled_from(["==", "!="]), word)


def conditions(*atoms):
    return st.recursive(
        st.one_of(*atoms),
        lambda inner: st.one_of(
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} or {})".format, inner, inner),
            st.builds("not {}".format, inner),
        ),
        max_leaves=3,
    )


COMMON = (compared("attempt"), st.just("input.strict"), compared("input.tries"))
OF_REPORTS = conditions(
    st.sampled_from(["valid", "stalled", "regressed"]),
    compared("error_count"),
    compared("warning_count"),
    is_one_of("verdict", ["pass", "warn", "fail", "incomplete", "not_applicable"]),
    *COMMON,
)
OF_ANSWERS = conditions(
    is_one_of("choice", ["yes", "no", "again"]),
    is_one_of("size", ["small", "large"]),
    st.just("urgent"),
    *COMMON,
)


def transitions(guards):
    """Strategy for lists of (guard or None, is a revise edge)."""
    one = st.tuples(st.one_of(st.none(), guards), st.booleans())
    return st.lists(one, min_size=1, max_size=3)


def written(edges):
    rows = []
    for guard, back in edges:
        way = 'revise: draft, max: 2, feedback: "Again."' if back else "target: done"
        rows.append(f"      - {{guard: '{guard}', {way}}}" if guard else f"      - {{{way}}}")
    return "\n".join(rows)


def of_rows(text):
    """What the rows of each state show, whether or not a run comes to produce them."""
    return list(check_exits(Subject.of(load_text(text, "machine.yaml", CASES))))


def reports(edges, *, warns):
    """Every report that the language's table allows, with small numbers."""
    names_verdict = any("verdict" in (guard or "") for guard, _ in edges)
    yield {"verdict": "pass", "error_count": 0, "warning_count": 0, "stalled": False}
    for warnings in range(5 if warns else 1):
        if warnings:
            yield {"verdict": "warn", "error_count": 0, "warning_count": warnings}
        if names_verdict:
            yield {"verdict": "incomplete", "error_count": 0, "warning_count": warnings}
        for errors, stalled, regressed in itertools.product(range(1, 5), *[[False, True]] * 2):
            counts = {"error_count": errors, "warning_count": warnings}
            yield {"verdict": "fail", "stalled": stalled, "regressed": regressed, **counts}


def circumstances(edges):
    """Every combination of rooms and of the other facts."""
    back = [index for index, (_, is_back) in enumerate(edges) if is_back]
    for attempt, strict, tries in itertools.product(range(1, 5), [False, True], range(3)):
        for rooms in itertools.product([False, True], repeat=len(back)):
            facts = {"attempt": attempt, "input.strict": strict, "input.tries": tries}
            yield facts, dict(zip(back, rooms, strict=True))


def compiled(edges):
    """Return each edge's guard as a function."""
    return [compile_guard(parse(guard)) if guard else lambda _: True for guard, _ in edges]


def first_holding(guards, facts):
    return (index for index, holds in enumerate(guards) if holds(facts))


@settings(max_examples=60, deadline=None)
@given(transitions(OF_REPORTS), st.booleans())
def test_a_validate_state_is_stuck_exactly_where_counting_out_finds_a_row(edges, warns):
    warning = ", {not_matches: TODO, severity: warning}" if warns else ""
    found = of_rows(VALIDATE.format(transitions=written(edges), warning=warning))
    guards, stuck, taken = compiled(edges), False, set()
    for report in reports(edges, warns=warns):
        is_valid = report["verdict"] in ("pass", "warn")
        quiet = {"stalled": False, "regressed": False, "valid": is_valid}
        for facts, rooms in circumstances(edges):
            fails = report["verdict"] == "fail"
            enabled = (
                index
                for index in first_holding(guards, {**quiet, **report, **facts})
                if not edges[index][1] or (rooms[index] and fails)
            )
            index = next(enabled, None)
            stuck |= index is None
            taken.add(index)
    assert ("stuck" in {problem.code for problem in found}) == stuck
    assert dead_ones(found) == untaken(edges, taken)


@settings(max_examples=60, deadline=None)
@given(transitions(OF_ANSWERS))
def test_a_human_state_is_stuck_exactly_where_counting_out_finds_an_answer(edges):
    found = {problem.code for problem in of_rows(HUMAN.format(transitions=written(edges)))}
    guards, stuck, shut = compiled(edges), False, False
    for facts, rooms in circumstances(edges):
        is_open = []
        for choice, urgent, size in itertools.product(
            ["yes", "no", "again"], [False, True], ["small", "large"]
        ):
            answer = {"choice": choice, "urgent": urgent, "size": size}
            index = next(first_holding(guards, {**facts, **answer}), None)
            stuck |= index is None
            is_open.append(index is not None and rooms.get(index, True))
        shut |= not any(is_open)
    assert ("stuck" in found) == stuck
    assert ("no-open-choice" in found) == (shut and not stuck)


def dead_ones(found):
    return {int(p.path.split(".")[3]) for p in found if p.code == "dead-transition"}


def untaken(edges, taken):
    last = len(edges) - 1
    default = {last} if edges[last] == (None, False) else set()
    return set(range(len(edges))) - taken - default


# -- three-valued truth ------------------------------------------------------------------------

FACTS = {"a": [False, True], "b": [False, True], "n": [0, 1, 2, 3], "t": ["x", "y"]}
OF_FACTS = conditions(
    st.sampled_from(["a", "b"]), compared("n"), is_one_of("t", ["x", "y"]), st.just('t in ["x"]')
)


@given(OF_FACTS, st.sets(st.sampled_from(sorted(FACTS))))
def test_what_is_known_of_a_guard_is_so_whatever_the_unknown_facts_are(text, unknown):
    guard = parse(text)
    holds = compile_guard(guard)
    rows = [dict(zip(FACTS, row, strict=True)) for row in itertools.product(*FACTS.values())]
    for row in rows:
        known = truth(guard.tree, {name: row[name] for name in row if name not in unknown})
        assert known is None or known == holds(row)
        assert truth(guard.tree, row) == holds(row)
