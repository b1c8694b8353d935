"""The form of kind A as the peers take it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class Booking(BaseModel):
    model_config = ConfigDict(extra="forbid")

    guest: Annotated[str, Field(min_length=2)]
    room: Annotated[str, Field(min_length=2)]
    arrives: Day
    leaves: Day
    guests: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def judge(self, info: ValidationInfo) -> Any:
        """Apply the rules of the task, where the one who asks passes them as context."""
        find = (info.context or {}).get("find")
        if find and (found := find(self.model_dump_json())):
            raise ValueError("; ".join(found))
        return self
