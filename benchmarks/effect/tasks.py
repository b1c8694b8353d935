"""The tasks: data to read out of texts (A), functions (B), short texts (C), long artifacts (D)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML


class Task(NamedTuple):
    id: str
    prompt: str
    spec: dict[str, Any]
    first: str = ""
    """The artifact that the loop begins with, in kind D."""


class Kind(NamedTuple):
    tasks: list[Task]
    max_tokens: int
    calls: int = 4
    """How many answers a try may use."""


BOOKING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "guest": {"type": "string", "minLength": 2},
        "room": {"type": "string", "minLength": 2},
        "arrives": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        "leaves": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        "guests": {"type": "integer", "minimum": 1},
    },
    "required": ["guest", "room", "arrives", "leaves", "guests"],
    "additionalProperties": False,
}


ASKED = YAML(typ="safe").load(Path(__file__).with_name("tasks.yaml"))


def booking(name: str, spec: dict[str, Any]) -> Task:
    return Task(name, f"Read the booking out of this message.\n\n{spec['text']}", spec)


def function(name: str, given: dict[str, Any]) -> Task:
    prompt = (
        f"Write a Python function `{given['head']}`. {given['what']} "
        "Answer with the function in one block of code, without comments."
    )
    return Task(name, prompt, {"cases": given["cases"]})


def short_text(name: str, given: dict[str, Any]) -> Task:
    return Task(name, f"{given['what']} Answer with the text alone.", given["spec"])


PLACES = [
    "harbour", "station", "market", "library", "mill", "tower", "bridge", "school", "chapel",
    "garden", "museum", "quarry", "bakery", "pier", "orchard", "theatre", "well", "forge", "inn",
    "lighthouse",
]  # fmt: skip
SENTENCES = [
    "The {place} stands {where}, and its door is open from {hour} in the morning.",
    "Those who come by boat see it first; those who come by road pass {where} before.",
    "Ask for {name}, who has looked after the {place} for {years} years.",
]
NAMES = ["Abel", "Bess", "Carl", "Dora", "Emil", "Fay", "Gus", "Hope", "Ivor", "June"]
WHERE = ["by the river", "on the hill", "behind the square", "at the old wall", "near the ford"]


def guide(start: int, count: int) -> str:
    """A guide of some 48 words a place: a heading and a paragraph of three sentences."""
    parts = ["A guide to our town"]
    for number in range(start, start + count):
        place = PLACES[number % len(PLACES)]
        values = {
            "place": place,
            "where": WHERE[number % len(WHERE)],
            "hour": 6 + number % 5,
            "name": NAMES[number % len(NAMES)],
            "years": 3 + number % 17,
        }
        told = " ".join(sentence.format(**values) for sentence in SENTENCES)
        parts.append(f"{number - start + 1}. The {place}\n{told}")
    return "\n\n".join([*parts, "Have a good stay."])


def long_text(
    name: str, start: int, wrong: str, right: str, rule: str, judged: dict[str, Any], count: int = 8
) -> Task:
    """A guide that breaks one rule of its task, and is to keep everything else."""
    first = guide(start, count).replace(right, wrong, 1).strip()
    headings = [line for line in first.splitlines() if line[:1].isdigit()]
    prompt = (
        "Write a guide to the places of our town: for each place a numbered heading and three "
        "sentences about where it is, when it opens and whom to ask. "
        f"{rule} Answer with the whole guide and nothing else."
    )
    words = (38 * count, 58 * count)
    return Task(name, prompt, {"words": words, "keeps": headings, **judged}, first)


def without_word(name: str, start: int, wrong: str, right: str, avoided: str) -> Task:
    rule = f"Do not use the word '{avoided}'."
    return long_text(name, start, wrong, right, rule, {"avoids": [avoided]})


MODULE = '''def total(prices):
    """The sum of all prices."""
    result = 0
    for price in prices:
        result += price
    return result


def discount(amount, percent):
    """The amount less some percent of it, not below zero."""
    return max(0, amount - amount * percent / 100)


def shipping(weight, express=False):
    """What a parcel costs: 5 up to 2 kilograms, 9 above; 4 more by express."""
    cost = 5 if weight <= 2 else 9
    return cost + 4 if express else cost


def label(name, street, town):
    """The three lines of an address, with the town in capital letters."""
    return "\\n".join([name.strip(), street.strip(), town.strip().upper()])


def parse(line):
    """A line such as 'tea;3;2.50' as a dict of article, count and price."""
    article, count, price = line.split(";")
    return {"article": article, "count": int(count), "price": float(price)}


def invoice(lines, percent=0):
    """The sum of the lines after the discount, rounded to two places."""
    items = [parse(line) for line in lines]
    amount = total(item["count"] * item["price"] for item in items)
    return round(discount(amount, percent), 2)


def cheapest(lines):
    """The article with the lowest price, or None if there is no line."""
    items = [parse(line) for line in lines]
    if not items:
        return None
    return min(items, key=lambda item: item["price"])["article"]
'''
MODULE_CASES = [
    ["total([1, 2, 3])", "6"],
    ["discount(50, 20)", "40"],
    ["discount(10, 120)", "0"],
    ["shipping(2)", "5"],
    ["shipping(3, express=True)", "13"],
    ["label(' A ', 'B', 'c')", "'A\\nB\\nC'"],
    ["parse('tea;3;2.50')", "{'article': 'tea', 'count': 3, 'price': 2.5}"],
    ["invoice(['tea;3;2.50', 'cup;1;4'], 10)", "10.35"],
    ["cheapest(['tea;3;2.50', 'cup;1;4'])", "'tea'"],
    ["cheapest([])", "None"],
]


def module(name: str, right: str, wrong: str) -> Task:
    """A module of seven functions with one fault, which one case shows."""
    prompt = (
        "Write a Python module `shop` with the functions total(prices), discount(amount, percent), "
        "shipping(weight, express=False), label(name, street, town), parse(line), "
        "invoice(lines, percent=0) and cheapest(lines), each with a docstring that says what it "
        "does. A line is such as 'tea;3;2.50': article, count, price. Shipping costs 5 up to 2 "
        "kilograms and 9 above, by express 4 more. A label has three lines, the town in capital "
        "letters. A discount never goes below zero. "
        "Answer with the whole module in one block of code and nothing else."
    )
    first = f"```python\n{MODULE.replace(right, wrong, 1)}```"
    return Task(name, prompt, {"cases": MODULE_CASES}, first)


BEGINS = "A guide to our town"
ENDS = "Have a good stay."
FAREWELL = f"Begin it with '{BEGINS}' and end it with '{ENDS}'"
FRAMED = {"begins": BEGINS, "ends": ENDS}
LONG_TEXTS = [
    without_word("very", 0, "is very open from", "is open from", "very"),
    without_word("nice", 3, "nice road", "road", "nice"),
    without_word("boat", 6, "by ship", "by boat", "ship"),
    without_word("door", 9, "its gate is", "its door is", "gate"),
    long_text("ends", 2, "", ENDS, FAREWELL, FRAMED),
    long_text("begins", 5, "", BEGINS, FAREWELL, FRAMED),
    long_text("closes", 8, "Come again!", ENDS, FAREWELL, FRAMED, count=6),
    long_text("opens", 11, "What to see here", BEGINS, FAREWELL, FRAMED, count=6),
]
LONG_CODE = [
    module("floor", "max(0, amount", "(amount"),
    module("weight", "weight <= 2", "weight < 2"),
    module("upper", "town.strip().upper()", "town.strip()"),
    module("count", '"count": int(count)', '"count": count'),
    module("none", "    if not items:\n        return None\n", ""),
    module("round", "round(discount(amount, percent), 2)", "round(discount(amount, percent))"),
]


KINDS = {
    "A": Kind([booking(*item) for item in ASKED["A"].items()], max_tokens=160),
    "B": Kind([function(*item) for item in ASKED["B"].items()], max_tokens=200),
    "C": Kind([short_text(*item) for item in ASKED["C"].items()], max_tokens=120),
    "D": Kind([*LONG_TEXTS, *LONG_CODE], max_tokens=1_100, calls=2),
}
