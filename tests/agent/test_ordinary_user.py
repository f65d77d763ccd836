"""``linkhold agent`` as an ordinary user: less can be seen, and everything else works."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.places import NOBODY, as_nobody
from support.running import agent_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.netns import Namespace
    from support.running import Running
    from support.trainer import Trainer


def owner_of(pid: int) -> int:
    """Return the uid that a process runs as."""
    return Path(f"/proc/{pid}").stat().st_uid


@pytest.mark.parametrize("folders", ["XDG", "LINKHOLD_RUN_DIR"])
def test_an_ordinary_users_agent(
    ns: Namespace,
    agents: Callable[..., Running],
    trainers: Callable[..., Trainer],
    place: Path,
    folders: str,
) -> None:
    """State, leg A, events and the command line, in the user's own folders; a good end."""
    home = place / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    if folders == "XDG":
        env = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "XDG_STATE_HOME": str(home / "s")}
        run, state = home / "linkhold", home / "s/linkhold"
    else:
        run, state = home / "r", home / "t"
        env = {"HOME": str(home), "LINKHOLD_RUN_DIR": str(run), "LINKHOLD_STATE_DIR": str(state)}
    agent = agents(
        wrap=as_nobody(place), env=env, run_dir=run, state_dir=state, arguments=("--observe",)
    )
    agent.start().wait_ready()
    trainer = trainers(agent)

    ns.flip(ns.index("p0"), up=False)

    agent.wait_for(lambda s: s["network"] == "down")
    trainer.wait_for(lambda s: s["network"] == "down")
    assert owner_of(agent.pid) == owner_of(agent.broker()) == NOBODY
    assert run.stat().st_mode & 0o777 == 0o700
    assert agent.trainer_socket.stat().st_mode & 0o777 == 0o660
    assert agent_of(agent.state())["outbox"] == "ok"
    assert "eth0" in agent.cli("status").stdout
    assert "link.down" in agent.types()
    assert "WARNING  state" not in agent.log()
    assert agent.stop()[0] == 0
