"""A reply → an artifact: its text or data, its fields, and its faults."""

from __future__ import annotations

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
    """The artifact of an agent's reply, with its content fault if there is one."""
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


def workspace_text(reply: Replied) -> str | None:
    """The text of the output file or folder; None if the attempt left none."""
    return reply.artifact_text if reply.folder is None else reply.folder.change


def with_folder(artifact: Artifact, reply: Replied) -> Artifact:
    """The artifact with the fields and the tree of the folder that it is."""
    left = reply.folder or LeftFolder(tree="")
    values = list(left.files), left.last_change, left.tree
    fields = dict(zip(OF_FOLDERS, values, strict=True))
    return artifact.replace(fields=fields, tree=left.tree, place=left.place)


def faulty_artifact(output: Output, author: str, attempt: int, code: str, fault: str) -> Artifact:
    """The artifact of an attempt that produced none."""
    return Artifact(
        name=output.name, author=author, attempt=attempt, text="", fault=fault, fault_code=code
    )


def _text_of(reply: Replied, output: Output, *, has_schema: bool) -> tuple[str, str, str]:
    """(text, fault code, fault) of a reply; with a schema, the whole text with the data in it."""
    written = workspace_text(reply)
    if output.may_be_missing and written is None:
        return "", MISSING, reply.artifact_fault or "the output file was not written"
    text = reply.text if written is None else written
    text = text if has_schema else body(text, output)
    # An attempt that reverts all changes leaves the original folder, which is not an empty answer.
    if not text.strip() and reply.folder is None:
        return text, EMPTY, "the answer is empty"
    if reply.cut_off and written is None:
        return text, CUT_OFF, "the answer was cut off before its end"
    return text, "", ""


def _own_cap(agent: Agent) -> str:
    """The longest answer that the machine's options allow, if it is the same for all callees."""
    options = (asked.options for asked in agent.in_turn)
    caps = {next(((c, p[c]) for c in OUTPUT_CAPS if p.get(c) is not None), None) for p in options}
    [cap] = caps if len(caps) == 1 else {None}
    return f" (`{cap[0]}` is {cap[1]:,})" if cap is not None else ""


def _with_data(plain: Artifact, agent: Agent) -> Artifact:
    found = extract_json(plain.text)
    if isinstance(found, NoJson):
        return plain.replace(fault=f"the answer is not JSON: {found.reason}", fault_code=NOT_JSON)
    datatype = parse_fields(agent.schema_ or {})
    data, faults = conform(found, datatype)
    if agent.infeasible is not None and _field(data, agent.infeasible) is True:
        # An infeasible answer need not fill in the rest.
        data, missing = salvage(data, datatype)
        known = plain.replace(data=data, is_data=True, missing=tuple(sorted(missing)))
        return known.replace(infeasible=True)
    if faults:
        fault = f"the answer breaks its schema: {'; '.join(fault_texts(faults))}"
        return plain.replace(fault=fault, fault_code=BREAKS_SCHEMA)
    return plain.replace(data=data, is_data=True)


def _field(data: object, name: str) -> Any:
    return data.get(name) if isinstance(data, Mapping) else None
