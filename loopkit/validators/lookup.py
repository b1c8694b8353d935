"""`lookup`: every value is one of the known values, or every known value is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from loopkit.language.datatypes.datatype import value_at
from loopkit.language.guard.evaluate import ITEMS, parse_path, select
from loopkit.language.guard.kleene import parse_requirement
from loopkit.language.validators import DataFile, Lookup, LookupRule
from loopkit.machine.item_list import (
    MAX_HINTS,
    Same,
    choices,
    same_as,
    unknown,
    value_text,
    values_at,
)
from loopkit.machine.scope import over
from loopkit.text.json_text import canonical
from loopkit.validators.data import JudgedArtifact, NoData, data_in, data_of, place
from loopkit.validators.fault import MAX_FAULTS, CannotJudge, Found, defect, unreadable
from loopkit.validators.setting import Setting


async def check_lookup(rule: LookupRule, subject: JudgedArtifact, setting: Setting) -> list[Found]:
    """One finding for each value that is not known, or by `cover` or `avoid`.

    A missing value is not a finding here, because `schema` can require it. If the known values
    can't be read from where they are, the author of the artifact is not to blame: raises
    CannotJudge.
    """
    data = data_of(subject, tolerant=True)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    lookup = rule.lookup
    is_own = lookup.in_ in ("artifact", subject.artifact)
    known = _select_values(lookup, data, setting) if is_own else known_values(lookup, setting)
    find = _find_unused if lookup.cover else _find_wrong
    return list(islice(find(lookup, data, [value for _, value in known]), MAX_FAULTS))


def known_values(lookup: Lookup, setting: Setting) -> list[tuple[str, object]]:
    data = source_of(lookup.in_, setting)
    if not any(values_at(lookup.at, data)) and not holds_nothing(lookup.at, data):
        raise CannotJudge(f"{place(lookup)} holds no values to look anything up in")
    return _select_values(lookup, data, setting)


def _select_values(lookup: Lookup, data: object, setting: Setting) -> list[tuple[str, object]]:
    """The known values: of the items that meet the condition, if there is one."""
    if lookup.where is None or lookup.at is None:
        return list(values_at(lookup.at, data))
    head, items, rest = lookup.at.rpartition(ITEMS)
    condition = parse_requirement(lookup.where)
    found: list[tuple[str, object]] = []
    for index, (location, item) in enumerate(select(head + items, data)):
        if condition.holds(item, over({"item": item, "index": index}, setting.names)):
            inner = values_at(rest.removeprefix("."), item) if rest else [("", item)]
            found += ((f"{location}.{at}" if at else location, value) for at, value in inner)
    return found


def _comparable(value: object) -> Same | None:
    """A key that is equal for equal values; mappings are compared as a whole."""
    return ("record", canonical(value)) if isinstance(value, Mapping) else same_as(value)


def holds_nothing(at: str | None, data: object) -> bool:
    """Whether a list or a mapping on the path is there and empty, so that nothing is known."""
    steps = parse_path(at) if at else ()
    for number in range(len(steps) + 1):
        path = ".".join(steps[:number]).replace(".[]", "[]")
        found = select(path, data) if path else [("", data)]
        if any(value in ([], (), {}) for _, value in found):
            return True
    return False


def _find_wrong(lookup: Lookup, data: object, known: list[object]) -> Iterator[Found]:
    """Each value that is not known, or with `avoid` each that is."""
    kinds = {_comparable(value) for value in known} - {None}
    words, hints = choices(known), MAX_HINTS
    for index, (location, value) in enumerate(_values(lookup, data).items()):
        if (_comparable(value) in kinds) != lookup.avoid:
            continue
        told, start = value_text(value), f"{location}: " if location else ""
        message = (
            f"{start}`{told}` is one of those in {place(lookup)}, and none of them may be used"
        )
        if not lookup.avoid:
            hints -= 1
            message = f"{start}`{told}` is not known in {place(lookup)}"
            message = unknown(message, value, words if hints >= 0 else ())
        steady = f"{'used' if lookup.avoid else 'unknown'} {told}"
        yield defect(message, steady, location, value=value, item=value, index=index)


def _find_unused(lookup: Lookup, data: object, known: list[object]) -> Iterator[Found]:
    """Each known value that is not among those of the artifact, once."""
    seen = {_comparable(value) for value in _values(lookup, data).values()} | {None}
    for index, value in enumerate(known):
        if (kind := _comparable(value)) not in seen:
            seen.add(kind)
            told = value_text(value)
            message = f"`{told}` of {place(lookup)} is not used at {lookup.place}"
            yield defect(message, f"unused {told}", value=value, item=value, index=index)


def _values(lookup: Lookup, data: object) -> dict[str, object]:
    """The values of the artifact by location; two paths may lead to the same ones."""
    return {at: value for path in lookup.path for at, value in values_at(path, data)}


def source_of(name: str | DataFile, setting: Setting) -> object:
    if isinstance(name, DataFile):
        return _require_data(name, data_in(name))
    value = value_at(setting.names, name.split("."))
    if value is None:
        raise CannotJudge(f"`{name}` is not there, so nothing can be looked up in it")
    if isinstance(value, str) and not name.startswith("input."):
        return _require_data(name, data_of(JudgedArtifact(name, value), tolerant=True))
    return value


def _require_data(name: str | DataFile, data: object | NoData) -> object:
    if isinstance(data, NoData):
        reason = data.reason.replace("the artifact", f"`{name}`", 1)
        raise CannotJudge(f"nothing can be looked up: {reason}")
    return data
