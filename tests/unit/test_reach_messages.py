"""Messages of probes: what is made is read back, and no bytes are more than a refusal."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.frames import echo
from linkhold.frames.checksum import checksum
from linkhold.model.probes import Heard
from linkhold.rtnl.attributes import pack
from linkhold.sensors.reach import dns_message, http_message, resolvers
from linkhold.sensors.reach.dns_message import Malformed, Reply
from linkhold.sensors.reach.neighbour_table import CACHEINFO, NDMSG, Neighbour, parsed
from linkhold.sensors.reach.web import judged, parts
from support.answering import Files

if TYPE_CHECKING:
    from collections.abc import Mapping

ASKED = dns_message.question(7, "a.example", "A")
LABELS = st.lists(st.text("abcXYZ019-", min_size=1, max_size=12), min_size=1, max_size=4)


def answer(asked: bytes, flags: int, *records: bytes, identity: int = 7) -> bytes:
    """Return an answer to a question, with records."""
    head = struct.pack("!HHHHHH", identity, 0x8000 | flags, 1, len(records), 0, 0)
    return head + asked[12:] + b"".join(records)


def record(kind: int, value: bytes) -> bytes:
    """Return a record whose name is a pointer to the question's."""
    return b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(value)) + value


@given(LABELS, st.integers(0, 65535), st.lists(st.ip_addresses(v=4), max_size=5))
def test_dns_answer_is_read_back(labels: list[str], identity: int, addresses: list[object]) -> None:
    """Every address of an answer to the very question comes back, whatever the name."""
    asked = dns_message.question(identity, ".".join(labels), "A")
    packed = [record(1, socket.inet_aton(str(address))) for address in addresses]
    alias = record(5, b"\x01b\x00")

    got = dns_message.read(answer(asked, 0, alias, *packed, identity=identity), asked)

    assert got == Reply(0, truncated=False, addresses=tuple(map(str, addresses)))


@given(st.binary(max_size=200))
def test_any_dns_answer_is_an_answer_or_malformed(data: bytes) -> None:
    """Arbitrary bytes, also behind a right head, never raise anything but Malformed."""
    for packet in (data, answer(ASKED, 0) + data, ASKED[:2] + b"\x80\x00\0\x01\0\x09" + data):
        with contextlib.suppress(Malformed):
            assert isinstance(dns_message.read(packet, ASKED), Reply)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (answer(ASKED, 0, identity=8), "no answer to what was asked"),
        (ASKED, "no answer to what was asked"),
        (answer(dns_message.question(7, "b.example", "A"), 0), "another question"),
        (answer(dns_message.question(7, "a.example", "AAAA"), 0), "another question"),
        (answer(ASKED, 0, record(1, b"\1\2\3\4"))[:-1], "cut off"),
        (answer(ASKED, 0, record(1, b"\1\2\3")), "wrong size"),
        (struct.pack("!HHHHHH", 7, 0x8000, 0, 0, 0, 0), "does not repeat"),
    ],
)
def test_foreign_dns_answers_are_refused(data: bytes, why: str) -> None:
    """An answer with another identity, name or type, or one that is cut off, is none."""
    with pytest.raises(Malformed, match=why):
        dns_message.read(data, ASKED)


@pytest.mark.parametrize(("flags", "word"), [(2, "SERVFAIL"), (3, "NXDOMAIN"), (5, "REFUSED")])
def test_dns_refusals_have_their_words(flags: int, word: str) -> None:
    """The RCODE is told in the RFC's words; a truncated answer says so and has no addresses."""
    assert dns_message.read(answer(ASKED, flags), ASKED).word == word
    assert dns_message.read(answer(ASKED, 0x0200, record(1, b"\1\2\3\4")), ASKED) == Reply(
        0, truncated=True, addresses=()
    )


@pytest.mark.parametrize("name", ["a..b", "x" * 64, "é.example", ".".join(["x" * 60] * 5)])
def test_impossible_names_are_not_asked(name: str) -> None:
    """A name that DNS cannot carry is refused before anything is sent."""
    with pytest.raises(Malformed):
        dns_message.question(1, name, "A")


@given(st.sampled_from([4, 6]), st.integers(0, 1 << 20), st.binary(max_size=64))
def test_echo_is_read_back(version: int, number: int, payload: bytes) -> None:
    """The reply to a request carries its payload, behind an IP header or not."""
    sent = echo.request(version, number, number, payload)
    reply = bytes((echo.ECHO_REPLY[version],)) + sent[1:]
    header = b"\x45" + bytes(19) if version == 4 else b""

    assert version == 6 or checksum(sent) == 0
    assert echo.reply_payload(version, header + reply) == payload
    assert echo.reply_payload(version, reply, raw=False) == payload
    assert echo.reply_payload(version, sent, raw=False) is None


@given(st.binary(max_size=80))
def test_any_packet_is_an_echo_or_none(data: bytes) -> None:
    """Arbitrary bytes never raise, neither as a packet nor as an entry of the error queue."""
    for version in (4, 6):
        assert echo.reply_payload(version, data) is None or data
    told = echo.socket_error(data)
    assert (told is None) == (len(data) < 16)


def test_a_routers_complaint_names_it_and_the_mtu() -> None:
    """The error queue tells who complains and the next hop's MTU."""
    extended = struct.pack("=IBBBBII", 90, 2, 3, 4, 0, 1400, 0)
    router = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton("10.0.0.1"))

    assert echo.socket_error(extended + router) == (90, False, 1400, "10.0.0.1")


def test_neighbour_is_confirmed_only_while_reachable() -> None:
    """A stale entry's last answer says nothing of now; one that failed was asked in vain."""

    def entry(state: int) -> Neighbour:
        body = NDMSG.pack(socket.AF_INET, 2, state, 0, 0)
        return parsed(body + pack(3, CACHEINFO.pack(100, 0, 0, 0)))

    assert (entry(0x02).confirmed_s, entry(0x02).vain) == (1.0, False)
    assert (entry(0x04).confirmed_s, entry(0x04).vain) == (None, False)
    assert entry(0x20).vain
    assert entry(0x20).text == "the neighbour table calls it failed"


RESOLV, BEHIND = "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, ()),
        ({RESOLV: "# nothing\noptions edns0\n"}, ("127.0.0.1",)),
        ({RESOLV: "nameserver 10.0.0.2\n nameserver fe80::1%eth0 # x\n;nameserver 9.9.9.9\n"},
         ("10.0.0.2", "fe80::1%eth0")),
        ({RESOLV: "\n".join(f"nameserver 10.0.0.{n}" for n in range(1, 6))},
         ("10.0.0.1", "10.0.0.2", "10.0.0.3")),
        ({RESOLV: "nameserver 127.0.0.53\n", BEHIND: "nameserver 10.0.0.2\nnameserver 10.0.0.3\n"},
         ("127.0.0.53", "10.0.0.2", "10.0.0.3")),
        ({RESOLV: "nameserver 10.0.0.9\n", BEHIND: "nameserver 10.0.0.2\n"}, ("10.0.0.9",)),
    ],
)  # fmt: skip
def test_resolvers_are_those_glibc_asks(files: Mapping[str, str], wanted: tuple[str, ...]) -> None:
    """Three at most, this machine without any, and behind resolved's stub the real ones."""
    assert resolvers(Files(files)) == wanted
    named = "nameserver" in files.get(RESOLV, "")
    assert resolvers(Files(files), implied=False) == (wanted if named else ())


async def _read(data: bytes, most: int = 1000) -> tuple[int, str]:
    reader = asyncio.StreamReader(limit=1 << 14)
    reader.feed_data(data)
    reader.feed_eof()
    found = http_message.head(await reader.readuntil(b"\r\n\r\n"))
    return found.status, await http_message.read_body(reader, found, most)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiXX", (200, "hi")),
        (b"HTTP/1.0 404\r\n\r\nto the end", (404, "to the end")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n1\r\n!\r\n0\r\n\r\n",
         (200, "hi!")),
    ],
)  # fmt: skip
def test_http_bodies_end_where_they_should(data: bytes, wanted: tuple[int, str]) -> None:
    """By length, by chunks or with the connection."""
    assert asyncio.run(_read(data)) == wanted


@given(st.binary(max_size=120))
def test_any_http_answer_is_bounded_or_refused(data: bytes) -> None:
    """Arbitrary bytes are an answer, cut at the limit, or refused; nothing else is raised."""
    refusals = (http_message.Malformed, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
    heads = (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for head in heads:
        with contextlib.suppress(*refusals):
            assert len(asyncio.run(_read(head + data, 10))[1]) <= 10


@pytest.mark.parametrize(
    ("status", "location", "wanted"),
    [
        (200, "", Heard.ANSWERS),
        (204, "", Heard.ANSWERS),
        (301, "https://h.example/", Heard.ANSWERS),
        (302, "/login", Heard.ANSWERS),
        (302, "http://login.example.net/", Heard.UNKNOWN),
        (401, "", Heard.ANSWERS),
        (403, "", Heard.ANSWERS),
        (404, "", Heard.REFUSED),
        (407, "", Heard.UNKNOWN),
        (500, "", Heard.REFUSED),
        (511, "", Heard.UNKNOWN),
        (101, "", Heard.UNKNOWN),
    ],
)
def test_http_status_is_judged(status: int, location: str, wanted: Heard) -> None:
    """Errors refuse, logins show the target there, portals and proxies are unknown."""
    assert judged("http://h.example/x", status, location).heard is wanted


def test_urls_are_taken_apart() -> None:
    """Brackets, ports and queries are where they belong."""
    assert parts("https://[2001:db8::1]/a?b") == ("https", "2001:db8::1", 443, "/a?b")
    assert parts("http://h:81") == ("http", "h", 81, "/")
