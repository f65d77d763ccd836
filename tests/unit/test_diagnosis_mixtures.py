"""Several faults at once, very large hosts: the worst is told first, and no mixture is an error."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide.diagnosis import judged, rows
from linkhold.decide.diagnosis.evidence import ROWS_MOST, STEP_ROWS_MOST
from linkhold.decide.diagnosis.seen import way_to
from linkhold.decide.diagnosis.verdict import ORDER
from linkhold.diagnose import document
from linkhold.model.diagnosis import Mark, Place, State
from linkhold.model.diagnosis_facts import Facts
from linkhold.model.look import Look, LookedAddress, LookedLink
from linkhold.model.probes import Heard
from support.diagnosis import ETH0, facts, gateway, look, network, route
from support.diagnosis_faults import FAULTS

HEALTHY = facts()
NAMES = tuple(one.name for one in fields(Facts))
LINKS = {"look", "network", "nics", "gateways", "members"}
MANY = 5000


def mixture(names: list[str]) -> Facts:
    """Return what is seen where all these faults are there; of one step the last one's.

    Links and what is asked over them belong together: they are of one fault.
    """
    changed: dict[str, object] = {}
    for fault in names:
        seen = FAULTS[fault][0]
        new = {name for name in NAMES if getattr(seen, name) != getattr(HEALTHY, name)}
        new |= LINKS if new & LINKS else set()
        changed |= {name: getattr(seen, name) for name in new}
    return replace(HEALTHY, **changed)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(sorted(FAULTS)), min_size=2, max_size=8))
def test_every_mixture_is_judged(names: list[str]) -> None:
    """None raises, none is healthy, the worst state comes first and the rest in its order."""
    seen = mixture(names)
    found = replace(judged(seen), evidence=rows(seen))
    states = [ORDER.index(one.state) for one in (found.verdict, *found.also)]

    assert states == sorted(states)
    assert found.verdict.state in {State.DOWN, State.DEGRADED}
    assert all(one.sentence and len(one.next) == 3 for one in (found.verdict, *found.also))
    assert len(json.dumps(document(found))) < 256 << 10


@pytest.mark.parametrize("later", ["gateway dead", "DNS dead", "session forgotten", "clock"])
def test_the_cable_is_told_before_what_it_takes_with_it(later: str) -> None:
    """A pulled cable explains the silence of everything behind it."""
    verdict = judged(mixture([later, "cable"])).verdict

    assert (verdict.state, verdict.place) == (State.DOWN, Place.CABLE)


def large(*, carrier: bool = True, admin_up: bool = True) -> Facts:
    """Return a host of 5,000 VLANs, each with an address."""
    names = ["eth0", *(f"eth0.{n}" for n in range(1, MANY))]
    links = tuple(
        LookedLink(n + 2, name, admin_up=admin_up, carrier=carrier, mtu=1500)
        for n, name in enumerate(names)
    )
    own = tuple(
        LookedAddress(n + 2, "inet", f"10.{n // 250}.{n % 250}.2/24", 0, 0x80) for n in range(MANY)
    )
    seen = network(
        *(replace(ETH0, index=n + 2, name=name, carrier=carrier, admin_up=admin_up)
          for n, name in enumerate(names))
    )  # fmt: skip
    routes = (route(), route("10.0.0.0/24", ""))
    heard = Heard.ANSWERS if carrier and admin_up else Heard.SILENT
    return facts(
        look=Look(links, own, routes), network=seen, nics=tuple(names), gateways=(gateway(heard),)
    )


def test_thousands_of_links_leave_room_for_the_other_steps() -> None:
    """Of each step a person sees what matters and how much more there is, never that alone."""
    shown = rows(large())
    links = [row for row in shown if row.step == "links"]

    assert len(links) == STEP_ROWS_MOST
    assert links[-1].text == f"not shown: {MANY - STEP_ROWS_MOST + 1} ok"
    assert {"gateway", "DNS", "counters", "clock"} <= {row.step for row in shown}
    assert len(shown) < ROWS_MOST


def test_the_bad_rows_are_the_ones_that_are_kept() -> None:
    """One link of 5,000 without carrier is in the table, wherever it stands."""
    seen = large()
    assert seen.network is not None
    last = max(seen.network.links)
    links = dict(seen.network.links)
    links[last] = replace(links[last], carrier=False)
    shown = rows(replace(seen, network=replace(seen.network, links=links)))

    bad = [row.subject for row in shown if row.mark is Mark.BAD]
    assert bad == [f"eth0.{MANY - 1}"]


@pytest.mark.parametrize(
    ("how", "words"),
    [({"carrier": False}, "all have no carrier"), ({"admin_up": False}, "is set down")],
)
def test_a_fault_of_thousands_is_one_short_sentence(how: dict[str, bool], words: str) -> None:
    """However many links are dark or off."""
    found = judged(large(**how))

    assert words in found.verdict.sentence
    assert len(found.verdict.sentence) < 200
    assert len(json.dumps(document(found))) < 256 << 10


V4 = st.integers(0, 32).flatmap(
    lambda size: st.integers(0, 2**32 - 1).map(
        lambda bits: ipaddress.IPv4Network((bits, size), strict=False)
    )
)


@given(st.lists(V4, max_size=20), st.integers(0, 2**32 - 1), st.data())
def test_the_longest_prefix_is_the_way(
    networks: list[ipaddress.IPv4Network], bits: int, data: st.DataObject
) -> None:
    """As the kernel finds it: the longest prefix that holds the address, whatever the order."""
    wanted = ipaddress.ip_address(bits)
    inside = data.draw(st.lists(st.integers(1, 32), max_size=4))
    networks += [ipaddress.IPv4Network((bits, size), strict=False) for size in inside]
    routes = tuple(route(str(one) if one.prefixlen else "default") for one in networks)
    holding = [one.prefixlen for one in networks if wanted in one]
    found = way_to(look(routes=routes), str(wanted))

    if not holding:
        assert found is None
    else:
        assert found is not None
        length = found.destination.partition("/")[2] or "0"
        assert int(length) == max(holding)


def test_ways_of_ipv6_and_of_equal_prefixes() -> None:
    """The same for IPv6, also with a zone; of two routes to one network the smaller metric."""
    far = replace(route("2001:db8::/32", "fe80::1"), family="inet6")
    near = replace(far, destination="2001:db8:1::/48", metric=9)
    cheap = replace(near, metric=5)
    seen = look(routes=(far, near, cheap))

    assert way_to(seen, "2001:db8:1::7") == cheap
    assert way_to(seen, "2001:db8:2::7%eth0") == far
    assert way_to(seen, "192.0.2.1") is None
