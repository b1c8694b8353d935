"""The reference says what this version does: its examples, keys, defaults, options and links."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import click
import pytest
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from loopkit.agents.players import BROKEN, FAULTS
from loopkit.checks import check
from loopkit.cli import COMMANDS, terminal
from loopkit.cli.watching import OUTPUTS
from loopkit.document.reading import read
from loopkit.drive.repair import RAISABLE
from loopkit.language.facts import REPORT_FACTS
from loopkit.language.load import load_text
from loopkit.language.machine import Machine
from loopkit.language.section import Noun
from loopkit.language.states import STATE_KINDS
from loopkit.language.states.each import ChildMachine
from loopkit.language.template.sandbox import FILTERS, TESTS
from loopkit.language.validators import RULE_KINDS, DataFile
from loopkit.scenario.cases import Scenario
from loopkit.scenario.script import CRASH
from loopkit.testing import load_suite, run_case
from tests.support import ROOT, Desk

DOCS = ROOT / "docs"
FENCED = re.MULTILINE | re.DOTALL
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
REFERENCE = [path for path in PAGES if DOCS / "reference" in path.parents]
FILE = r"\A# ([\w./-]+\.\w+)\n"
"""The first line of a block that is a file: its name."""
STATE = "Keys of every working state"
AGENT = "Keys of every agent"
CALLED = "Keys of agents that are called"
RULE = "Keys of every rule"
TEXT, FIELDS, ERRORS = "Rules for text", "Fields of a text", "Errors and suspension"
RULE_TITLES = (TEXT, "Rules for data", "Lookups", "Graphs", "python", "command", "judge")
OTHERS: Mapping[str, tuple[str, ...]] = {
    "Machine": ("Machine file",),
    "Limits": ("Limits",),
    "Alert": ("Machine file", "alert."),
    "AgentState": ("agent", STATE),
    "CommandState": ("run", STATE),
    "RenderState": ("render", STATE),
    "DataState": ("data", STATE),
    "FirstText": ("render", "Artifacts and files"),
    "MadeData": ("data",),
    "SetState": ("set", STATE),
    "FileValues": ("set",),
    "ValidateState": ("validate", STATE),
    "HumanState": ("human", STATE),
    "ChoiceState": (STATE,),
    "MachineState": ("machine", STATE),
    "EachState": ("each", STATE),
    "After": ("each", "after."),
    "FinalState": ("final", STATE),
    "Output": ("Artifacts and files",),
    "RenderOutput": ("Artifacts and files",),
    "ExtractSection": (FIELDS,),
    "ExtractMatch": (FIELDS,),
    "ExtractAll": (FIELDS,),
    "ExtractCount": (FIELDS,),
    "Transition": ("Transitions",),
    "ErrorTargets": (ERRORS,),
    "ByOrigin": ("Transitions", "revise."),
    "ErrorEdge": (ERRORS,),
    "ErrorExit": (ERRORS,),
    "Emission": ("Events, fallbacks and notifiers", "emit."),
    "ReportEmission": ("validate", "emit."),
    "ModelAgent": ("Model agents", CALLED, AGENT),
    "ValidatorTool": ("Tools",),
    "CommandTool": ("Tools",),
    "McpTool": ("Tools",),
    "PythonTool": ("Tools",),
    "McpServer": ("MCP servers",),
    "Price": ("Model agents", "price."),
    "Fallback": ("Model agents", "fallbacks[]."),
    "ProgramAgent": ("Coding programs", CALLED, AGENT),
    "CommandAgent": ("Command agent", CALLED, AGENT),
    "OutsideAgent": ("Outside agents", AGENT),
    "AgentChoice": ("agent", "agent."),
    "KeptSession": (AGENT, "session."),
    "Retry": (CALLED, "retry."),
    "ErrorRule": ("Command agent", "errors[]."),
    "JsonReply": ("Command agent", "reply."),
    "Workspace": ("Workspaces and paths",),
    "Count": (TEXT, "count."),
    "Lookup": ("Lookups", "lookup."),
    "Acyclic": ("Graphs", "acyclic."),
    "CommandError": ("Command agent", "errors[]."),
    "Score": ("judge", "score."),
    "ReportMap": ("map", "map."),
    "ReportCheck": ("map", "map.checks.PATH."),
    "VerdictReading": ("verdict", "verdict."),
    "VerdictCounts": ("verdict", "verdict.counts."),
    "Scenario": ("The file",),
    "ChildParts": ("The file",),
    "Played": ("Attempts and calls",),
    "PlayedToolCall": ("Attempts and calls", "tool_calls[]."),
    "SpentTokens": ("Attempts and calls", "usage."),
    "PlayedFolder": ("Attempts and calls", "folder."),
    "Reserved": ("Attempts and calls", "reserved."),
    "PlayedTry": ("Commands",),
    "PlayedAnswer": ("Answers",),
    "Case": ("Cases",),
    "RunLimits": ("Cases", "limits."),
    "Resume": ("Cases", "resumes[]."),
    "Expect": ("What a case expects",),
    "ExpectedFinding": ("Expected findings",),
    "ExpectedFeedback": ("Expected feedback",),
    "ExpectedPrompt": ("Expected prompts",),
    "ExpectedArtifact": ("Expected artifacts",),
}
"""The sections whose tables have the keys of nouns but rules, and what stands before their keys."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    text: str

    @property
    def end(self) -> str | None:
        """The state in which the example says that its run ends."""
        said = re.search(r"^# ends in (\w+)$", self.text, re.MULTILINE)
        return said[1] if said else None


def page(name: str) -> str:
    (path,) = (path for path in REFERENCE if path.stem == name)
    return path.read_text(encoding="utf-8")


def blocks(start: str) -> list[Block]:
    """The YAML blocks of all pages that start with a line, or with the name of a file and it."""
    return [
        Block(str(path.relative_to(ROOT)), text.count("\n", 0, found.start()) + 1, found[1])
        for path in PAGES
        for text in [path.read_text(encoding="utf-8")]
        for found in re.finditer(r"^```yaml\n(.*?)^```$", text, FENCED)
        if re.sub(FILE, "", found[1]).startswith(start)
    ]


def write_shown_files(block: Block, desk: Desk) -> None:
    """Write the files that the page of a block shows, each with its name in its first line."""
    text = (ROOT / block.page).read_text(encoding="utf-8")
    for shown in re.findall(r"^```\w+\n(.*?)^```$", text, FENCED):
        if found := re.match(FILE, shown):
            # Front matter stands at the very start of its file.
            desk.write(found[1], shown[found.end() :] if found[1].endswith(".md") else shown)


def sections(text: str) -> dict[str, str]:
    """The text under each heading, up to the next one of any level; code has no headings."""
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    _, *parts = re.split(r"^#+ (.*)\n", bare, flags=re.MULTILINE)
    titles = parts[::2]
    assert len(set(titles)) == len(titles), "two sections of one page have the same title"
    return dict(zip(titles, parts[1::2], strict=True))


def section(title: str, having: str = "") -> str:
    """The only section of the reference that has this title, and in it these words."""
    texts = (sections(path.read_text(encoding="utf-8")).get(title) for path in REFERENCE)
    found = [text for text in texts if text is not None and having in text]
    assert len(found) == 1, f"{len(found)} sections of the reference have the title {title!r}"
    return found[0]


def rows(section: str, first: str = "") -> list[list[str]]:
    """The cells of every row of the tables, or of those whose first column is called `first`."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|"))]
        for head, body in re.findall(r"^(.*\|.*)\n[-:| ]+\n((?:.*\|.*\n)*)", section, re.MULTILINE)
        if head.lstrip("| ").startswith(first)
        for line in body.splitlines()
    ]


def code(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def key_tables(text: str) -> dict[str, dict[str, str]]:
    """For each section with a table of keys, what is written of each key: `required`, a default in
    bold, or – for none. Keys that are alike share a row."""
    tables: dict[str, dict[str, str]] = {}
    for title, under in sections(text).items():
        for keys, written, _ in rows(under, "key | type"):
            default = re.search(r"\*\*(.+?)\*\*", written)
            said = default[1] if default else "required" if "required" in written else "–"
            tables.setdefault(title, {}).update(dict.fromkeys(re.findall(r"`([^`]+)`", keys), said))
    return tables


TABLES: dict[str, dict[str, str]] = {}
for path in REFERENCE:
    for title, table in key_tables(path.read_text(encoding="utf-8")).items():
        assert title not in TABLES, f"two tables of keys have the title {title!r}"
        TABLES[title] = table


def fields(noun: type[Noun]) -> list[tuple[str, FieldInfo]]:
    return [(info.alias or name, info) for name, info in noun.model_fields.items()]


def nouns_from(root: type[Noun]) -> set[type[Noun]]:
    """Every noun that a file of a kind can contain; machines and data have files of their own."""
    found: set[type[Noun]] = {ChildMachine, DataFile}
    waiting: list[Any] = [root]
    while waiting:
        annotation = waiting.pop()
        if isinstance(annotation, type) and issubclass(annotation, Noun):
            if annotation not in found:
                found.add(annotation)
                waiting += [info.annotation for _, info in fields(annotation)]
        else:
            waiting += get_args(annotation)
    return found - {ChildMachine, DataFile}


def titles_of(noun: type[Noun]) -> tuple[str, ...]:
    """The sections with its keys. That of a rule has the key by which rules of a kind are known."""
    kind = getattr(noun, "kind", "")
    own = next((title for title in RULE_TITLES if kind in TABLES[title]), "")
    return OTHERS.get(noun.__name__) or (own, RULE)


NOUNS = sorted(nouns_from(Machine) | nouns_from(Scenario), key=lambda noun: noun.__name__)
KEYS = {noun: titles_of(noun) for noun in NOUNS}


def place(noun: type[Noun]) -> tuple[list[str], str]:
    """The titles of the sections that document a noun, and what its keys start with there."""
    *titles, last = KEYS[noun]
    return ([*titles, last], "") if last[-1] != "." else (titles, last)


@pytest.mark.parametrize("block", blocks("loopkit: 1"), ids=lambda b: f"{b.page}:{b.line}")
def test_every_whole_machine_in_the_docs_passes_the_checks(block: Block, desk: Desk) -> None:
    write_shown_files(block, desk)
    problems = check(load_text(block.text, "machine.yaml", desk.folder))
    assert [p.message for p in problems if p.severity != "note"] == []


RUNNABLE = [block for block in blocks("loopkit: 1") if block.end]


@pytest.mark.parametrize("block", RUNNABLE, ids=lambda b: f"{b.page}:{b.line}")
def test_every_machine_that_needs_nobody_ends_where_the_docs_say(block: Block, desk: Desk) -> None:
    write_shown_files(block, desk)
    assert desk.play(block.text).outcome == block.end


SCENARIOS = blocks("scenario: 1")
SCRIPTS = [block for block in SCENARIOS if "\ncases:" not in block.text]
SUITES = [block for block in SCENARIOS if "\ncases:" in block.text]


def machine_above(block: Block) -> str:
    above = [m for m in blocks("loopkit: 1") if m.page == block.page and m.line < block.line]
    return above[-1].text


@pytest.mark.parametrize("block", SCRIPTS, ids=lambda b: f"{b.page}:{b.line}")
def test_every_scenario_in_the_docs_plays_the_machine_above_it(block: Block, desk: Desk) -> None:
    write_shown_files(block, desk)
    assert desk.play(machine_above(block), block.text).outcome == block.end


@pytest.mark.parametrize("block", SUITES, ids=lambda b: f"{b.page}:{b.line}")
def test_every_case_in_the_docs_passes_with_the_machine_above_it(block: Block, desk: Desk) -> None:
    desk.write(read(block.text, block.page).plain()["machine"], machine_above(block))
    write_shown_files(block, desk)
    suite = load_suite(desk.write("docs.scenario.yaml", block.text))
    results = [run_case(suite, name) for name in suite.names]
    assert [result.text for result in results if not result.passed] == []


def test_the_docs_have_an_example_of_every_kind_of_state_and_rule() -> None:
    shown = "".join(block.text for block in blocks("loopkit: 1"))
    kinds = {*STATE_KINDS, *RULE_KINDS} - {"choice"}
    assert {kind for kind in kinds if not re.search(rf"\b{kind}:", shown)} == set()
    assert STATE_KINDS.keys() - {"choice"} - code(section("States", having="guards read")) == set()
    plain = [read(block.text, block.page).plain() for block in blocks("loopkit: 1")]
    assert any(
        STATE_KINDS.keys().isdisjoint(state)
        for machine in plain
        for state in machine["states"].values()
    )


@pytest.mark.parametrize("fact", REPORT_FACTS)
def test_the_section_on_reports_has_every_fact_of_them(fact: str) -> None:
    assert f"`{fact}`" in section("Reports")


def test_every_noun_of_the_language_has_a_section() -> None:
    names = {noun.__name__ for noun, titles in KEYS.items() if titles[0]}
    assert len(names) == len(NOUNS)
    assert OTHERS.keys() - names == set()


@pytest.mark.parametrize("noun", KEYS)
def test_every_key_is_documented_with_its_default(noun: type[Noun]) -> None:
    titles, prefix = place(noun)
    for key, info in fields(noun):
        name = prefix + key
        written = [TABLES[title][name] for title in titles if name in TABLES[title]]
        where = f"`{name}` belongs into the table of {' or '.join(titles)}"
        # Its own table comes first, and may have another default than that of all that are alike.
        assert len(written) == 1 or (written and key in noun.__annotations__), where
        assert_default(name, written[0], info)


def assert_default(name: str, written: str, info: FieldInfo) -> None:
    if info.is_required():
        assert written == "required", name
    elif written == "–":
        assert info.default in (None, "", (), {}), name
    else:
        plain = read(f"value: {written.strip('`')}", "docs").plain()["value"]
        declared: Any = Annotated[info.annotation, info]
        assert TypeAdapter(declared).validate_python(plain) == info.default, name


@pytest.mark.parametrize("title", sorted({title for noun in KEYS for title in place(noun)[0]}))
def test_no_table_has_a_key_that_does_not_exist(title: str) -> None:
    known = {
        place(noun)[1] + key for noun in KEYS if title in KEYS[noun] for key, _ in fields(noun)
    }
    assert TABLES[title].keys() - known == set()


def test_the_filters_and_tests_of_templates_are_exactly_those_that_are_documented() -> None:
    told = section("Filters and tests")
    for first, known in (("filters", FILTERS), ("tests", TESTS)):
        assert set().union(*(code(cells[-1]) for cells in rows(told, first))) == set(known)


def test_the_faults_are_exactly_those_that_are_documented() -> None:
    named = set().union(*(code(cells[0]) for cells in rows(section("Faults"))))
    assert named == {*FAULTS, *BROKEN, CRASH}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Each command with the title of its section."""
    for name, (module, _) in COMMANDS.items():
        command: click.Command = getattr(importlib.import_module(module), f"{name}_command")
        if isinstance(command, click.Group):
            context = click.Context(command)
            for sub in command.list_commands(context):
                inner = command.get_command(context, sub)
                assert inner is not None
                yield f"{name} {sub}", inner
        else:
            yield name, command


EACH_COMMAND = pytest.mark.parametrize(
    ("title", "command"), [pytest.param(*named, id=named[0]) for named in commands()]
)


@EACH_COMMAND
def test_each_command_is_documented_with_all_its_options(
    title: str, command: click.Command
) -> None:
    written = section(title, having=f"`loopkit {title}")
    known = {o for p in command.params if isinstance(p, click.Option) for o in p.opts}
    told = " ".join(cells[0] for cells in rows(written))
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", told)) == known
    usage = re.findall(rf"`loopkit {title}(.*?)`", written)[0]
    arguments = [p for p in command.params if isinstance(p, click.Argument) and p.required]
    assert len(usage.split()) == len(arguments)


@EACH_COMMAND
def test_the_help_of_each_command_ends_with_examples_that_it_takes(
    title: str, command: click.Command
) -> None:
    context = click.Context(command)
    *_, examples = re.split(r"^  Examples?:$", command.get_help(context), flags=re.MULTILINE)
    lines = examples.strip().splitlines()
    assert lines
    for line in lines:
        before, own = f"{line.strip()} ".split(f"loopkit {title} ", 1)
        assert not before
        given, rest, _ = command.make_parser(context).parse_args(
            shlex.split(own.partition("> ")[0])
        )
        required = [p for p in command.params if isinstance(p, click.Argument) and p.required]
        assert not rest
        assert all(given[argument.name] for argument in required)
        assert len(line) <= 80


def test_the_exit_codes_are_exactly_those_that_commands_give() -> None:
    told = {cells[0] for cells in rows(section("Exit codes"))}
    codes = vars(terminal).keys() - {"NARROWEST"}
    known = {str(v) for k in codes if k.isupper() and type(v := getattr(terminal, k)) is int}
    assert told == known


def test_the_forms_of_output_and_the_limits_that_can_be_raised_are_told() -> None:
    assert set(OUTPUTS) - code(section("Output", having="quiet")) == set()
    assert set(RAISABLE) - code(section("resume", having="`loopkit resume")) == set()
    assert "LOOPKIT_STATE" in code(section("Where state lives"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    for target in dict.fromkeys(each for each in targets if not re.match(r"[a-z]+:", each)):
        file, _, anchor = target.partition("#")
        goal = path.parent / file if file else path
        assert goal.exists(), target
        if anchor:
            assert anchor in map(slug, sections(goal.read_text(encoding="utf-8"))), target


def slug(title: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
