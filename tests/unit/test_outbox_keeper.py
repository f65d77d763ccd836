"""The keeper: never blocks its callers, keeps events through disk faults, ends in time."""

from __future__ import annotations

import itertools
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.config.settings import OutboxSettings
from linkhold.decide.readings import OutboxReading, OverflowReading
from linkhold.model import Severity
from linkhold.store.keeper import MAX_INBOX, MAX_QUERIES, Keeper, KeeperTiming
from linkhold.store.outbox import Mark, ReplayRequest, Status, Stored
from linkhold.store.outbox_file import open_store
from linkhold.store.outbox_ring import Losses, shed
from linkhold.store.outbox_shelf import RING_EVENTS, Batch, Cursor, Shelf
from support.broker import wait_until
from support.outbox import BadDisk, Reports, entries, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SETTINGS = OutboxSettings()
QUICK = KeeperTiming(stalled_s=0.2, counts_s=0.05, losses_s=0.0)
FULL = sqlite3.OperationalError("database or disk is full")


class Made:
    """A started keeper with its reports and its disk."""

    def __init__(self, folder: Path, disk: BadDisk) -> None:
        self.folder = folder
        self.disk = disk
        self.reports = Reports()
        self.keeper = Keeper(folder, SETTINGS, self.reports, fleet=True, timing=QUICK, opener=disk)

    def fetched(self, cursor: Cursor | None = None, limit: int = 5000) -> Batch:
        """Return what a fetch answers."""
        answers: list[Batch] = []
        self.keeper.fetch(cursor or Cursor(), limit, answers.append)
        wait_until(lambda: answers, 5, "a fetch is answered")
        return answers[0]

    def on_disk(self) -> list[Stored]:
        """Stop the keeper and return what the file holds."""
        assert self.keeper.stop(5)
        opened = open_store(self.folder, SETTINGS)
        assert opened.outbox is not None
        rows = opened.outbox.history(0, 100_000)
        opened.outbox.close()
        return rows


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Made]]:
    """Make keepers that are stopped at the end, also from a disk that hangs."""
    all_made: list[Made] = []

    def make(disk: BadDisk | None = None) -> Made:
        all_made.append(Made(tmp_path / "state", disk or BadDisk()))
        return all_made[-1]

    yield make
    for one in all_made:
        one.disk.answers.set()
        one.keeper.stop(5)


def seqs(rows: Any) -> list[int]:
    """Return the sequence numbers of events."""
    return [row.entry.seq for row in rows]


def test_the_next_start_finds_baseline_and_position(made: Callable[..., Made]) -> None:
    """What was recorded last is what the next agent compares with."""
    first = made()
    assert (
        (found := first.keeper.start()).baseline, found.position, found.problem
    ) == (None, None, "")  # fmt: skip
    first.keeper.record(entries(1, 3), b"three")
    first.keeper.record((), b"four")
    assert first.keeper.stop(5)

    found = made().keeper.start()

    assert (found.baseline, found.position, found.problem) == (b"four", ("s1", 3), "")


def test_many_records_become_few_transactions_in_order(made: Callable[..., Made]) -> None:
    """A thousand records of one event each arrive whole and in order."""
    one = made()
    one.keeper.start()
    for seq in range(1, 1001):
        one.keeper.record([entry(seq)], b"")
    assert one.keeper.flush(10)

    assert [*range(1, 1001)] == seqs(one.on_disk())


def test_an_answer_is_not_kept(tmp_path: Path) -> None:
    """A history of megabytes is let go with its answer, not with the next thing that happens."""

    class Asker:
        """Keeps an answer as long as somebody keeps it."""

        def __init__(self) -> None:
            self.rows: list[Stored] = []
            self.answered = threading.Event()

        def take(self, rows: list[Stored]) -> None:
            """Take the answer."""
            self.rows = rows
            self.answered.set()

    seldom = KeeperTiming(counts_s=60)
    keeper = Keeper(tmp_path, SETTINGS, Reports(), fleet=True, timing=seldom)
    keeper.start()
    keeper.record(entries(1, 3), b"")
    asker = Asker()
    assert keeper.history(0, 10, (), asker.take)
    assert asker.answered.wait(5)
    assert seqs(asker.rows) == [1, 2, 3]
    kept = weakref.ref(asker)
    del asker

    try:
        wait_until(lambda: kept() is None, 3, "the answer is let go")
    finally:
        keeper.stop(5)


def test_without_a_fleet_events_are_local(tmp_path: Path) -> None:
    """They are history and never become pending; with a fleet later ones do."""
    keeper = Keeper(tmp_path, SETTINGS, Reports(), fleet=False)
    keeper.start()
    keeper.record([entry(1)], b"")
    assert keeper.flush(5)
    keeper.configure(SETTINGS, fleet=True)
    keeper.record([entry(2)], b"")
    answers: list[Batch] = []
    keeper.fetch(Cursor(), 10, answers.append)
    assert keeper.stop(5)

    assert seqs(answers[0].events) == [2]


def test_a_disk_that_hangs_at_start_is_said_in_time(made: Callable[..., Made]) -> None:
    """The agent starts without its baseline; the events reach the disk when it answers."""
    one = made()
    one.disk.answers.clear()
    began_s = time.monotonic()
    found = one.keeper.start(timeout_s=0.3)
    took_s = time.monotonic() - began_s
    one.keeper.record(entries(1, 3), b"")

    assert took_s < 0.5
    assert "did not answer" in found.problem
    assert one.keeper.status().status == "stalled"
    one.disk.answers.set()
    assert one.keeper.flush(5)
    assert seqs(one.on_disk()) == [1, 2, 3]


def test_a_hanging_disk_blocks_nobody(made: Callable[..., Made]) -> None:
    """Recording stays fast, the status says stalled, and everything is written afterwards."""
    one = made()
    one.keeper.start()
    one.disk.answers.clear()
    slowest_s = 0.0
    for seq in range(1, 201):
        began_s = time.perf_counter()
        one.keeper.record([entry(seq)], b"")
        one.keeper.mark([Mark("x", Status.DELIVERED)])
        slowest_s = max(slowest_s, time.perf_counter() - began_s)
    wait_until(lambda: one.keeper.status().status == "stalled", 2, "stalled is seen")
    assert one.keeper.stop(0.2) is False
    one.disk.answers.set()

    assert slowest_s < 0.5  # a scheduler may be busy; the disk hangs for ever
    assert [*range(1, 201)] == seqs(one.on_disk())


def test_a_full_disk_makes_events_volatile_and_loses_none(made: Callable[..., Made]) -> None:
    """They are handed out marked volatile, and written in order when the disk works again."""
    one = made()
    one.keeper.start()
    one.keeper.record(entries(1, 2), b"two")
    one.keeper.flush(5)
    one.disk.error = FULL
    one.keeper.record(entries(3, 5), b"five")
    one.keeper.flush(5)

    batch = one.fetched()
    assert [(row.entry.seq, row.volatile) for row in batch.events] == [
        (1, False),
        (2, False),
        (3, True),
        (4, True),
        (5, True),
    ]
    one.keeper.mark([Mark(batch.events[n].entry.id, Status.DELIVERED) for n in (0, 2)])
    assert seqs(one.fetched().events) == [2, 4, 5]
    assert ("volatile", str(FULL)) == (one.keeper.status().status, one.keeper.status().reason)

    one.disk.error = None
    wait_until(lambda: one.keeper.status().status == "ok", 5, "the disk is tried again")
    rows = one.on_disk()
    assert seqs(rows) == [1, 2, 3, 4, 5]
    delivered = [row.entry.seq for row in rows if row.status is Status.DELIVERED]
    assert delivered == [1, 3]
    assert [reading.status for reading in one.reports.of(OutboxReading) if reading.pending != 2][
        -2:
    ] == ["volatile", "ok"]


def test_damage_while_running_is_said_and_survived(made: Callable[..., Made]) -> None:
    """The damaged file is kept aside, the same events and baseline go to a new one."""
    one = made()
    one.keeper.start()
    for seq in range(1, 60):  # more than SQLite's page cache holds
        one.keeper.record([entry(seq, text="x" * 100_000)], b"before")
        assert one.keeper.flush(5)
    with (one.folder / "outbox.db").open("r+b") as damaged:
        damaged.seek(4096 * 20)
        damaged.write(b"\xa5" * 4096 * 500)
    answers: list[list[Stored]] = []
    one.keeper.history(0, 100, (), answers.append)
    wait_until(lambda: answers, 5, "the history is answered")
    one.keeper.record([entry(60)], b"after")
    assert one.keeper.flush(5)

    assert seqs(one.on_disk()) == [60]
    statuses = [reading.status for reading in one.reports.of(OutboxReading)]
    assert statuses[-2:] == ["damaged", "ok"]
    assert list(one.folder.glob("outbox.db.damaged-*"))


def test_a_removed_folder_is_made_again_with_what_was_unsent(made: Callable[..., Made]) -> None:
    """Rm -rf under the keeper: said, and unsent events and the state go to a new file."""
    one = made()
    one.keeper.start()
    one.keeper.record(entries(1, 3), b"one")
    one.keeper.flush(5)
    one.keeper.mark([Mark(entry(1).id, Status.DELIVERED)])
    one.keeper.flush(5)
    shutil.rmtree(one.folder)
    one.keeper.record([entry(4)], b"two")
    one.keeper.flush(5)

    assert seqs(one.on_disk()) == [2, 3, 4]
    assert "damaged" in [reading.status for reading in one.reports.of(OutboxReading)]
    opened = open_store(one.folder, SETTINGS)
    assert opened.outbox is not None
    opened.outbox.close()
    assert opened.baseline == b"two"


@pytest.mark.parametrize(
    ("recorded", "parked"), [(9, 9), (9, 4), (RING_EVENTS + 500, 0), (RING_EVENTS + 500, 300)]
)
def test_what_a_removed_file_cost_is_kept_or_told(
    made: Callable[..., Made], recorded: int, parked: int
) -> None:
    """Pending or parked: each event is in the new file, in order, or counted as lost."""
    one = made()
    one.keeper.start()
    one.keeper.record(entries(1, 5, severity=Severity.INFO), b"")
    one.keeper.record(entries(6, recorded), b"")
    one.keeper.mark([Mark(entry(seq).id, Status.PARKED, 0x87) for seq in range(1, parked + 1)])
    assert one.keeper.flush(10)
    (one.folder / "outbox.db").unlink()
    one.keeper.record([entry(recorded + 1)], b"")
    assert one.keeper.flush(10)
    rows = one.on_disk()
    lost = sum(reading.count for reading in one.reports.of(OverflowReading))

    assert len(rows) + lost == recorded + 1
    assert lost == max(0, recorded - RING_EVENTS)
    assert seqs(rows) == sorted(seqs(rows))
    assert recorded + 1 in seqs(rows)
    assert one.keeper.counters()["outbox_lost_events"] == lost
    if not lost:
        assert [row.status for row in rows].count(Status.PARKED) == parked
    else:  # information goes first
        assert not {1, 2, 3, 4, 5} & set(seqs(rows))


def test_events_of_before_and_in_memory_keep_their_order(tmp_path: Path) -> None:
    """The file is removed while a full disk takes nothing: answered ones are not sent again."""
    disk = BadDisk()
    shelf = Shelf(tmp_path, SETTINGS, disk, Losses())
    shelf.open(0.0)
    shelf.store([Stored(0, one) for one in entries(1, 3)], b"", (), 0.0)
    disk.error = FULL
    shelf.store([Stored(0, one) for one in entries(4, 5)], b"", (), 0.0)
    (tmp_path / "outbox.db").unlink()
    answers = [Mark(entry(1).id, Status.DELIVERED), Mark(entry(4).id, Status.DELIVERED)]
    shelf.store([Stored(0, entry(6))], b"", answers, 0.1)
    held = seqs(shelf.pending(Cursor(), 10).events)
    disk.error = None
    shelf.store((), None, (), 99.0)
    rows = shelf.history(0, 10, ())
    shelf.close()

    assert held == [2, 3, 5, 6]
    assert seqs(rows) == [1, 2, 3, 4, 5, 6]
    assert [row.entry.seq for row in rows if row.status is Status.DELIVERED] == [1, 4]


@pytest.mark.parametrize("fault", ["removed", "damaged"])
def test_a_reader_goes_on_in_a_new_file(tmp_path: Path, fault: str) -> None:
    """Rows count from 1 again there: a cursor of the old file must hide none of them."""
    disk = BadDisk()
    shelf = Shelf(tmp_path, SETTINGS, disk, Losses())
    shelf.open(0.0)
    shelf.store([Stored(0, one) for one in entries(1, 50)], b"", (), 0.0)
    batch = shelf.pending(Cursor(), 100)
    answers = [Mark(row.entry.id, Status.DELIVERED) for row in batch.events]
    shelf.store((), None, answers, 0.0)
    if fault == "removed":
        (tmp_path / "outbox.db").unlink()
    else:
        disk.error, disk.errors_left = sqlite3.DatabaseError("malformed"), 1
    shelf.store([Stored(0, entry(51))], b"", (), 0.0)
    following = shelf.pending(batch.cursor, 100)
    shelf.close()

    assert seqs(following.events) == [51]


def test_damage_found_by_writing_costs_no_new_event(made: Callable[..., Made]) -> None:
    """The transaction that found the damage is made again in the new file, baseline included."""
    one = made()
    one.keeper.start()
    one.keeper.record([entry(1)], b"one")
    one.keeper.flush(5)
    one.disk.errors_left = 1
    one.disk.error = sqlite3.DatabaseError("database disk image is malformed")
    one.keeper.record([entry(2)], b"two")
    one.keeper.flush(5)

    assert seqs(one.on_disk()) == [2]
    opened = open_store(one.folder, SETTINGS)
    assert opened.outbox is not None
    opened.outbox.close()
    assert opened.baseline == b"two"


def test_the_inbox_drops_information_first_and_tells(made: Callable[..., Made]) -> None:
    """More events than the bound, while the disk hangs: the criticals are all there."""
    one = made()
    one.keeper.start()
    one.disk.answers.clear()
    infos = entries(1, MAX_INBOX, severity=Severity.INFO)
    one.keeper.record(infos, b"")
    time.sleep(0.1)  # the thread hangs with these
    one.keeper.record(entries(MAX_INBOX + 1, 2 * MAX_INBOX, severity=Severity.INFO), b"")
    one.keeper.record(entries(2 * MAX_INBOX + 1, 2 * MAX_INBOX + 9), b"")
    one.disk.answers.set()
    one.keeper.flush(30)

    assert one.keeper.stop(10)

    (lost,) = one.reports.of(OverflowReading)
    opened = open_store(one.folder, SETTINGS)
    assert opened.outbox is not None
    kept = opened.outbox.counts()[Status.PENDING]
    newest = opened.outbox.history(0, 9)
    opened.outbox.close()
    assert lost.count == 2 * MAX_INBOX + 9 - kept
    assert one.keeper.counters()["outbox_lost_events"] == lost.count
    assert {row.entry.severity for row in newest} == {Severity.WARNING}


def test_the_ring_is_bounded_and_says_what_it_lost(tmp_path: Path) -> None:
    """A disk that stays full costs information first, and the loss is told."""
    losses = Losses()
    shelf = Shelf(tmp_path, SETTINGS, BadDisk(FULL), losses)
    shelf.open(0.0)
    held = [Stored(0, one) for one in entries(1, 5)]
    held += [Stored(0, one) for one in entries(6, 3 * RING_EVENTS, severity=Severity.INFO)]
    for start in range(0, len(held), 100):
        shelf.store(held[start : start + 100], b"", (), 0.5)

    kept = shelf.pending(Cursor(), 10_000).events
    assert len(kept) <= RING_EVENTS
    assert seqs(kept)[:5] == [1, 2, 3, 4, 5]
    assert len(held) - len(kept) == losses.total


def test_the_disk_is_tried_again_with_growing_waits(tmp_path: Path) -> None:
    """Waits double from one second to a minute, and start over after a success."""
    disk = BadDisk(FULL)
    shelf = Shelf(tmp_path, SETTINGS, disk, Losses())
    shelf.open(0.0)
    now_s, waits = 0.0, []
    for seq in range(1, 9):
        shelf.store([Stored(0, entry(seq))], b"", (), now_s)
        waits.append(shelf.retry_at_s - now_s)
        now_s = shelf.retry_at_s

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    disk.error = None
    shelf.store((), None, (), now_s)
    assert (shelf.status, shelf.reason) == ("ok", "")
    disk.error = FULL
    shelf.store([Stored(0, entry(9))], b"", (), now_s)
    assert now_s + 1 == shelf.retry_at_s
    shelf.close()


def test_queries_are_bounded_and_answered(made: Callable[..., Made]) -> None:
    """History and replay are answered in the thread; too many questions are refused at once."""
    one = made()
    one.keeper.start()
    one.keeper.record(entries(1, 9), b"")
    one.keeper.flush(5)
    histories: list[list[Stored]] = []
    replays: list[tuple[list[Stored], int]] = []
    assert one.keeper.history(0, 3, (), histories.append)
    assert one.keeper.replay(ReplayRequest("r", "s1", 2, 3), replays.append)
    wait_until(lambda: histories and replays, 5, "answers")

    assert [seqs(rows) for rows in histories] == [[7, 8, 9]]
    assert [(seqs(rows), missing) for rows, missing in replays] == [([2, 3], 0)]
    one.disk.answers.clear()
    one.keeper.record([entry(10)], b"")
    time.sleep(0.1)
    asked = [one.keeper.history(0, 1, (), histories.append) for _ in range(MAX_QUERIES + 2)]
    assert [*[True] * MAX_QUERIES, False, False] == asked
    assert one.keeper.counters()["outbox_refused_questions"] == 2


def test_a_callback_that_fails_ends_nothing(made: Callable[..., Made]) -> None:
    """Replies, listeners and reports may raise: the thread counts it and goes on."""
    one = made()

    def fail(*_: Any) -> None:
        raise RuntimeError("not ours")

    one.keeper.listen(fail)
    one.keeper.start()
    one.keeper.fetch(Cursor(), 1, fail)
    one.keeper.record([entry(1)], b"")
    one.keeper.flush(5)
    one.keeper.record([entry(2)], b"")

    assert one.keeper.flush(5)
    assert seqs(one.on_disk()) == [1, 2]
    assert one.keeper.counters()["outbox_errors"] == 3


def test_numbers_alone_are_reported_seldom(made: Callable[..., Made]) -> None:
    """A storm of events changes the health not at all: few readings, the last one is true."""
    one = made()
    one.keeper.start()
    for seq in range(1, 301):
        one.keeper.record([entry(seq)], b"")
        time.sleep(0.001)
    wait_until(lambda: OutboxReading("ok", "", 300) in one.reports.all, 3, "300")

    readings = one.reports.of(OutboxReading)
    assert len(readings) < 30
    assert all(a != b for a, b in itertools.pairwise(readings))


def test_shed_keeps_order_and_criticals() -> None:
    """Delivered, superseded information, information, others: the oldest of each first."""
    events = [
        Stored(1, entry(1, severity=Severity.CRITICAL)),
        Stored(2, entry(2, severity=Severity.INFO)),
        Stored(3, entry(3, "link.up", severity=Severity.INFO)),
        Stored(4, entry(4), Status.DELIVERED),
        Stored(5, entry(5, severity=Severity.INFO)),
        Stored(6, entry(6)),
    ]

    orders = [seqs(shed(events, limit)[1]) for limit in (6, 5, 4, 3, 2, 1)]

    assert orders == [[], [2, 4], [2, 4, 5], [2, 3, 4, 5], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]]


RECORDER = """
import sys
from pathlib import Path
from linkhold.config.settings import OutboxSettings
from linkhold.store.outbox import Stored
from linkhold.store.outbox_file import open_outbox
sys.path.insert(0, sys.argv[2])
from support.outbox import entries
outbox, problem = open_outbox(Path(sys.argv[1]), OutboxSettings())
assert not problem, problem
seq = (outbox.last_position() or ("", 0))[1]
while True:
    events = [Stored(0, one) for one in entries(seq + 1, seq + 5)]
    outbox.write(events, f"state {seq + 5}".encode())
    seq += 5
    print(seq, flush=True)
"""


def test_kill_9_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    """Over many kills: each committed event is there, and the baseline is the last one's."""
    said = 0
    for attempt in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", RECORDER, str(tmp_path), str(tmp_path)],
            env={"PYTHONPATH": ":".join(sys.path)},
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            said = int(process.stdout.readline())
            time.sleep(0.003 * attempt)
            process.send_signal(signal.SIGKILL)
            said = max(said, *map(int, process.stdout.read().split()), 0)
        opened = open_store(tmp_path, SETTINGS)
        assert opened.outbox is not None
        assert opened.position is not None
        last = opened.position[1]
        rows = seqs(opened.outbox.pending(0, 100_000))
        opened.outbox.close()
        assert opened.problem == ""
        assert said <= last <= said + 5
        assert [*range(1, last + 1)] == rows
        assert f"state {last}".encode() == opened.baseline


def test_a_stopped_keeper_leaves_no_thread(made: Callable[..., Made]) -> None:
    """Stopping ends the thread, and stopping twice is no error."""
    one = made()
    one.keeper.start()

    assert one.keeper.stop(5)
    assert one.keeper.stop(5)
    assert "outbox" not in [thread.name for thread in threading.enumerate()]
