"""What a boot and a repair make of the records of bonds, without a kernel."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.actuators import boot
from linkhold.actuators.compile import compiled
from linkhold.actuators.journal import Journal
from linkhold.actuators.remake import again, spared, strange
from linkhold.cli.bond_plan import with_boot_warning
from linkhold.config.settings import BondSettings
from linkhold.decide.bonding import remake
from linkhold.decide.bonding.objects import taken_off
from linkhold.decide.bonding.plan import Asked, plan
from linkhold.decide.bonding.steps import Plan
from linkhold.decide.bonding.wanted import resolve
from linkhold.model import HostError
from linkhold.model.look import Look, LookedAddress, LookedLink, LookedRoute
from linkhold.model.survey import CloudInit, Known, Nic, Owner, OwnerKind, RootView, Survey
from linkhold.rtnl.attributes import pack, u32
from linkhold.survey import boot_unit, snapshot

if TYPE_CHECKING:
    from pathlib import Path

MACS = {"eth0": "02:00:00:00:01:00", "eth1": "02:00:00:00:01:01"}
SETTINGS = BondSettings(members=("eth0", "eth1"))


def link(name: str, index: int, **more: Any) -> LookedLink:
    """Return a NIC that is up."""
    seen = {"admin_up": True, "carrier": True, "mac": MACS.get(name, ""), "mtu": 1500}
    return LookedLink(index, name, **{**seen, **more})


def address(index: int, text: str) -> LookedAddress:
    """Return an IPv4 address with the bytes that the kernel would tell."""
    host, _, length = text.partition("/")
    packed = bytes(map(int, host.split(".")))
    raw = struct.pack("=BBBBI", 2, int(length), 128, 0, index) + pack(1, packed) + pack(2, packed)
    return LookedAddress(index, "inet", text, 0, 128, raw)


DEFAULT = LookedRoute(
    "inet",
    254,
    "default",
    gateway="10.0.0.1",
    protocol=3,
    kind=1,
    metric=0,
    indexes=(2,),
    raw=struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + u32(4, 2),
)
LOOK = Look(
    links=(link("eth0", 2), link("eth1", 3)),
    addresses=(address(2, "10.0.0.2/24"),),
    routes=(DEFAULT,),
)
SURVEY = Survey(
    nics=tuple(
        Nic(name, 2 + n, mac=mac, perm_mac=mac) for n, (name, mac) in enumerate(MACS.items())
    ),
    owners=tuple(Owner(OwnerKind.NOBODY, name) for name in MACS),
    root=RootView(Known.NO),
    cloud_init=CloudInit(Known.NO, "disabled"),
)
MADE = plan("bond0", SETTINGS, LOOK, SURVEY, Asked(pings=("10.0.0.77",)))


def committed(folder: Path) -> dict[str, Any]:
    """Return the record of bond0 after a change that was committed."""
    return Journal(folder).committed()["bond0"]


def commit(folder: Path, **changes: Any) -> dict[str, Any]:
    """Commit a change of bond0, and return its record."""
    done = {**compiled(MADE), "id": "1", "state": "confirmed", "phase": 0, **changes}
    journal = Journal(folder)
    with journal.held():
        journal.commit(done)
    return committed(folder)


def messages(document: dict[str, Any]) -> list[str]:
    """Return what the kernel would be told by the steps that make a bond again."""
    return [c["text"] for step in document["remake"] for c in step.get("changes", ())]


def test_a_member_that_joins_later_is_remembered_as_it_was(tmp_path: Path) -> None:
    """The record knows each member as it was before it first joined."""
    first = commit(tmp_path)
    first["originals"] = {"eth0": {"mtu": 9000}}
    (tmp_path / "committed-bond0.json").write_text(json.dumps(first))

    assert commit(tmp_path, action="adjust")["originals"] == {
        "eth0": {"mtu": 9000},
        "eth1": {"mtu": 1500, "admin_up": True, "mac": "02:00:00:00:01:01", "perm_mac": ""},
    }


def test_no_record_asks_for_those_who_answered_a_ping_on_its_day(tmp_path: Path) -> None:
    """The change does; a repair in a year does not, even by a record of former days."""
    record = commit(tmp_path)
    old = {**record, "checks": {**record["checks"], "pings": ["10.0.0.77"]}}

    assert compiled(MADE)["checks"]["pings"] == ("10.0.0.77",)
    assert record["checks"]["pings"] == []
    assert list(again(old)["checks"]["pings"]) == []


def test_what_the_bond_carried_is_taken_off_each_member_that_joins(tmp_path: Path) -> None:
    """A boot may have given it to one of them."""
    record = commit(tmp_path)
    told = messages(record)

    assert record["addresses"] == ["10.0.0.2/24"]
    for nic in ("eth0", "eth1"):
        gone = told.index(f"no address 10.0.0.2/24 on {nic}")
        assert gone < told.index(f"set {nic} down, into bond0")
    assert taken_off(LOOK, "", "eth0") == ()
    wanted, _ = resolve("bond0", SETTINGS, SURVEY)
    assert remake.steps(wanted, replace(LOOK, addresses=(), routes=()), "") != ()


def test_addresses_of_others_keep_a_bond_from_being_made_again() -> None:
    """Those of the record do not, nor what a router gave; a member apart is not looked at."""
    record = {"members": ["eth0", "eth1"], "addresses": ["10.0.0.2/24"]}
    by_router = LookedAddress(3, "inet6", "2001:db8::1/64", 0, 0)
    by_hand = LookedAddress(3, "inet6", "2001:db8::2/64", 0, 0x80)
    look = replace(LOOK, addresses=(*LOOK.addresses, address(3, "10.9.9.9/24"), by_router))

    assert strange(record, LOOK, ()) == {}
    assert strange(record, look, ()) == {"eth1": ["10.9.9.9/24"]}
    assert strange(record, look, ("eth1",)) == {}
    look = replace(LOOK, addresses=(by_router, by_hand))
    assert strange(record, look, ()) == {"eth1": ["2001:db8::2/64"]}


def test_steps_about_absent_members_are_dropped(tmp_path: Path) -> None:
    """Also where a message names one in another place, and where only it would be waited for."""
    record = commit(tmp_path)
    left = spared(record, ("eth0",))

    assert [text for text in messages(left) if "eth0" in text] == []
    assert not [s for s in left["give_back"] if s["do"] in {"await", "announce"}]
    assert "set eth1 down, into bond0" in messages(left)


def test_one_damaged_record_leaves_the_others(tmp_path: Path) -> None:
    """At boot it is told; everybody else is to hear of it at once."""
    commit(tmp_path)
    (tmp_path / "committed-bond1.json").write_text("{")
    (tmp_path / "journal.json").write_text("{")
    damaged: list[str] = []

    assert list(Journal(tmp_path).committed(damaged)) == ["bond0"]
    assert len(damaged) == 2
    with pytest.raises(HostError, match="is damaged"):
        Journal(tmp_path).committed()


class Boot:
    """A boot whose kernel is a list: what it was told, and which NICs are there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, look: Look) -> None:
        self.folder, self.look = folder, look
        self.told: list[str] = []
        self.done: list[str] = []
        for name, seconds in {"MEMBERS_S": 0.05, "PATIENCE_S": 0.3, "ALONE_S": 0.1}.items():
            monkeypatch.setattr(boot, name, seconds)
        monkeypatch.setattr(boot, "PAUSE_S", 0.01)
        monkeypatch.setattr(boot, "UDEV", folder / "udev")
        monkeypatch.setattr(snapshot, "take", lambda: self.look)
        monkeypatch.setattr(boot, "perform", self._perform)
        monkeypatch.setattr(boot, "failures", lambda _: [])

    def _perform(self, step: dict[str, Any]) -> None:
        self.done += [change["text"] for change in step.get("changes", ())]

    def run(self) -> list[str]:
        """Boot, and return what went wrong."""
        return boot.at_boot(Journal(self.folder), self.told.append)


@pytest.fixture
def booted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Boot:
    """A host at boot whose bond0 is committed and not there."""
    commit(tmp_path)
    look = replace(LOOK, links=tuple(replace(one, perm_mac=one.mac) for one in LOOK.links))
    return Boot(monkeypatch, tmp_path, look)


def test_a_record_without_originals_is_no_end_of_a_boot(booted: Boot) -> None:
    """Nor is one that makes no sense at all: the other bonds are made."""
    record = {**committed(booted.folder), "bond": "bond1", "originals": {}}
    (booted.folder / "committed-bond1.json").write_text(json.dumps(record))
    (booted.folder / "committed-a.json").write_text('{"persist": "linkhold"}')
    problems = booted.run()

    assert len(problems) == 1
    assert "committed-a.json is damaged: it lacks members, options; remove it" in problems[0]
    assert booted.done.count("set eth1 down, into bond0") == 2


def test_a_nic_counts_when_udev_has_named_it(booted: Boot) -> None:
    """Until then it may still get another name; one that udev never tells of counts in the end."""
    data = booted.folder / "udev/data"
    data.mkdir(parents=True)
    (data / "n2").touch()
    record = committed(booted.folder)

    assert boot._names_now(record, settled=True) == {"eth0": "eth0"}
    assert set(boot._names_now(record, settled=False)) == {"eth0", "eth1"}
    assert boot._await_members(record, 0.0) == {"eth0": "eth0", "eth1": "eth1"}


def test_a_member_with_another_name_gets_no_steps_of_an_absent_one(booted: Boot) -> None:
    """eth0 is gone and eth1 is called eth0 now: eth1's steps are carried out, by that name."""
    file = booted.folder / "committed-bond0.json"
    record = json.loads(file.read_text())
    for name, number in (("eth0", "00"), ("eth1", "01")):
        record["originals"][name]["perm_mac"] = f"02:00:00:00:01:{number}"
    file.write_text(json.dumps(record))
    booted.look = Look(links=(link("eth0", 2, perm_mac="02:00:00:00:01:01"),))
    booted.run()

    assert "eth1 is called eth0 now (found by its permanent MAC)" in booted.told
    assert "set eth1 down, into bond0" in booted.done
    assert "set eth0 down, into bond0" not in booted.done


def test_without_any_member_nothing_is_made(booted: Boot) -> None:
    """An empty bond with the host's addresses would be of no use."""
    booted.look = Look(links=())

    assert booted.run() == ["none of the members of bond0 is there: it is not made"]
    assert booted.done == []


def test_the_boot_unit_counts_where_systemd_runs_and_does_not_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in a wants folder is how systemd knows it; the plan warns without."""
    assert not boot_unit.missing(tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert boot_unit.missing(tmp_path)
    monkeypatch.setattr(boot_unit, "ROOT", tmp_path)
    mine = Plan("bond0", "apply", record={"persist": "linkhold"})
    assert "not installed; `linkhold setup --system`" in with_boot_warning(mine, {}).warnings[0]
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system" / boot_unit.UNIT).touch()
    assert "is not enabled; run: systemctl enable" in with_boot_warning(mine, {}).warnings[0]
    assert with_boot_warning(mine, {"persist": "networkd"}).warnings == ()
    wants = tmp_path / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (tmp_path / boot_unit.UNIT).touch()
    (wants / boot_unit.UNIT).symlink_to(tmp_path / boot_unit.UNIT)
    assert not boot_unit.missing(tmp_path)
    assert with_boot_warning(mine, {}).warnings == ()


def test_a_disk_that_takes_no_more_keeps_no_bond_from_being_made(
    booted: Boot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut a file system may be read-only; making a bond writes nothing."""

    def read_only(_journal: Journal, **_: Any) -> bool:
        raise HostError("lock: Read-only file system")

    monkeypatch.setattr(Journal, "hold", read_only)

    assert booted.run() == ["lock: Read-only file system"]
    assert "set eth1 down, into bond0" in booted.done


def test_a_bond_that_could_not_be_made_leaves_the_nic_its_addresses(booted: Boot) -> None:
    """Without members, or without a single address of the record, it carries nothing."""
    booted.run()
    assert any("could not be made" in text for text in booted.told)
    booted.told.clear()
    nics = tuple(replace(one, master=9) for one in booted.look.links)
    bond = link("bond0", 9, kind="bond", bond={"active_slave": 2})
    bare = Look(links=(*nics, bond))
    made = boot.Bond("bond0", committed(booted.folder), booted.told.append)
    made.make(0.0)
    booted.look = bare
    made.settle(0.0)
    assert booted.told[-1] == "bond0 could not be made: giving the NIC back"
    booted.look = replace(bare, addresses=(address(9, "10.0.0.2/24"),))
    made.settle(0.0)
    assert booted.told[-1] == "bond0 is there and its gateway answers"
