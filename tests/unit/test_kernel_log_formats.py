"""Whatever stands in front of a kernel message, and garbage."""

from __future__ import annotations

import io
import json
import sys
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkhold import cli
from linkhold.decide.kernel_log import classify, entries, explain, message_of, worth
from linkhold.model.kernel_log import Finding, PciView

if TYPE_CHECKING:
    from pathlib import Path

MESSAGES = (
    "ixgbe 0000:3b:00.0 eno1: NIC Link is Down",
    "mlx5_core 0000:4b:00.0: poll_health:728:(pid 0): device's health compromised - reached miss",
    "NETDEV WATCHDOG: eth2 (igb): transmit queue 5 timed out",
    "bond0: (slave eth1): link status definitely down, disabling slave",
    "bond0: now running without any active interface!",
    "bnx2x: [bnx2x_attn_int_deasserted3:4323(eth4)]MC assert!",
    "r8152 4-2.1.3:1.0 enx020000000001: Tx status -71",
    "mlx4_en: enp9s0:   Link Down",
)
PREFIXES = (
    "",
    "   ",
    "[12345.678901] ",
    "[    5.000001][  T123] ",
    "[ 1732.840988][   C28] ",
    "<4>[12345.678901] ",
    "<6>",
    "\x1b[32m[12345.678901] \x1b[0m",
    "[Mon Jul  7 12:37:38 2025] ",
    "[Mar15 18:17] ",
    "[  +0.005115] ",
    "[12345.678901 <    0.000012>] ",
    "[Mo Nov 30 03:12:01 2026] ",
    "[lun. nov. 30 03:12:01 2026] ",
    "[Mi Mär 30 03:12:01 2026] ",
    "[   99.1] ",
    "123:[12345.678901] ",
    "123:Nov 17 13:16:56 node1 kernel: ",
    "node1 kernel: ",
    "2026 Nov 17 13:16:56 node1 kernel: ",
    "Nov 17 13:16:56 node1 kernel: <4>[11331.655315] ",
    "<4>1 2026-11-17T13:16:56.123456+01:00 node1 kernel - - - \ufeff",
    "kern  :warn  : [12345.678901] ",
    "2026-11-30T06:52:01,123456+00:00 ",
    "Nov 17 13:16:56 node1 kernel: [11331.655315] ",
    "Nov 17 13:16:56 node1 kernel: ",
    "Nov  7 13:16:56 10000001 kernel: ",
    "Nov  7 13:16:56  kernel: ",
    "Nov 17 13:16:56 src@node1 kernel: ",
    "Nov 17 13:16:56.123456 node1 kernel: ",
    "Nov 17 13:16:56 node1 [11331.655315] ",
    "Nov 17 13:16:56 [ 1732.840988][   C28] ",
    "2026-11-17T13:16:56+0100 node1 kernel: ",
    "2026-11-17T13:16:56.123456+01:00 node1 kernel: [11331.655315] ",
    "2026-11-17T13:16:56 node1 kernel:[11331.655315] ",
    "2026-11-17 13:16:56    [11331.655315] ",
    "Tue 2026-11-17 13:16:56 UTC node1 kernel: ",
    "[11331.655315] node1 kernel: ",
    "[11331.655315] kernel: ",
    "1795612345.123456 node1 kernel: ",
    "kernel: ",
    "kernel: [11331.655315] ",
    "<4>Nov 17 13:16:56 node1 kernel: [11331.655315] ",
    "<4>1 2026-11-17T13:16:56.123456+01:00 node1 kernel - - - [11331.655315] ",
    '<4> 1 2026-11-17T13:16:56Z node1 kernel - - [meta sequenceId="7"] ',
    "Nov 17 13:16:56 node1 kern.warn kernel: [11331.655315] ",
    "Tue Nov 17 13:16:56 2026 kern.warn kernel: [11331.655315] ",
    "kern.log.1:Nov 17 13:16:56 node1 kernel: [11331.655315] ",
    "/var/log/messages:1234:Nov 17 13:16:56 node1 kernel: ",
    "4,1638,368861144,-;",
    "4,1638,368861144,-,caller=T1;",
    "6.8.0-1,4,1638,368861144,-,ncfrag=0/33;",
)
USERS = (
    "Nov 17 13:16:56 node1 systemd-networkd[892]: ",
    "Nov 17 13:16:56 node1 dhclient[12]: ",
    "<30>Nov 17 13:16:56 node1 daemon[1]: ",
    "<14>1 2026-11-17T13:16:56Z node1 logger 12 - - ",
    "12,1638,368861144,-;",
    "Tue Nov 17 13:16:56 2026 daemon.notice netifd: ",
    "[11331.655315] node1 logger[77]: ",
)


def said(line: str) -> Finding:
    """Return what one line says."""
    (entry,) = entries([line + "\n"])
    return explain(entry)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_changes_nothing(prefix: str) -> None:
    """A message means the same in every kind of log."""
    for message in MESSAGES:
        assert said(prefix + message) == classify(message) != Finding(), message


@pytest.mark.parametrize("prefix", USERS)
def test_what_user_space_wrote_is_none(prefix: str) -> None:
    """Only the kernel is believed: a program may write the same words."""
    for message in MESSAGES:
        found = said(prefix + message)

        assert (found.cls.value, found.interface) == ("none", ""), message


def test_a_host_name_without_a_tag_is_skipped() -> None:
    """Some loggers leave ``kernel:`` out between host and message."""
    found = said("2026-11-17 13:16:56 node1 ixgbe 0000:3b:00.0 eno1: NIC Link is Down")

    assert (found.cls.value, found.interface) == ("link_down", "eno1")


def test_continuation_lines_belong_to_their_record() -> None:
    """A raw record is one entry at its first line; DEVICE= gives the address."""
    raw = (
        "6,1,5,-;NETDEV WATCHDOG: eth2 (igb): transmit queue 5 timed out\n"
        " SUBSYSTEM=pci\n DEVICE=+pci:0000:05:00.1\n"
        "6,2,6,-;harmless\n DEVICE=n2\n"
        "6,3,7,-;igb 0000:05:00.1 eth2: igb: eth2 NIC Link is Down\n"
    )

    found = [(e.number, explain(e)) for e in entries(io.StringIO(raw))]

    assert [number for number, _ in found] == [1, 4, 6]
    assert (found[0][1].interface, found[0][1].address) == ("eth2", "0000:05:00.1")
    assert found[2][1].cls.value == "link_down"


def test_ports_count_only_above_a_nic() -> None:
    """A fault of a PCI port counts with the host's tree, and then names the interface below."""
    pci = PciView(nics={"0000:4b:00.0": ("eth0",)}, ports={"0000:4a:00.0": ("eth0",)})
    lines = {
        "pcieport 0000:4a:00.0: pciehp: Slot(3): Card not present": "removed",
        "pcieport 0000:4a:00.0: pciehp: Slot(3): Link Down": "removed",
        "pcieport 0000:4a:00.0: DPC: containment event, status:0x1f01 source:0x0": "hardware_error",
        "pcieport 0000:00:01.0: AER: Corrected error received: 0000:4b:00.0": "hardware_error",
        "pci 0000:4b:00.0: 8.0 Gb/s available PCIe bandwidth, limited by 2.5 GT/s PCIe x4 link at "
        "0000:00:1c.0 (capable of 63.0 Gb/s with 8.0 GT/s PCIe x8 link)": "degraded",
        "pcieport 0000:00:01.0: AER: Correctable error message received from 0000:4b:00.0": (
            "hardware_error"
        ),
        "pcieport 0000:00:02.0: pciehp: Slot(0): Link Down": "none",
        "pcieport 0000:4a:00.0: AER: Corrected error received: 0000:5b:00.0": "none",
    }

    for line, cls in lines.items():
        found = classify(line, pci=pci)

        assert found.cls.value == cls, line
        assert found.interface == ("" if cls == "none" else "eth0"), line
        assert classify(line).cls.value == "none", line


def test_an_address_becomes_its_only_interface() -> None:
    """A line without an interface gets it from the tree, unless two share the function."""
    line = "mlx5_core 0000:4b:00.0: Port module event: module 0, Cable unplugged"

    assert classify(line, pci=PciView(nics={"0000:4b:00.0": ("eth0",)})).interface == "eth0"
    assert classify(line, pci=PciView(nics={"0000:4b:00.0": ("a0", "b0")})).interface == ""


@given(st.text(max_size=400))
def test_garbage_is_read(text: str) -> None:
    """No text makes the classification fail, and what the filter drops is none."""
    for entry in entries(io.StringIO(text)):
        explain(entry)
    if not worth(text):
        assert classify(text).cls.value == "none"


@given(st.sampled_from(MESSAGES), st.text(max_size=40), st.text(max_size=40))
def test_damage_around_a_message_is_read(message: str, before: str, after: str) -> None:
    """Damaged prefixes and ends give some answer, in bounded time."""
    said(before + message + after)
    message_of(before + message)


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "[" * 50_000, "0000:" * 40_000, "x: " * 60_000, " (slave " * 30_000,
             "NETDEV WATCHDOG: " * 9_000, "uncorrect (fatal) error " * 9_000]
)  # fmt: skip
def test_no_text_hangs_the_classification(text: str) -> None:
    """Long repetitions, which make careless expressions explode, cost milliseconds."""
    began = time.process_time()
    for line in (text, f"mlx5_core 0000:4b:00.0: {text}", f"bond0: {text}", f"6,1,1,-;{text}"):
        said(line)

    assert time.process_time() - began < 1


@settings(max_examples=30)
@given(st.lists(st.sampled_from((*MESSAGES, "usb 2-1: USB disconnect, device number 7"))))
def test_the_quick_filter_loses_nothing(messages: list[str]) -> None:
    """Whatever has a class passes the filter before classification."""
    for message in messages:
        assert worth(message) or classify(message).cls.value == "none"


def test_the_command_prints_an_object_for_each_entry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``explain kernel-log --json`` prints JSON lines with numbers from 1; null is unknown.

    A byte order mark and bytes that are no text hide nothing.
    """
    log = tmp_path / "log"
    log.write_bytes(
        b"\xef\xbb\xbf[1.000000] \xff\xfe\n\nbond0: now running without any active interface!\n"
        b"6,1,2,-;harmless\n DEVICE=n2\n[2.000000] igb 0000:05:00.1 eth2: igb: eth2 NIC Link is Up"
    )

    assert cli.main(["explain", "kernel-log", "--json", str(log)]) == 0

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["line"], row["class"]) for row in rows] == [
        (1, "none"), (2, "none"), (3, "bond_down"), (4, "none"), (6, "link_up"),
    ]  # fmt: skip
    assert rows[2] == {
        "line": 3, "class": "bond_down", "interface": "bond0", "driver": "bonding",
        "address": None, "severity": "critical", "why": rows[2]["why"],
    }  # fmt: skip
    assert rows[2]["why"].startswith("bonding: ")


def test_the_command_reads_its_input_and_shows_no_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --json only lines that mean something are shown, and none can steer a terminal."""
    text = b"harmless\nigb 0000:05:00.1 eth2: NIC Link is Down \x07\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    assert cli.main(["explain", "kernel-log"]) == 0

    out = capsys.readouterr().out
    assert out.startswith("2: eth2: warning link_down: ")
    assert "\x07" not in out


def test_a_wrong_call_says_what_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    """An absent file and an unknown subject are one line each, without a traceback."""
    assert cli.main(["explain", "kernel-log", "/nonexistent"]) == 1
    assert capsys.readouterr().err == "linkhold: /nonexistent: No such file or directory\n"
    assert cli.main(["explain", "weather"]) == 64
    assert "kernel-log" in capsys.readouterr().err
