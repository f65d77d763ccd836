"""The command line beside a real agent, beside what an agent left behind, and beside nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from support.broker import wait_until
from support.places import TIED
from support.running import ENVIRONMENT, LINKHOLD, run_cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.netns import Namespace
    from support.running import Running


def shell(command: str, agent: Running) -> subprocess.CompletedProcess[str]:
    """Run a shell command that has ``$L`` for linkhold and this agent's folders."""
    env = {**ENVIRONMENT, "L": str(LINKHOLD), "LINKHOLD_RUN_DIR": str(agent.run_dir)}
    return subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, env=env, timeout=20
    )


def test_status_and_events_beside_an_agent(ns: Namespace, agent: Running) -> None:
    """A table with names of links; --json is the state document; events as lines or CloudEvents."""
    ns.flip(ns.index("p0"), up=False)
    wait_until(lambda: "network.down" in agent.types())

    table = agent.cli("status")
    document = json.loads(agent.cli("status", "--json").stdout)
    lines = agent.cli("events", "--since", "1h").stdout.splitlines()

    assert (table.returncode, table.stderr) == (0, "")
    assert all(word in table.stdout for word in ("eth0", "down", "10.0.0.2/24", "lost carrier"))
    assert document.keys() == agent.state().keys()
    assert document["network"] == "down"
    assert any("link.down eth0" in line for line in lines)
    told = agent.events()  # more than before, when an alert or an advice came meanwhile
    assert [event["type"] for event in told[: len(lines)]] == [line.split()[2] for line in lines]
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    time.sleep(1.1)
    recent = agent.cli("events", "--since", "1s").stdout
    assert "agent.started" in "".join(lines)
    assert "agent.started" not in recent


def test_follow_shows_events_as_they_happen(ns: Namespace, agent: Running) -> None:
    """--follow: the past first, then each event once, until the agent ends; then exit code 1."""
    env = {**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(agent.run_dir)}
    command = [*TIED, str(LINKHOLD), "events", "--follow", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        for number in range(20):
            ns.flip(ns.index("p0"), up=bool(number % 2))
            time.sleep(0.01)
        agent.stop()
        events = [first, *map(json.loads, process.stdout)]
        err = process.stderr.read()
        assert process.wait(5) == 1
    assert [event["seq"] for event in events] == list(range(1, 1 + len(events)))
    assert "agent.stopping" in [event["type"] for event in events]
    assert err == "linkhold: the agent ended\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follow_ends_quietly_when_interrupted(agent: Running, number: signal.Signals) -> None:
    """Ctrl-C: no traceback."""
    env = {**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(agent.run_dir)}
    with subprocess.Popen(
        [*TIED, str(LINKHOLD), "events", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _out, err = process.communicate(timeout=5)
    assert err == ""
    assert process.returncode in {130, -signal.SIGTERM}


@pytest.mark.parametrize(
    "command",
    [
        "$L status | head -1",
        "$L status --json | head -1",
        "$L events | head -1",
        "$L status --json | head -c 10",
        "$L --help | head -1",
        "$L status >/dev/full",
        "$L status >&-",
    ],
)
def test_a_reader_that_leaves_early_hears_no_complaint(agent: Running, command: str) -> None:
    """Output cut short by the reader: quiet, whatever the exit code; no space left: one line."""
    done = shell(command, agent)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert len(done.stderr.splitlines()) <= (1 if "full" in command else 0), done.stderr


@pytest.mark.parametrize("command", [["status"], ["status", "--json"], ["events"]])
def test_without_any_agent_there_is_one_clear_line(place: Path, command: list[str]) -> None:
    """No agent and nothing left behind: exit code 1, and what was looked for and where."""
    env = {**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(place), "LINKHOLD_STATE_DIR": str(place / "s")}
    done = run_cli(*command, env=env)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"no agent answers on {place}/control.sock" in done.stderr
    assert len(done.stderr.splitlines()) == (2 if command == ["events"] else 1)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_after_an_agent_what_it_left_is_shown_with_its_age(
    agents: Callable[..., Running], how: str
) -> None:
    """Exit code 1, the age of the state on stderr, the last state and the recorded events."""
    agent = agents().start().wait_ready()
    wait_until(lambda: "link.up" in agent.types())
    if how == "stopped":
        agent.stop()
    else:
        agent.kill()

    table, document = agent.cli("status"), agent.cli("status", "--json")
    events = agent.cli("events")

    assert {table.returncode, document.returncode, events.returncode} == {1}
    assert "eth0" in table.stdout
    assert json.loads(document.stdout)["network"] == "ok"
    assert "this state is" in table.stderr
    assert " s old" in table.stderr
    assert "link.up eth0" in events.stdout
    assert len(events.stderr.splitlines()) == len(table.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", os.urandom(500), b'{"schema": 1}', b'{"schema": 99}', b"[" * 99999],
)
def test_a_damaged_state_file_is_one_line(place: Path, content: bytes) -> None:
    """Whatever lies in the file: exit code 1 and one line."""
    (place / "state.json").write_bytes(content)
    done = run_cli("status", env={**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(place)})
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr


def test_a_state_with_parts_missing_is_no_traceback(agent: Running, place: Path) -> None:
    """A state of another version lacks what the table shows: said in one line."""
    whole = agent.state()
    folder = place / "old"
    folder.mkdir()
    for name in ("detail", "cause", "alerts", "since", "since_mono_ns"):
        values: tuple[object, ...] = (None, 7, "x", [], {})
        for value in values:
            document = {**whole, name: value}
            (folder / "state.json").write_text(json.dumps(document))
            done = run_cli("status", env={**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(folder)})
            assert done.returncode == 1
            assert len(done.stderr.splitlines()) <= 2
        del document[name]
        (folder / "state.json").write_text(json.dumps(document))
        assert run_cli("status", env={**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(folder)}).returncode


def test_an_agent_that_hangs_is_said(agent: Running) -> None:
    """SIGSTOP: after a few seconds the last state, and that nobody answered."""
    agent.send(signal.SIGSTOP)
    done = agent.cli("status")
    agent.send(signal.SIGCONT)

    assert done.returncode == 1
    assert "does not answer (timed out)" in done.stderr
    assert "eth0" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["status", "--nonsense"],
        ["status", "extra"],
        ["events", "--since", "yesterday"],
        ["events", "--since", "0s"],
        ["events", "--since"],
        ["agent", "--observe", "--enforce"],
        ["agent", "--config"],
    ],
)
def test_a_wrong_call_exits_with_64(arguments: list[str]) -> None:
    """Usage errors: exit code 64 and the reason, everywhere."""
    done = run_cli(*arguments)
    assert done.returncode == 64
    assert done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--config", "/nonexistent.yaml"], "/nonexistent.yaml"),
        (["--run-dir", "/proc/linkhold"], "/proc/linkhold"),
        (["--run-dir", "/dev/null"], "/dev/null"),
        (["--run-dir", "/tmp/lh-" + "x" * 120], "too long"),
    ],
)
def test_an_agent_that_cannot_start_says_why_in_one_line(
    ns: Namespace, place: Path, arguments: list[str], reason: str
) -> None:
    """Exit code 1, one line with the path; nothing is left behind."""
    done = run_cli("agent", "--state-dir", str(place / "s"), *arguments)
    assert done.returncode == 1
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
