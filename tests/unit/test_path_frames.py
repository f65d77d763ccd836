"""Frames of path probes, byte by byte, and the filters that let their answers through."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.sensors import path_frames as frames

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
    """The checksum holds, the hop limit is 255, the source is made of the MAC (RFC 4861)."""
    frame = frames.probe("fd00::1", "", "", OURS)
    body = frame[54:]
    source, destination = frame[22:38], frame[38:54]

    assert frame[:6] == bytes.fromhex("3333ff000001")
    assert socket.inet_ntop(socket.AF_INET6, destination) == "ff02::1:ff00:1"
    assert socket.inet_ntop(socket.AF_INET6, source) == "fe80::ff:fe00:1"
    assert frame[21] == 255
    assert frames.checksum(source + destination + struct.pack("!II", len(body), 58) + body) == 0
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
    program = frames.arp_filter(targets)

    assert run_filter(program, arp(2, "10.0.0.1", "10.0.0.2"))
    assert run_filter(program, arp(1, "10.0.0.1", "10.0.0.1"))
    assert not run_filter(program, arp(1, "10.0.0.1", "10.0.0.2"))
    assert not run_filter(program, arp(2, "10.0.0.5", "10.0.0.2"))
    assert not run_filter(program, arp(1, "10.0.0.5", "10.0.0.5"))
    assert not run_filter(program, b"\0" * 20)


@pytest.mark.parametrize("targets", [("fd00::1",), ("fd00::9", "fd00::1", "fe80::1")])
def test_advertisement_filter_lets_targets_through(targets: tuple[str, ...]) -> None:
    """Advertisements of targets pass; other traffic of the node does not."""
    program = frames.advertisement_filter(targets)
    solicitation = frames.probe("fd00::1", THEIRS, "fd00::2", OURS)

    assert run_filter(program, advertisement("fd00::1"))
    assert not run_filter(program, advertisement("fd00::5"))
    assert not run_filter(program, solicitation)
    assert not run_filter(program, b"\0" * 100)
