"""Reports that a program might leave: bombs, depths, floods, and nearly right ones."""

from __future__ import annotations

import json
from random import Random

from tests.hostile.data import reply, value
from tests.hostile.texts import mutated, text

CASE = '<testcase classname="a" name="b"><failure message="m">t</failure></testcase>'
TENFOLD = "".join(f'<!ENTITY e{n} "' + f"&e{n - 1};" * 10 + '">' for n in range(1, 12))
BOMB = f'<!DOCTYPE a [<!ENTITY e0 "aaaaaaaaaa">{TENFOLD}]><testsuite>&e11;</testsuite>'


def report(random: Random, form: str) -> str:
    """A report in one of the forms that a `command` rule reads."""
    made = {"junit": _junit, "sarif": _sarif, "lines": _lines, "json": reply}[form](random)
    return mutated(random, made) if random.random() < 0.3 else made


def _junit(random: Random) -> str:
    many = random.choice((1, 50, 12_000))
    attributes = " ".join(f'a{number}="x"' for number in range(many))
    return random.choice(
        (
            BOMB,
            "<!-- x -->" * many + BOMB,
            "<?x ?>\n" * many + f"<testsuite>{CASE}</testsuite>",
            "<testsuite>" * many,
            f"<testsuite>{CASE * many}</testsuite>",
            f"<testsuite {attributes}>{CASE}</testsuite>",
            '<testsuite name="' + "x" * 200_000 + f'">{CASE}</testsuite>',
            f"<testsuite><testcase><failure>{'a&amp;' * many}</failure></testcase></testsuite>",
            f"<testsuite><testcase>{'<failure/>' * many}</testcase></testsuite>",
            '<testsuite failures="' + "9" * many + '"/>',
            f"<testsuite>{text(random, 5_000)}</testsuite>",
            text(random, 5_000),
        )
    )


def _sarif(random: Random) -> str:
    many = random.choice((1, 50, 3_000))
    uri = random.choice(("a.py", "../" * 50, "%41" * 9_000, text(random, 99)))
    region = {"startLine": random.choice((1, -1, 10**30, True, "1"))}
    place = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
    result = {
        "ruleId": random.choice(("r1", f"r{many - 1}", "none", 3, text(random, 99))),
        "level": random.choice(("error", "warning", "note", "none", "bad", 3)),
        "message": {"text": text(random, 2_000 if many < 100 else 50)},
        "locations": random.choice(([place], [place] * 3, [], value(random, 2))),
        "suppressions": random.choice(([], [{}] * 3, value(random, 1))),
    }
    if random.random() < 0.5:
        result["ruleIndex"] = random.choice((0, many, -1, 10**30, "x"))
    rules = [{"id": f"r{number}"} for number in range(many)]
    run = {"tool": {"driver": {"rules": rules}}, "results": [result] * many}
    return json.dumps({"runs": random.choice(([run], [{"results": []}] * many, [], [3]))})


def _lines(random: Random) -> str:
    many = random.choice((1, 50, 12_000))
    line = random.choice(
        ("a.py:1:2: error: bad\n", ":::::\n", "a:99999999999999999999: x\n", "a.py:1: \x1b[31mx\n")
    )
    return line * many + text(random, 3_000)
