"""The diagnosis as a whole on real packets: one fault in each network, four networks at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from linkhold.diagnose import document
from linkhold.model.diagnosis import Mark, Place, State
from support.ill_network import BY_NAME, CONNECT, NAME, PING, SERVER, diagnosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.model.diagnosis import Diagnosis
    from support.ill_network import Net
    from support.netns import Namespace

AWS = "Amazon EC2"
TOKEN = "AQAEAtoken=="
DROP_PORT = "chain f { type filter hook forward priority 0; tcp dport 443 drop; }"


def healthy(net: Net) -> Diagnosis:
    """Nothing is wrong."""
    return net.diagnose(PING, CONNECT, BY_NAME)


def cable(net: Net) -> Diagnosis:
    """The cable of the only NIC is out."""
    net.switch.ip("link set pe down")
    return net.diagnose(PING)


def set_down(net: Net) -> Diagnosis:
    """Somebody has set the NIC down."""
    net.node.ip("link set e0 down")
    return net.diagnose()


def gateway_dead(net: Net) -> Diagnosis:
    """The gateway is off, its neighbours are not."""
    net.gateway.ip("link set g0 down")
    return net.diagnose(PING)


def switch_dead(net: Net) -> Diagnosis:
    """The switch forwards nothing while the link light is on."""
    net.switch.ip("link set pe nomaster")
    return net.diagnose(PING)


def route_gone(net: Net) -> Diagnosis:
    """A manager has lost the default route."""
    net.node.ip("route del default")
    return net.diagnose()


def other_subnet(net: Net) -> Diagnosis:
    """The address is of another subnet than the gateway."""
    net.node.batch(
        "addr flush dev e0\naddr add 10.0.1.2/24 dev e0\n"
        "route replace default via 10.0.0.1 dev e0 onlink\n"
    )
    return net.diagnose(PING)


def wide_mask(net: Net) -> Diagnosis:
    """With a /8 the server looks like a neighbour."""
    net.node.batch(
        "addr flush dev e0\naddr add 10.0.0.2/8 dev e0\nroute replace default via 10.0.0.1\n"
    )
    net.node.run("ping", "-q", "-c", "1", "-W", "1", SERVER, check=False)
    return net.diagnose(PING)


def duplicate(net: Net) -> Diagnosis:
    """The neighbour has taken our address."""
    net.neighbour.ip("addr add 10.0.0.2/24 dev n0")
    return net.diagnose()


def black_hole(net: Net) -> Diagnosis:
    """A link beyond the gateway carries less, and the gateway does not say so."""
    net.gateway.ip("link set g1 mtu 1400")
    told = "icmp type destination-unreachable drop"
    net.nft(net.gateway, f"chain o {{ type filter hook output priority 0; {told}; }}")
    return net.diagnose(PING)


def dns_dead(net: Net) -> Diagnosis:
    """Nobody is at the address of the resolver."""
    return net.diagnose(PING, resolvers=("10.9.0.99",))


def beyond_dead(net: Net) -> Diagnosis:
    """The way behind the gateway is cut."""
    net.server.ip("link set f0 down")
    return net.diagnose(PING, CONNECT)


def rule_deleted(net: Net) -> Diagnosis:
    """A security group no longer lets the port through."""
    net.nft(net.gateway, DROP_PORT)
    return net.diagnose(CONNECT)


def own_firewall(net: Net) -> Diagnosis:
    """This host's own output chain drops the port."""
    net.nft(net.node, "chain o { type filter hook output priority 0; tcp dport 443 counter drop; }")
    return net.diagnose(CONNECT)


def metadata_gone(net: Net) -> Diagnosis:
    """A cloud's machine, and nobody at the metadata address."""
    net.gateway.ip("route del 169.254.169.254")
    net.gateway.ip("route add blackhole 169.254.169.254")
    return net.diagnose(PING, vendor=AWS)


def metadata_lies(net: Net) -> Diagnosis:
    """A portal answers on the metadata address."""
    net.serve_metadata(200, "<html><body>Please sign in</body></html>")
    return net.diagnose(PING, vendor=AWS)


def moved(net: Net) -> Diagnosis:
    """A load balancer's name has another address than the open connection."""
    made = net.connect(SERVER)
    port: int = made.getsockname()[1]
    gone = f"chain f {{ type filter hook forward priority 0; tcp sport {port} drop; }}"
    net.nft(net.gateway, gone)
    made.sendall(b"anybody there?")
    time.sleep(1.0)  # two retransmissions: after 0.2 and 0.6 s
    return net.diagnose(BY_NAME)


FAULTS: dict[Callable[[Net], Diagnosis], tuple[State, Place, str]] = {
    healthy: (State.HEALTHY, Place.NOTHING, "nothing is broken"),
    cable: (State.DOWN, Place.CABLE, "e0 has no carrier"),
    set_down: (State.DOWN, Place.HOST, "e0 is set down"),
    gateway_dead: (State.DOWN, Place.GATEWAY, "10.0.0.1 on e0 is dead"),
    switch_dead: (State.DOWN, Place.SWITCH, "nothing on e0 answers"),
    route_gone: (State.DOWN, Place.HOST, "the default route is gone"),
    other_subnet: (State.DOWN, Place.HOST, "10.0.0.1 lies in no subnet of e0 (10.0.1.2/24)"),
    wide_mask: (State.DEGRADED, Place.HOST, "the netmask is too wide"),
    duplicate: (State.DEGRADED, Place.HOST, "10.0.0.2 on e0 is used twice"),
    black_hole: (State.DEGRADED, Place.BEYOND, "packets of 1500 bytes to 10.9.0.2 vanish"),
    dns_dead: (State.DEGRADED, Place.DNS, "names cannot be looked up: 10.9.0.99"),
    beyond_dead: (State.DOWN, Place.BEYOND, "the fault lies beyond it"),
    rule_deleted: (State.DEGRADED, Place.FIREWALL, "answers echoes, but not on tcp 10.9.0.2:443"),
    own_firewall: (State.DEGRADED, Place.FIREWALL, "this host's own firewall drops"),
    metadata_gone: (State.DEGRADED, Place.BEYOND, "service of Amazon EC2 does not answer"),
    metadata_lies: (State.DEGRADED, Place.BEYOND, "makes no sense"),
    moved: (State.DEGRADED, Place.BEYOND, f"the address of {NAME} has changed to 10.9.0.3"),
}


@pytest.fixture(scope="module")
def found(can_make_namespaces: None) -> dict[str, Diagnosis]:
    """The diagnosis of each fault."""
    return diagnosed(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_comes_out_with_its_sentence_and_place(
    found: dict[str, Diagnosis], fault: Callable[[Net], Diagnosis]
) -> None:
    """State, place and words of the verdict, well below ten seconds, on a busy machine."""
    state, place, words = FAULTS[fault]
    seen = found[fault.__name__]
    shown = json.dumps(document(seen), indent=1)

    assert (seen.verdict.state, seen.verdict.place) == (state, place), shown
    assert words in seen.verdict.sentence
    assert seen.took_s < 9


def test_the_command_says_it_with_its_exit_code(namespace: Namespace) -> None:
    """In a namespace without any link: down, as one JSON document and as the exit code 2."""
    command = [sys.executable, "-m", "linkhold", "diagnose", "--json"]
    done = subprocess.run(
        namespace.command(*command), capture_output=True, text=True, timeout=30, check=False
    )
    told = json.loads(done.stdout)

    assert done.returncode == State.DOWN.exit_code
    assert (told["state"], told["place"]) == ("down", "nic")
    assert done.stderr == ""


def test_a_healthy_host_has_no_bad_row(found: dict[str, Diagnosis]) -> None:
    """Nothing is called bad, nothing else is told, and it takes less than three seconds."""
    seen = found["healthy"]

    assert [row for row in seen.evidence if row.mark is Mark.BAD] == []
    assert seen.also == ()
    assert seen.took_s < 3
