"""More faults of real packets: damaged frames, switches without power, sessions, training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkhold.diagnose import Aim, document
from linkhold.model.diagnosis import Place, State
from linkhold.model.jobs import Training, TrainingProcess
from support.forgetful import started
from support.ill_network import CONNECT, PING, PORT, RESOLVER, SERVER, diagnosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.model.diagnosis import Diagnosis
    from support.ill_network import Net

SSH = 22
JUMBO = 9000
TRAINER = """
import socket, sys, time
held = [socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10) for _ in range(2)]
print("ready", flush=True)
time.sleep(120)
"""
LAZY = """
import socket, sys, time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print(flush=True)
held = listener.accept()
time.sleep(60)
"""


def switch_power(net: Net) -> Diagnosis:
    """The switch has lost its power: every port of it goes dark in the same moment."""
    net.node.veth("e1", "pf", other=net.switch)
    net.switch.ip("link set pf master br0")
    net.node.ip("addr add 10.0.8.2/24 dev e1")
    for port in ("pe", "pf", "pg", "pn"):
        net.switch.ip(f"link set {port} down")
    return net.diagnose(PING)


def switch_mtu(net: Net) -> Diagnosis:
    """The node has jumbo frames, the switch has not."""
    net.node.ip(f"link set e0 mtu {JUMBO}")
    net.gateway.ip(f"link set g0 mtu {JUMBO}")
    # A veth that is too small tells its own end; a switch drops what leaves by a smaller port.
    net.switch.ip(f"link set pe mtu {JUMBO}")
    return net.diagnose()


def session_forgotten(net: Net) -> Diagnosis:
    """A firewall has forgotten a connection that was silent for longer than it remembers."""
    return _idle(net, PORT)


def idle_ssh(net: Net) -> Diagnosis:
    """The same happens to the session of somebody who went for lunch."""
    net.serve(SERVER, SSH)
    return _idle(net, SSH)


def _idle(net: Net, port: int) -> Diagnosis:
    net.forget_after(1)
    made = net.connect(SERVER, port)
    time.sleep(2.2)
    made.sendall(b"back again")
    time.sleep(1.0)  # two retransmissions: after 0.2 and 0.6 s
    return net.diagnose(PING)


def reads_nothing(net: Net) -> Diagnosis:
    """The program at the other end has stopped: its host takes data until its buffer is full."""
    with net.server.enter():
        sleeper = subprocess.Popen(
            [sys.executable, "-c", LAZY, SERVER, "8080"], stdout=subprocess.PIPE
        )
    try:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        made = net.connect(SERVER, 8080)
        made.setblocking(False)
        for _ in range(20):  # the window grows for a while
            _fill(made.send)
            time.sleep(0.05)
        time.sleep(0.5)
        return net.diagnose(PING)
    finally:
        sleeper.kill()
        sleeper.communicate()


def _fill(send: Callable[[bytes], int]) -> None:
    try:
        while True:
            send(bytes(65_536))
    except BlockingIOError:
        return


def unprotected(net: Net) -> Diagnosis:
    """A training process holds connections without keepalive."""
    trainer = subprocess.Popen(
        net.node.command(sys.executable, "-c", TRAINER, SERVER, str(PORT)), stdout=subprocess.PIPE
    )
    try:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == b"ready\n"
        process = TrainingProcess(
            trainer.pid, started(trainer.pid), os.geteuid(), "python", ("train.py",),
            job="train.py@1",
        )  # fmt: skip
        return net.diagnose(PING, training=Training((process,)))
    finally:
        trainer.kill()
        trainer.communicate()


def refused(net: Net) -> Diagnosis:
    """The service on the port has ended, its host has not."""
    return net.diagnose(replace(CONNECT, port=PORT + 1))


def one_resolver(net: Net) -> Diagnosis:
    """The first of two resolvers is dead: every look-up waits for it."""
    return net.diagnose(PING, resolvers=("10.9.0.99", RESOLVER))


def no_name(net: Net) -> Diagnosis:
    """Nobody is at the address of the resolver, and a target has only a name."""
    return net.diagnose(Aim("store", "tcp", "store.example.org", PORT), resolvers=("10.9.0.99",))


def cable_and_more(net: Net) -> Diagnosis:
    """The cable is out, and because of it or besides nothing else works either."""
    net.nft(net.node, "chain o { type filter hook output priority 0; tcp dport 443 counter drop; }")
    net.switch.ip("link set pe down")
    return net.diagnose(PING, CONNECT, resolvers=("10.9.0.99",))


def gateway_and_more(net: Net) -> Diagnosis:
    """The gateway is dead: so is all beyond it, and a connection hangs."""
    made = net.connect(SERVER)
    net.gateway.ip("link set g0 down")
    made.sendall(b"anybody there?")
    time.sleep(1.0)
    return net.diagnose(PING, CONNECT, resolvers=("10.9.0.99", RESOLVER))


def bad_contact(net: Net) -> Diagnosis:
    """An oxidised contact damages frames: everything answers, and errors are counted."""
    return net.diagnose(PING, CONNECT)


FAULTS: dict[Callable[[Net], Diagnosis], tuple[State, Place, str]] = {
    switch_power: (
        State.DOWN,
        Place.SWITCH,
        "e0 and e1 all have no carrier: the switch",
    ),
    switch_mtu: (State.DEGRADED, Place.SWITCH, f"packets of {JUMBO} bytes to the gateway vanish"),
    session_forgotten: (State.DEGRADED, Place.FIREWALL, "has forgotten the session"),
    idle_ssh: (State.DEGRADED, Place.FIREWALL, "ssh, port 22) gets no answer though 10.9.0.2"),
    reads_nothing: (State.DEGRADED, Place.BEYOND, "takes no data (zero window)"),
    unprotected: (State.DEGRADED, Place.HOST, "2 of 2 connections of train.py@1 have no keepalive"),
    refused: (State.DEGRADED, Place.BEYOND, "store is reached and refuses"),
    one_resolver: (State.DEGRADED, Place.DNS, "the resolver 10.9.0.99 is dead"),
    no_name: (State.DEGRADED, Place.DNS, "names cannot be looked up: 10.9.0.99"),
    cable_and_more: (State.DOWN, Place.CABLE, "e0 has no carrier"),
    gateway_and_more: (State.DOWN, Place.GATEWAY, "10.0.0.1 on e0 is dead"),
    bad_contact: (State.DEGRADED, Place.CABLE, "errors of e0 grow (rx_frame_errors +"),
}


@pytest.fixture(scope="module")
def found(can_make_namespaces: None) -> dict[str, Diagnosis]:
    """The diagnosis of each fault."""
    others = [fault for fault in FAULTS if fault is not bad_contact]
    return diagnosed(others) | diagnosed([bad_contact], damaged=True)


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


def test_drops_on_the_way_in_are_told_besides(can_make_namespaces: None) -> None:
    """Other people's noise is dropped all day: a silent target is told first, the drops as well."""
    found = diagnosed([dropped_in])["dropped_in"]

    assert found.verdict.place is Place.BEYOND
    assert any("own firewall drops what it receives" in one.sentence for one in found.also)


def dropped_in(net: Net) -> Diagnosis:
    """This host's own input chain drops what a target answers."""
    drop = "chain i { type filter hook input priority 0; ip saddr 10.9.0.2 counter drop; }"
    net.nft(net.node, drop)
    return net.diagnose(PING)
