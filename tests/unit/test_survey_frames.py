"""ARP and neighbour discovery frames, made and read; what a question says when it cannot be put."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.model.survey import Known
from linkhold.survey import frames, gateway
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from pathlib import Path

OURS, THEIRS = b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02"


def test_probe() -> None:
    """RFC 5227: broadcast, sender 0.0.0.0, no target MAC."""
    frame = frames.arp(frames.ARP_REQUEST, (OURS, "0.0.0.0"), (bytes(6), "10.0.0.1"))

    expected = (
        "ffffffffffff 020000000001 0806 0001 0800 06 04 0001"
        "020000000001 00000000 000000000000 0a000001"
    )
    assert frame == bytes.fromhex(expected)
    assert frames.neighbour(frame) is None


def test_reply() -> None:
    """A reply names its sender."""
    frame = frames.arp(frames.ARP_REPLY, (THEIRS, "10.0.0.1"), (OURS, "0.0.0.0"))

    assert frames.neighbour(frame) == ("10.0.0.1", THEIRS)


def test_solicitation() -> None:
    """RFC 4861 and 4862: from :: to the solicited-node group, hop limit 255, valid checksum."""
    frame = frames.solicitation(OURS, "fd00::1:2:3456")

    assert frame[:14].hex() == "3333ff023456" + OURS.hex() + "86dd"
    assert frame[20:22] == bytes((58, 255))
    assert frame[22:38] == bytes(16)
    assert frame[38:54].hex() == "ff0200000000000000000001ff023456"
    pseudo = frame[22:54] + (24).to_bytes(4, "big") + bytes((0, 0, 0, 58))
    assert frames.checksum(pseudo + frame[54:]) == 0
    assert frames.neighbour(frame) is None


@pytest.mark.parametrize("router", [True, False])
def test_advertisement(*, router: bool) -> None:
    """It overrides, names the MAC and is read back."""
    frame = frames.advertisement(THEIRS, "fd00::1", router=router)

    assert frame[58] == (0xA0 if router else 0x20)
    assert frames.neighbour(frame) == ("fd00::1", THEIRS)


def test_forwarded_advertisement_is_none() -> None:
    """A hop limit below 255 has crossed a router."""
    frame = bytearray(frames.advertisement(THEIRS, "fd00::1", router=False))
    frame[21] = 254

    assert frames.neighbour(bytes(frame)) is None


def test_checksum_of_the_rfc() -> None:
    """The example of RFC 1071."""
    assert frames.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF ^ 0xDDF2


SEEDS = st.sampled_from(
    [
        frames.arp(frames.ARP_REPLY, (THEIRS, "10.0.0.1"), (OURS, "0.0.0.0")),
        frames.advertisement(THEIRS, "fd00::1", router=True),
    ]
)


@given(SEEDS, st.integers(0, 90), st.binary(max_size=40))
def test_reading_never_raises(frame: bytes, cut: int, tail: bytes) -> None:
    """Any frame, cut anywhere and followed by anything, has an answer."""
    found = frames.neighbour(frame[:cut] + tail)

    assert found is None or len(found.mac) == 6


@pytest.mark.parametrize("text", ["", "02:00", "zz:00:00:00:00:00", "02:00:00:00:00:00:00"])
def test_no_mac(text: str) -> None:
    """Only six bytes are an Ethernet address."""
    with pytest.raises(ValueError):  # noqa: PT011 - bytes.fromhex has its own words
        frames.mac_bytes(text)


@pytest.mark.parametrize(
    ("interface", "targets", "reason"),
    [
        ("lo", ["10.0.0.999"], "no IP address"),
        ("lo", [], "no address to ask"),
        ("gone0", ["10.0.0.1"], "gone0"),
        ("", ["10.0.0.1"], "no name"),
        ("a-name-that-is-far-too-long", ["10.0.0.1"], "no name"),
    ],
)
def test_what_cannot_be_asked(interface: str, targets: list[str], reason: str) -> None:
    """Mistakes are unknown with a reason, never an exception."""
    answer = ask(interface, targets, timeout_s=0.1)

    assert answer.verdict is Known.UNKNOWN
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("state", "perm", "bond", "expected"),
    [
        ("active", "0c:42:a1:00:00:01", "0c:42:a1:00:00:01", "0c:42:a1:00:00:01"),
        ("backup", "0c:42:a1:00:00:02", "0c:42:a1:00:00:01", "0c:42:a1:00:00:02"),
        ("backup", "0c:42:a1:00:00:01", "0c:42:a1:00:00:01", "0e:42:a1:00:00:01"),
    ],
)
def test_mac_of_a_port(  # the bond's own address from a backup port would mislead the switches
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, perm: str, bond: str, expected: str
) -> None:
    """A port asks from its burned-in address, and never from the one that is in use elsewhere."""
    port = tmp_path / "eth1"
    for name, text in {
        "bonding_slave/state": state,
        "bonding_slave/perm_hwaddr": perm,
        "master/address": bond,
    }.items():
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(text + "\n")
    monkeypatch.setattr(gateway, "SYS_NET", tmp_path)

    assert gateway._port_mac("eth1") == expected
    assert gateway._port_mac("eth2") == ""


def test_the_guard_loads_little() -> None:
    """The guard's part brings in nothing but the standard library and linkhold's own."""
    code = (
        "import sys; before = set(sys.modules);"
        "import linkhold.survey.gateway, linkhold.survey.frames;"
        "names = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(*sorted(names - set(sys.stdlib_module_names) - {'linkhold'}));"
        "print(*(m for m in ('asyncio', 'ctypes', 'yaml', 'logging') if m in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.split() == []
