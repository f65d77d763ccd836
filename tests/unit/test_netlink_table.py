"""Folding messages into the picture of the network, and what the kernel does not announce."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide.watch import Watch
from linkhold.model import DefaultRoute
from linkhold.rtnl import framing as netlink
from linkhold.rtnl.framing import Malformed, messages
from linkhold.sensors.link_table import Table
from support import rtnl_bytes as rb

VIA_0, VIA_1 = rb.ip(5, "10.0.0.1"), rb.ip(5, "10.1.0.1")
DEFAULT = rb.route(VIA_0, rb.u32(4, 2))
OTHER = rb.route(VIA_1, rb.u32(4, 3))
BOTH = rb.route(rb.attr(9, rb.hop(2, VIA_0) + rb.hop(3, VIA_1)))
DEFAULT_6 = rb.route(rb.ip(5, "fe80::1"), rb.u32(4, 2), family="inet6")
BLACKHOLE = rb.route(kind=6)


def feed(table: Table, kind: int, body: bytes, *, flags: int = 0, listed: bool = False) -> None:
    """Give the table one message."""
    data = rb.message(kind, body, flags=flags)
    for message in messages(data):
        table.fold(data, message, listed=listed)


def ready() -> Table:
    """Return a table that has been listed: eth0 (2) and eth1 (3), both up, with addresses."""
    table = Table(Watch())
    while table.begin():
        table.finish(again=False)
    for index in (2, 3):
        feed(table, netlink.RTM_NEWLINK, rb.link(index, f"eth{index - 2}"))
        feed(table, netlink.RTM_NEWADDR, rb.address(index, f"10.{index - 2}.0.2", 24))
    table.view()
    return table


def ways(table: Table) -> set[tuple[int, str]]:
    """Return the default routes in the view as (link, gateway)."""
    return {(route.index, route.gateway) for route in table.view().routes}


def relist(table: Table, family: str, *bodies: bytes) -> None:
    """Answer the wanted listing of ``family`` with these routes."""
    assert table.begin() == family
    for body in bodies:
        feed(table, netlink.RTM_NEWROUTE, body, listed=True)
    table.finish(again=False)


def test_sections_are_listed_in_order_of_need() -> None:
    """Links first, then what refers to them, each once."""
    table, order = Table(Watch()), []
    while name := table.begin():
        order.append(name)
        table.finish(again=False)
    assert order == ["links", "addresses", "inet", "inet6"]


def test_an_unchanged_message_changes_nothing() -> None:
    """The kernel repeats itself; only differences count."""
    table = ready()
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0"))
    feed(table, netlink.RTM_NEWADDR, rb.address(2, "10.0.0.2", 24))
    assert not table.changed


def test_what_is_not_watched_changes_nothing() -> None:
    """A container's veth, its address and its end leave the view alone."""
    table = ready()
    veth = rb.link(7, "veth7", rb.nest(18, rb.text(1, "veth")))
    feed(table, netlink.RTM_NEWLINK, veth)
    feed(table, netlink.RTM_NEWADDR, rb.address(7, "10.9.0.1", 16))
    feed(table, netlink.RTM_DELLINK, veth)
    assert not table.changed
    assert not table.wanted
    assert table.addresses.keys() == {2, 3}


def test_a_way_out_that_lost_its_route_is_not_gone() -> None:
    """A container's veth is watched for its default route, and goes on being so without it."""
    table = ready()
    veth = rb.link(7, "veth7", rb.nest(18, rb.text(1, "veth")))
    default = rb.route(rb.ip(5, "10.9.0.1"), rb.u32(4, 7))
    feed(table, netlink.RTM_NEWLINK, veth)
    feed(table, netlink.RTM_NEWROUTE, default)
    assert 7 in table.view().links
    feed(table, netlink.RTM_DELROUTE, default)
    assert 7 in table.view().links
    assert ways(table) == set()
    feed(table, netlink.RTM_DELLINK, veth)
    assert 7 not in table.view().links
    feed(table, netlink.RTM_NEWLINK, veth)
    assert 7 not in table.view().links


def test_bridge_port_messages_are_not_about_the_link() -> None:
    """RTM_DELLINK of AF_BRIDGE means that a port left the bridge, not that the link is gone."""
    table = ready()
    feed(table, netlink.RTM_DELLINK, rb.link(2, "eth0", family=7))
    assert 2 in table.view().links


def test_a_renamed_link_keeps_its_place() -> None:
    """The index is the identity, the name is not."""
    table = ready()
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "uplink"))
    assert table.changed
    assert table.view().links[2].name == "uplink"


def test_a_removed_link_takes_addresses_routes_and_details_with_it() -> None:
    """Nothing may refer to a link that is gone."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    table.detail(2, "mlx5_core", 100_000)
    feed(table, netlink.RTM_DELLINK, rb.link(2, "eth0"))
    view = table.view()
    assert set(view.links) == {3}
    assert {address.index for address in view.addresses} == {3}
    assert view.routes == frozenset()
    assert table.details == {}


def test_details_survive_messages_of_the_link() -> None:
    """Messages carry neither driver nor speed; a carrier change must not erase them."""
    table = ready()
    assert table.detail(2, "mlx5_core", 100_000)
    assert not table.detail(2, "mlx5_core", 100_000)
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0", rb.u8(33, 1)))
    link = table.view().links[2]
    assert (link.carrier, link.driver, link.speed_mbps) == (True, "mlx5_core", 100_000)


def test_details_of_an_unknown_link_are_refused() -> None:
    """A slow ethtool thread may answer after the link is gone."""
    assert not ready().detail(99, "mlx5_core", None)


def test_routes_are_added_replaced_and_deleted() -> None:
    """``ip route add``, ``replace`` and ``del`` as the kernel announces them."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    assert ways(table) == {(2, "10.0.0.1")}
    feed(table, netlink.RTM_NEWROUTE, OTHER, flags=netlink.NLM_F_REPLACE)
    assert ways(table) == {(3, "10.1.0.1")}
    feed(table, netlink.RTM_DELROUTE, OTHER)
    assert ways(table) == set()
    assert not table.wanted


def test_routes_of_other_metrics_and_tables_stand_beside() -> None:
    """A replacement concerns its own metric and table only."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    feed(table, netlink.RTM_NEWROUTE, rb.route(VIA_1, rb.u32(4, 3), rb.u32(6, 700)))
    feed(table, netlink.RTM_NEWROUTE, rb.route(VIA_1, rb.u32(4, 3), table=100))
    assert table.view().routes == {
        DefaultRoute("inet", 2, "10.0.0.1"),
        DefaultRoute("inet", 3, "10.1.0.1", 700),
        DefaultRoute("inet", 3, "10.1.0.1", 0, 100),
    }


def test_a_blackhole_that_replaces_a_route_ends_the_way_out() -> None:
    """``ip route replace blackhole default`` sends one message, and no deletion."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, BOTH)
    feed(table, netlink.RTM_NEWROUTE, BLACKHOLE, flags=netlink.NLM_F_REPLACE)
    assert ways(table) == set()


def test_a_replaced_blackhole_does_not_take_the_way_out_with_it() -> None:
    """Routes to nowhere take part in replacing: with one of them beside, only the kernel knows."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, BLACKHOLE)
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    relist(table, "inet", BLACKHOLE, DEFAULT)
    feed(table, netlink.RTM_NEWROUTE, OTHER, flags=netlink.NLM_F_REPLACE)
    assert table.wanted == {"inet"}
    relist(table, "inet", OTHER, DEFAULT)
    feed(table, netlink.RTM_DELROUTE, OTHER)
    assert ways(table) == {(2, "10.0.0.1")}


def test_an_ambiguous_replacement_is_settled_by_the_kernel() -> None:
    """An IPv6 replacement does not say which route it replaced, or whether it did."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT_6)
    feed(table, netlink.RTM_NEWROUTE, DEFAULT_6, flags=netlink.NLM_F_REPLACE)
    feed(table, netlink.RTM_NEWROUTE, rb.route(rb.ip(5, "fe80::2"), rb.u32(4, 3), family="inet6"))
    assert not table.wanted
    feed(
        table,
        netlink.RTM_NEWROUTE,
        rb.route(rb.ip(5, "fe80::3"), rb.u32(4, 3), family="inet6"),
        flags=netlink.NLM_F_REPLACE,
    )
    assert table.wanted == {"inet6"}


def test_a_second_ipv4_route_of_one_metric_casts_doubt_on_the_first() -> None:
    """The first may have vanished unannounced, so the kernel is asked."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    feed(table, netlink.RTM_NEWROUTE, OTHER)
    assert table.wanted == {"inet"}
    relist(table, "inet", OTHER)
    assert ways(table) == {(3, "10.1.0.1")}


def test_a_link_set_down_loses_its_routes_at_once() -> None:
    """The kernel flushes IPv4 routes of a downed link without a message, and keeps dead legs."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0", flags=0))
    assert ways(table) == set()
    assert not table.wanted


def test_a_leg_that_slept_is_asked_for_when_its_link_comes_up() -> None:
    """The leg of a multipath route dies and revives with its link, both unannounced."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, BOTH)
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0", flags=0))
    assert ways(table) == {(3, "10.1.0.1")}
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0"))
    assert table.wanted == {"inet"}
    relist(table, "inet", BOTH)
    assert ways(table) == {(2, "10.0.0.1"), (3, "10.1.0.1")}


def test_a_leg_listed_as_dead_is_asked_for_too() -> None:
    """The agent may start while a link is down."""
    table = ready()
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0", flags=0))
    table.wanted.add("inet")
    relist(table, "inet", rb.route(rb.attr(9, rb.hop(2, VIA_0, flags=1) + rb.hop(3, VIA_1))))
    assert ways(table) == {(3, "10.1.0.1")}
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0"))
    assert table.wanted == {"inet"}


def test_a_multipath_route_with_a_dead_leg_can_be_deleted() -> None:
    """The deletion names all legs, also those dropped here before."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, BOTH)
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0", flags=0))
    feed(table, netlink.RTM_DELROUTE, BOTH)
    assert ways(table) == set()


def test_a_deleted_address_casts_doubt_on_routes_over_its_link() -> None:
    """With the last address of a link its IPv4 routes vanish unannounced."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    feed(table, netlink.RTM_DELADDR, rb.address(3, "10.1.0.2", 24))
    assert not table.wanted
    feed(table, netlink.RTM_DELADDR, rb.address(2, "10.0.0.2", 24))
    assert table.wanted == {"inet"}
    relist(table, "inet")
    assert ways(table) == set()


def test_a_deleted_source_address_casts_doubt_on_its_routes() -> None:
    """Before Linux 6.6 routes that preferred the address as source vanished unannounced."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, rb.route(VIA_0, rb.u32(4, 2), rb.ip(7, "10.1.0.2")))
    feed(table, netlink.RTM_DELADDR, rb.address(3, "10.1.0.2", 24))
    assert table.wanted == {"inet"}


def test_an_address_on_a_sleeping_link_wakes_its_legs() -> None:
    """The first address of a link revives dead legs (fib_sync_up), unannounced."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, BOTH)
    feed(table, netlink.RTM_DELADDR, rb.address(2, "10.0.0.2", 24))
    relist(table, "inet", rb.route(rb.attr(9, rb.hop(2, VIA_0, flags=1) + rb.hop(3, VIA_1))))
    feed(table, netlink.RTM_NEWADDR, rb.address(2, "10.0.0.2", 24))
    assert table.wanted == {"inet"}


def test_a_deleted_nexthop_object_casts_doubt_on_routes_that_use_one() -> None:
    """IPv4 routes of a deleted object vanish unannounced; others are not asked for."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    feed(table, netlink.RTM_DELNEXTHOP, bytes(8))
    assert not table.wanted
    feed(
        table,
        netlink.RTM_NEWROUTE,
        rb.route(VIA_0, rb.u32(4, 2), rb.u32(30, 5)),
        flags=netlink.NLM_F_REPLACE,
    )
    feed(table, netlink.RTM_DELNEXTHOP, bytes(8))
    assert table.wanted == {"inet"}


def test_a_link_that_changes_its_master_casts_doubt_on_its_routes() -> None:
    """A link that joins a VRF loses its IPv4 routes unannounced."""
    table = ready()
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    feed(table, netlink.RTM_NEWLINK, rb.link(2, "eth0", rb.u32(10, 9)))
    assert table.wanted == {"inet"}


def test_a_change_during_a_listing_makes_it_wanted_again() -> None:
    """A listing may show an older state than an event that came before it."""
    table = ready()
    table.wanted.add("inet")
    assert table.begin() == "inet"
    feed(table, netlink.RTM_NEWROUTE, DEFAULT)
    assert table.wanted == {"inet"}
    assert ways(table) == {(2, "10.0.0.1")}


def test_a_new_watch_is_applied_at_the_next_view() -> None:
    """A reload of the configuration changes what is looked at."""
    table = ready()
    table.rewatch(Watch(ignored=frozenset({"eth1"})))
    assert set(table.view().links) == {2}


KINDS = st.sampled_from([16, 17, 20, 21, 24, 25, 104, 105, 77])


@given(st.lists(st.tuples(KINDS, st.binary(max_size=120), st.booleans()), max_size=8))
def test_any_messages_are_folded_or_malformed(fed: list[tuple[int, bytes, bool]]) -> None:
    """Whatever the bodies, folding raises nothing but Malformed and the view still works."""
    table = ready()
    for kind, body, listed in fed:
        try:
            feed(table, kind, body, listed=listed)
        except Malformed:
            continue
    assert set(table.view().links) <= set(table.links)
