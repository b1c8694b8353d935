"""What makes hostile inputs; a colleague's generator is one more function in the list."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from loopkit.text.patterns import TIME_LIMIT_S
from tests.damaged_records import COMMANDS
from tests.hostile.data import graph, reply, value
from tests.hostile.harm import KINDS, Harm
from tests.hostile.interruptions import signals, slow_machine
from tests.hostile.oddities import encoded, with_oddities
from tests.hostile.played import Hostile
from tests.hostile.reports import report
from tests.hostile.scenarios import MACHINE as CASES_MACHINE
from tests.hostile.scenarios import cases, tested
from tests.hostile.schemas import REFERENCES, schema, usable
from tests.hostile.texts import mutated, text
from tests.support import MACHINES, PLAN_REVIEW, ROOT, scenario

CASES = sorted((ROOT / "tests/cases/ok").glob("*.yaml"))
HARD = ("^(a|aa)+$", "(\\w+\\s?)+$", "x*$", "\\S+$", "\\s+$")
"""Patterns that search some texts for as long as a pattern may."""
RUN = ("run", "m.yaml", "--script", "s.yaml", "--output", "plain")
AFTER = (("runs", "show", "RUN"), ("runs", "logs", "RUN"), ("resume", "RUN"))
"""What is called after a run, whatever came of it."""


def machine(rules: Sequence[Any], *, agent: Any = None, inputs: Any = None) -> str:
    """A loop in which `writer` writes what the rules judge."""
    whole: dict[str, Any] = {
        "loopkit": 1,
        "input": inputs or {},
        "agents": {"writer": {"model": "openai/gpt-5-mini", **(agent or {})}},
        "limits": {"revisions": 1},
        "validators": {"all": list(rules)},
        "states": {
            "draft": {"agent": "writer", "prompt": "Write.", "output": "plan", "next": "check"},
            "check": {
                "validate": "plan",
                "by": ["all"],
                "transitions": [
                    {"guard": "valid", "target": "done"},
                    {"guard": "incomplete", "target": "failed"},
                    {"revise": "draft"},
                    {"target": "failed"},
                ],
            },
            "done": {"final": "success", "result": "plan"},
            "failed": {"final": "failure", "result": "plan"},
        },
    }
    return json.dumps(whole)


def says(*answers: str) -> str:
    """A scenario in which `writer` says this."""
    return scenario(agents={"writer": [answers[0], answers[-1]]})


def texts_under_rules(random: Random) -> Hostile:
    """A hostile text, judged by all that looks at text, then revised."""
    patterns = ("^### Task", random.choice(HARD)), ("to be done", random.choice(HARD))
    wanted, refused = map(random.choice, patterns)
    rules = [
        {"section": random.choice(("Goal", "A", text(random, 30).strip() or "x"))},
        {"matches": wanted},
        {"not_matches": refused, "outside_code": True},
        {"min_chars": 3},
        {"max_chars": 4_000},
    ]
    files = {"m.yaml": machine(rules), "s.yaml": says(text(random), text(random))}
    granted_s = TIME_LIMIT_S * sum(pattern in HARD for pattern in (wanted, refused))
    return Hostile("text", files, (RUN, *AFTER), granted_s=granted_s)


def data_under_rules(random: Random) -> Hostile:
    """A hostile reply, where data is expected of an agent or of a text."""
    rules = [
        {"schema": {"type": "object", "properties": {"a": {"type": "integer"}}}, "tolerant": True},
        {"require": "a in b and nodes.count > 3"},
        {"require": "id in artifact.nodes", "each": "nodes[]"},
    ]
    form = {"schema": {"a": "int", "b": "optional [str]"}} if random.random() < 0.5 else {}
    files = {"m.yaml": machine(rules, agent=form), "s.yaml": says(reply(random), reply(random))}
    calls = (RUN, *AFTER) if random.random() < 0.5 else ((*RUN[:4], "--output", "jsonl"), *AFTER)
    return Hostile("data", files, calls)


def graphs(random: Random) -> Hostile:
    """A graph, for the rules that go along its edges or look its values up."""
    rules = [
        {"acyclic": {"nodes": "nodes[].id", "edges": "nodes[].needs[]"}},
        {"lookup": {"path": "nodes[].needs[]", "in": "artifact", "at": "known[]"}},
        {"require": "id not in artifact.known", "each": "nodes[]"},
        {"schema": {"type": "object", "properties": {"nodes": {"uniqueItems": True}}}},
    ]
    data = json.dumps(graph(random))
    files = {"m.yaml": machine(rules), "s.yaml": says(data), "data.json": data}
    return Hostile("graph", files, (("validate", "m.yaml", "all", "data.json"), RUN))


def any_schema(random: Random) -> Hostile:
    """A schema that is wrong, or hostile to whoever judges by it, at each place for types."""
    made = schema(random) if random.random() < 0.6 else usable(random)
    place = random.choice(("rule", "agent", "input", "file"))
    rules: list[Any] = [{"schema": made if place == "rule" else {"type": "object"}}]
    if place == "file":
        rules = [{"schema": {"type": "object", "$ref": random.choice(("other.json", *REFERENCES))}}]
    said = json.dumps(value(random))
    files = {
        "m.yaml": machine(
            rules,
            agent={"schema": {"x": made}} if place == "agent" else None,
            inputs={"x": made} if place == "input" else None,
        ),
        "s.yaml": says(random.choice((said, json.dumps("a" * 40 + "!"), f'{{"x": {said}}}'))),
        "other.json": json.dumps(made),
        "data.json": said,
    }
    calls = [
        ("check", "m.yaml"),
        ("validate", "m.yaml", "all", "data.json"),
        (*RUN, "--set-json", f"x={said}"),
    ]
    return Hostile("schema", files, calls[: random.choice((1, 2, 3))])


def reports(random: Random) -> Hostile:
    """The report of a program."""
    form = random.choice(("junit", "sarif", "lines", "json"))
    parse = "report" if form == "json" else form
    rule = {"command": ["cat", "report.txt"], "parse": parse, "timeout": "10s"}
    files = {"m.yaml": machine([rule]), "report.txt": report(random, form), "plan.md": "A plan."}
    return Hostile("report", files, (("validate", "m.yaml", "all", "plan.md"),))


def inputs(random: Random) -> Hostile:
    """Input from a file, from standard input and from the command line."""
    kinds = {"x": random.choice(("str", "int", "[str]", "optional num", "bool", "a|b"))}
    given = random.choice((json.dumps({"x": value(random)}), text(random, 9_000), reply(random)))
    given = given[:30_000]
    one = text(random, 500).replace("\0", "")
    call = random.choice(
        (
            ("-i", "in.yaml"),
            ("-i", "-"),
            ("--set", f"x={one}"),
            ("--set", "x=@in.yaml"),
            ("--set-json", f"x={given[:5_000]}".replace("\0", "")),
            ("--set", one),
        )
    )
    files = {
        "m.yaml": machine([{"min_chars": 1}], inputs=kinds),
        "s.yaml": says("A text."),
        "in.yaml": given,
    }
    return Hostile("input", files, ((*RUN, *call), ("plan", "m.yaml")), stdin=given)


def machine_files(random: Random) -> Hostile:
    """A sound machine file with some of it replaced."""
    original = random.choice(CASES).read_text(encoding="utf-8")
    files = {"m.yaml": mutated(random, original), "s.yaml": says("A text.")}
    return Hostile("machine", files, (("check", "m.yaml"), ("plan", "m.yaml"), RUN))


def yaml_files(random: Random) -> Hostile:
    """A sound machine with hostile YAML in one or more places, in any encoding."""
    original = random.choice((*CASES, *MACHINES)).read_text(encoding="utf-8")
    files = {"m.yaml": encoded(random, with_oddities(random, original)), "s.yaml": says("A text.")}
    called = random.choice(
        (
            ("check", "m.yaml", "--format", random.choice(("text", "json", "sarif", "github"))),
            ("diagram", "m.yaml"),
            ("plan", "m.yaml"),
        )
    )
    return Hostile("yaml", files, (called, RUN))


def yaml_floods(random: Random) -> Hostile:
    """Nothing but one sign or one line, as a machine, a scenario and input."""
    many = random.choice((1, 100, 20_000))
    line = random.choice(
        ("- *a\n", "!", "a: 1\n", "? ", "- ", "{", "[", "a: &a [*a]\n", "&a ", '"', "|\n ", "# x\n")
    )
    whole = random.choice(("", "loopkit: 1\nstates:\n")) + line * many
    calls = (("check", "m.yaml"), ("test", "m.scenario.yaml"), ("run", "m.yaml", "-i", "m.yaml"))
    return Hostile("yaml", {"m.yaml": whole, "m.scenario.yaml": whole}, calls)


def scenarios(random: Random) -> Hostile:
    """A machine with cases whose calls, commands, answers and expectations are hostile."""
    files = {
        "m.yaml": CASES_MACHINE,
        "m.scenario.yaml": cases(random),
    }
    calls = (("test", "m.scenario.yaml"), tested(random, "m.yaml", "m.scenario.yaml"))
    return Hostile("scenario", files, calls)


def scenario_files(random: Random) -> Hostile:
    """The files of a real machine, one of its scenarios with hostile YAML in it."""
    folder = PLAN_REVIEW.parent
    texts = [path for path in folder.rglob("*") if path.suffix in (".yaml", ".md")]
    files: dict[str, str | bytes] = {
        str(path.relative_to(folder)): path.read_bytes() for path in texts
    }
    name = random.choice(("plan_review.scenario.yaml", "plan_review/scenario.yaml"))
    original = (folder / name).read_text(encoding="utf-8")
    odd = with_oddities if random.random() < 0.7 else mutated
    files[name] = encoded(random, odd(random, original))
    script = ("--set", "issue=x", "--script", name, "--output", "quiet")
    call = random.choice(
        (tested(random, "plan_review.yaml", name), ("run", "plan_review.yaml", *script))
    )
    return Hostile("scenario", files, [call])


QUESTION = """
loopkit: 1
states:
  note: {render: "A note.", next: ask}
  ask:
    human: Go on?
    show: note
    edit: note
    choices: [yes, no]
    form: {x: TYPE}
    transitions: [{guard: choice == "yes", target: done}, {target: stopped}]
  done: {final: success, result: note}
  stopped: {final: failure}
"""


def answers(random: Random) -> Hostile:
    """What a person might type, paste or pipe."""
    kind = random.choice(("str", "int", "[str]", "optional bool", json.dumps(usable(random))))
    typed = text(random, 500).replace("\0", "")
    said = random.choice((typed, json.dumps(value(random, 2)).replace("\0", ""), "a" * 60 + "!"))
    call = ["answer", "RUN", random.choice(("yes", "no", typed)), "--form", f"x={said}"]
    call += ["--comment", typed] if random.random() < 0.3 else []
    call += ["--edit", "edit.txt"] if random.random() < 0.3 else []
    files = {"m.yaml": QUESTION.replace("TYPE", kind), "edit.txt": text(random, 20_000)}
    return Hostile("answer", files, (("run", "m.yaml"), call, ("runs", "show", "RUN")))


def journals(random: Random) -> Hostile:
    """A stored run to which something happened, and whatever may be asked of it."""
    whole = random.choice((machine([{"max_chars": 3}]), QUESTION.replace("TYPE", "int")))
    script = says("A text.", "B") if "writer" in whole else json.dumps({"scenario": 1})
    files = {"m.yaml": whole, "s.yaml": script}
    asked = random.sample(COMMANDS, k=4)
    harm = Harm(random.choice(("records", "records", *KINDS)), random.randrange(10**9))
    return Hostile("journal", files, (RUN, *asked), harm=harm)


def interruptions(random: Random) -> Hostile:
    """A run that is interrupted, once or several times."""
    return Hostile("signals", {"m.yaml": slow_machine(random)}, [RUN[:2]], signals=signals(random))


GENERATORS: Sequence[Callable[[Random], Hostile]] = (
    texts_under_rules,
    data_under_rules,
    graphs,
    any_schema,
    reports,
    inputs,
    machine_files,
    yaml_files,
    yaml_floods,
    scenarios,
    scenario_files,
    answers,
    journals,
    interruptions,
)


def hostile(seed: int, number: int) -> Hostile:
    """The input of this number; the same one each time."""
    random = Random(f"{seed}:{number}")
    return GENERATORS[number % len(GENERATORS)](random)


__all__ = ["GENERATORS", "hostile", "machine", "says"]
