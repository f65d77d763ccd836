"""Frames that ask for neighbours and answer them, byte by byte, and the filters for answers."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.frames import filters
from linkhold.frames import neighbours as frames
from linkhold.frames.checksum import checksum

OURS, THEIRS = "02:00:00:00:00:01", "02:00:00:00:00:99"


def arp(operation: int, sender: str, target: str, *, to: str = OURS, mac: str = THEIRS) -> bytes:
    """Return an ARP frame from ``sender``."""
    head = frames.octets(to) + frames.octets(mac) + struct.pack("!H", 0x0806)
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
    body += frames.octets(mac) + socket.inet_aton(sender)
    return head + body + frames.octets(to) + socket.inet_aton(target)


def advertisement(target: str, *, flags: int = 0x60, option: bool = True) -> bytes:
    """Return a neighbour advertisement of ``target``."""
    address = socket.inet_pton(socket.AF_INET6, target)
    body = struct.pack("!BBHI", 136, 0, 0, flags << 24) + address
    if option:
        body += b"\x02\x01" + frames.octets(THEIRS)
    head = struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + address + bytes(16)
    return frames.octets(OURS) + frames.octets(THEIRS) + b"\x86\xdd" + head + body


def test_standby_asks_by_an_arp_probe() -> None:
    """RFC 5227: sender address 0.0.0.0, the standby's MAC in both headers."""
    frame = frames.probe("10.0.0.1", THEIRS, "", OURS)

    assert frame[:6] == frames.octets(THEIRS)
    assert frame[6:12] == frame[22:28] == frames.octets(OURS)
    assert frame[28:32] == bytes(4)
    assert frame[38:42] == socket.inet_aton("10.0.0.1")
    assert frames.probe("10.0.0.1", "", "", OURS)[:6] == b"\xff" * 6


def test_vlan_tag_is_put_in() -> None:
    """A target on a VLAN is asked with its tag, and the frame is else the same."""
    plain = frames.probe("10.0.0.1", THEIRS, "10.0.0.2", OURS)
    tagged = frames.probe("10.0.0.1", THEIRS, "10.0.0.2", OURS, 5)

    assert tagged[12:16] == b"\x81\x00\x00\x05"
    assert tagged[:12] + tagged[16:] == plain


def test_solicitation_is_valid() -> None:
    """The checksum holds, the hop limit is 255, the source is made of the MAC, as none is."""
    frame = frames.probe("fd00::1", "", "", OURS)
    body = frame[54:]
    source, destination = frame[22:38], frame[38:54]

    assert frame[:6] == bytes.fromhex("3333ff000001")
    assert socket.inet_ntop(socket.AF_INET6, destination) == "ff02::1:ff00:1"
    assert socket.inet_ntop(socket.AF_INET6, source) == "fe80::200:6c:6800:1"
    assert frame[21] == 255
    assert checksum(source + destination + struct.pack("!II", len(body), 58) + body) == 0
    assert frames.probe("fd00::1", THEIRS, "fd00::2", OURS)[:6] == frames.octets(THEIRS)


def test_answers_are_understood() -> None:
    """A reply and an advertisement tell address and MAC; an announcement is no reply."""
    told = frames.heard(arp(2, "10.0.0.1", "10.0.0.2"))
    assert told == frames.Heard("10.0.0.1", THEIRS, OURS, reply=True)
    told = frames.heard(advertisement("fd00::1"))
    assert told == frames.Heard("fd00::1", THEIRS, OURS, reply=True)
    for operation in (1, 2):
        told = frames.heard(arp(operation, "10.0.0.1", "10.0.0.1", to="ff:ff:ff:ff:ff:ff"))
        assert told is not None
        assert not told.reply
    unsolicited = frames.heard(advertisement("fd00::1", flags=0x20, option=False))
    assert unsolicited == frames.Heard("fd00::1", THEIRS, OURS, reply=False)
    assert frames.heard(arp(1, "10.0.0.1", "10.0.0.2")) is None


def test_probe_byte_by_byte() -> None:
    """RFC 5227: broadcast, sender 0.0.0.0, no target MAC; it is no answer itself."""
    expected = (
        "ffffffffffff 020000000001 0806 0001 0800 06 04 0001"
        "020000000001 00000000 000000000000 0a000001"
    )
    frame = frames.probe("10.0.0.1", "", "", OURS)

    assert frame == bytes.fromhex(expected)
    assert frames.heard(frame) is None


def test_solicitation_names_the_mac_that_asks() -> None:
    """RFC 4861, 4.3: with a source address comes its MAC; never from ::, which is a claim."""
    frame = frames.probe("fd00::1:2:3456", "", "", OURS)

    assert frame[:14].hex() == "3333ff023456" + "020000000001" + "86dd"
    assert frame[22:38] != bytes(16)
    assert frame[38:54].hex() == "ff0200000000000000000001ff023456"
    assert frame[78:] == b"\x01\x01" + frames.octets(OURS)
    assert frames.heard(frame) is None


def test_made_reply_is_read_back() -> None:
    """A reply names its sender."""
    frame = frames.arp(frames.ARP_REPLY, (THEIRS, "10.0.0.1"), (OURS, "0.0.0.0"), to=OURS)

    assert frames.heard(frame) == frames.Heard("10.0.0.1", THEIRS, OURS, reply=True)


@pytest.mark.parametrize("router", [True, False])
def test_made_advertisement_is_read_back(*, router: bool) -> None:
    """It overrides, names the MAC and has a valid checksum."""
    frame = frames.advertisement(THEIRS, "fd00::1", router=router)
    pseudo = frame[22:54] + struct.pack("!II", len(frame[54:]), 58)

    assert frame[58] == (0xA0 if router else 0x20)
    assert checksum(pseudo + frame[54:]) == 0
    told = frames.heard(frame)
    assert told == frames.Heard("fd00::1", THEIRS, "33:33:00:00:00:01", reply=False)


def test_forwarded_advertisement_is_none() -> None:
    """A hop limit below 255 has crossed a router."""
    frame = bytearray(frames.advertisement(THEIRS, "fd00::1", router=False))
    frame[21] = 254

    assert frames.heard(bytes(frame)) is None


def test_checksum_is_that_of_the_rfc() -> None:
    """The example of RFC 1071 section 3; with its sum it sums to zero; an odd byte is padded."""
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D
    assert checksum(bytes.fromhex("0001f203f4f5f6f7220d")) == 0
    assert checksum(b"\x01") == checksum(b"\x01\x00")


@pytest.mark.parametrize("text", ["", "02:00", "zz:00:00:00:00:00", "02:00:00:00:00:00:00"])
def test_no_mac(text: str) -> None:
    """Only six bytes are an Ethernet address."""
    with pytest.raises(ValueError):  # noqa: PT011 - bytes.fromhex has its own words
        frames.octets(text)


SEEDS = st.sampled_from(
    [
        frames.arp(frames.ARP_REPLY, (THEIRS, "10.0.0.1"), (OURS, "0.0.0.0")),
        frames.advertisement(THEIRS, "fd00::1", router=True),
    ]
)


@given(SEEDS, st.integers(0, 90), st.binary(max_size=40))
def test_reading_never_raises(frame: bytes, cut: int, tail: bytes) -> None:
    """Any frame, cut anywhere and followed by anything, is understood or none."""
    found = frames.heard(frame[:cut] + tail)

    assert found is None or len(frames.octets(found.mac)) == 6


@given(st.binary(max_size=120))
def test_any_bytes_are_no_answer_or_one(data: bytes) -> None:
    """Whatever arrives, nothing is raised."""
    frames.heard(data)
    frames.heard(data[:12] + b"\x08\x06" + data[12:])
    frames.heard(data[:12] + b"\x86\xdd" + data[12:])


def run_filter(program: bytes, frame: bytes) -> bool:
    """Run a classic BPF program as the kernel does (net/core/filter.c)."""
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = index = 0
    sizes = {0x30: 1, 0x28: 2, 0x20: 4}
    while True:
        op, if_true, if_false, value = code[at]
        at += 1
        if op in sizes:
            raw = frame[value : value + sizes[op]]
            if len(raw) < sizes[op]:
                return False
            accumulator = int.from_bytes(raw, "big")
        elif op == 0x07:
            index = accumulator
        elif op in {0x15, 0x1D}:
            at += if_true if accumulator == (value if op == 0x15 else index) else if_false
        else:
            assert op == 0x06
            return bool(value)


@pytest.mark.parametrize("targets", [("10.0.0.1",), ("10.0.0.9", "10.0.0.1", "10.0.0.8")])
def test_arp_filter_lets_targets_through(targets: tuple[str, ...]) -> None:
    """Replies and announcements of targets pass, everything else wakes nobody."""
    program = filters.arp_filter(targets)

    assert run_filter(program, arp(2, "10.0.0.1", "10.0.0.2"))
    assert run_filter(program, arp(1, "10.0.0.1", "10.0.0.1"))
    assert not run_filter(program, arp(1, "10.0.0.1", "10.0.0.2"))
    assert not run_filter(program, arp(2, "10.0.0.5", "10.0.0.2"))
    assert not run_filter(program, arp(1, "10.0.0.5", "10.0.0.5"))
    assert not run_filter(program, b"\0" * 20)


@pytest.mark.parametrize("targets", [("fd00::1",), ("fd00::9", "fd00::1", "fe80::1")])
def test_advertisement_filter_lets_targets_through(targets: tuple[str, ...]) -> None:
    """Advertisements of targets pass; other traffic of the node does not."""
    program = filters.advertisement_filter(targets)
    solicitation = frames.probe("fd00::1", THEIRS, "fd00::2", OURS)

    assert run_filter(program, advertisement("fd00::1"))
    assert not run_filter(program, advertisement("fd00::5"))
    assert not run_filter(program, solicitation)
    assert not run_filter(program, b"\0" * 100)


def test_answer_filter_lets_any_answer_through() -> None:
    """Replies and advertisements of anybody pass; questions and other traffic do not."""
    program = filters.answer_filter()

    assert run_filter(program, arp(2, "10.0.0.1", "10.0.0.2"))
    assert run_filter(program, advertisement("fd00::5"))
    assert not run_filter(program, arp(1, "10.0.0.1", "10.0.0.1"))
    assert not run_filter(program, frames.probe("fd00::1", "", "", OURS))
    assert not run_filter(program, b"\0" * 100)
