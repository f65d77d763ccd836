"""The keeper of bonds in the agent's loop: the journal, repairs as children, who did it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.actuators.journal import Journal, boot_id
from linkhold.actuators.remake import again, leniently
from linkhold.config.settings import BondSettings, Settings
from linkhold.daemon import bonds, journal_watch
from linkhold.daemon.bonds import BondKeeper, RunFiles
from linkhold.daemon.journal_watch import JournalReader, read_journal
from linkhold.decide.keeping import Ended, JournalSeen, Repair
from linkhold.decide.readings import OrderReading
from linkhold.model import BondKeep, HostError, HostNetwork
from linkhold.sensors.folder import FolderWatch
from linkhold.survey import suspects
from support.journals import change, last
from support.keeping import BOND, host, member

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from linkhold.decide.keeping.values import Reading as KeepReading
    from linkhold.decide.readings import Reading

RECORD: dict[str, Any] = {
    "bond": "bond0",
    "members": ["eth0", "eth1"],
    "persist": "linkhold",
    "options": {},
    "remake": [
        {"do": "sysctls", "values": {}},
        {"do": "netlink", "changes": [{"text": "eth0 joins", "holes": [[4, "eth0"]]}]},
        {"do": "netlink", "changes": [{"text": "eth1 joins", "holes": [[4, "eth1"]]}]},
    ],
    "give_back": [
        {"do": "netlink", "changes": [{"text": "eth1 up", "holes": [[4, "eth1"]]}]},
    ],
    "checks": {
        "answers": [],
        "pings": [],
        "bonds": {"bond0": {"miimon": 50, "primary": "eth0"}},
        "members": {"bond0": ["eth0", "eth1"]},
    },
    "action": "apply",
    "at": 1.0,
}


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own, and its journal's folder."""
    monkeypatch.setenv("LINKHOLD_STATE_DIR", str(tmp_path))
    folder = tmp_path / "bond"
    folder.mkdir()
    return folder


def test_no_journal_is_a_journal_without_changes(journal: Path) -> None:
    """Where nothing was ever applied there is no folder."""
    journal.rmdir()

    assert read_journal() == JournalSeen()


def test_the_journal_says_what_was_committed_and_what_is_at_work(journal: Path) -> None:
    """Records, the unfinished change and the last one, by bond."""
    (journal / "committed-bond0.json").write_text(json.dumps(RECORD))
    (journal / "last.json").write_text(json.dumps(last(id="abc")))
    with Journal().held():
        Journal().write(change(bond="bond1"))

        seen = read_journal()

    assert (seen.committed, seen.last, seen.last_bond) == ({"bond0"}, "abc", "bond0")
    assert (seen.busy, seen.action) == ("bond1", "apply")


@pytest.mark.parametrize(
    ("state", "boot", "why"),
    [
        ("applying", "another", "before the last boot"),
        ("waiting", "another", "before the last boot"),
        ("applying", "", "was left by the one who made it"),
        ("undoing", "", "was left by the one who made it"),
        ("waiting", "", ""),
    ],
)
def test_a_change_that_nobody_will_end_is_a_problem(
    journal: Path, state: str, boot: str, why: str
) -> None:
    """Of an earlier boot, or with maker and guard dead: else the agent would wait for ever."""
    found = change(state=state, boot_id=boot or boot_id())
    (journal / "journal.json").write_text(json.dumps(found))
    os.utime(journal, (1, 1))
    reader = JournalReader()
    seen = reader.read()

    assert (seen.busy, why in seen.problem) == ("" if why else "bond0", True)
    assert ("linkhold bond rollback" in seen.problem) == bool(why)
    assert reader.read() is not seen


def test_the_journal_is_read_again_when_its_folder_changed(journal: Path) -> None:
    """An old folder is read once; a new file in it shows at the next look."""
    os.utime(journal, (1, 1))
    reader = JournalReader()
    first = reader.read()

    assert reader.read() is first

    (journal / "committed-bond0.json").write_text(json.dumps(RECORD))

    assert reader.read().committed == {"bond0"}


def test_a_change_that_could_not_be_undone_is_a_problem(journal: Path) -> None:
    """Nothing is repaired then, and the command that ends it is named."""
    (journal / "journal.json").write_text(json.dumps(change(state="failed")))
    seen = read_journal()

    assert (seen.busy, "linkhold bond rollback" in seen.problem) == ("", True)


def test_a_damaged_journal_is_a_problem(journal: Path) -> None:
    """It is never taken for an empty one."""
    (journal / "journal.json").write_text("{")

    assert "is damaged" in read_journal().problem


def test_a_bond_is_made_again_without_members_that_are_apart() -> None:
    """No message touches them, no check wants them; the record keeps them."""
    document = again(RECORD, {"eth0"})
    texts = [
        change["text"]
        for step in (*document["phases"][0]["steps"], *document["undo"])
        for change in step.get("changes", ())
    ]

    assert texts == ["eth1 joins", "eth1 up"]
    assert document["checks"]["bonds"] == {"bond0": {"miimon": 50}}
    assert document["checks"]["joined"] == {"bond0": ["eth1"]}
    assert document["record"]["members"] == ["eth0", "eth1"]
    assert document["record"]["remake"] == RECORD["remake"]


def test_a_repair_waits_for_no_link_and_keeps_a_larger_record() -> None:
    """A cable that is out stops no repair; a NIC that is absent is not forgotten."""
    plan = {
        "phases": [
            {"title": "join", "steps": [{"do": "await", "optional": False, "timeout_s": 12}]}
        ],
        "checks": {**RECORD["checks"], "members": {"bond0": ["eth0"]}},
        "record": {**RECORD, "members": ["eth0"]},
    }
    document = leniently(plan, RECORD)

    assert document["phases"][0]["steps"] == [{"do": "await", "optional": True, "timeout_s": 3.0}]
    assert (document["checks"]["members"], document["checks"]["joined"]) == (
        {},
        {"bond0": ["eth0"]},
    )
    assert document["record"]["members"] == ["eth0", "eth1"]


@dataclass
class Loop:
    """A keeper whose machine is replaced by a list of what it would have been given."""

    reports: list[Reading] = field(default_factory=list)
    readings: list[KeepReading] = field(default_factory=list)
    tests: list[tuple[str, int]] = field(default_factory=list)

    def _test(self, bond: str, until_ns: int) -> None:
        self.tests.append((bond, until_ns))

    def keeper(self, config: Path) -> BondKeeper:
        """Return the keeper; needs a running loop."""
        keeper = BondKeeper(self.reports.append, config, self._test)
        keeper._take = self.readings.append  # type: ignore[assignment, method-assign]
        return keeper

    async def wait(self, kind: type[KeepReading]) -> Any:
        """Wait for a reading of this kind."""
        for _ in range(300):
            found = [reading for reading in self.readings if isinstance(reading, kind)]
            if found:
                return found[-1]
            await asyncio.sleep(0.05)
        raise AssertionError(f"no {kind.__name__}")


SETTINGS = Settings(bonds={"bond0": BondSettings(members=("eth0", "eth1"))})


def test_a_failed_repair_says_why(journal: Path, tmp_path: Path) -> None:
    """The last line of the command is the reason."""

    async def repair() -> Ended:
        loop = Loop()
        keeper = loop.keeper(tmp_path / "none.yaml")
        keeper.configure(SETTINGS)
        keeper._repair(Repair("bond0"))
        ended = await loop.wait(Ended)
        keeper.stop()
        assert isinstance(ended, Ended)
        return ended

    ended = asyncio.run(repair())

    assert ended.bond == "bond0"
    assert "was not made here" in ended.error or "as root" in ended.error


def test_without_bonds_nothing_is_judged_or_told(journal: Path, tmp_path: Path) -> None:
    """A node without `bonds:` looks at nothing; what was told before is taken back."""

    async def live() -> Loop:
        loop = Loop()
        keeper = loop.keeper(tmp_path / "none.yaml")
        keeper.configure(Settings())
        await asyncio.sleep(0.05)
        assert (loop.readings, loop.reports, keeper.counters) == ([], [], {})
        keeper.configure(SETTINGS)
        assert await loop.wait(JournalSeen) == JournalSeen()
        keeper._memory = type(keeper._memory)(told=(BondKeep("bond0", applied=True),))
        keeper.configure(Settings())
        keeper.stop()
        return loop

    assert len(asyncio.run(live()).reports) == 1


def test_a_command_at_work_is_told_within_an_instant(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is written first: the core and the probes know before the command does a thing.

    Also where no bonds are configured; after its end what the kernel tells late is still its doing.
    """
    monkeypatch.setattr(journal_watch, "ENDS_S", 0.3)

    async def live() -> Loop:
        loop = Loop()
        keeper = loop.keeper(tmp_path / "none.yaml")
        keeper.configure(Settings())
        await asyncio.sleep(0.2)
        with Journal().held():
            Journal().write(change(action="test", deadline_mono_ns=77))
            await asyncio.sleep(0.2)
            assert loop.reports == [OrderReading("bond0", "test")]
            assert loop.tests == [("bond0", 77)]
            (journal / "journal.json").unlink()
        await asyncio.sleep(0.15)
        assert len(loop.reports) == 1
        await asyncio.sleep(0.5)
        keeper.stop()
        return loop

    loop = asyncio.run(live())

    assert loop.reports[1:] == [OrderReading("bond0", "")]
    assert loop.tests[1:] == [("bond0", 0)]


def test_a_watch_says_that_its_folder_is_gone(tmp_path: Path) -> None:
    """So that it can be begun anew; a folder that is not there is an error."""
    watch = FolderWatch(tmp_path)
    (tmp_path / "new").write_text("")
    (tmp_path / "new").replace(tmp_path / "journal.json")
    assert watch.read()

    shutil.rmtree(tmp_path)
    assert not watch.read()
    watch.close()
    with pytest.raises(OSError, match="No such file"):
        FolderWatch(tmp_path)


def test_files_in_run_are_tried_when_members_come_and_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the network that the agent knows, not from a dump each time; once done, no more."""
    asked: list[Any] = []
    outcomes: Iterator[bool | HostError] = iter([False, HostError("the disk is full"), True])

    def keep_in_run(_journal: Journal, ports: Any) -> bool:
        asked.append(ports)
        outcome = next(outcomes)
        if isinstance(outcome, HostError):
            raise outcome
        return outcome

    monkeypatch.setattr(bonds, "keep_in_run", keep_in_run)
    bond = host().links[BOND]
    alone = HostNetwork(links={BOND: bond, 1: member(1)})
    whole = HostNetwork(links={**alone.links, 2: member(2)})

    async def live() -> None:
        run = RunFiles()
        for seen in (alone, alone, whole, whole):
            await run.keep(seen)
        run._next_s = 0.0  # a minute later
        await run.keep(whole)
        await run.keep(alone)

    asyncio.run(live())

    assert asked == [{"bond0": ["eth1"]}, *[{"bond0": ["eth1", "eth2"]}] * 2]


def test_a_manager_that_just_started_is_seen(tmp_path: Path) -> None:
    """Its name and when it started, by the clock that decisions use."""
    program = tmp_path / "NetworkManager"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "30"]) as process:
        try:
            time.sleep(0.2)
            _, restarts = suspects.look({})
        finally:
            process.kill()
    ages_s = [(time.monotonic_ns() - one.at_ns) / 1e9 for one in restarts]

    assert "NetworkManager" in {one.name for one in restarts}
    assert min(ages_s) < 5
