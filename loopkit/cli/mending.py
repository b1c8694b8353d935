"""`--model`, `--price`, `--param`: options that change agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import click

from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.text.json_text import NoJson, parse_json


def model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--model` and `--price`."""
    model = click.option(
        "--model",
        "models",
        multiple=True,
        metavar="AGENT=MODEL",
        help="Use another model for an agent.",
    )
    price = click.option(
        "--price",
        "prices",
        multiple=True,
        metavar="AGENT=USD",
        help="The price per million tokens.",
    )
    return model(price(function))


def usd(_context: click.Context, _option: click.Parameter, amount: float | None) -> float | None:
    """An amount that can be a limit: NaN would be one that nothing reaches."""
    if amount is not None and not 0 <= amount < inf:
        raise click.BadParameter("write US dollars, 0 or more")
    return amount


def by_agent(option: str, written: Iterable[str]) -> dict[str, str]:
    """The values of `agent=VALUE` options by agent; raises Stop."""
    values: dict[str, str] = {}
    for text in written:
        name, _, value = text.partition("=")
        if not name.strip() or not value.strip():
            raise Stop(USAGE, f"error: `{option} {text}` is not of the form `agent=value`")
        values[name] = value
    return values


def amounts(prices: Iterable[str]) -> dict[str, float]:
    """The values of `--price` options by agent; raises Stop."""
    found: dict[str, float] = {}
    for name, text in by_agent("--price", prices).items():
        try:
            found[name] = float(text)
        except ValueError as error:
            raise Stop(USAGE, f"error: `--price {name}={text}` is not a number") from error
    return found


def options_by_agent(params: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The values of `--param AGENT.KEY=VALUE` options; raises Stop. `null` removes an option."""
    found: dict[str, dict[str, Any]] = {}
    for text in params:
        key, equals, value = text.partition("=")
        name, _, dotted = key.strip().partition(".")
        if not equals or not name or not all(dotted.split(".")):
            raise Stop(USAGE, f"error: `--param {text}` is not of the form `agent.key=value`")
        data = parse_json(value)
        found.setdefault(name, {})[dotted] = value if isinstance(data, NoJson) else data
    return found
