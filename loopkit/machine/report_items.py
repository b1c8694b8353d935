"""Items of reports: their declared fields besides the parts of a finding."""

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
"""The most characters of a value that is shown beside a message."""
TEXT = DataType({"type": "string"}, scalar="str")


class ReportItems(Value, frozen=True):
    """The fields that an item of some report of a machine may have."""

    fields: Mapping[str, DataType | None] = field(default_factory=dict)
    """The declared fields; the type is None where rules declare different ones."""
    is_open: bool = False
    """Whether there may be other fields."""
    parts: frozenset[str] = frozenset()
    """The fields from which a `map` reads parts of findings, so that they repeat these."""

    def read(self, item: Mapping[str, object]) -> Record:
        """An item for templates: a declared field that is missing reads as none."""
        known = {name: readable(value, self.fields.get(name)) for name, value in item.items()}
        return Record(known, self.fields.keys() - known.keys())

    def further(self, item: Mapping[str, object]) -> Iterator[str]:
        """The short single values of an item besides the parts of its finding, with their names."""
        for name, value in item.items():
            if name not in self.parts and isinstance(value, str | int | float):
                text = text_or_json(value)
                if 0 < len(text) <= SHORT:
                    yield f"{name} `{text}`"


def report_items(graph: Graph) -> ReportItems | None:
    """The further fields of findings: from items of reports, from plug-ins, and from the `fields`
    of rules. None where no rule has any.
    """
    rules = [rule for name in graph.judges for rule in graph.rules_at(name)]
    saying = [rule for rule in rules if rule.tells_more or rule.own_fields]
    return _items_of_rules(graph.machine, saying) if saying else None


def _items_of_rules(machine: Machine, rules: list[Rule]) -> ReportItems:
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
    """The type of an item of a report; None where it may hold anything."""
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
