"""Nothing from outside costs more than a bound: neither memory nor work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING

import pytest

from fuzz import of_network, scratch, table
from fuzz.of_files import FILES
from fuzz.of_network import run
from fuzz.target import check
from linkhold.cli import report as report_command
from linkhold.control import MAX_REQUEST_BYTES, ControlServer
from linkhold.decide.power.generic import MOST_SEARCHED, Mapping
from linkhold.decide.power.meaning import Meaning, What
from linkhold.decide.power.messages import judge
from linkhold.door import Peer
from linkhold.legs import fleet_diagnose, fleet_replay
from linkhold.model import LinkholdError, WireError
from linkhold.model.power_sources import Dialect, SensorMessage
from linkhold.report.sources import MOST_LINE
from linkhold.sensors import cloud_http, nut
from linkhold.sensors.reach import http_message
from linkhold.wire import documents, maintenance, parse_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from fuzz.target import FileTarget

LARGE = 100 << 20
SLACK = 4 << 20
"""What reading costs besides the bytes: buffers, the text beside its bytes, an error's words."""
COPIES = 4
"""A text beside its bytes, in up to four bytes a letter, and the pieces of it."""


def peak_of(call: Callable[[], object]) -> int:
    """Return the most memory that Python held for a call, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory."""
    with scratch.folder() as made:
        yield made


@pytest.mark.parametrize("source", FILES, ids=lambda source: source.title)
def test_a_file_of_100_mb_is_refused_or_cut(source: FileTarget, folder: Path) -> None:
    """Whatever grew in a file's place, reading it takes no more than its bound, and it stays."""
    path = folder / source.file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write((source.samples()[0] or b"x")[:4])
        file.truncate(LARGE)  # it has no blocks: that it is not read shows in memory alone

    def load() -> None:
        try:
            source.load(folder)
        except source.refusals as error:
            assert str(error).strip()  # noqa: PT017 - what kind it is does not matter

    assert peak_of(load) < COPIES * min(source.most_bytes, LARGE) + SLACK
    assert any(one.stat().st_size == LARGE for one in path.parent.iterdir())


@pytest.mark.parametrize("source", FILES, ids=lambda source: source.title)
def test_what_lies_in_a_files_place_is_not_waited_for(source: FileTarget, folder: Path) -> None:
    """A FIFO that nobody writes to, and a folder: refused or nothing, at once."""
    path = folder / source.file
    path.parent.mkdir(parents=True, exist_ok=True)
    for make in (os.mkfifo, os.mkdir):
        make(path)
        with contextlib.suppress(*source.refusals, LinkholdError, OSError, AssertionError):
            source.load(folder)
        if path.is_dir():
            path.rmdir()
        elif path.exists():
            path.unlink()


def big(count: int) -> bytes:
    """Return a JSON text of ``count`` bytes."""
    return b'{"id":"' + b"x" * count + b'"}'


@pytest.mark.parametrize(
    ("read", "most"),
    [
        (parse_state, documents.MAX_STATE_BYTES),
        (fleet_diagnose.parse_diagnose, fleet_diagnose.MAX_REQUEST_BYTES),
        (fleet_replay.parse_replay, fleet_replay.MAX_REQUEST_BYTES),
        (maintenance.parse_maintenance_request, maintenance.MOST_BYTES),
    ],
)
def test_a_large_message_is_not_parsed(read: Callable[[bytes], object], most: int) -> None:
    """A payload beyond its bound is refused by its size, in words, and costs no memory."""
    payload = big(LARGE)

    def refused() -> None:
        with pytest.raises(WireError, match=f"at most {most}"):
            read(payload)

    assert peak_of(refused) < SLACK


@pytest.mark.parametrize("name", ["a power sensor, tasmota", "a power sensor, generic"])
def test_a_large_message_of_a_sensor_is_not_parsed(name: str, folder: Path) -> None:
    """It means nothing, and costs no memory."""
    target, payload = table.find(name, folder), big(16 << 20)
    assert peak_of(lambda: target.call(payload)) < SLACK


def test_a_pattern_is_not_tried_on_a_long_text() -> None:
    """One that takes time with the cube of the length would stop the whole agent meanwhile.

    What is refused is refused in words, and the least that any pattern is tried on is a word in
    a line of some.
    """
    pattern = Mapping(pattern=r".*mains.*=(\w+)")

    def said(text: str) -> Meaning:
        message = SensorMessage("a/b", text.encode(), retained=False)
        return judge(Dialect.GENERIC, message, pattern)

    line = "mains=on"
    assert said(line.rjust(MOST_SEARCHED)).what is What.OK
    longer = said(line.rjust(MOST_SEARCHED + 1))
    assert longer.what is What.IGNORED
    assert f"longer than the {MOST_SEARCHED} characters" in longer.why


def test_a_pattern_has_little_to_go_through() -> None:
    """`.*mains.*=(.+)` on the worst text: at most a million steps, so a millisecond, not 160."""
    worst = "mains" * (MOST_SEARCHED // 5)
    places = [at for at in range(len(worst)) if worst.startswith("mains", at)]
    # re tries each start, then each "mains" behind it, then each "=" behind that.
    steps = sum(len(worst) - at for start in range(len(worst)) for at in places if at >= start)
    assert steps <= 1_000_000


def test_a_line_without_end_is_not_read_whole(folder: Path) -> None:
    """A file of one line of 100 MB, given to `report`, is one line that is no event."""
    path = folder / "events"
    with path.open("wb") as file:
        file.truncate(LARGE)
    found = []
    peak = peak_of(lambda: found.append(report_command._from_files([path])))

    assert peak < COPIES * MOST_LINE + SLACK
    assert (found[0].collected.unreadable, found[0].collected.records) == (1, [])


class _Endless(asyncio.StreamReader):
    """A stream that has no end, and counts what it gave."""

    def __init__(self, limit: int, block: bytes) -> None:
        # Without a loop it would make one of its own, which nobody closes.
        super().__init__(limit=limit, loop=of_network.loop())
        self.given = 0
        self._block = block
        self.feed_data(block)

    async def _wait_for_data(self, func_name: str) -> None:
        del func_name
        assert self.given < LARGE, "it reads without end"
        self.given += len(self._block)
        self.feed_data(self._block)


def test_a_request_without_end_is_cut() -> None:
    """The control socket reads no line beyond its bound, says so once, and hangs up."""
    reader = _Endless(MAX_REQUEST_BYTES, b"x" * 4096)

    said: list[bytes] = []

    class Writer:
        def write(self, data: bytes) -> None:
            said.append(data)

    server = ControlServer(None, {})  # type: ignore[arg-type]
    work = server._converse(reader, Writer(), Peer(1, 0))  # type: ignore[arg-type]
    run(work)
    assert reader.given <= 4 * MAX_REQUEST_BYTES
    assert len(said) == 1
    assert f"at most {MAX_REQUEST_BYTES} bytes".encode() in said[0]


def test_a_body_without_end_is_cut() -> None:
    """A probe of the web reads no more of a page than it wants, chunked or not."""
    for kind, block in (("", b"x" * 4096), ("chunked", b"400\r\n" + b"x" * 1024 + b"\r\n")):
        reader = _Endless(1 << 14, block)
        found = http_message.Response(200, {"transfer-encoding": kind} if kind else {})
        assert len(run(http_message.read_body(reader, found, 4096))) == 4096
        assert reader.given < 1 << 16


def test_an_answer_of_metadata_without_end_is_cut() -> None:
    """Headers without end are refused, a body without end is cut: what is kept is bounded."""
    with pytest.raises(ValueError, match="without end"):
        cloud_http.answer_in(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000, ended=False)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    with pytest.raises(ValueError, match="without a size"):
        cloud_http.answer_in(chunked + b"x" * 100_000, ended=False)
    found = cloud_http.answer_in(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (1 << 22), ended=False)
    assert found is not None
    assert len(found[0].body) == cloud_http.MAX_BODY_BYTES


def test_a_server_of_upses_that_never_stops_is_hung_up_on() -> None:
    """Lines without end, and lists without end."""

    async def ask(data: bytes) -> None:
        lines = nut._Lines(1.0)
        closed: list[bool] = []
        lines.close = lambda: closed.append(True)  # type: ignore[method-assign]
        lines._transport = _Nothing()
        for _ in range(3000):
            if not closed:
                lines.data_received(data)
        assert closed
        with pytest.raises(ValueError, match=r"without end|no list"):
            await lines.list("VAR ups1")

    run(ask(b"x" * 4096))
    run(ask(b"x" * (1 << 18) + b"\n"))
    run(ask(b"BEGIN LIST VAR ups1\n" + b'VAR ups1 a.b "c"\n' * 200))


class _Nothing(asyncio.Transport):
    """A transport into the void."""

    def write(self, _data: object) -> None:
        """Send nothing."""

    def get_extra_info(self, _name: str, default: object = None) -> object:
        """Return that nothing is known."""
        return default


REPEATED = (b"[", b'{"a":', b"\\", b"(", b" ", b"a=", b"- a\n ", b"\x08\0\1\0")
SMALL, FACTOR = 400, 4
MOST_GROWTH = 6.0
"""Of the lines that run, for four times the input: four is linear, sixteen is quadratic."""
FLOOR = 2000
"""Lines that run for any input."""


def lines_run(call: Callable[[], object]) -> int:
    """Return how many lines of linkhold run: the same on every machine, whoever else works."""
    count = 0

    def count_lines(_frame: FrameType, what: str, _argument: object) -> object:
        nonlocal count
        count += what == "line"
        return count_lines

    def choose(frame: FrameType, _what: str, _argument: object) -> object:
        return count_lines if "linkhold" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(choose)  # type: ignore[arg-type]
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", table.NAMES)
def test_the_work_grows_with_the_size_and_not_with_its_square(name: str, folder: Path) -> None:
    """Whatever is repeated, four times as much of it is about four times the work.

    What C does in one call is not counted: a pattern that explodes hangs here.
    """
    target = table.find(name, folder)
    longest = max(target.samples(), key=len)
    for piece in (*REPEATED, longest):
        few = piece * max(1, SMALL // max(1, len(piece)))
        many = few * FACTOR
        before, after = (lines_run(partial(check, target, data)) for data in (few, many))
        assert after <= MOST_GROWTH * before + FLOOR, (piece[:20], before, after)
