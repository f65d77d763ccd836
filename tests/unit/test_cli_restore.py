"""``linkhold restore`` of a bond that somebody took away: its NIC gets back what it carried."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.actuators import remake
from linkhold.actuators.journal import Journal
from linkhold.cli import restore
from linkhold.decide.bonding.remove import Leaving, around_return
from linkhold.model import HostError
from linkhold.model.survey import Answer, Known
from linkhold.survey import snapshot
from support.bond_looks import LOOK, address, route
from support.journals import change

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.model.look import Look

BARE = replace(LOOK, addresses=(), routes=())
RECORD: dict[str, Any] = {
    "bond": "bond0",
    "members": ["eth0", "eth1"],
    "options": {},
    "persist": "linkhold",
    "live": "eth0",
    "addresses": ["10.0.0.2/24"],
    "remake": [],
    "give_back": [{"do": "await", "links": ["eth0"], "text": "eth0 gets it back"}],
    "checks": {"answers": [["bond0", ["10.0.0.1"]]]},
    "originals": {"eth0": {"admin_up": True}, "eth1": {"admin_up": False}},
}


class Restore:
    """A restore whose kernel is a list, of a bond that is gone."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        self.done: list[str] = []
        self.said: list[str] = []
        self.verdict, self.after = Known.YES, LOOK
        monkeypatch.setattr(remake, "perform", lambda step: self.done.append(step["text"]))
        monkeypatch.setattr(remake, "WORKS_WITHIN_S", 0.0)
        monkeypatch.setattr(remake, "PAUSE_S", 0.0)
        monkeypatch.setattr(snapshot, "take", lambda: self.after)
        monkeypatch.setattr(remake, "ask", lambda nic, *_, **__: Answer(self.verdict, nic))

    def run(self, look: Look, **record: Any) -> list[str]:
        """Restore on a host that looks so; return what was not restored."""
        file = self.folder / "committed-bond0.json"
        file.write_text(json.dumps({**RECORD, **record}), encoding="utf-8")
        self._patch.setattr(restore, "prepare_removal", lambda *_: (look, Leaving()))
        return restore._remove(Journal(self.folder), "bond0", self.said.append)

    @property
    def record_is_kept(self) -> bool:
        """Whether the bond could still be made again."""
        return (self.folder / "committed-bond0.json").exists()


@pytest.fixture
def restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Restore:
    """A host on which nothing was restored yet."""
    return Restore(tmp_path, monkeypatch)


def test_the_nic_gets_back_what_the_bond_carried(restored: Restore) -> None:
    """Then only is the record dropped; a NIC that was down is down again."""
    assert restored.run(BARE) == []
    assert restored.done == ["eth0 gets it back", "set eth1 down"]
    assert restored.said == ["bond0 was gone already; eth0 carries what it carried"]
    assert not restored.record_is_kept
    assert (Journal(restored.folder).last() or {})["action"] == "remove"


@pytest.mark.parametrize("bad", ["address", "gateway", "kernel", "record"])
def test_the_record_stays_until_the_nic_works(
    bad: str, restored: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other NIC may be the one that carries: the bond can still be made again."""

    def fail(step: dict[str, Any]) -> None:
        raise HostError(f"{step['text']}: refused")

    more: dict[str, Any] = {}
    if bad == "address":
        restored.after = BARE
    elif bad == "gateway":
        restored.verdict = Known.NO
    elif bad == "kernel":
        monkeypatch.setattr(remake, "perform", fail)
    else:
        more = {"give_back": None}
    (problem,) = restored.run(BARE, **more)

    words = "bond repair bond0, or restore again" if bad != "record" else "it lacks give_back"
    assert words in problem
    assert restored.record_is_kept


def test_nothing_is_given_beside_an_unfinished_change(restored: Restore) -> None:
    """Its guard would take back half of it."""
    (restored.folder / "journal.json").write_text(json.dumps(change(state="failed")))
    (problem,) = restored.run(BARE)

    assert "linkhold bond rollback" in problem
    assert restored.done == []
    assert restored.record_is_kept


@pytest.mark.parametrize("way_out", [True, False])
def test_a_network_that_somebody_set_up_anew_stays(restored: Restore, way_out: bool) -> None:  # noqa: FBT001
    """On the NIC itself, or with a default route: old routes would take its place.

    A manager has its old files at the next boot, and is not started now.
    """
    index = 3 if way_out else 2
    routes = (route(3, "default", "10.9.9.1"),) if way_out else ()
    look = replace(BARE, addresses=(address(index, "10.9.9.9/24"),), routes=routes)

    old = {"path": "/etc/systemd/network/10-eth0.network", "content": "[Match]", "mode": 0o644}

    assert restored.run(look, persist="networkd", profile=old["path"], files=[old]) == []
    assert restored.done == [f"write {old['path']}"]
    assert f"eth{index - 2} keeps 10.9.9.9/24" in restored.said[0]
    assert not restored.record_is_kept


def test_a_bond_of_others_that_is_gone_is_not_forgotten_with_its_addresses(
    restored: Restore,
) -> None:
    """Its NICs never had them; where there is another way out, there is nothing to restore."""
    (problem,) = restored.run(BARE, persist="none")
    assert "linkhold bond repair bond0" in problem
    assert restored.record_is_kept

    assert restored.run(LOOK, persist="none") == []
    assert not restored.record_is_kept


def test_a_manager_gets_its_files_back_around_it() -> None:
    """It is kept away, finds its old profile, and is let in at the end."""
    old = {"path": "/etc/systemd/network/10-eth0.network", "content": "[Match]", "mode": 0o644}
    record = {**RECORD, "persist": "networkd", "profile": old["path"], "files": [old]}
    before, after = around_return(record, ())
    told = [step.text for step in after]

    assert before
    assert f"write {old['path']}" in told
    assert any("systemctl restart systemd-networkd" in text for text in told)
    assert told[0] == "set eth1 down"
