"""`loopkit schema`."""

from __future__ import annotations

import json

import click

from loopkit.cli.terminal import OK, echo, examples
from loopkit.views.schemas import SCHEMAS


@click.command(epilog=examples("loopkit schema > machine.schema.json"))
@click.argument("which", default="machine", type=click.Choice(list(SCHEMAS)))
def schema_command(which: str) -> int:
    """Print the JSON Schema of machine files (the default), of scenario files, or of output."""
    echo(json.dumps(SCHEMAS[which](), indent=2, ensure_ascii=False))
    return OK
