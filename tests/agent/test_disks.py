"""Faults of the disk and of the run folder: the state file and leg A do not notice, or heal."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from support.broker import wait_until
from support.cable import until_volatile
from support.places import Mounts
from support.running import agent_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.cable import Cable
    from support.netns import Namespace
    from support.running import Running
    from support.trainer import Trainer

FULL = "cat /dev/zero >{0}/fill 2>/dev/null || true"


@pytest.fixture
def mounts(place: Path) -> Iterator[Mounts]:
    """A mount namespace with a tmpfs of 512 KiB as state folder."""
    (place / "state").mkdir()
    made = Mounts()
    made.run(f"mount -t tmpfs -o size=512k,mode=700 none {place}/state")
    yield made
    made.close()


def test_a_full_disk_is_said_and_used_again_when_it_has_room(
    agents: Callable[..., Running], cable: Callable[[Running], Cable], mounts: Mounts
) -> None:
    """Events go to memory meanwhile, the state says why, and all of them are on disk later."""
    agent = agents(wrap=mounts.wrap).start().wait_ready()
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok")
    mounts.run(FULL.format(agent.state_dir))
    until_volatile(agent, cable(agent))
    kept = agent.types()
    mounts.run(f"rm {agent.state_dir}/fill")

    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok", 40)
    agent.kill()
    agent.start().wait_ready()
    assert agent.types()[: len(kept)] == kept


@pytest.mark.parametrize("when", ["read-only", "full", "a file"])
def test_an_agent_starts_on_a_bad_disk(
    agents: Callable[..., Running],
    cable: Callable[[Running], Cable],
    mounts: Mounts,
    when: str,
) -> None:
    """State folder read-only, full or not even a folder: one warning, and everything else works."""
    agent = agents(wrap=mounts.wrap)
    if when == "full":
        mounts.run(FULL.format(agent.state_dir))
    elif when == "read-only":
        mounts.run(f"mount -o remount,ro {agent.state_dir}")
    else:
        mounts.run(
            f"umount {agent.state_dir} && rmdir {agent.state_dir} && touch {agent.state_dir}"
        )
    agent.start().wait_ready()

    cable(agent).check()

    agent.wait_for(lambda s: agent_of(s)["outbox"].startswith("volatile: "))
    assert "Traceback" not in agent.log()
    assert "link.down" in agent.types()
    assert agent.stop()[0] == 0


@pytest.mark.parametrize("damage", ["garbage", "cut off", "empty", "a folder"])
def test_a_damaged_outbox_is_kept_aside(
    agents: Callable[..., Running], cable: Callable[[Running], Cable], damage: str
) -> None:
    """The agent starts with a new outbox, says so, and keeps the damaged file for people."""
    agent = agents().start().wait_ready()
    agent.stop()
    outbox = agent.state_dir / "outbox.db"
    content = outbox.read_bytes()
    outbox.unlink()
    if damage == "a folder":
        outbox.mkdir()
    else:
        outbox.write_bytes(
            {"garbage": os.urandom(40_000), "cut off": content[:9000], "empty": b""}[damage]
        )
    agent.start().wait_ready()

    cable(agent).check()

    wait_until(lambda: agent.types().count("link.down") == 1)
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok")
    if damage != "empty":
        assert "outbox: " in agent.log()
        assert list(agent.state_dir.glob("outbox.db.*"))
    assert agent.stop()[0] == 0


def last_start(types: list[str]) -> int:
    """Return where the events of the last start begin; other jobs of the machine add some too."""
    return max((n for n, one in enumerate(types) if one == "agent.started"), default=0)


def test_an_outbox_that_is_damaged_while_it_runs_heals(
    agents: Callable[..., Running], cable: Callable[[Running], Cable]
) -> None:
    """Somebody overwrites the file under the agent: said, replaced, the next events are kept."""
    agent = agents().start().wait_ready()
    pulled = cable(agent)
    pulled.check()
    for name in ("outbox.db", "outbox.db-wal"):
        with contextlib.suppress(OSError), (agent.state_dir / name).open("r+b") as file:
            file.write(os.urandom(200_000))

    for _ in range(20):
        pulled.check()
    agent.kill()
    agent.start().wait_ready()
    cable(agent).check()

    wait_until(lambda: "link.down" in agent.types()[last_start(agent.types()) :])
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok")


def test_a_state_folder_that_is_removed_is_made_again(
    agents: Callable[..., Running], cable: Callable[[Running], Cable]
) -> None:
    """Rm -rf of the state folder: leg A does not notice, and what comes next is kept."""
    agent = agents().start().wait_ready()
    pulled = cable(agent)
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok")
    shutil.rmtree(agent.state_dir)

    pulled.check()

    wait_until(lambda: "the file was removed" in agent.log())
    wait_until(lambda: "link.down" in agent.types())
    agent.kill()
    agent.start().wait_ready()
    assert "link.down" in agent.types()
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok")


def test_garbage_in_the_state_file_is_overwritten(ns: Namespace, agent: Running) -> None:
    """The next change replaces whatever somebody wrote into the file."""
    file = agent.run_dir / "state.json"
    file.write_bytes(os.urandom(3000))

    ns.flip(ns.index("p0"), up=False)

    wait_until(lambda: file.read_bytes().startswith(b"{"), 1)
    agent.wait_for(lambda s: s["network"] == "down", 1)


def test_a_folder_in_the_place_of_the_state_file_is_said(
    ns: Namespace, agent: Running, trainers: Callable[..., Trainer]
) -> None:
    """What cannot be replaced is said in log and leg A until it is gone, and then withdrawn."""
    trainer, peer = trainers(agent), ns.index("p0")
    wait_until(trainer.states)
    file = agent.run_dir / "state.json"
    file.unlink()
    (file / "x").mkdir(parents=True)
    ns.flip(peer, up=False)
    trainer.wait_for(lambda s: "state_file" in agent_of(s)["unavailable"], 1)
    assert "state file: " in agent.log()
    shutil.rmtree(file)

    ns.flip(peer, up=True)

    agent.wait_for(lambda s: s["network"] == "ok", 1)
    wait_until(lambda: "written again" in agent.log())
    assert agent_of(agent.state())["unavailable"] == {}


def test_a_run_folder_that_is_removed_is_made_again(
    agents: Callable[..., Running], cable: Callable[[Running], Cable]
) -> None:
    """Rm -rf of the run folder: file, control socket and leg A are back within ten seconds."""
    agent = agents().start().wait_ready()
    shutil.rmtree(agent.run_dir)

    agent.wait_for(lambda s: agent_of(s)["leg_a"] == "up" and agent.trainer_socket.exists(), 10)

    wait_until(lambda: agent.cli("status").returncode == 0, 7)
    cable(agent).check()
    assert len(agent.brokers()) == 1
    assert agent.stop()[0] == 0


def test_a_full_run_folder_is_said_and_heals(
    agents: Callable[..., Running], ns: Namespace, place: Path, trainers: Callable[..., Trainer]
) -> None:
    """No space under the run folder: leg A goes on and says it; with space the file is right."""
    mounts = Mounts()
    try:
        (place / "run").mkdir()
        mounts.run(f"mount -t tmpfs -o size=256k,mode=755 none {place}/run")
        agent = agents(wrap=mounts.wrap, seen_run_dir=mounts.path(place / "run"))
        agent.start().wait_ready()
        trainer = trainers(agent)
        mounts.run(FULL.format(place / "run"))

        ns.flip(ns.index("p0"), up=False)

        trainer.wait_for(lambda s: s["network"] == "down", 1)
        trainer.wait_for(lambda s: "state_file" in agent_of(s)["unavailable"], 7)
        assert agent.state()["network"] == "ok"
        mounts.run(f"rm {place}/run/fill")
        agent.wait_for(lambda s: s["network"] == "down", 7)
        assert agent.stop()[0] == 0
    finally:
        mounts.close()
