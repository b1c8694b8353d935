"""Items of reports: what they say besides the parts of a finding, as far as it is declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from loopkit.language import Machine, Rule
from loopkit.language.datatypes import DataType, parse_fields
from loopkit.language.template import Record
from loopkit.machine.graph import Graph
from loopkit.machine.readable import readable
from loopkit.text.json_text import text_or_json
from loopkit.values import Value, field

SHORT = 80
"""Characters of what is told beside a message."""
TEXT = DataType({"type": "string"}, scalar="str")


class ReportItems(Value, frozen=True):
    """The fields that an item of some report of a machine may have."""

    fields: Mapping[str, DataType | None] = field(default_factory=dict)
    """Those that are declared; of several types nothing is known."""
    is_open: bool = False
    """Whether there may be others."""
    parts: frozenset[str] = frozenset()
    """Those from which a `map` reads parts of findings, which say the same."""

    def read(self, item: Mapping[str, object]) -> Record:
        """An item for templates: what is declared somewhere and left out here reads as none."""
        known = {name: readable(value, self.fields.get(name)) for name, value in item.items()}
        return Record(known, self.fields.keys() - known.keys())

    def further(self, item: Mapping[str, object]) -> Iterator[str]:
        """What an item says besides the parts of its finding, each with its name: single values,
        short ones."""
        for name, value in item.items():
            if name not in self.parts and isinstance(value, str | int | float):
                text = text_or_json(value)
                if 0 < len(text) <= SHORT:
                    yield f"{name} `{text}`"


def report_items(graph: Graph) -> ReportItems | None:
    """What findings may say besides their message: items of reports, what plug-ins add, and the
    `fields` of rules. None where there is nothing of that.
    """
    rules = [rule for name in graph.judges for rule in graph.rules_at(name)]
    saying = [rule for rule in rules if rule.tells_more or rule.own_fields]
    return _joined(graph.machine, saying) if saying else None


def _joined(machine: Machine, rules: list[Rule]) -> ReportItems:
    fields: dict[str, DataType | None] = {}
    is_open = False
    for rule in rules:
        item = _item_of(machine, rule)
        if rule.tells_more:
            is_open = is_open or item is None or item.others is not None
        own = ((name, TEXT) for name in rule.own_fields)
        for name, datatype in chain(_fields(item, rule), own):
            is_other = name in fields and fields[name] != datatype
            fields[name] = None if is_other else datatype
    maps = (rule.report_map for rule in rules if rule.report_map is not None)
    parts = {path.partition(".")[0] for each in maps for path in each.item_paths}
    return ReportItems(fields, is_open, frozenset(parts))


def _item_of(machine: Machine, rule: Rule) -> DataType | None:
    """The type of an item of a report; none where it may hold anything."""
    agent = machine.agents.get(rule.asks or "")
    if agent is None or agent.schema_ is None or rule.report_map is None:
        return None
    listed = parse_fields(agent.schema_).at(rule.report_map.findings.split("."))
    item = listed.items if listed is not None else None
    is_known = item is not None and (item.fields is not None or item.scalar is not None)
    return item if is_known else None


def _fields(item: DataType | None, rule: Rule) -> Iterator[tuple[str, DataType]]:
    message = rule.report_map.message if rule.report_map is not None else ""
    for name, datatype in (item.fields or {}).items() if item is not None else ():
        if name != message:
            yield name, datatype
