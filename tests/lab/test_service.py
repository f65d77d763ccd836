"""The units under real systemd: installed, started, reloaded, hung, crashed, upgraded, stopped."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support import installed
from support.service_logind import delays_a_reboot
from support.service_relay import relays
from support.service_scenes import (
    crashes,
    gets_a_network,
    goes_on,
    hangs,
    has_booted,
    has_more_rights,
    installs,
    is_confined,
    is_removed,
    stops,
    trainers_listen,
    works,
)
from support.service_upgrade import is_upgraded
from support.serviced import AGENT, BROKER
from support.topology import NODE_4

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.lab.systemd import Machine

    Maker = Callable[..., Machine]

pytestmark = pytest.mark.skipif(bool(installed.missing()), reason=installed.missing())


@pytest.fixture(scope="module")
def wheel() -> Iterator[Path]:
    """A wheel of this checkout, and beside it the venv that a guest finds as its /opt/linkhold."""
    place = installed.REPO / "build"
    if str(place).startswith(("/home/", "/root/", "/tmp/", "/var/tmp/")):
        pytest.skip(f"the sandbox hides what is in {place}")
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="service-", dir=place) as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = installed.build_wheel(folder)
        installed.furnish(folder / "root")
        installed.setup(made, "--system", "--root", str(folder / "root"))
        yield made


@pytest.fixture(scope="module")
def newer(wheel: Path) -> Path:
    """Another wheel, and beside the first one's venv the one that it is installed into."""
    made = wheel.with_name(f"newer-{wheel.name}")
    shutil.copy(wheel, made)
    with zipfile.ZipFile(made, "a") as archive:
        archive.comment = b"another wheel"
    root = wheel.parent / "root"
    said = installed.setup(made, "--system", "--root", str(root), "--dry-run").stdout
    folder = re.search(r"would make (/\S+) with", said)
    assert folder is not None, said
    current = root / "opt/linkhold/current"
    shutil.copytree(
        current.resolve(), root / folder[1].lstrip("/"), symlinks=True, copy_function=os.link
    )
    return made


@pytest.fixture(scope="module")
def node(systemd_machines: Maker, wheel: Path) -> Machine:
    """A machine whose linkhold was installed by `setup --system` and serves."""
    machine = systemd_machines("none")
    found = machine.run(installs, wheel=str(wheel)).value
    assert found["code"] == 0, "\n".join(map(str, found.values()))
    assert found["again"] == "nothing to do: linkhold is as it should be\n"
    assert (found["failed"], found["network"]) == ("", "unknown")
    machine.run(gets_a_network)
    return machine


def test_functions(node: Machine) -> None:
    """In its sandbox the agent writes sysctls of net, hears links, probes and the kernel's log."""
    found = node.run(works).value

    assert found["unavailable"] == {}
    assert found["outbox"].startswith("ok")
    assert found["kernel_log"] > 0
    assert "leg A up" in found["status"]
    assert found["tmpfiles"] == ["0o755", "0o700"]


def test_confinement(node: Machine) -> None:
    """Agent and broker write neither /etc nor the rest of /proc/sys, and have no more rights."""
    found = node.run(is_confined).value

    for unit in (AGENT, BROKER):
        assert "Read-only file system" in found[unit]["etc"]
        assert found[unit]["home"] == ""
        assert "cannot create" in found[unit]["proc_sys"]
        assert (found[unit]["NoNewPrivs"], found[unit]["Seccomp"]) == ("1", "2")
    assert int(found[AGENT]["CapBnd"], 16) == 1 << 12 | 1 << 13 | 1 << 34
    assert int(found[BROKER]["CapBnd"], 16) == 0
    assert found["network"], "the broker shares the host's network"


def test_listeners(node: Machine) -> None:
    """Members of the group linkhold reach the trainers' socket, and nobody but root the other."""
    found = node.run(trainers_listen).value

    assert found == {"member": "broker 0\nagent 13", "stranger": "broker 13\nagent 13"}


def test_more_rights(node: Machine, wheel: Path) -> None:
    """With the drop-ins the agent reaches other namespaces and other processes' sockets.

    Without them again, `--no-start` leaves what runs and says so; the next run starts it anew.
    """
    found = node.run(has_more_rights, wheel=str(wheel)).value

    assert found["seen"] == "123", found
    assert found["tcp"], found
    assert found["keepalive"]["covered"]["covered"] > 0, found["keepalive"]["covered"]
    assert "what runs is as before (linkhold.service)" in found["not started"]
    assert found["as before"]
    assert found["anew"]
    assert "sys_ptrace" not in found["rights"], "a setup without --allow takes them away again"


def test_hung(node: Machine) -> None:
    """A frozen broker is started anew at the agent's word, a frozen agent at the watchdog's."""
    found = node.run(hangs).value

    assert "Watchdog timeout" in found["journal"]
    assert "most recent call first" in found["journal"]
    assert "restore_on_stop is false" in found["journal"]
    assert found["same_broker"]


def test_going_on(node: Machine) -> None:
    """A helper that eats the unit's memory dies alone; a bad configuration is told to who reloads.

    The agent is the same one after both.
    """
    found = node.run(goes_on).value

    assert (found["hog"], found["reload"], found["same"]) == (-9, 1, True), found["said"]
    assert "/etc/linkhold/linkhold.yaml:1: mode: " in found["said"]


def test_shutdown(node: Machine) -> None:
    """With a real logind a reboot waits for training that listens, is told to it, and goes on.

    Where it does not happen after all, the next one is held up again.
    """
    found = node.run(delays_a_reboot).value

    assert re.search(r"linkhold .* shutdown .* delay", found["locks"]), found
    assert found["notice"]["source"] == "logind: going down now"
    assert (found["waits"], found["code"]) == ("inactive", 75)
    assert found["goes_on_s"] < 5


def test_relay(node: Machine, wheel: Path) -> None:
    """The relay waits for its configuration, then reports, in a sandbox and as a user of its own.

    It is started again when it dies or hangs, and ends no alert by that; it gives up after ten
    times, and goes without the agent.
    """
    found = node.run(relays, wheel=str(wheel)).value

    assert "fill in brokers and alertmanagers in /etc/linkhold/relay.yaml" in found["first"]
    assert (found["waits"], found["agent"]) == ("inactive", True)
    assert found["again"].startswith("nothing to do: linkhold relay is as it should be\n")
    assert found["configured"].startswith("run systemctl restart linkhold-relay.service\n")
    assert found["user"] == "linkhold-relay"
    assert found["rights"] == ["0000000000000000", "1", "2"]
    assert found["writes"].count("touch: cannot touch") == 3
    assert found["state"] == "positions.json"
    assert found["secret"] == ["0o600", "linkhold-relay"]
    assert found["watchdog"] == "3min"
    assert found["memory_kb"] < 100_000
    assert "Watchdog timeout" in found["hung"]
    assert found["ended"] == []
    assert (found["restarts"], found["result"]) == (10, "exit-code")
    assert (found["left"], found["failed"]) == ("", ""), "nothing of it counts as failed"
    assert (found["kept"], found["serves"]) == (True, "active")


def test_upgrade(node: Machine, newer: Path) -> None:
    """An upgrade under load leaves bond and broker alone, and no event is lost or told twice.

    In its sandbox the new agent answers the fleet's diagnosis, with every right that it takes.
    The bond is linkhold's own, and its drift was repaired from within the sandbox before.
    """
    found = node.run(is_upgraded, wheel=str(newer)).value

    assert found["upgraded"], found["said"]
    assert found["flaps"] > 5
    assert found["bond"][0] == found["bond"][1]
    assert found["bond"][0]["active_slave"] == "eth0"
    assert found["broker"]
    assert found["seen"] == found["kernel"] > found["flaps"]
    assert max(found["most_kb"].values()) < 150_000, found["most_kb"]
    assert len(found["sent"]) > 2 * found["flaps"]
    assert found["heard"] == found["sent"]
    assert found["diagnosis"]["outcome"] == "done"
    evidence = found["diagnosis"]["evidence"]
    assert {"links", "gateway"} <= {one["step"] for one in evidence}
    assert not [one for one in evidence if re.search("permi|read-only", one["text"], re.IGNORECASE)]
    _assert_chained(found["events"])


def _assert_chained(events: list[tuple[str, int, str, dict[str, Any]]]) -> None:
    """Every session counts from 1 without a hole, and names the end of the one before it."""
    sessions: dict[str, list[int]] = {}
    for id_, seq, _, _ in events:
        sessions.setdefault(id_.split("-")[-2], []).append(seq)
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in sessions.values())
    starts = [data for _, _, kind, data in events if kind == "agent.started"]
    chain = [(data["previous_session"], data["previous_seq"]) for data in starts[1:]]
    assert chain == [(name, seqs[-1]) for name, seqs in list(sessions.items())[:-1]]


def test_stop(node: Machine, wheel: Path) -> None:
    """A stop leaves sysctls and bonds unless `restore_on_stop`; a restart never restores.

    The bond is that of the upgrade before.

    While only linkhold makes a bond at boot, its removal is refused.
    """
    found = node.run(stops, wheel=str(wheel)).value

    assert found["folders"]
    assert found["stop"] == found["restart"] == ["123", True], found
    assert "bond0: made by linkhold at each boot" in found["refused"]
    assert found["restore"] == ["7200", False], found
    assert f"{NODE_4}/24" in found["address"]


def test_crash_loop_reboot_and_removal(node: Machine, wheel: Path) -> None:
    """A crash loop ends after ten starts; the next boot serves without a network; all goes again.

    One test: nothing can be tried after it.
    """
    assert node.run(crashes).value == {"restarts": 10, "result": "exit-code"}

    node.reboot()
    booted = node.run(has_booted).value
    assert (booted["failed"], booted["restarts"]) == ("", "0")
    assert (booted["network"], booted["online"]) == ("unknown", "inactive")

    found = node.run(is_removed, wheel=str(wheel)).value
    assert found["keepalive"] == "7200", found
    assert found["again"] == "nothing to do: linkhold is not installed\n"
    assert (found["left"], found["opt"], found["kept"]) == ("", False, True)
    assert found["units"] == "inactive\ninactive"
