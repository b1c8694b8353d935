"""The `schema` rule: data of a shape."""

from collections.abc import Mapping

from pydantic import Field

from loopkit.document.writing import inline
from loopkit.language.noun import Notation
from loopkit.language.validators.rule import Example, FixedRule


class SchemaRule(FixedRule):
    """Checks that the artifact is JSON or YAML data of a given type."""

    schema_: Notation = Field(alias="schema")
    """A type in the notation of the language, or a JSON Schema."""
    tolerant: bool = False
    """Extract the data from a code fence or the prose around it."""

    kind = "schema"
    sees_only_artifact = True
    explains_unreadable = True
    example = Example({"schema": {"cups": "int"}}, passes='{"cups": 2}', fails='{"cups": "two"}')

    @property
    def about(self) -> str:
        """Nothing: a schema is a whole tree."""
        return ""

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"data of the schema {inline(self.schema_)}"
