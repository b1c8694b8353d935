"""Mutated machine files: whatever is written, there is a machine or there are problems in place.

Each example is made from a number, so that one that fails can be made again. The ordinary run
makes 300 of them, the long one (`-m long`) 24,600 others. What is accepted is replayed on the
real engine: of 100 of them, and of the rest of 20,000 in the long run.
"""

import json
import random
import time
from functools import cache
from pathlib import Path

import pytest

from loopkit.checks import check
from loopkit.document.problems import ProblemsFound, render
from loopkit.document.reading import read
from loopkit.language.load import load_text
from tests.support import MACHINES
from tests.test_bounds import replayed

HERE = Path(__file__).parent
FOLDER = HERE / "cases" / "ok"
FILES = sorted([*FOLDER.glob("*.yaml"), *MACHINES])
TEXTS = sorted((path.read_text(encoding="utf-8") for path in FILES), key=len)
MOST_CPU_S = 2.0
BATCH = 150

ODD_TEXTS = (
    "", "\0", "\t", "\u2028", "\ufeff", "\ud800", "ä", "名前", "🙂", "{{", "}}", "{%", "%}", "|",
    ">", "&a ", "*a", "!x ", "<<: ", "- ", "? ", ": ", ": :", "#", "'", '"', "[", "]", "{", "}",
    ",", "\r", "---\n", "...\n", "%YAML 1.1\n", "~", "null", "1e999", "0x1F", ".nan", "-", "\\",
    "`", "@",
)  # fmt: skip
ODD_VALUES = (
    None, True, False, 0, -1, 1.5, 10**20, "", "x", "a b", "input.x", "input", "report", "valid",
    "{{ x }}", "{% for a in b %}", "not", "()", "(((", "*", "[", "nodes[]", "a.b.c", "9" * 400,
    "draft", "check", [], {}, [[]], {"x": None}, {"file": "texts/prompt.md"}, {"file": ".."},
    {"type": "int", "minimum": 0, "maximum": 10**9}, {"type": "object", "properties": {"a": {}}},
    {"$ref": "#/nowhere"}, {"revise": "draft", "feedback": "x"}, [1, "a", None], {"": ""},
)  # fmt: skip


@cache
def plain(base):
    """Return a machine of TEXTS as JSON; read here, so that only whoever needs it pays for it."""
    return json.dumps(read(TEXTS[base], "machine.yaml").plain())


def mutated(number):
    """Return the example of a number: a machine's text with one to three things wrong with it."""
    chance = random.Random(number)
    # Small machines more often: what is wrong with them is the same, and they are read faster.
    base = min(chance.randrange(len(TEXTS)), chance.randrange(len(TEXTS)))
    if chance.random() < 0.6:
        return restructured(json.loads(plain(base)), chance)
    text = TEXTS[base]
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        text = chance.choice((with_odd_text, without_piece, with_other_line, with_other_word))(
            text, chance
        )
    return text


def with_odd_text(text, chance):
    at = chance.randint(0, len(text))
    return text[:at] + chance.choice(ODD_TEXTS) + text[at + chance.randint(0, 2) :]


def without_piece(text, chance):
    at = chance.randint(0, len(text))
    return text[:at] + text[at + chance.randint(1, 12) :]


def with_other_line(text, chance):
    """Delete, double, move or indent a line."""
    lines = text.split("\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            lines[at] = lines[at][2:] if chance.random() < 0.5 else f"  {lines[at]}"
    return "\n".join(lines)


def with_other_word(text, chance):
    """Put a word of any machine in the place of another."""
    words = text.split(" ")
    words[chance.randrange(len(words))] = chance.choice(chance.choice(TEXTS).split())
    return " ".join(words)


TEXTUAL = (with_odd_text, without_piece, with_other_word)


def restructured(plain, chance):
    """Return the machine as JSON, which is YAML, with some of its values changed."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(places_in(plain))
        if not places:
            break
        holder, key = chance.choice(places)
        alike = [place for place in places if type(place[0][place[1]]) is type(holder[key])]
        other, place = chance.choice(alike if chance.random() < 0.8 else places)
        match chance.randrange(12):
            case 0:
                del holder[key]
            case 1:
                holder[key] = chance.choice(ODD_VALUES)
            case 2 | 3 | 4:
                holder[key] = copied(other[place])
            case 5:
                other[place], holder[key] = copied([holder[key], other[place]])
            case 6 if isinstance(holder, dict):
                holder[str(place)] = holder.pop(key)
            case 7:
                holder[key] = [holder[key]] if chance.random() < 0.5 else {"x": holder[key]}
            case _ if isinstance(holder[key], str):
                holder[key] = chance.choice(TEXTUAL)(holder[key], chance)
    return json.dumps(plain, ensure_ascii=False, indent=chance.choice((None, 1)))


def copied(value):
    return json.loads(json.dumps(value))


def places_in(value):
    """Yield each (holder, key) in the data."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places_in(value[key])


def problems_of(text):
    """Return the problems of a text, and the texts in which they can be."""
    try:
        loaded = load_text(text, "machine.yaml", FOLDER)
    except ProblemsFound as found:
        return list(found.problems), {"machine.yaml": text}
    return check(loaded), loaded.source.texts


def examine(number):
    text = mutated(number)
    begun = time.process_time()
    found, texts = problems_of(text)
    shown = render(found, texts)
    assert time.process_time() - begun < MOST_CPU_S, number
    for problem in found:
        assert problem.span is not None, (number, problem)
        assert problem.span.line >= 1, (number, problem)
        assert problem.message.strip(), (number, problem)
        assert problem.code, (number, problem)
        assert problem.code in shown, (number, problem)
    return found


@pytest.mark.parametrize("start", range(0, BATCH, BATCH))
def test_a_mutated_machine_is_read_or_told_what_is_wrong(start):
    found = [examine(number) for number in range(start, start + BATCH)]
    # Mutations reach the checks.
    assert len({problem.code for problems in found for problem in problems}) > 20
    assert any(not problems for problems in found)


@pytest.mark.long
@pytest.mark.parametrize("start", range(BATCH, 24_900, BATCH))
def test_many_mutated_machines_are_read_or_told_what_is_wrong(start):
    for number in range(start, start + BATCH):
        examine(number)


def played(number):
    """Replay a mutated machine on the engine, where it is accepted; how, or that it is refused."""
    try:
        loaded = load_text(mutated(number), "machine.yaml", FOLDER)
    except ProblemsFound:
        return "refused"
    if any(problem.severity == "error" for problem in check(loaded)):
        return "refused"
    return replayed(loaded.machine, 200, number)


@pytest.mark.parametrize("start", range(0, 50, 50))
def test_an_accepted_mutation_is_never_stuck_and_stays_inside_its_bounds(start):
    ways = {played(number) for number in range(start, start + 50)}
    assert ways > {"refused"}


@pytest.mark.long
@pytest.mark.parametrize("start", range(50, 20_000, 50))
def test_many_accepted_mutations_are_never_stuck_and_stay_inside_their_bounds(start):
    for number in range(start, start + 50):
        played(number)


def test_the_same_number_gives_the_same_example():
    assert [mutated(number) for number in range(50)] == [mutated(number) for number in range(50)]
