"""Bonds and lists of text in the configuration: what is read, and what every refusal says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from linkhold.config import BondSettings, Detect, Settings, document, load
from linkhold.model import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

MEMBER = "an interface name, a MAC (aa:bb:cc:dd:ee:ff) or a bus path (0000:3b:00.0, 1-1:1.0)"
MEMBERS = f"a list of 1 to 8 entries, each {MEMBER}"
NEW = "1 to 15 bytes without space, /, : and %, not lo, all or default"

LISTS = [
    ("{}", f"members: is missing; allowed: {MEMBERS}"),
    ("{members: }", f"members: has no value; allowed: {MEMBERS}"),
    ("{members: []}", f"members: no entries are too few; allowed: {MEMBERS}"),
    ("{members: eth0 eth1}", f"members: is text; allowed: {MEMBERS}"),
    ("{members: {eth0: {}}}", f"members: is a mapping; allowed: {MEMBERS}"),
    (
        f"{{members: [{', '.join(f'e{number}' for number in range(9))}]}}",
        f"members: 9 entries are too many; allowed: {MEMBERS}",
    ),
    ("{members: [e, '']}", f"members[1]: '' is empty; allowed: {MEMBER}"),
    ("{members: [e, ~]}", f"members[1]: has no value; allowed: {MEMBER}"),
    ("{members: [[e]]}", f"members[0]: is a list; allowed: {MEMBER}"),
    ("{members: [7]}", "members[0]: 7 means a number in YAML; put it in quotes; allowed: "),
    (
        "{members: [11:22:33:44:55:06]}",
        "members[0]: 11:22:33:44:55:06 means a number in YAML; put it in quotes; allowed: ",
    ),
    (
        "{members: [0000:00:03.0]}",
        "members[0]: 0000:00:03.0 means a number in YAML; put it in quotes; allowed: ",
    ),
    *(
        (
            f"{{members: ['{wrong}']}}",
            f"members[0]: '{wrong}' is no interface name, MAC of a NIC or bus path; allowed: ",
        )
        for wrong in (
            "eth0 eth1",
            "AA-BB-CC-DD-EE-FF",
            "aa:bb:cc:dd:ee",
            "01:00:5e:00:00:01",
            "ff:ff:ff:ff:ff:ff",
            "00:00:00:00:00:00",
            "3b:00.0",
            "0000:3b:00.8",
            "1-1:",
            "abcdefghijklmnop",
        )
    ),
    (
        "{members: [e0, e1, e0]}",
        "members[2]: 'e0' is given twice; allowed: once; see bonds.b.members[0] (line 2)",
    ),
    (
        "{members: ['AA:BB:CC:00:11:22', 'aa:bb:cc:00:11:22']}",
        (
            "members[1]: 'aa:bb:cc:00:11:22' is given twice; allowed: once; "
            "see bonds.b.members[0] (line 2)"
        ),
    ),
    (
        "{members: [e], targets: ['2001:DB8::1', '2001:db8:0::1']}",
        (
            "targets[1]: '2001:db8::1' is given twice; allowed: once; "
            "see bonds.b.targets[0] (line 2)"
        ),
    ),
    (
        "{members: [e], targets: [gateway]}",
        (
            "targets[0]: 'gateway' is no address of another machine; allowed: an IP address of "
            "another machine"
        ),
    ),
    (
        "{members: [e], targets: 10.0.0.1}",
        (
            "targets: is text; allowed: a list, at most 8 entries, each an IP address of another "
            "machine"
        ),
    ),
    ("{members: [e], primary: 'a b'}", "primary: 'a b' is no interface name, MAC of a NIC or bus"),
]

CONTRADICTIONS = [
    (
        "{members: [e0, e1], miimon_ms: 100, updelay_ms: 250}",
        (
            "updelay_ms: 250 is no multiple of miimon_ms, 100, and the kernel would take 200; "
            "allowed: a multiple, such as 200; see bonds.b.miimon_ms (line 2)"
        ),
    ),
    (
        "{members: [e0, e1], downdelay_ms: 30}",
        (
            "downdelay_ms: 30 is no multiple of miimon_ms, 50, and the kernel would take 0; "
            "allowed: a multiple, such as 50; see bonds.b.miimon_ms (default)"
        ),
    ),
    (
        "{members: [e0, e1], miimon_ms: 60}",
        (
            "peer_notif_delay_ms: 100 is no multiple of miimon_ms, 60, and the kernel would take "
            "60; allowed: a multiple, such as 60; see bonds.b.miimon_ms (line 2)"
        ),
    ),
    (
        "{members: [e0], updelay_ms: 200}",
        (
            "updelay_ms: 200 has no effect with one member, as the kernel waits only while another "
            "one carries; allowed: 0, or more members; see bonds.b.members (line 2)"
        ),
    ),
    (
        "{members: [e0, e1], primary: e2}",
        (
            "primary: 'e2' is no member; allowed, as written there: e0, e1; "
            "see bonds.b.members (line 2)"
        ),
    ),
    (
        "{members: [b]}",
        "members[0]: 'b' is a bond; allowed: interfaces that are no bonds; see bonds.b (line 2)",
    ),
    (
        "{members: [e0]}\n  c: {members: [e1, e0]}",
        (
            "bonds.c.members[1]: 'e0' is in two bonds; allowed: in one; "
            "see bonds.b.members[0] (line 2)"
        ),
    ),
    (
        "{members: ['AA:00:00:00:00:01']}\n  c: {members: ['aa:00:00:00:00:01']}",
        "bonds.c.members[0]: 'aa:00:00:00:00:01' is in two bonds; allowed: in one; see bonds.b",
    ),
    (
        "{members: [e0]}\nlinks:\n  e0: {role: ignore}",
        (
            "members[0]: 'e0' has the role ignore; allowed: a link that is watched; "
            "see links.e0.role (line 4)"
        ),
    ),
    (
        "{members: [e0]}\nlinks: {b: {role: ignore}}",
        (
            "bonds.b: 'b' has the role ignore; allowed: a link that is watched; "
            "see links.b.role (line 3)"
        ),
    ),
    (
        "{members: [e0], detect: mii, targets: [10.0.0.1]}",
        (
            "targets: given with detect: mii, which asks no target; allowed: none, or "
            "detect: probe; see bonds.b.detect (line 2)"
        ),
    ),
    *(
        (
            f"{{members: [e0], mtu_bytes: {mtu}}}",
            f"mtu_bytes: {mtu} is too small: IPv4 needs 68 and IPv6 1280; allowed: 0, or 68 to ",
        )
        for mtu in (1, 67)
    ),
    (
        "{members: [e0], mtu_bytes: 1279, targets: [10.0.0.1, '2001:db8::1']}",
        (
            "mtu_bytes: 1279 is too small for 2001:db8::1: IPv4 needs 68 and IPv6 1280; allowed: "
            "0, or 1280 to 65535; see bonds.b.targets[1] (line 2)"
        ),
    ),
    (
        "{members: [e0], guard_s: 20}",
        (
            "confirm_after_s: 10 is too long: the change is undone after guard_s, 20, and may "
            "itself take 10; allowed: less than 10; see bonds.b.guard_s (line 2)"
        ),
    ),
]

NUMBERS = [
    (
        "100000",
        (
            "100000 is too large: 100000 ms would notice a pulled cable after up to 100 s; "
            "allowed: 10 to 1000"
        ),
    ),
    ("1500", "1500 is too large: 1500 ms would notice a pulled cable after up to 1.5 s; allowed"),
    ("0", "0 is too small: less than 10 ms costs CPU only, and 0 would never notice a pulled "),
    ("100ms", "'100ms' has a unit; write the number of milliseconds, 100; allowed: 10 to 1000"),
    ("'0.1 s'", "'0.1 s' has a unit; write the number of milliseconds, 100; allowed: 10 to 1000"),
    (
        "100s",
        (
            "'100s' has a unit; write the number of milliseconds; 100000 is too large: 100000 ms "
            "would notice a pulled cable after up to 100 s; allowed: 10 to 1000"
        ),
    ),
    ("100us", "'100us' has a unit; write the number of milliseconds; allowed: 10 to 1000"),
    ("fast", "'fast' is not a number; allowed: 10 to 1000"),
    ("100xs", "'100xs' is not a number; allowed: 10 to 1000"),
]

UNITS = [
    ("policy: {settle_s: 500ms}", "'500ms' has a unit; write the number of seconds, 0.5; allowed"),
    ("policy: {flap_window_s: 10 min}", "'10 min' has a unit; write the number of seconds, 600; "),
    ("outbox: {max_bytes: 200MB}", "'200MB' has a unit; write the number of bytes, 200000000; "),
    ("outbox: {max_bytes: 1 MiB}", "'1 MiB' has a unit; write the number of bytes, 1048576; all"),
    ("outbox: {max_bytes: 100ms}", "'100ms' is not a number; allowed: 1000000 to 100000000000"),
    ("outbox: {keep_days: 36h}", "'36h' has a unit; write the number of days, 1.5; allowed: 0.01"),
    ("outbox: {max_events: 100k}", "'100k' is not a number; allowed: 100 to 10000000"),
]

ARP = "the kernel's ARP monitor excludes MII monitoring (miimon 0 would follow); use detect: probe"
FOREIGN = {
    "linkhold makes active-backup bonds only; leave it out": ["mode", "bond-mode", "Mode"],
    "it is for other modes, and linkhold makes active-backup bonds only": [
        *("lacp_rate", "xmit_hash_policy", "bond-lacp-rate", "TransmitHashPolicy", "ad-select"),
    ],
    ARP: ["arp_interval", "arp_ip_target", "arp_validate", "arp-interval", "ARPIPTargets"],
    "use members, a list": ["slaves", "interfaces", "bond-slaves", "ports"],
    "use miimon_ms": ["miimon", "MIIMonitorSec", "bond-miimon", "mii-monitor-interval"],
    "use updelay_ms": ["updelay", "UpDelaySec", "up-delay", "bond-updelay"],
    "use downdelay_ms": ["downdelay", "DownDelaySec", "down-delay"],
    "use mtu_bytes": ["mtu", "MTU"],
    "use primary": ["bond-primary"],
    "use fail_over_mac": ["bond-fail-over-mac", "fail-over-mac-policy", "FailOverMACPolicy"],
    "use peer_notifications": ["num_grat_arp", "num_unsol_na", "gratuitous-arp"],
    "primary_reselect is always failure: linkhold moves back after checking the path": [
        *("primary_reselect", "PrimaryReselectPolicy", "bond-primary-reselect"),
    ],
    "the driver's carrier is always used": ["use_carrier", "bond-use-carrier"],
    "leave this level out; its keys stand directly in the bond": ["parameters", "options"],
    "addresses and routes move from the NIC to the bond as they are": ["addresses", "dhcp4"],
    "which member is active is no setting; use primary": ["active_slave"],
}


def mistakes(path: Path, content: str) -> tuple[str, ...]:
    """Return the mistakes in a file with this content, without the file's name."""
    path.write_text(content)
    try:
        load(path)
    except ConfigError as error:
        return tuple(line.removeprefix(f"{path}:") for line in error.mistakes)
    return ()


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def either_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with libyaml and with the parser in Python; they differ in details."""
    monkeypatch.setattr(document, "LOADER", getattr(yaml, request.param))


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(("bond", "message"), [*LISTS, *CONTRADICTIONS], ids=repr)
def test_message(tmp_path: Path, bond: str, message: str) -> None:
    """A wrong bond has one mistake, with its place, what is wrong and what is allowed."""
    found = mistakes(tmp_path / "c.yaml", f"bonds:\n  b: {bond}")

    assert len(found) == 1
    assert message in found[0]


@pytest.mark.usefixtures("either_loader")
def test_every_way_to_name_a_member(tmp_path: Path) -> None:
    """Names, MACs and bus paths are read; MACs, bus paths and addresses in their one spelling."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "bonds:\n"
        "  bond0:\n"
        "    members: [Eth0, enp59s0f0np0, 'AA:BB:CC:DD:EE:0F', 0000:3B:00.0, 1-1.4:1.0]\n"
        "    primary: 'Aa:bb:cc:dd:ee:0f'\n"
        "    targets:\n"
        "    - '2001:DB8::1'\n"
        "    - 192.0.2.1\n"
        "    mtu_bytes: 1280\n"
    )
    got = load(path).bonds["bond0"]

    assert got.members == ("Eth0", "enp59s0f0np0", "aa:bb:cc:dd:ee:0f", "0000:3b:00.0", "1-1.4:1.0")
    assert (got.primary, got.targets) == (got.members[2], ("2001:db8::1", "192.0.2.1"))


def test_least_that_can_be_said(tmp_path: Path) -> None:
    """A bond of one NIC needs its member alone; the rest has defaults that agree."""
    path = tmp_path / "c.yaml"
    path.write_text("bonds:\n  bond0: {members: [eth0], targets: }\n  b.1:\n    members: [e1]\n")

    assert load(path) == Settings(
        bonds={"bond0": BondSettings(("eth0",)), "b.1": BondSettings(("e1",))}
    )
    assert BondSettings().detect is Detect.PROBE


@pytest.mark.parametrize(
    "name", ["a b", "a/b", "a:b", ".", "..", "''", "bond%d", "lo", "all", "default", "a" * 16]
)
def test_name_that_the_kernel_refuses(tmp_path: Path, name: str) -> None:
    """A bond's name is one that the kernel takes for a new interface."""
    (found,) = mistakes(tmp_path / "c.yaml", f"bonds:\n  {name}: {{members: [e0]}}")

    assert found.endswith(f": cannot be the name of a new interface; allowed: {NEW}")


@pytest.mark.parametrize(("value", "message"), NUMBERS)
def test_miimon(tmp_path: Path, value: str, message: str) -> None:
    """A slip of the unit is answered with what it would mean."""
    text = f"bonds:\n  b:\n    members: [e0]\n    miimon_ms: {value}"
    (found,) = mistakes(tmp_path / "c.yaml", text)

    assert found.startswith(f"4: bonds.b.miimon_ms: {message}")


@pytest.mark.parametrize(("text", "message"), UNITS)
def test_units(tmp_path: Path, text: str, message: str) -> None:
    """A number with a unit is answered with the number to write, where the key has a unit."""
    (found,) = mistakes(tmp_path / "c.yaml", text)

    assert message in found


@pytest.mark.parametrize(
    ("key", "advice"), [(key, advice) for advice, keys in FOREIGN.items() for key in keys]
)
def test_keys_of_other_programs(tmp_path: Path, key: str, advice: str) -> None:
    """A key that people know from elsewhere is answered with what linkhold has instead."""
    text = f"bonds:\n  b:\n    members: [e0]\n    {key}: 1"
    (found,) = mistakes(tmp_path / "c.yaml", text)

    assert found.startswith(f"4: bonds.b.{key}: unknown key: {advice}")
    assert "; allowed: members, primary, " in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network: {version: 2}", "unknown key: netplan's files are not read; write bonds: at the"),
        ("bonding: {}", "unknown key: use bonds; allowed: site, "),
        ("links: {e: {miimon: 1}}", "unknown key; allowed: role, expected"),
        ("bonds: {b: {members: [e], guard: 9}}", "unknown key (did you mean guard_s?); allowed"),
        ("bonds: {b: {members: [e], primery: e}}", "unknown key (did you mean primary?); allowed"),
    ],
)
def test_other_unknown_keys(tmp_path: Path, text: str, message: str) -> None:
    """Advice is for the section it is about; elsewhere and for slips there are the guesses."""
    (found,) = mistakes(tmp_path / "c.yaml", text)

    assert message in found


def test_no_contradiction_with_a_wrong_list(tmp_path: Path) -> None:
    """A list with a mistake stands for no intention: nothing is compared with it."""
    text = "bonds: {b: {members: [e0, 'e 1'], primary: e1, updelay_ms: 100}, c: {members: [e0]}}"
    (found,) = mistakes(tmp_path / "c.yaml", text)

    assert found.startswith("1: bonds.b.members[1]: 'e 1' is no ")
