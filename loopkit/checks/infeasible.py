"""`unknown-field`, `wrong-kind`: `infeasible:` does not name a bool field of the agent's schema."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem, closest
from loopkit.language.datatypes import parse_fields


def check_infeasible(subject: Subject) -> Iterator[Problem]:
    """`infeasible:` names a bool field of the agent's schema."""
    for name, agent in subject.machine.agents.items():
        if agent.infeasible is None:
            continue
        fields = (parse_fields(agent.schema_).fields or {}) if agent.schema_ else {}
        path = ("agents", name, "infeasible")
        if agent.infeasible not in fields:
            message = f"the schema has no field `{agent.infeasible}`"
            near = closest(agent.infeasible, fields)
            add = f"add it: `schema: {{…, {agent.infeasible}: bool}}`"
            remedy = f"did you mean `{near}`?" if near else add
            yield subject.source.problem(path, "unknown-field", message, help=remedy)
        elif fields[agent.infeasible].scalar != "bool":
            message = f"the field `{agent.infeasible}` of the schema is neither true nor false"
            remedy = f"make it `{agent.infeasible}: bool`"
            yield subject.source.problem(path, "wrong-kind", message, help=remedy)
