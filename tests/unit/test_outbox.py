"""The outbox on disk: what is committed, what a full one drops, what a damaged one becomes."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkhold.config.settings import OutboxSettings
from linkhold.model import Severity, StoreError
from linkhold.store.outbox import Mark, Outbox, ReplayRequest, Status, Stored
from linkhold.store.outbox_file import KEEP_DAMAGED, open_outbox, open_store
from support.outbox import entries, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from linkhold.decide.readings import OverflowReading
    from linkhold.store.outbox import Entry

ROOMY = OutboxSettings()
TIGHT = OutboxSettings(max_events=100)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """Return a new outbox."""
    opened, problem = open_outbox(tmp_path / "state", ROOMY)
    assert not problem
    yield opened
    opened.close()


def append(outbox: Outbox, events: Sequence[Entry], baseline: bytes) -> OverflowReading | None:
    """Record pending events and the state after them."""
    return outbox.write([Stored(0, entry) for entry in events], baseline)


def mark(outbox: Outbox, marks: Sequence[Mark]) -> None:
    """Record answers of brokers alone."""
    outbox.write((), None, marks)


def seqs(rows: list[Stored]) -> list[int]:
    """Return the sequence numbers of events."""
    return [row.entry.seq for row in rows]


def test_an_event_comes_back_as_it_was_recorded(outbox: Outbox) -> None:
    """Every field of an event survives the disk."""
    recorded = entry(7, "bond.failover", "bond0", Severity.CRITICAL, previous="eth0")
    append(outbox, [recorded], b"state")

    (stored,) = outbox.pending(0, 10)

    assert recorded == stored.entry
    assert (stored.status, stored.code, stored.attempts) == (Status.PENDING, 0, 0)


def test_events_and_baseline_are_one_transaction(outbox: Outbox) -> None:
    """A transaction that fails leaves neither events nor baseline behind."""
    append(outbox, [entry(1)], b"one")
    bad = Stored(0, entry(3), Status.PENDING, code="x" * 3)  # type: ignore[arg-type]
    object.__setattr__(bad.entry, "payload", None)

    with pytest.raises(sqlite3.IntegrityError):
        outbox.write([Stored(0, entry(2)), bad], b"three")

    assert seqs(outbox.pending(0, 10)) == [1]
    assert outbox.baseline() == b"one"
    assert outbox.last_position() == ("s1", 1)


def test_a_new_outbox_knows_nothing(outbox: Outbox) -> None:
    """Without a transaction there is neither baseline nor position."""
    assert outbox.baseline() is None
    assert outbox.last_position() is None
    assert sum(outbox.counts().values()) == 0


def test_recording_an_id_twice_keeps_one_row(outbox: Outbox) -> None:
    """A retry after a commit of unknown outcome doubles nothing."""
    append(outbox, entries(1, 3), b"")
    append(outbox, entries(2, 4), b"")

    assert seqs(outbox.pending(0, 10)) == [1, 2, 3, 4]


def test_text_that_is_no_unicode_is_recorded(outbox: Outbox) -> None:
    """An interface's name may hold any bytes; it must not block the events behind it."""
    append(outbox, [entry(1, subject="eth\udcff")], b"")

    assert [row.entry.subject for row in outbox.pending(0, 1)] == ["eth?"]


def test_marks_move_events_between_statuses(outbox: Outbox) -> None:
    """Answers of brokers are kept with code and count, and the totals follow."""
    append(outbox, entries(1, 4), b"")
    ids = [row.entry.id for row in outbox.pending(0, 10)]
    mark(
        outbox,
        [
            Mark(ids[0], Status.DELIVERED),
            Mark(ids[1], Status.NO_SUBSCRIBER, 0x10),
            Mark(ids[2], Status.PARKED, 0x87),
            Mark("unknown", Status.DELIVERED),
        ],
    )

    assert seqs(outbox.pending(0, 10)) == [4]
    assert [(r.entry.seq, r.code, r.attempts) for r in outbox.parked(10)] == [(3, 0x87, 1)]
    assert {1} == set(outbox.counts().values()) - {0}
    assert outbox.unpark("link.down") == 1
    assert seqs(outbox.pending(0, 10)) == [3, 4]


def test_parked_gives_the_oldest_of_each_type(outbox: Outbox) -> None:
    """One probe per type tells whether the broker takes that type again."""
    append(outbox, [entry(1), entry(2), entry(3, "link.up"), entry(4, "link.up")], b"")
    mark(outbox, [Mark(row.entry.id, Status.PARKED, 0x87) for row in outbox.pending(0, 9)])

    assert seqs(outbox.parked(10)) == [1, 3]


def test_history_ends_with_the_newest(outbox: Outbox) -> None:
    """The newest events of the wanted types since a time, the newest last."""
    append(outbox, [*entries(1, 5), *entries(6, 9, event_type="link.up")], b"")

    assert seqs(outbox.history(0, 2)) == [8, 9]
    assert seqs(outbox.history(0, 2, ["link.down"])) == [4, 5]
    assert seqs(outbox.history(1_700_000_009, 100, ["link.up", "link.down"])) == [9]


@pytest.mark.parametrize(
    ("request_", "found", "missing"),
    [
        (ReplayRequest("r", "s1", 2, 4), [2, 4], 1),
        (ReplayRequest("r", "s1", 1, 99), [1, 2, 4, 5], 1),
        (ReplayRequest("r", "s1", 1, 99, limit=2), [1, 2], 0),
        (ReplayRequest("r", "s0", 1, 10), [], 10),
        (ReplayRequest("r", since_wall_s=1_700_000_004.0), [4, 5], 0),
        (ReplayRequest("r", since_wall_s=0.0, limit=3), [1, 2, 4], 0),
    ],
)
def test_replay_says_what_is_missing(
    outbox: Outbox, request_: ReplayRequest, found: list[int], missing: int
) -> None:
    """A range is answered in order; what it lacks is counted, up to the last seq ever used."""
    append(outbox, [entry(1), entry(2), entry(4), entry(5)], b"")

    rows, absent = outbox.replay(request_)

    assert (found, missing) == (seqs(rows), absent)


def test_purge_takes_old_settled_events_only(outbox: Outbox) -> None:
    """What nobody has taken yet stays, however old it is."""
    append(outbox, entries(1, 4), b"")
    ids = [row.entry.id for row in outbox.pending(0, 10)]
    mark(outbox, [Mark(ids[0], Status.DELIVERED), Mark(ids[1], Status.NO_SUBSCRIBER, 0x10)])
    mark(outbox, [Mark(ids[2], Status.PARKED, 0x87)])

    assert outbox.purge(1_700_000_000 + 6 * 86400) == 0
    assert outbox.purge(1_700_000_000 + 8 * 86400) == 2
    assert seqs(outbox.history(0, 10)) == [3, 4]


def test_old_information_goes_before_anything_else(tmp_path: Path) -> None:
    """A full outbox drops superseded information and says which ids it lost."""
    outbox, _ = open_outbox(tmp_path, TIGHT)
    append(outbox, entries(1, 60), b"")
    append(outbox, entries(61, 100, severity=Severity.INFO, event_type="link.changed"), b"")

    lost = append(outbox, [entry(101)], b"")

    assert lost is not None
    assert (lost.count, lost.first, lost.last) == (6, "boot-s1-61", "boot-s1-66")
    assert [*range(1, 61), *range(67, 102)] == seqs(outbox.pending(0, 200))
    outbox.close()


def test_delivered_events_go_without_being_called_a_loss(tmp_path: Path) -> None:
    """Dropping what was delivered is no overflow."""
    outbox, _ = open_outbox(tmp_path, TIGHT)
    append(outbox, entries(1, 100), b"")
    mark(outbox, [Mark(row.entry.id, Status.DELIVERED) for row in outbox.pending(0, 50)])

    assert append(outbox, entries(101, 110), b"") is None
    assert [*range(51, 111)] == seqs(outbox.pending(0, 200))
    assert outbox.last_position() == ("s1", 110)
    outbox.close()


EVENTS = st.tuples(
    st.sampled_from(["link.down", "link.up", "link.changed"]),
    st.sampled_from(["eth0", "eth1"]),
    st.sampled_from(Severity),
    st.sampled_from(Status),
    st.integers(0, 60_000),
)


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(st.lists(EVENTS, max_size=70), min_size=1, max_size=8))
def test_bounds_hold_and_criticals_outlive_infos(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[str, str, Severity, Status, int]]],
) -> None:
    """Never above the bounds, always in order, no pending critical lost while an info is left."""
    bounds = OutboxSettings(max_events=100, max_bytes=1_000_000)
    outbox, _ = open_outbox(tmp_path_factory.mktemp("outbox"), bounds)
    recorded: dict[int, Stored] = {}
    before: set[int] = set()
    reported = 0
    for batch in batches:
        held = [_held(len(recorded) + number, one) for number, one in enumerate(batch, 1)]
        recorded |= {stored.entry.seq: stored for stored in held}
        lost = outbox.write(held, b"")
        reported += lost.count if lost else 0
        kept = outbox.history(0, 1000)
        after = set(seqs(kept))
        gone = [recorded[seq] for seq in set(recorded) - after]
        assert len(kept) == sum(outbox.counts().values()) <= bounds.max_events
        assert sum(len(row.entry.payload) for row in kept) <= bounds.max_bytes
        assert seqs(kept) == sorted(after)
        assert sum(_unsafe(stored) for stored in gone) == reported
        fresh = before | {stored.entry.seq for stored in held}
        hurt = [one for one in gone if one.entry.seq in fresh and _waits(one)]
        infos = [row for row in kept if row.entry.severity is Severity.INFO]
        assert not (infos and any(one.entry.severity is not Severity.INFO for one in hurt))
        before = after
    outbox.close()


def _held(seq: int, what: tuple[str, str, Severity, Status, int]) -> Stored:
    event_type, subject, severity, status, size = what
    recorded = entry(seq, event_type, subject, severity, text="x" * size)
    return Stored(0, recorded, status)


def _unsafe(stored: Stored) -> bool:
    return stored.status not in {Status.DELIVERED, Status.LOCAL}


def _waits(stored: Stored) -> bool:
    return stored.status in {Status.PENDING, Status.PARKED}


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(40_000))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def _page(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096:16384] = b"\xa5" * 12288
    path.write_bytes(raw)


def _header(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4080)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "keep").write_text("me")


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/null")


def _sql(path: Path, script: str) -> None:
    database = sqlite3.connect(path)
    database.executescript(script)
    database.close()


def _newer(path: Path) -> None:
    _sql(path, "PRAGMA user_version = 7")


def _foreign(path: Path) -> None:
    _sql(path, "DROP TABLE event; CREATE TABLE event (x)")


def _unversioned(path: Path) -> None:
    _sql(path, "PRAGMA user_version = 0")


def _wal_folder(path: Path) -> None:
    path.with_name(path.name + "-wal").mkdir()


DAMAGES = (
    _garbage, _cut, _page, _header, _folder, _link, _newer, _foreign, _unversioned, _wal_folder
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_kept_aside_and_replaced(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Whatever lies in the file's place, a new outbox works, and the old one is kept and named."""
    outbox, _ = open_outbox(tmp_path, ROOMY)
    append(outbox, entries(1, 200), b"state")
    outbox.close()
    damage(tmp_path / "outbox.db")

    opened = open_store(tmp_path, ROOMY)

    assert opened.outbox is not None
    (kept,) = [path for path in tmp_path.glob("outbox.db.damaged-*") if "-wal" not in path.name]
    assert kept.name in opened.problem
    append(opened.outbox, [entry(1)], b"")
    assert seqs(opened.outbox.pending(0, 10)) == [1]
    opened.outbox.close()


@pytest.mark.parametrize("raw", [b"", os.urandom(5000)])
def test_an_empty_or_torn_log_costs_only_what_was_not_committed(tmp_path: Path, raw: bytes) -> None:
    """SQLite ignores a write-ahead log that makes no sense: the file itself stays in use."""
    outbox, _ = open_outbox(tmp_path, ROOMY)
    append(outbox, entries(1, 5), b"state")
    outbox.close()
    (tmp_path / "outbox.db-wal").write_bytes(raw)

    opened = open_store(tmp_path, ROOMY)

    assert (opened.baseline, opened.position, opened.problem) == (b"state", ("s1", 5), "")
    assert opened.outbox is not None
    opened.outbox.close()


def test_damaged_files_do_not_fill_the_disk(tmp_path: Path) -> None:
    """Only the last few damaged files are kept."""
    for _ in range(KEEP_DAMAGED + 3):
        (tmp_path / "outbox.db").write_bytes(b"nonsense" * 1000)
        outbox, problem = open_outbox(tmp_path, ROOMY)
        outbox.close()
        assert problem

    assert len(list(tmp_path.glob("outbox.db.damaged-*"))) == KEEP_DAMAGED


def test_the_file_is_for_root_alone(tmp_path: Path) -> None:
    """Folder 0700 and file 0600 whatever the umask is, and also for a file that was open to all."""
    outbox, _ = open_outbox(tmp_path / "state", ROOMY)
    append(outbox, [entry(1)], b"")
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()]
    outbox.close()

    assert {0o600} == set(modes)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    """Without a folder there is no outbox, and the text says why."""
    (tmp_path / "file").write_text("")

    opened = open_store(tmp_path / "file" / "state", ROOMY)

    assert opened.outbox is None
    assert "Not a directory" in opened.problem


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    """Two agents cannot write one outbox: the second one hears that it is locked."""
    outbox, _ = open_outbox(tmp_path, ROOMY)

    with pytest.raises(StoreError, match="locked"):
        open_outbox(tmp_path, ROOMY)

    assert not list(tmp_path.glob("*damaged*"))
    outbox.close()


def test_a_full_file_changes_nothing(outbox: Outbox) -> None:
    """A transaction that does not fit raises, and what was there before stays."""
    append(outbox, entries(1, 3), b"one")
    outbox._database.execute("PRAGMA max_page_count = 20").fetchall()

    with pytest.raises(sqlite3.OperationalError, match="full"):
        append(outbox, [entry(4, text="x" * 200_000)], b"two")

    assert (seqs(outbox.pending(0, 9)), outbox.baseline()) == ([1, 2, 3], b"one")
    append(outbox, [entry(5)], b"three")
    assert seqs(outbox.pending(0, 9)) == [1, 2, 3, 5]
