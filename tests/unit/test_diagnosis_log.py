"""Raw records of the kernel's log, read as the reader does, folded and judged."""

from __future__ import annotations

import pytest

from linkhold.decide.diagnosis import judged
from linkhold.diagnose.kernel_log import folded
from linkhold.model.diagnosis import Place, State
from linkhold.model.diagnosis_facts import LogFacts
from linkhold.model.incidents import LinkFacts
from linkhold.model.kernel_log import PciView
from linkhold.model.probes import Heard
from linkhold.sensors.kmsg import parse
from support.diagnosis import facts, gateway

NOW_S = 5000
UP, DARK = LinkFacts(carrier=True), LinkFacts(carrier=False)
PCI = " SUBSYSTEM=pci\n DEVICE=+pci:0000:4b:00.0\n"
WATCHDOG = "eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5020 ms"

FAULTS = {
    "mlx5 firmware": (
        3, "mlx5_core 0000:4b:00.0: device's health compromised - reached miss count",
        Place.NIC, "its firmware has failed",
    ),
    "watchdog": (
        3, f"virtio_net virtio0 {WATCHDOG}", Place.DRIVER, "its driver hangs (transmit timeout)",
    ),
    "ixgbe": (
        3, "ixgbe 0000:4b:00.0 eth0: Detected Tx Unit Hang", Place.DRIVER, "its driver hangs",
    ),
    "ena": (
        3, "ena 0000:4b:00.0 eth0: Keep alive watchdog timeout.", Place.NIC, "firmware",
    ),
}  # fmt: skip


def read(*lines: tuple[float, int, str], links: dict[str, LinkFacts] | None = None) -> LogFacts:
    """Return what records say that were written so many seconds ago, as the kernel writes them."""
    records = [
        parse(f"{level},{number},{round((NOW_S - ago_s) * 1e6)},-;{text}\n{PCI}".encode())
        for number, (ago_s, level, text) in enumerate(lines)
    ]
    known = {"eth0": UP} if links is None else links
    view = PciView({"0000:4b:00.0": ("eth0",)})
    return folded([r for r in records if r is not None], known, NOW_S * 10**9, 3600.0, view)


@pytest.mark.parametrize("name", FAULTS)
def test_lines_of_drivers_come_out_with_their_place(name: str) -> None:
    """A fault two minutes ago whose link has no carrier since: it lasts, and its place is told."""
    level, text, place, words = FAULTS[name]
    seen = read((120, level, text), links={"eth0": DARK})
    verdict = judged(facts(log=seen)).verdict

    assert (verdict.state, verdict.place) == (State.DEGRADED, place), verdict.sentence
    assert words in verdict.sentence
    assert "2 min ago" in verdict.sentence


def test_a_dead_nic_under_a_silent_gateway_is_down() -> None:
    """The log's cause is told before the gateway that does not answer because of it."""
    seen = read((60, 3, f"virtio_net virtio0 {WATCHDOG}"), links={"eth0": DARK})
    found = judged(facts(log=seen, gateways=(gateway(Heard.SILENT),)))

    assert (found.verdict.state, found.verdict.place) == (State.DOWN, Place.DRIVER)


def test_what_is_over_is_told_and_is_not_called_healthy() -> None:
    """A timeout that has ended explains the run that died: degraded, with the word over."""
    seen = read((600, 3, f"virtio_net virtio0 {WATCHDOG}"))
    verdict = judged(facts(log=seen)).verdict

    assert (verdict.state, verdict.place) == (State.DEGRADED, Place.DRIVER)
    assert "10 min ago" in verdict.sentence
    assert "over" in verdict.sentence


def test_what_is_older_than_asked_for_is_not_told() -> None:
    """Two hours ago is not the last hour."""
    seen = read((7000, 3, f"virtio_net virtio0 {WATCHDOG}"))

    assert seen == LogFacts()


@pytest.mark.parametrize(("downs", "state"), [(1, State.HEALTHY), (3, State.DEGRADED)])
def test_a_link_that_flaps_is_a_loose_contact(downs: int, state: State) -> None:
    """One pulled cable in an hour is no fault of now, three are."""
    lines = []
    for number in range(downs):
        lines.append((300 - 20 * number, 6, "e1000e 0000:4b:00.0 eth0: NIC Link is Down"))
        lines.append((290 - 20 * number, 6, "e1000e 0000:4b:00.0 eth0: NIC Link is Up 1000 Mbps"))
    seen = read(*lines)
    verdict = judged(facts(log=seen)).verdict

    assert seen.downs == {"eth0": downs}
    assert verdict.state is state
    assert verdict.place is (Place.CABLE if downs > 1 else Place.NOTHING)


BOND = "bond0: (slave eth0): link status"
ONE_LOSS = (
    (6, "e1000e 0000:4b:00.0 eth0: NIC Link is Down"),
    (6, f"{BOND} down for active interface, disabling it in 200 ms"),
    (6, f"{BOND} down for active interface, disabling it in 200 ms"),
    (6, f"{BOND} definitely down, disabling slave"),
)


def test_many_lines_of_one_loss_are_one_loss() -> None:
    """Driver, bond and a bond that repeats itself all tell of one cable that was pulled once."""
    seen = read(*((300 - 0.2 * number, *line) for number, line in enumerate(ONE_LOSS * 50)))

    assert seen.downs == {"eth0": 1}
    assert judged(facts(log=seen)).verdict.state is State.HEALTHY


def test_losses_are_told_apart_by_their_return_or_by_time() -> None:
    """Where the line about the return is missing, a minute later is another loss."""
    down, up = (6, BOND + " definitely down, disabling slave"), (6, BOND + " definitely up, 0 Mbps")
    seen = read((300, *down), (299, *up), (298, *down), (200, *down))

    assert seen.downs == {"eth0": 3}
