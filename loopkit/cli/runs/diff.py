"""`loopkit runs diff`: how two versions of an artifact differ."""

from __future__ import annotations

from collections.abc import Iterator

import click

from loopkit.cli import exit_codes
from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.cli.stored_runs import run_argument, with_runs
from loopkit.document.problems import did_you_mean
from loopkit.drive.stored_runs import StoredRuns
from loopkit.views.version_diff import KeptVersion, diff_lines, versions_of


@click.command(
    epilog=examples("loopkit runs diff plan-1f09ab plan", "loopkit runs diff plan-1f09ab --from 1")
)
@run_argument()
@click.argument("artifact", required=False)
@click.option("--from", "first", type=int, metavar="N", help="The version to begin with.")
@click.option("--to", "last", type=int, metavar="N", help="The version to compare it with.")
def command(run: str, artifact: str | None, first: int | None, last: int | None) -> int:
    """Compare two versions of ARTIFACT in RUN.

    What was found in only one of them is named as well. By default the last version is compared
    with the one before it, of the artifact that was judged last.
    """

    async def read(stored: StoredRuns) -> list[str]:
        state = await stored.state_of(run)
        found = versions_of(one.event for one in await stored.events(run))
        judged = state.last_report.artifact if state.last_report else next(reversed(found), "")
        return list(_compare(found, artifact or judged, first, last))

    for line in with_runs(read):
        click.echo(line)
    return exit_codes.OK


def _compare(
    found: dict[str, list[KeptVersion]], name: str, first: int | None, last: int | None
) -> Iterator[str]:
    """The difference of two versions; raises Stop if a version does not exist."""
    if name not in found:
        known = did_you_mean(name, found) or "the run has written none"
        raise Stop(USAGE, f"error: there is no artifact `{name}`; {known}")
    versions = found[name]
    after = _version(versions, last if last is not None else len(versions))
    before = first if first is not None else after.number - 1
    if before == 0 and first is None:
        raise Stop(USAGE, f"error: there is no version before {name} {after.number}")
    yield from diff_lines(_version(versions, before), after)


def _version(versions: list[KeptVersion], number: int) -> KeptVersion:
    if not 1 <= number <= len(versions):
        name = versions[0].artifact.name
        raise Stop(USAGE, f"error: {name} has no version {number}; there are 1 to {len(versions)}")
    return versions[number - 1]
