"""A reply → an artifact: its text or data, its fields, and its faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopkit.agents.model.answer_caps import OUTPUT_CAPS
from loopkit.drive.fields import body, extract
from loopkit.engine.events import Artifact, LeftFolder, Replied
from loopkit.language import Agent, Output
from loopkit.language.datatypes import conform, fault_texts, parse_fields, salvage
from loopkit.language.states.output import OF_FOLDERS
from loopkit.machine.codes import BREAKS_SCHEMA, CUT_OFF, EMPTY, MISSING, NOT_JSON
from loopkit.text.json_text import NoJson, extract_json


def make_artifact(
    reply: Replied,
    agent: Agent,
    output: Output,
    author: str,
    attempt: int,
    patterns: Mapping[str, str],
) -> Artifact:
    """The artifact that an agent's reply brings, with the fault that makes it none."""
    text, code, fault = _text_of(reply, output, has_schema=agent.schema_ is not None)
    if code == CUT_OFF:
        fault += _own_cap(agent)
    plain = Artifact(
        name=output.name, author=author, attempt=attempt, text=text, workspace=reply.workspace
    )
    if fault:
        return plain.replace(fault=fault, fault_code=code)
    if output.folder is not None:
        plain = with_folder(plain, reply)
    if agent.schema_ is not None:
        return _with_data(plain, agent)
    if not output.fields:
        return plain
    return plain.replace(fields=plain.fields | extract(text, output.fields, patterns))


def left_text(reply: Replied) -> str | None:
    """What the attempt left in the workspace as a text; none where it left nothing."""
    return reply.artifact_text if reply.folder is None else reply.folder.change


def with_folder(artifact: Artifact, reply: Replied) -> Artifact:
    """An artifact that is a folder, with what is known of that."""
    left = reply.folder or LeftFolder(tree="")
    told = list(left.files), left.last_change, left.tree
    fields = dict(zip(OF_FOLDERS, told, strict=True))
    return artifact.replace(fields=fields, tree=left.tree, place=left.place)


def faulty(output: Output, author: str, attempt: int, code: str, fault: str) -> Artifact:
    """What stands for an artifact that never came."""
    return Artifact(
        name=output.name, author=author, attempt=attempt, text="", fault=fault, fault_code=code
    )


def _text_of(reply: Replied, output: Output, *, has_schema: bool) -> tuple[str, str, str]:
    """(text, fault code, fault) of a reply; of data the whole text, in which it is looked for."""
    written = left_text(reply)
    if output.may_be_missing and written is None:
        return "", MISSING, reply.artifact_fault or "the output file was not written"
    text = reply.text if written is None else written
    text = text if has_schema else body(text, output)
    # Whoever takes back all changes has left the folder as it was, and not nothing.
    if not text.strip() and reply.folder is None:
        return text, EMPTY, "the answer is empty"
    if reply.cut_off and written is None:
        return text, CUT_OFF, "the answer was cut off before its end"
    return text, "", ""


def _own_cap(agent: Agent) -> str:
    """The longest answer that the machine asks for, where everybody who may answer has the same."""
    options = (asked.options for asked in agent.in_turn)
    caps = {next(((c, p[c]) for c in OUTPUT_CAPS if p.get(c) is not None), None) for p in options}
    [cap] = caps if len(caps) == 1 else {None}
    return f" (`{cap[0]}` is {cap[1]:,})" if cap is not None else ""


def _with_data(plain: Artifact, agent: Agent) -> Artifact:
    found = extract_json(plain.text)
    if isinstance(found, NoJson):
        return plain.replace(fault=f"the answer is not JSON: {found.reason}", fault_code=NOT_JSON)
    datatype = parse_fields(agent.schema_ or {})
    data, faults = conform(_storable(found), datatype)
    if agent.infeasible is not None and _field(data, agent.infeasible) is True:
        # Who can't do it need not have filled in the rest.
        data, missing = salvage(data, datatype)
        known = plain.replace(data=data, is_data=True, missing=tuple(sorted(missing)))
        return known.replace(infeasible=True)
    if faults:
        fault = f"the answer breaks its schema: {'; '.join(fault_texts(faults))}"
        return plain.replace(fault=fault, fault_code=BREAKS_SCHEMA)
    return plain.replace(data=data, is_data=True)


def _storable(data: object) -> object:
    """The data with every half of a surrogate pair, which no file can hold, replaced by `?`."""
    stored: object = json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))
    return stored


def _field(data: object, name: str) -> Any:
    return data.get(name) if isinstance(data, Mapping) else None
