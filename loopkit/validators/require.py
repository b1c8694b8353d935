"""`require`: a condition on data."""

from __future__ import annotations

import json
from itertools import islice

from loopkit.language import RequireRule
from loopkit.language.guard import parse_requirement, select
from loopkit.language.guard.requirement import Known
from loopkit.machine.known import over
from loopkit.text import shorten
from loopkit.validators.data import NoData, data_of
from loopkit.validators.fault import MAX_FAULTS, Fault, unreadable
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.seen import sees_data
from loopkit.validators.setting import Setting

MOST_CHARS = 120
"""The most characters of an item in a message."""


async def check_require(
    rule: RequireRule, subject: JudgedArtifact, setting: Setting
) -> list[Fault]:
    """One fault for the artifact, or with `each` for every item that does not meet the condition.

    A path that leads to no item passes; another rule can require that there are some
    (`nodes.count > 0`). Names are those of the item, then `item`, `index`, `artifact` and those
    of the setting. Data is read from fences and prose too; `schema` can require it to stand
    alone. Raises GuardError.
    """
    data = data_of(subject, tolerant=True)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    requirement = parse_requirement(rule.require)
    items = [("", data)] if rule.each is None else select(rule.each, data)
    own = {subject.artifact: data, "artifact": data}
    names = over(sees_data(rule, setting.names) | own, setting.names)
    known: Known = {}
    faults = (
        _fault(rule, location, item, index)
        for index, (location, item) in enumerate(items)
        if not requirement.holds(item, over({"item": item, "index": index}, names), known)
    )
    return list(islice(faults, MAX_FAULTS))


def _fault(rule: RequireRule, location: str, item: object, index: int) -> Fault:
    place = f"{location}: " if location else ""
    text = shorten(json.dumps(item, ensure_ascii=False), MOST_CHARS)
    shown = f", it is {text}" if rule.each is not None else ""
    message = f"{place}`{rule.require}` is required{shown}"
    return Fault(message, rule.require, location, value=item, item=item, index=index)
