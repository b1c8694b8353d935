"""What the processes of a journal may spend together, and what they know of providers, in tables.

Times are those of the database. Whatever is done again because an answer was lost does no more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from loopkit.journal.limits import Circuit, Rate, Standing
from loopkit.journal.postgres.database import Connection, Database, rows

T = TypeVar("T")


class Requests(Protocol):
    """What a journal does with its database."""

    @property
    def owner(self) -> str: ...

    async def present(self) -> str: ...

    async def look(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]: ...

    async def write(self, work: Callable[[Connection, int], Awaitable[T]]) -> T: ...


class PostgresLimits:
    def __init__(self, database: Database, journal: Requests) -> None:
        self._sql = database
        self._journal = journal

    async def open_account(self, account: str, limit: float | None, spent: float) -> None:
        await self._write("open_account", (account, limit, spent))

    async def standing(self, account: str) -> Standing | None:
        values = {"account": account, "owner": self._journal.owner}
        found = await self._journal.look("standing", values)
        return Standing(*found[0]) if found else None

    async def hold(self, account: str, run: str, key: str, usd: float) -> bool:
        owner = await self._journal.present()
        values = {"account": account, "run": run, "key": key, "usd": usd, "owner": owner}

        async def work(db: Connection, _: int) -> bool:
            sql = self._sql
            await rows(db, sql["free_hold"], values)
            if not usd:
                return True
            if not await rows(db, sql["hold"], values):
                return False
            await rows(db, sql["note_hold"], values)
            return True

        return await self._journal.write(work)

    async def free_others(self, run: str, keys: Collection[str]) -> None:
        await self._write("free_other_holds", (run, [*keys]))

    async def circuits(self) -> Mapping[str, Circuit]:
        found = await self._journal.look("circuits")
        return {name: Circuit(*circuit) for name, *circuit in found}

    async def record_failure(
        self, provider: str, closed_s: float, threshold: int, opens_s: float
    ) -> None:
        values = {"provider": provider, "closed": closed_s, "opens": opens_s}
        await self._write("record_failure", {**values, "threshold": threshold})

    async def record_answer(self, provider: str) -> None:
        await self._write("record_answer", (provider,))

    async def probe(self, provider: str) -> bool:
        values = {"provider": provider, "owner": await self._journal.present()}
        return bool(await self._write("probe", values))

    async def release_probe(self, provider: str) -> None:
        await self._write("release_probe", (provider, self._journal.owner))

    async def take_calls(
        self, provider: str, held: int, wanted: int, rate: Rate
    ) -> tuple[int, float]:
        owner = await self._journal.present()

        async def work(db: Connection, _: int) -> tuple[int, float]:
            sql = self._sql
            [(ahead_s,)] = await rows(db, sql["lock_provider"], (provider,))
            [(elsewhere,)] = await rows(db, sql["calls_elsewhere"], (provider, owner))
            granted, wait_s = rate.grant(wanted, held + elsewhere, ahead_s)
            await rows(db, sql["use_minute"], (granted * rate.interval_s, provider))
            await rows(db, sql["note_calls"], (provider, owner, held + granted))
            return granted, wait_s

        return await self._journal.write(work)

    async def _write(
        self, name: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        return await self._journal.write(lambda db, _: rows(db, self._sql[name], values))
