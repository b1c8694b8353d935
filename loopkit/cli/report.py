"""`loopkit report`."""

from __future__ import annotations

from pathlib import Path

import click

from loopkit.cli import exit_codes
from loopkit.cli.examples import examples
from loopkit.cli.files import write
from loopkit.cli.stored_runs import run_argument, with_app


@click.command(
    epilog=examples(
        "loopkit report plan-1f09ab -o plan.html", "loopkit report plan-1f09ab -o plan.md"
    )
)
@run_argument()
@click.option(
    "-o", "out", type=click.Path(path_type=Path), required=True, metavar="FILE.html|FILE.md",
    help="The file to write; its ending says the format.",
)  # fmt: skip
def command(run: str, out: Path) -> int:
    """Write RUN as a page: its path, its calls, every attempt, and what was found.

    The page needs no server, contains no script and fetches nothing.
    """
    from loopkit.views.page.report import REPORTS

    if out.suffix not in REPORTS:
        raise click.UsageError(f"`-o {out}`: the name has to end in {' or '.join(REPORTS)}")
    facts = with_app(lambda app: app.facts_of(run))
    write(out, REPORTS[out.suffix](facts).encode())
    return exit_codes.OK
