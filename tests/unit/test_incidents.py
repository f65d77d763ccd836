"""Incidents: what opens one, joins it, raises it and ends it; rates and bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide import incidents
from linkhold.decide.kernel_log import classify
from linkhold.model.incidents import Incidents, LinkFacts, Step
from linkhold.model.kernel_log import LineClass, LineSeverity, PciView
from linkhold.survey import pci
from linkhold.survey.files import Reader

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
NIC = "mlx5_core 0000:4b:00.0 eth0: "
TIMEOUT = NIC + "TX timeout detected"
FACTS = {"eth0": LinkFacts(True, "0000:4b:00.0", "bond0", 100, 100), "bond0": LinkFacts(True)}
DOWN = {**FACTS, "eth0": replace(FACTS["eth0"], carrier=False)}


class Log:
    """A kernel log that is told line by line; ``steps`` are what would be published."""

    def __init__(self) -> None:
        self.state = Incidents()
        self.steps: list[tuple[str, str]] = []
        self.facts = dict(FACTS)

    def say(self, line: str, at_s: float) -> None:
        """Absorb one line."""
        outcome = incidents.absorb(self.state, classify(line), self.facts, round(at_s * S))
        self._take(outcome)

    def look(self, at_s: float) -> None:
        """Look whether something is over."""
        self._take(incidents.look(self.state, self.facts, round(at_s * S)))

    def flow(self, packets: int) -> None:
        """Let packets flow both ways."""
        one = self.facts["eth0"]
        assert one.rx_packets is not None
        count = one.rx_packets + packets
        self.facts["eth0"] = replace(one, rx_packets=count, tx_packets=count)

    def _take(self, outcome: incidents.Outcome) -> None:
        self.state = outcome.state
        self.steps += [(one.step.value, one.incident.subject) for one in outcome.changes]


def test_one_fault_is_one_incident() -> None:
    """Lines of driver, bus and bond about one NIC join the incident that the first opened."""
    log = Log()
    log.say(TIMEOUT, 0)
    log.say("NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out", 1)
    log.say(NIC + "Link down", 2)
    log.say("mlx5_core 0000:4b:00.0: x:1:(pid 2): starting health recovery flow", 2)
    log.say("bond0: (slave eth0): link status definitely down, disabling slave", 2)
    log.say("bond0: now running without any active interface!", 2)

    assert log.steps == [("opened", "eth0")]
    (one,) = log.state.open.values()
    assert (one.lines, one.cls, one.address) == (6, LineClass.TX_TIMEOUT, "0000:4b:00.0")
    assert incidents.cause_of(log.state, "eth0", FACTS) is one
    assert incidents.cause_of(log.state, "bond0", FACTS) is one
    assert incidents.cause_of(log.state, "eth7", FACTS) is None


def test_netlinks_own_matter_opens_nothing() -> None:
    """Links and bonds going down or up, resets and settings are no incidents by themselves."""
    log = Log()
    for line in (
        NIC + "Link down", NIC + "Link up", "bond0: now running without any active interface!",
        "bond0: (slave eth0): Releasing backup interface", NIC + "unheard of",
        "mlx5_core 0000:4b:00.0: device recovered",
    ):  # fmt: skip
        log.say(line, 0)

    assert log.steps == []


def test_a_line_without_an_interface_finds_its_nic() -> None:
    """A fault that names the PCI address only belongs to the interface there."""
    log = Log()
    log.say("mlx5_core 0000:4b:00.0: p:1:(pid 0): device's health compromised - reached miss", 0)
    log.say(TIMEOUT, 1)

    assert log.steps == [("opened", "eth0")]


def test_something_worse_raises() -> None:
    """A worse line of the same NIC raises the incident and becomes its cause; a lesser does not."""
    log = Log()
    log.say(TIMEOUT, 0)
    log.say("mlx5_core 0000:4b:00.0: p:1:(pid 0): device's health compromised - reached miss", 1)
    log.say(TIMEOUT, 2)

    assert log.steps == [("opened", "eth0"), ("raised", "eth0")]
    assert log.state.open["eth0"].severity is LineSeverity.CRITICAL
    assert log.state.open["eth0"].cls is LineClass.FIRMWARE_FAULT


def test_a_line_of_recovery_ends_it_only_where_the_link_carries() -> None:
    """Netlink is the truth: "Link up" in the log waits until the link has carrier."""
    log = Log()
    log.say(TIMEOUT, 0)
    log.facts = dict(DOWN)
    log.say(NIC + "Link up", 1)
    log.look(2)
    assert log.steps == [("opened", "eth0")]
    log.facts = dict(FACTS)
    log.look(3)

    assert log.steps[1:] == [("closed", "eth0")]


def test_traffic_both_ways_ends_it() -> None:
    """Ten seconds without a fault and packets both ways prove the NIC well, without a line."""
    log = Log()
    log.say(TIMEOUT, 0)
    log.look(1)
    log.look(11)
    assert log.steps == [("opened", "eth0")]
    log.flow(5)
    log.look(12)

    assert log.steps[1:] == [("closed", "eth0")]


def test_received_packets_alone_prove_nothing() -> None:
    """A hung transmit queue still receives."""
    log = Log()
    log.say(TIMEOUT, 0)
    log.look(1)
    log.facts["eth0"] = replace(log.facts["eth0"], rx_packets=10_000)
    log.look(60)

    assert log.steps == [("opened", "eth0")]


def test_a_fault_that_comes_again_and_again_is_one_long_incident() -> None:
    """From the third opening in ten minutes on, an incident ends after ten calm minutes only."""
    log = Log()
    for round_ in range(100):
        log.say(TIMEOUT, round_ * 2)
        log.say(NIC + "Link up", round_ * 2 + 1)
        log.look(round_ * 2 + 1.5)
    assert log.steps == [("opened", "eth0"), ("closed", "eth0")] * 2 + [("opened", "eth0")]
    log.look(300)
    log.flow(5)
    log.look(301)
    assert len(log.steps) == 5
    log.look(900)

    assert log.steps[5:] == [("closed", "eth0")]


def test_corrected_errors_count_by_their_rate() -> None:
    """A corrected bus error is no incident; ten in a minute are."""
    line = "mlx5_core 0000:4b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer"
    log = Log()
    for at_s in range(0, 900, 30):
        log.say(line, at_s)
    assert log.steps == []
    for at_s in range(10):
        log.say(line, 1000 + at_s)

    assert log.steps == [("opened", "eth0")]
    assert log.state.open["eth0"].severity is LineSeverity.WARNING


def test_a_wedged_processor_in_the_poll_function_is_critical() -> None:
    """A soft lockup with the NIC's poll function in its stack raises the NIC's incident."""
    log = Log()
    log.say("RIP: 0010:mlx5e_napi_poll+0x6b/0x6e0 [mlx5_core]", 0)
    log.say(TIMEOUT, 1)
    log.say("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [ksoftirqd/3:25]", 2)
    log.say("RIP: 0010:ext4_writepages+0x6b/0x6e0 [ext4]", 2.01)
    log.say("RIP: 0010:mlx5e_napi_poll+0x6b/0x6e0 [mlx5_core]", 2.02)
    log.say(" ? mlx5e_napi_poll+0x6b/0x6e0 [mlx5_core]", 2.03)

    assert log.steps == [("opened", "eth0"), ("raised", "eth0")]
    assert log.state.open["eth0"].severity is LineSeverity.CRITICAL


def test_a_lockup_without_an_incident_opens_one() -> None:
    """Whose interface it is stays unknown: the stack names the driver."""
    log = Log()
    log.say("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [ksoftirqd/3:25]", 0)
    log.say(" i40e_napi_poll+0x6b/0x6e0 [i40e]", 1)

    assert log.steps == [("opened", "i40e")]


def test_the_removed_card_is_over_when_it_carries_again() -> None:
    """An interface that is gone keeps its incident for an hour, or until it is back."""
    log = Log()
    log.facts = {}
    log.say("igb 0000:05:00.1 eth2: PCIe link lost", 0)
    log.look(600)
    assert log.steps == [("opened", "eth2")]
    log.facts = {"eth2": LinkFacts(True, "0000:05:00.1")}
    log.look(601)

    assert log.steps[1:] == [("closed", "eth2")]


def test_nothing_is_unbounded() -> None:
    """A thousand NICs make 64 open incidents, and a count of the others."""
    log = Log()
    for number in range(1000):
        log.say(f"ixgbe 0000:{number:02x}:00.0 nic{number}: Adapter removed", 0)
    log.look(4000)

    assert log.state.dropped > 0
    assert len([step for step, _ in log.steps if step == "opened"]) == 64
    assert log.state.open == {}


ANY = st.tuples(
    st.sampled_from((
        TIMEOUT,
        NIC + "Link up",
        NIC + "Link down",
        "NETDEV WATCHDOG: eth1 (igb): transmit queue 1 timed out",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a:1]",
        " mlx5e_napi_poll+0x6b/0x6e0 [mlx5_core]",
        "igb 0000:05:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=x",
    )),
    st.integers(0, 700),
)  # fmt: skip


@given(st.lists(ANY, max_size=30))
def test_steps_alternate(said: list[tuple[str, int]]) -> None:
    """Of each subject: opened, raised at will, closed; never two openings without an end."""
    log = Log()
    now = 0
    for line, pause in said:
        now += pause
        log.say(line, now)
        log.look(now)

    for subject in {subject for _, subject in log.steps}:
        steps = [step for step, other in log.steps if other == subject and step != "raised"]
        assert steps == ["opened", "closed"] * (len(steps) // 2) + ["opened"] * (len(steps) % 2)
    assert Step.RAISED.value not in [step for step, _ in log.steps[:1]]


def test_the_tree_above_the_nics(tmp_path: Path) -> None:
    """Places in sysfs give NICs and the ports above; USB and wireless ones do not count."""
    net = tmp_path / "sys/class/net"
    net.mkdir(parents=True)
    places = {
        "eth0": "pci0000:40/0000:40:01.0/0000:41:00.0/net/eth0",
        "eth1": "pci0000:40/0000:40:01.0/0000:41:00.1/net/eth1",
        "ens3": "pci0000:00/0000:00:03.0/virtio0/net/ens3",
        "usb0": "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/net/usb0",
        "wlp3s0": "pci0000:00/0000:00:1c.0/0000:03:00.0/net/wlp3s0",
        "lo": "virtual/net/lo",
    }
    for name, place in places.items():
        (tmp_path / "sys/devices" / place).mkdir(parents=True)
        (net / name).symlink_to(f"../../devices/{place}")
    (tmp_path / "sys/devices" / places["wlp3s0"] / "phy80211").mkdir()

    assert pci.look(Reader(tmp_path)) == PciView(
        nics={"0000:41:00.0": ("eth0",), "0000:41:00.1": ("eth1",), "0000:00:03.0": ("ens3",)},
        ports={"0000:40:01.0": ("eth0", "eth1")},
    )
