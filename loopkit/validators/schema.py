"""`schema`: data of the right shape."""

from __future__ import annotations

from loopkit.language import SchemaRule
from loopkit.language.datatypes import NotationError, conform, parse_type
from loopkit.language.json_schema import NotJudged
from loopkit.validators.data import NoData, data_of
from loopkit.validators.fault import MAX_FAULTS, CannotJudge, Fault, unreadable
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting


async def check_schema(rule: SchemaRule, subject: JudgedArtifact, _setting: Setting) -> list[Fault]:
    """One fault for each part of the data that is wrong, at its location."""
    data = data_of(subject, tolerant=rule.tolerant)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    faults = _faults(data, rule)
    return [_fault(location, message, data) for location, message in faults[:MAX_FAULTS]]


def _faults(data: object, rule: SchemaRule) -> list[tuple[str, str]]:
    try:
        return conform(data, parse_type(rule.schema_))[1]
    except NotationError as error:
        raise CannotJudge(f"the schema cannot be used: {error}") from error
    except NotJudged as error:
        raise CannotJudge(f"the data could not be checked against the schema: {error}") from error


def _fault(location: str, message: str, data: object) -> Fault:
    placed = f"{location}: {message}" if location else message
    return Fault(placed, message, location, value=data)
