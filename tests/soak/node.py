"""A node to wear out: a real agent with all its senses, the fleet's broker, and a training job.

All of it lives in a network namespace and ends with the process that made it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.power_scene import Upsd
from soak import looks
from soak.growth import Look
from soak.node_troubles import TROUBLES
from support import netns
from support.beyond import Beyond
from support.broker import Collector, free_port
from support.metadata_server import Asked, Threaded, Told
from support.places import TIED, Place, private_mounts, resolver
from support.running import ENVIRONMENT, Running, TiedBroker

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from typing_extensions import Self

METADATA = "169.254.169.254"
JOB = Path(__file__).with_name("client_job.py")
BLOCKS = "blocks"
# The agent as it is, but for two things. User space cannot write facility 0 of the kernel's log:
# here facility 1 is taken for it. And a thread writes how many blocks of memory the interpreter
# uses: they tell a leak from an allocator that gives nothing back. The cache of attributes would
# fill for an hour (4,096 names that paho makes anew for each message), so it is emptied before.
AS_A_SOAK = """
import gc, sys, threading, time, linkhold.sensors.kmsg as kmsg
kmsg.KERNEL = 1
blocks, sys.argv = sys.argv[1], sys.argv[2:]
def count():
    while True:
        gc.collect()
        sys._clear_type_cache()
        with open(blocks, "w") as file:
            file.write(str(sys.getallocatedblocks()))
        time.sleep(2)
threading.Thread(target=count, daemon=True).start()
from linkhold.cli import main
sys.exit(main())
"""
MOST_EVENTS = 400
"""Kept by the outbox: its bound is reached in the warm-up, and then its file must not grow."""
CONFIG = """\
site: lab
node: n1
mode: enforce
keepalive: {{profile: custom, time_s: {idle_s}, check_every: 1}}
outbox: {{max_events: {most}, max_bytes: 1000000}}
metrics: {{textfile: {place}/metrics/linkhold.prom, listen: '127.0.0.1:{scrape}'}}
policy: {{settle_s: 0.5, resume_s: 1, flap_downs: 100, mains_back_s: 1, save_time_s: 10}}
alerts: {{fire_after_s: 0.5, close_after_s: 1}}
power:
  poll: 0.5s
  nut: [{{name: ups-a, ups: u, port: {ups}}}]
  mqtt:
  - {{name: rack1, topics: [site/mains/state], status_topic: site/mains/status, max_age: 90s}}
notices: {{cloud: aws, logind: false}}
paths: {{targets: [{{name: api, http: 'http://127.0.0.1:1/x'}}], interval_ok: 1s, metadata: never}}
mqtt: {{connect_jitter_s: 0, fleet: [{{host: 127.0.0.1, port: {fleet}}}]}}
"""


class Node:
    """The part ``agent`` of the soak; also its broker and the client in a training process."""

    name = "node"

    def __init__(self) -> None:
        self.told: dict[str, Told] = {}
        self.idle_s = 123
        self.count = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.place = stack.enter_context(Place())
            self.ns = stack.enter_context(netns.Namespace())
            stack.enter_context(self.ns.enter())
            self._wire(stack)
            self.fleet = TiedBroker(self.place / "fleet")
            stack.callback(self.fleet.kill)
            self.fleet.start()
            self.scrape = free_port()
            self.upsd = Upsd()
            stack.callback(self.upsd.close)
            stack.enter_context(Threaded(self._answer, METADATA))
            (self.place / "metrics").mkdir()
            self.agent = self._agent()
            stack.callback(self.agent.kill)
            self.agent.start().wait_ready()
            # Whoever hears events: what nobody subscribes to counts as lost when it is dropped.
            self.operator = Collector(self.fleet.port, "linkhold/v1/+/+/event/#")
            stack.callback(self.operator.close)
            self.job = self._job()
            stack.callback(self._end_job)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _wire(self, stack: ExitStack) -> None:
        self.ns.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for name, peer in (("eth0", "p0"), ("eth1", "p1")):
            self.ns.veth(name, peer)
        self.ns.ip("addr add 10.0.0.2/24 dev eth0")
        self.ns.ip("addr add 169.254.169.254/32 dev lo")
        self.ns.ip("route add default via 10.0.0.1")
        self.beyond = stack.enter_context(Beyond(self.ns, "p0"))
        self.peers = {name: self.ns.index(name) for name in ("p0", "p1")}

    def _answer(self, asked: Asked) -> Told:
        """Answer as the metadata service of AWS."""
        if asked.method == "PUT":
            return Told(body="token")
        return self.told.get(asked.path.rpartition("/")[2], Told(404))

    def config(self) -> str:
        """Return the configuration as it should be now."""
        return CONFIG.format(
            idle_s=self.idle_s,
            most=MOST_EVENTS,
            place=self.place,
            scrape=self.scrape,
            ups=self.upsd.port,
            fleet=self.fleet.port,
        )

    def _agent(self) -> Running:
        python = (sys.executable, "-c", AS_A_SOAK, str(self.place / BLOCKS))
        wrap = (*private_mounts(resolver()), *python)
        return Running(self.place, self.config(), wrap=wrap)

    def _job(self) -> subprocess.Popen[bytes]:
        folder = self.place / "job"
        folder.mkdir()
        env = {"RANK": "0", "WORLD_SIZE": "1", "LINKHOLD_RETRY_DIR": str(folder / "retry")}
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [*TIED, sys.executable, str(JOB), str(self.agent.run_dir), str(folder)],
                stdout=log,
                stderr=log,
                env={**ENVIRONMENT, **env},
            )

    def _end_job(self) -> None:
        self.job.kill()
        self.job.wait()

    def disturb(self, dice: random.Random) -> str:
        """Do one thing to the node and return its name; raises AssertionError when it fails."""
        assert self.agent.alive, f"the agent ended: {self.agent.log()[-2000:]}"
        job_log = (self.place / "job/log").read_text()[-2000:]
        assert self.job.poll() is None, f"the training job ended: {job_log}"
        names, weights = list(TROUBLES), [weight for weight, _ in TROUBLES.values()]
        name = dice.choices(names, weights)[0]
        self.count += 1
        TROUBLES[name][1](self, dice)
        return name

    def looks(self) -> Mapping[str, Look | None]:
        """Look at the agent, its broker and the client."""
        now_s = time.monotonic()
        agent = self.agent
        found = {
            "agent": _with_blocks(
                looks.look(now_s, agent.pid, agent.run_dir, agent.state_dir), self.place
            ),
            "client": self._look_at_client(now_s),
        }
        for pid in agent.brokers()[:1]:
            found["agent's broker"] = looks.look(now_s, pid)
        return found

    def _look_at_client(self, now_s: float) -> Look | None:
        job = self.place / "job"
        folders = [job / name for name in ("retry", "store", "spool/turns", "spool/damaged")]
        found = looks.look(now_s, self.job.pid, *folders)
        if found is None:
            return None
        spooled = looks.files_in(job / "spool/entries", job / "spool/incoming")
        found = Look(now_s, {**found.figures, "spooled files": float(spooled)})
        return _with_blocks(found, job)

    def summary(self) -> str:
        """Return how many events the agent made, and what it had to drop."""
        birth = self.agent.state()
        counters = birth["detail"]["agent"]["counters"]
        done = (self.place / "job/progress").read_text().strip()
        return (
            f"{len(self.agent.events('24h'))} events kept of {last_seq(self.agent)}; "
            f"{counters['outbox_lost_events']} lost to a full outbox; client: {done}"
        )


def _with_blocks(found: Look | None, folder: Path) -> Look | None:
    """Return a look with the blocks of memory that the interpreter said it uses."""
    with suppress(OSError, ValueError):  # not written yet, or just being written
        blocks = float((folder / BLOCKS).read_text())
        return found and Look(found.at_s, {**found.figures, "memory blocks": blocks})
    return found


def last_seq(agent: Running) -> int:
    """Return the number of the last event."""
    return int(agent.events("24h")[-1]["seq"])


def missing() -> str:
    """Return why this cannot run here, empty when it can."""
    return netns.missing()
