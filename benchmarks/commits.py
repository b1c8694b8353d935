"""How many transactions a SQLite file has seen, read from its bytes.

Counting from outside needs no hook in an engine. In WAL mode each commit ends
with a frame that names the database's size; with a rollback journal each one
raises the change counter. See https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from pathlib import Path

WAL_HEADER = 32
FRAME_HEADER = 24


def count_commits(database: Path) -> int:
    """The commits so far; only differences mean something, and only before a checkpoint."""
    header = database.read_bytes()[:100]
    changes: int = struct.unpack_from(">I", header, 24)[0] if len(header) == 100 else 0
    wal = database.with_name(f"{database.name}-wal")
    return changes + (_commit_frames(wal.read_bytes()) if wal.exists() else 0)


def _commit_frames(wal: bytes) -> int:
    if len(wal) < WAL_HEADER:
        return 0
    page_size: int = struct.unpack_from(">I", wal, 8)[0]
    salts = wal[16:24]
    frames = range(WAL_HEADER, len(wal) - FRAME_HEADER, FRAME_HEADER + page_size)
    return sum(wal[at + 8 : at + 16] == salts and wal[at + 4 : at + 8] != bytes(4) for at in frames)
