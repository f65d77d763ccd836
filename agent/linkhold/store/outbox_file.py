"""Opening the outbox: a missing one is made, a damaged one is kept aside and replaced."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from linkhold.model import StoreError
from linkhold.store.outbox import Outbox

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.config.settings import OutboxSettings

FILE_NAME = "outbox.db"
VERSION = 1
"""``PRAGMA user_version``: a file of any other version is kept aside, whether older or newer."""
CHECK_BYTES = 64 << 20
"""Files up to this size are checked whole at start (about 0.1 s); damage in larger ones is found
when it is met."""
KEEP_DAMAGED = 3
"""Damaged files that are kept; older ones are deleted."""

_SCHEMA = """
CREATE TABLE event (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL, subject TEXT NOT NULL,
    severity TEXT NOT NULL, wall_s REAL NOT NULL, payload BLOB NOT NULL,
    status TEXT NOT NULL, code INTEGER NOT NULL, attempts INTEGER NOT NULL);
CREATE INDEX event_status ON event (status);
CREATE INDEX event_session ON event (session, seq);
CREATE TABLE kept (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE total (status TEXT PRIMARY KEY, rows INTEGER NOT NULL, bytes INTEGER NOT NULL)
    WITHOUT ROWID;
INSERT INTO total VALUES ('pending', 0, 0), ('delivered', 0, 0), ('no_subscriber', 0, 0),
    ('parked', 0, 0), ('local', 0, 0);
CREATE TRIGGER event_added AFTER INSERT ON event BEGIN
    UPDATE total SET rows = rows + 1, bytes = bytes + length(new.payload)
        WHERE status = new.status; END;
CREATE TRIGGER event_removed AFTER DELETE ON event BEGIN
    UPDATE total SET rows = rows - 1, bytes = bytes - length(old.payload)
        WHERE status = old.status; END;
CREATE TRIGGER event_marked AFTER UPDATE OF status ON event BEGIN
    UPDATE total SET rows = rows - 1, bytes = bytes - length(old.payload)
        WHERE status = old.status;
    UPDATE total SET rows = rows + 1, bytes = bytes + length(new.payload)
        WHERE status = new.status; END;
"""


class _Damaged(Exception):
    """The file is no outbox of ours."""


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """What the start found. ``outbox`` is None when events can only be kept in memory.

    ``baseline`` is the state as last committed, ``position`` (session, seq) of the last event.
    ``problem`` is empty when all is well; with an outbox it says that a damaged file was kept
    aside, and under which name.
    """

    outbox: Outbox | None
    baseline: bytes | None = None
    position: tuple[str, int] | None = None
    problem: str = ""


def open_store(state_dir: Path, settings: OutboxSettings) -> OpenedStore:
    """Open ``outbox.db`` in ``state_dir``, which is made (0700) if need be. Never raises.

    May block for as long as the disk does.
    """
    try:
        outbox, problem = open_outbox(state_dir, settings)
        return OpenedStore(outbox, outbox.baseline(), outbox.last_position(), problem)
    except (StoreError, OSError, sqlite3.Error, UnicodeDecodeError) as error:
        return OpenedStore(None, problem=reason_of(error))


def open_outbox(state_dir: Path, settings: OutboxSettings) -> tuple[Outbox, str]:
    """Open or make the outbox; the text says what was damaged and where it is kept now.

    Raises :class:`StoreError` when the folder or the file cannot be used.
    """
    path = state_dir / FILE_NAME
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return Outbox(_connect(path), settings), ""
        except _Damaged as damage:
            kept = set_aside(path)
            return Outbox(_connect(path), settings), f"{damage}; kept as {kept.name}"
    except (_Damaged, OSError, sqlite3.Error) as error:
        raise StoreError(f"{path}: {reason_of(error)}") from error


def set_aside(path: Path) -> Path:
    """Rename the database with its -wal and -shm to ``<name>.damaged-<time>``.

    Returns the new path of the database. Raises ``OSError``.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while os.path.lexists(target):
        number += 1
        target = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(target.with_name(target.name + suffix))
    _forget_old(path)
    return target


def reason_of(error: BaseException) -> str:
    """Return the text of an error as a person would say it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _forget_old(path: Path) -> None:
    pattern = f"{path.name}.damaged-*"
    kept = [one for one in path.parent.glob(pattern) if not one.name.endswith(("-wal", "-shm"))]
    kept.sort(key=lambda one: one.lstat().st_ctime_ns)
    for old in kept[:-KEEP_DAMAGED]:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):  # a folder that lay in its place stays
                old.with_name(old.name + suffix).unlink()


def _connect(path: Path) -> sqlite3.Connection:
    """Open, check and if need be make the database; raises _Damaged, OSError, sqlite3.Error."""
    for suffix in ("", "-wal", "-shm"):
        _check_regular(path.with_name(path.name + suffix))
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)
    database = sqlite3.connect(path, timeout=1.0, isolation_level=None)
    try:
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        if not path.stat().st_size:  # later it would be a write, which a full disk refuses
            database.execute("PRAGMA auto_vacuum = INCREMENTAL").fetchall()
        _configure(database)
        _prepare(database, path.stat().st_size)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        database.close()
        if is_damage(error):
            raise _Damaged(worded(error)) from error
        raise
    except BaseException:
        database.close()
        raise
    return database


def is_damage(error: Exception) -> bool:
    """Tell a damaged file from a disk that refuses: Python has a class of its own for the rest.

    SQLite's own words have damaged bytes in them where the schema is damaged, and a damaged head
    of the file is an error like any other to it.
    """
    damage = type(error) in {sqlite3.DatabaseError, UnicodeDecodeError}
    return damage or str(error) == "unsupported file format"


def _check_regular(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise _Damaged(f"{path.name} is no regular file")


def _configure(database: sqlite3.Connection) -> None:
    # Exclusive: no -shm file, whose memory map would kill the agent when a disk is full.
    for pragma in (
        "locking_mode = EXCLUSIVE",
        "journal_mode = WAL",
        "synchronous = FULL",
        "cell_size_check = ON",
        "temp_store = MEMORY",
        f"journal_size_limit = {16 << 20}",
    ):
        database.execute(f"PRAGMA {pragma}").fetchall()


def _prepare(database: sqlite3.Connection, size: int) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if not tables and not version:
        database.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;"
        )
        return
    if version != VERSION:
        raise _Damaged(f"schema version {version}, expected {VERSION}")
    if size <= CHECK_BYTES:
        found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise _Damaged(str(found).replace("\n", " "))
    if _schema(database) != _wanted_schema():
        raise _Damaged(f"not the schema of version {VERSION}")


def _schema(database: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return tables, indexes and triggers with their SQL, however it is broken into lines."""
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(str(name), " ".join(str(sql).split())) for name, sql in rows}


@lru_cache(maxsize=1)
def _wanted_schema() -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_SCHEMA)
        return _schema(database)


def worded(error: Exception) -> str:
    """Return what SQLite says of a damaged file."""
    return "its schema is damaged" if isinstance(error, UnicodeDecodeError) else str(error)


def read_history(state_dir: Path, since_wall_s: float, limit: int) -> list[bytes]:
    """Return the newest ``limit`` events since a wall-clock time, oldest first, without an agent.

    Reads only. Raises :class:`StoreError` when there is no outbox or it cannot be read.
    """
    path = state_dir / FILE_NAME
    query = (
        "SELECT payload FROM (SELECT row, payload FROM event WHERE wall_s >= ?"
        " ORDER BY row DESC LIMIT ?) ORDER BY row"
    )
    try:
        _check_regular(path)  # SQLite would wait for whoever writes to a FIFO
    except (_Damaged, OSError) as error:
        raise StoreError(f"{path}: {reason_of(error)}") from error
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION:
                another = f"another linkhold wrote it (version {version}, this one reads {VERSION})"
                raise StoreError(f"{path}: {another}; read it with that one")
            found = database.execute(query, (since_wall_s, limit))
            return [payload for (payload,) in found if isinstance(payload, bytes)]
    except UnicodeDecodeError:
        raise StoreError(f"{path}: is damaged; an agent sets it aside when it starts") from None
    except sqlite3.Error as error:
        why = "no outbox there" if not path.exists() else reason_of(error)
        if "locked" in why:
            why = "in use by a running agent (name its --run-dir)"
        raise StoreError(f"{path}: {why}") from error
