"""The model of an order; `python3 order.py > order.schema.json` writes its JSON Schema."""

import json
from datetime import date
from typing import Annotated

from pydantic import BaseModel, Field


class Item(BaseModel):
    article: Annotated[str, Field(pattern=r"^[A-Z]{2}-\d{3}$")]
    quantity: Annotated[int, Field(ge=1, le=1000)]


class Order(BaseModel):
    customer: Annotated[str, Field(min_length=1)]
    wanted_by: date | None = None
    items: Annotated[list[Item], Field(min_length=1)]


if __name__ == "__main__":
    print(json.dumps(Order.model_json_schema(), indent=2))
