"""Names that users of the node choose steer no terminal, and write no line of their own."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.places import NOBODY, TIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.netns import Namespace
    from support.running import Running

NAME = "a\x1b]0;x\x07\n<0>z\x9b"
"""A name of a program, of 15 bytes at most (PR_SET_NAME): sets a title, and ends the line.

Its last character is the C1 control that some terminals read as ESC and ``[``; JSON allows it.
"""
COMMANDS = (
    ("status",),
    ("events",),
    ("diagnose", "--since", "1s"),
    ("keepalive", "audit"),
    ("keepalive", "audit", "--all"),
    ("keepalive", "plan"),
    ("survive",),
    ("survive", "--job", "nobody"),
    ("bond", "plan"),
    ("hold", "--why", "x", "--job", "\x1b[2J"),
    ("report",),
)
FOR_PROGRAMS = (
    ("status",),
    ("events",),
    ("diagnose", "--since", "1s"),
    ("keepalive", "audit"),
    ("keepalive", "plan"),
    ("survive",),
    ("bond", "plan"),
    ("bond", "status"),
)
"""What prints JSON with ``--json``."""


@pytest.fixture
def hostile(ns: Namespace, agent: Running) -> Iterator[int]:
    """A training process of an ordinary user, whose every name is hostile, with a connection."""
    script = agent.place / f"{NAME}.py"
    script.write_text(f"""
import ctypes, os, socket, time
ctypes.CDLL(None).prctl(15, {NAME.encode()!r})
server = socket.create_server(("10.0.0.2", 0))
client = socket.create_connection(server.getsockname())
print("ready", flush=True)
time.sleep(100)
""")
    ours = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": NAME, "NCCL_SOCKET_IFNAME": NAME}
    with subprocess.Popen(
        ["setpriv", "--reuid", str(NOBODY), "--clear-groups", "--", *TIED,
         "python3", str(script), NAME],
        stdout=subprocess.PIPE, env={**os.environ, **ours}, cwd="/",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def controls(text: str) -> list[str]:
    """Return the lines that a terminal would act on, or that say what only a name says."""
    lines = text.splitlines()
    return [one for one in lines if not one.isprintable() or one.startswith("<0>z")]


def test_names_of_programs_are_shown_as_text(ns: Namespace, agent: Running, hostile: int) -> None:
    """Every command, its errors, the log and the state: one line each, nothing to act on."""
    ns.run("ip", "link", "add", "y\x1b[31m", "type", "veth", "peer", "name", "z0")
    found = {}
    for command in (*COMMANDS, *((*one, "--json") for one in FOR_PROGRAMS)):
        done = agent.cli(*command, timeout_s=60)
        found[command] = controls(done.stdout + done.stderr)
        assert done.returncode in {0, 1, 2, 3, 64}, (command, done)
    found["log",] = controls(agent.log())
    assert not {command: lines for command, lines in found.items() if lines}
    assert agent.alive


def test_who_holds_the_lock_is_named_as_text(ns: Namespace, agents: Callable[..., Running]) -> None:
    """The command line of a user who has taken the lock's name stands in the log, on one line."""
    script = (
        "import os, socket, time; one = socket.socket(socket.AF_UNIX); "
        "one.bind('\\0linkhold/agent'); one.listen(1); print('ready', flush=True); time.sleep(100)"
    )
    user = ("--reuid", str(NOBODY), "--clear-groups", "--")
    with subprocess.Popen(
        ["setpriv", *user, *TIED, "python3", "-c", script, NAME], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        agent = agents().start().wait_ready()
        process.kill()
    assert f"is watched by process {process.pid}" in agent.log()
    assert not controls(agent.log())
