"""Whole agents with two uplinks: what a reload and a start make of our routes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.actuators import uplink_routes
from support.broker import wait_until
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.running import Running

FAR = "203.0.113.9"
ORDER = "mqtt: {local: false}\nuplink_policy: {up_after_s: 1}\n"
UPLINKS = f"uplinks: [{{link: eth0, targets: [{FAR}]}}, {{link: usb0, targets: [{FAR}]}}]\n"


@pytest.fixture
def host(ns: Namespace) -> Iterator[Namespace]:
    """A host whose own metrics prefer usb0; a far target answers over both lines."""
    with Namespace() as cable, Namespace() as modem:
        ns.ip("link del eth0")
        for number, (link, router) in enumerate((("eth0", cable), ("usb0", modem))):
            router.ip(f"addr add {FAR}/32 dev lo")
            plug(ns, router, number, link)
        yield ns


def plug(host: Namespace, router: Namespace, number: int, link: str) -> None:
    """Give the host a line to a router."""
    host.veth(link, "lan", other=router)
    host.ip(f"addr add 10.0.{number}.2/24 dev {link}")
    router.ip(f"addr add 10.0.{number}.1/24 dev lan")
    host.ip(f"route add default via 10.0.{number}.1 dev {link} metric {700 - 600 * number}")


def way(host: Namespace) -> str:
    """Return the interface by which the far target is reached."""
    words = host.run("ip", "route", "get", FAR).split()
    return words[words.index("dev") + 1]


def test_order_of_the_file_beats_metrics_until_a_reload(
    host: Namespace, agents: Callable[..., Running]
) -> None:
    """The first uplink carries whatever its metric; without uplinks the host's routes stand."""
    assert way(host) == "usb0"
    agent = agents(f"mode: enforce\n{ORDER}{UPLINKS}").start().wait_ready("")
    wait_until(lambda: way(host) == "eth0", 10)
    state = agent.wait_for(lambda s: s["detail"]["uplinks"]["links"]["eth0"]["active"])
    assert state["network"] == "ok"

    agent.config_file.write_text(f"mode: enforce\n{ORDER}")
    agent.send(signal.SIGHUP)
    wait_until(lambda: way(host) == "usb0", 5)
    agent.wait_for(lambda s: s["detail"]["uplinks"]["links"] == {})
    assert "156" not in host.ip("rule")


@pytest.mark.parametrize(("mode", "left"), [("enforce", False), ("observe", True)])
def test_left_over_routes_are_removed_in_mode_enforce(
    host: Namespace, agents: Callable[..., Running], mode: str, *, left: bool
) -> None:
    """Routes that a killed agent left are removed by one without uplinks, if it may."""
    uplink_routes.place(host.index("eth0"))
    agent = agents(f"mode: {mode}\n{ORDER}").start().wait_ready("")
    if left:
        agent.stop()
    else:
        wait_until(lambda: way(host) == "usb0", 5)

    assert ("156" in host.ip("rule")) is left


def test_status_shows_the_uplinks(host: Namespace, agents: Callable[..., Running]) -> None:
    """A person sees each uplink, whether it answers, and which one carries."""
    agent = agents(f"{ORDER}{UPLINKS}").start().wait_ready("")
    agent.wait_for(lambda s: s["detail"]["uplinks"]["would"] == "eth0", 10)
    lines = [line.rstrip() for line in agent.cli("status").stdout.splitlines()]
    table = lines[lines.index("uplinks") + 1 :]

    assert table[0].split() == ["uplink", "traffic", "verdict", "for", "answers", "in", "reason"]
    assert table[1].split()[:3] == ["eth0", "-", "alive"]
    assert table[2].split()[:3] == ["usb0", "yes", "alive"]


def test_nic_that_is_plugged_in_again_is_asked_again(
    host: Namespace, agents: Callable[..., Running]
) -> None:
    """A USB NIC that leaves is dead at once, and alive when it is back with another index."""
    agent = agents(f"mode: enforce\n{ORDER}{UPLINKS}").start().wait_ready("")
    wait_until(lambda: way(host) == "eth0", 10)
    # One router for both turns: the end of a namespace takes its links away at some later time.
    with Namespace() as modem:
        modem.ip(f"addr add {FAR}/32 dev lo")
        for _ in range(2):
            host.ip("link del usb0")
            # On its way out it is set down first, which may be seen by itself.
            agent.wait_for(lambda s: uplink(s, "usb0")["reason"] == "usb0 is gone", 2)
            plug(host, modem, 1, "usb0")
            agent.wait_for(lambda s: uplink(s, "usb0")["verdict"] == "alive", 5)

    assert agent.types().count("uplink.switched") == 1


def uplink(state: dict[str, Any], link: str) -> dict[str, Any]:
    """Return an uplink in a state document."""
    found = state["detail"]["uplinks"]["links"][link]
    assert isinstance(found, dict)
    return found
