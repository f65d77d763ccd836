"""A disk that hangs or turns read-only under the agent: those who train do not notice."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.broker import wait_until
from support.cable import NOTICED_S, until_volatile
from support.places import Mounts
from support.running import agent_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.cable import Cable
    from support.running import Running


@pytest.fixture
def disk(place: Path) -> Iterator[Mounts]:
    """A mount namespace with a real file system as state folder, which can be frozen."""
    if not shutil.which("mkfs.ext4") or not shutil.which("fsfreeze"):
        pytest.skip("mkfs.ext4 or fsfreeze is not installed")
    image, state = place / "image", place / "state"
    state.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    made = Mounts(undo=f"fsfreeze -u {state}; umount -l {state}")
    done = subprocess.run(
        [*made.wrap, "mount", "-o", "loop,errors=remount-ro", str(image), str(state)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        made.close()
        pytest.skip(f"no loop devices here: {done.stderr.strip()}")
    yield made
    made.close()


def test_a_disk_that_hangs_is_not_noticed_by_those_who_train(
    agents: Callable[..., Running], cable: Callable[[Running], Cable], disk: Mounts
) -> None:
    """A frozen disk: file and leg A as quick as ever, the state says it, later all is on disk."""
    agent = agents(wrap=disk.wrap).start().wait_ready()
    pulled = cable(agent)
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok")
    disk.run(f"fsfreeze -f {agent.state_dir}")
    try:
        slowest_s = max(pulled.check() for _ in range(20))
        asked = agent.cli("events")
        told = agent.wait_for(lambda s: agent_of(s)["outbox"].startswith("stalled"), 15)
        status = agent.cli("status")
    finally:
        disk.run(f"fsfreeze -u {agent.state_dir}")

    assert slowest_s < NOTICED_S
    assert told["network"] == "ok"
    assert status.returncode == 0
    assert (asked.returncode, len(asked.stderr.splitlines())) == (1, 1)
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok", 15)
    assert agent.types().count("link.down") == 20


def test_a_disk_that_turns_read_only_is_said(
    agents: Callable[..., Running], cable: Callable[[Running], Cable], disk: Mounts, place: Path
) -> None:
    """The kernel found an error and takes no more writes: events go to memory, the rest works."""
    agent = agents(wrap=disk.wrap).start().wait_ready()
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok")
    device = disk.output(f"findmnt -no SOURCE {agent.state_dir}").strip().rpartition("/")[2]
    error = Path("/sys/fs/ext4") / device / "trigger_fs_error"
    if not error.exists():
        pytest.skip("this kernel has no trigger_fs_error")

    error.write_text("a test")

    until_volatile(agent, cable(agent))
    assert agent.stop()[0] == 0


def test_an_agent_starts_on_a_disk_that_hangs(
    agents: Callable[..., Running], cable: Callable[[Running], Cable], disk: Mounts
) -> None:
    """A disk that is frozen at the start costs some seconds; then all works, and it heals."""
    agent = agents(wrap=disk.wrap)
    disk.run(f"fsfreeze -f {agent.state_dir}")
    try:
        agent.start().wait_ready()
        cable(agent).check()
        assert "does not answer" in agent.log()
    finally:
        disk.run(f"fsfreeze -u {agent.state_dir}")
    agent.wait_for(lambda s: agent_of(s)["outbox"] == "ok", 15)
    assert "link.down" in agent.types()


def test_the_end_does_not_wait_for_a_disk_that_hangs(
    agents: Callable[..., Running], disk: Mounts
) -> None:
    """SIGTERM with a frozen disk: the broker is gone in two seconds; the kernel keeps the rest."""
    agent = agents(wrap=disk.wrap).start().wait_ready()
    disk.run(f"fsfreeze -f {agent.state_dir}")
    try:
        agent.send(signal.SIGTERM)
        wait_until(lambda: not agent.brokers(), 2.0)
    finally:
        disk.run(f"fsfreeze -u {agent.state_dir}")
    assert agent.process is not None
    assert agent.process.wait(5) == 0
