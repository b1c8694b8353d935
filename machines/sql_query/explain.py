"""What SQLite says of a query: it is planned by the schema beside this file, and not run."""

import sqlite3
from pathlib import Path

from loopkit.plugins import Context, Finding

SCHEMA = Path(__file__).with_name("shop.sql")


def planned(query: str, _: Context) -> list[Finding]:
    """One finding where the query can't be planned."""
    database = sqlite3.connect(":memory:")
    try:
        database.executescript(SCHEMA.read_text(encoding="utf-8"))
        database.execute(f"EXPLAIN {query}")
    except (sqlite3.Error, sqlite3.Warning) as error:
        return [Finding(f"SQLite says: {error}", key=str(error))]
    finally:
        database.close()
    return []
