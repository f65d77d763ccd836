"""What happens to linkhold as a service, in a guest with systemd; see tests/lab/test_service.py."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import installed
from support.lab import scenario
from support.serviced import (
    AGENT,
    BROKER,
    CONFIG,
    STATE,
    await_service,
    configure,
    link,
    pid,
    say,
    shown,
    state,
)
from support.topology import GATEWAY_4, ip, wait_until

if TYPE_CHECKING:
    from support.lab import Box

KEEPALIVE = Path("/proc/sys/net/ipv4/tcp_keepalive_time")
BOND_OPTIONS = Path("/sys/class/net/bond0/bonding")
FOLDERS = ("/run/linkhold", "/var/lib/linkhold")
TEXTFILES = Path("/var/lib/prometheus/node-exporter")
ENFORCE = "mode: enforce\nkeepalive: {profile: custom, time_s: 123}\n"
BOND = "bonds: {bond0: {members: [eth0, eth1], confirm_after_s: 2}}\n"


@scenario(timeout_s=120)
def installs(box: Box, wheel: str) -> dict[str, Any]:
    """Install from the wheel; its venv, which took pip seconds on the host, is there already."""
    box.two_switches()
    TEXTFILES.mkdir(parents=True)
    opt = Path("/opt/linkhold")
    opt.symlink_to(Path(wheel).parent / "root/opt/linkhold")
    (opt / "current").unlink()
    done = installed.setup(Path(wheel), "--system", check=False)
    if done.returncode == 0:
        await_service()
    again = installed.setup(Path(wheel), "--system", check=False)
    return {
        "code": done.returncode,
        "said": done.stdout + done.stderr,
        "again": again.stdout + again.stderr,
        "groups": say("getent", "group", "linkhold", "linkhold-operators"),
        "network": state().get("network"),
        "failed": say("systemctl", "--failed", "--plain", "--no-legend"),
        "journal": say("journalctl", "-u", "linkhold*", "-o", "cat", "--no-pager", "-n", "40"),
    }


@scenario(timeout_s=30)
def gets_a_network(box: Box) -> None:
    """Bring the links up, after the agent has started without any."""
    net = box.two_switches()
    for nic in ("eth0", "eth1"):
        ip("link", "set", nic, "up")
    net.give_address("eth0")
    wait_until(lambda: link("eth0").get("carrier"), "netlink", timeout_s=20)


@scenario(timeout_s=100)
def works(box: Box) -> dict[str, Any]:
    """Have the agent do each thing that its sandbox must allow."""
    metrics = TEXTFILES / "linkhold.prom"
    configure(f"{ENFORCE}metrics: {{textfile: {metrics}}}\n")
    wait_until(lambda: KEEPALIVE.read_text().strip() == "123", "sysctl", timeout_s=20)
    wait_until(metrics.exists, "metrics for node_exporter", timeout_s=20)
    wait_until(_gateway_heard, "the gateway answers probes", timeout_s=20)
    wait_until(lambda: "leg A up" in shown(AGENT, "StatusText"), "status", timeout_s=20)
    wait_until(
        lambda: state()["detail"]["agent"]["outbox"].startswith("ok"), "outbox", timeout_s=20
    )
    agent = state()["detail"]["agent"]
    return {
        "unavailable": agent["unavailable"],
        "outbox": agent["outbox"],
        "kernel_log": agent["counters"]["kernel_log_records"],
        "status": shown(AGENT, "StatusText"),
        "tmpfiles": [oct(Path(name).stat().st_mode & 0o777) for name in FOLDERS],
    }


def _gateway_heard() -> bool:
    probes = state()["detail"]["probes"].values()
    return any(one["target"] == GATEWAY_4 and one["heard"] for one in probes)


@scenario(timeout_s=30)
def is_confined(box: Box) -> dict[str, Any]:
    """Look at what agent and broker may not do, from inside their own namespaces."""
    found: dict[str, Any] = {}
    for unit in (AGENT, BROKER):
        inside = ["nsenter", "--target", str(pid(unit)), "--mount"]
        status = Path(f"/proc/{pid(unit)}/status").read_text(encoding="ascii").splitlines()
        rights = [
            line.split(":\t", 1) for line in status if line.startswith(("Cap", "Secc", "NoNew"))
        ]
        found[unit] = {
            "etc": say(*inside, "touch", "/etc/x"),
            "home": say(*inside, "ls", "/root"),
            "proc_sys": say(*inside, "sh", "-c", "echo 1 >/proc/sys/kernel/panic"),
            **dict(rights),
        }
    networks = {Path(f"/proc/{one}/ns/net").readlink() for one in (pid(BROKER), 1)}
    found["network"] = len(networks) > 1
    return found


CONNECT = """
import socket, sys
for name in ("broker", "agent"):
    with socket.socket(socket.AF_UNIX) as one:
        print(name, one.connect_ex(f"/run/linkhold/mqtt/{name}.sock"))
"""


@scenario(timeout_s=30)
def trainers_listen(box: Box) -> dict[str, str]:
    """Connect to both sockets as a member of the group linkhold, and as anybody else."""
    whoami = {"member": "linkhold", "stranger": "nogroup"}
    python = ["/usr/bin/python3", "-c", CONNECT]
    as_nobody = ["setpriv", "--reuid", "nobody", "--clear-groups", "--regid"]
    return {who: say(*as_nobody, group, "--", *python) for who, group in whoami.items()}


@scenario(timeout_s=300)
def has_more_rights(box: Box, wheel: str) -> dict[str, Any]:
    """Give the agent the rights of both drop-ins, and something to do with each."""
    net = box.two_switches()
    installed.setup(Path(wheel), "--system", "--allow", "cover", "--allow", "namespaces")
    await_service()
    configure(
        f"{ENFORCE[:-2]}, check_every: 1, namespaces: all, cover: {{processes: training}}}}\n"
    )
    peer = [sys.executable, str(Path(installed.__file__).with_name("idle_peer.py"))]
    training = {**os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "x"}
    beyond = ["ip", "netns", "exec", net.gateway]
    with (
        subprocess.Popen([*beyond, *peer, "serve", "9999"], stdout=subprocess.PIPE) as server,
        subprocess.Popen(
            [*peer, "talk", "none", GATEWAY_4, _listens(server)],
            env=training,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        ) as client,
    ):
        try:
            with suppress(TimeoutError):
                wait_until(lambda: _seen(net.gateway) == "123", "another namespace", timeout_s=90)
                wait_until(lambda: (_keepalive()["covered"] or {}).get("covered"), "", timeout_s=90)
            connected = say("ss", "-tnH", "dst", GATEWAY_4)
            found = {"seen": _seen(net.gateway), "keepalive": _keepalive(), "tcp": connected}
        finally:
            client.kill()
            server.kill()
    process = pid(AGENT)
    found["not started"] = installed.setup(Path(wheel), "--system", "--no-start").stdout
    found["as before"] = pid(AGENT) == process
    installed.setup(Path(wheel), "--system")
    await_service()
    found["anew"] = pid(AGENT) != process
    return {**found, "rights": shown(AGENT, "CapabilityBoundingSet")}


def _listens(server: subprocess.Popen[bytes]) -> str:
    """Return the server's port once it listens."""
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return "9999"


def _seen(namespace: str) -> str:
    return say("ip", "netns", "exec", namespace, "cat", str(KEEPALIVE))


def _keepalive() -> Any:
    return state()["detail"]["keepalive"]


@scenario(timeout_s=90)
def hangs(box: Box) -> dict[str, Any]:
    """Freeze broker, then agent; systemd must start each anew."""
    before = pid(BROKER)
    os.kill(before, 19)
    wait_until(lambda: pid(BROKER) not in {0, before}, "a new broker", timeout_s=40)
    await_service()
    agent, broker = pid(AGENT), pid(BROKER)
    os.kill(agent, 19)
    wait_until(lambda: pid(AGENT) not in {0, agent}, "a new agent", timeout_s=40)
    await_service()
    return {
        "same_broker": pid(BROKER) == broker,
        "journal": say("journalctl", "-u", AGENT, "-o", "cat", "--no-pager"),
    }


HOG = f"""
from pathlib import Path
import os
Path("/sys/fs/cgroup/system.slice/{AGENT}/cgroup.procs").write_text(str(os.getpid()))
Path("/proc/self/oom_score_adj").write_text("-900")
taken = []
while True:
    taken.append(b"x" * 1_000_000)
"""


@scenario(timeout_s=60)
def goes_on(box: Box) -> dict[str, Any]:
    """Have a process of the agent's unit take all its memory; then reload a bad configuration."""
    agent = pid(AGENT)
    hog = subprocess.run(["/usr/bin/python3", "-c", HOG], check=False, timeout=50)
    good = CONFIG.read_text(encoding="utf-8")
    CONFIG.write_text("mode: odd\n", encoding="ascii")
    refused = subprocess.run(["systemctl", "reload", AGENT], check=False)
    CONFIG.write_text(good, encoding="utf-8")
    subprocess.run(["systemctl", "reload", AGENT], check=True)
    return {
        "hog": hog.returncode,
        "reload": refused.returncode,
        "said": say("journalctl", "-u", AGENT, "-o", "cat", "--no-pager", "-n", "40"),
        "same": pid(AGENT) == agent,
    }


@scenario(timeout_s=150)
def stops(box: Box, wheel: str) -> dict[str, Any]:
    """Stop, start and restart, with and without `restore_on_stop`."""
    values: dict[str, Any] = {}
    subprocess.run(["systemctl", "stop", "linkhold"], check=True)
    values["stop"] = KEEPALIVE.read_text().strip(), BOND_OPTIONS.exists()
    values["folders"] = STATE.parent.is_dir() and Path("/run/linkhold/mqtt/broker.sock").exists()
    CONFIG.write_text(f"{ENFORCE}{BOND}restore_on_stop: true\n", encoding="ascii")
    subprocess.run(["systemctl", "start", "linkhold"], check=True)
    subprocess.run(["systemctl", "restart", "linkhold"], check=True)
    values["restart"] = KEEPALIVE.read_text().strip(), BOND_OPTIONS.exists()
    refused = installed.setup(Path(wheel), "--remove", check=False)
    values["refused"] = refused.stderr
    subprocess.run(["systemctl", "stop", "linkhold"], check=True)
    values["restore"] = KEEPALIVE.read_text().strip(), BOND_OPTIONS.exists()
    values["address"] = ip("-br", "-4", "addr", "show", "eth0")
    values["said"] = say("journalctl", "-u", AGENT, "-o", "cat", "--no-pager", "-n", "20")
    return values


@scenario(timeout_s=60)
def crashes(box: Box) -> dict[str, Any]:
    """Let the agent end at once, at each start."""
    folder = Path(f"/run/systemd/system/{AGENT}.d")
    folder.mkdir(parents=True)
    crash = "[Service]\nExecStart=\nExecStart=/bin/false\nExecStopPost=\nRestartSec=50ms\n"
    (folder / "crash.conf").write_text(crash, encoding="ascii")
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    say("systemctl", "start", AGENT)
    wait_until(lambda: shown(AGENT, "ActiveState") == "failed", "given up", timeout_s=30)
    found = {"restarts": int(shown(AGENT, "NRestarts")), "result": shown(AGENT, "Result")}
    (folder / "crash.conf").unlink()
    CONFIG.write_text("mode: enforce\n", encoding="ascii")
    os.sync()
    return found


@scenario(timeout_s=90)
def has_booted(box: Box) -> dict[str, Any]:
    """Tell what runs after a boot without any network."""
    await_service()
    return {
        "network": state()["network"],
        "started": shown(AGENT, "ActiveEnterTimestampMonotonic"),
        "online": shown("network-online.target", "ActiveState"),
        "failed": say("systemctl", "--failed", "--plain", "--no-legend"),
        "restarts": shown(AGENT, "NRestarts"),
    }


@scenario(timeout_s=60)
def is_removed(box: Box, wheel: str) -> dict[str, Any]:
    """Remove linkhold and its changes."""
    wait_until(lambda: KEEPALIVE.read_text().strip() != "7200", "sysctl", timeout_s=20)
    done = installed.setup(Path(wheel), "--remove", "--restore-host", check=False)
    again = installed.setup(Path(wheel), "--remove", check=False)
    folders = ("/etc/systemd", "/etc/sysusers.d", "/etc/tmpfiles.d", "/usr/local/bin")
    left = say("find", *folders, "-name", "*linkhold*")
    return {
        "said": done.stdout + done.stderr,
        "again": again.stdout + again.stderr,
        "left": left,
        "keepalive": KEEPALIVE.read_text().strip(),
        "opt": os.path.lexists("/opt/linkhold"),
        "kept": CONFIG.exists() and Path("/var/lib/linkhold").is_dir(),
        "units": say("systemctl", "is-active", AGENT, BROKER),
    }
