"""Folds rtnetlink messages into a picture of the host's network. Pure: no socket, no clock.

What the kernel does not say
----------------------------
IPv4 routes vanish and come back without a message (checked on Linux 6.18, sources of 6.12):

* a link goes administratively down: fib_disable_ip -> fib_sync_down_dev -> fib_flush
  (net/ipv4/fib_frontend.c, fib_semantics.c); a multipath route stays with a dead leg. IPv6
  announces single routes, unless net.ipv6.route.skip_notify_on_dev_down is set, but not dead legs
  (fib6_ifdown, net/ipv6/route.c);
* the link comes up: dead legs live again (fib_sync_up, rt6_sync_up);
* the last IPv4 address of a link is deleted: fib_disable_ip again (fib_inetaddr_event); the
  first one added revives dead legs;
* an address is deleted that routes prefer as source: fib_sync_down_addr; announced since
  Linux 6.6 (fib_info.pfsrc_removed), silent before;
* a nexthop object is deleted (__remove_nexthop_fib -> fib_flush) or changed within a group;
* a link joins a VRF: fib_disable_ip (NETDEV_CHANGEUPPER).

Hence: legs over a link that goes down or away are dropped at once, and where only the kernel can
know what is left, the routes of that family are ``wanted``: the sensor lists them again. That
happens only for links that carry a default route, so container churn never causes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from linkhold.decide.watch import Watch, is_watched, watched
from linkhold.model import Address, HostNetwork, Link
from linkhold.rtnl import framing as netlink
from linkhold.sensors.link_codec import (
    Route,
    decode_address,
    decode_link,
    decode_routes,
    link_index,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkhold.rtnl.framing import Message

ROUTES = ("inet", "inet6")
SECTIONS = ("links", "addresses", *ROUTES)

Details: TypeAlias = tuple[str, int | None, bool]
NO_DETAILS: Details = ("", None, False)


class RouteSet:
    """Default routes under the kernel's rules for adding, replacing and deleting."""

    def __init__(self, known: Iterable[Route] = ()) -> None:
        self.known = set(known)

    def add(self, found: tuple[Route, ...], *, replaced: bool) -> bool:
        """Take a new route; return whether only the kernel can tell what it left of the others.

        A replacement names the new route only, and for IPv6 may have replaced nothing
        (fib6_add_rt2node looks for a route that qualifies for multipath as the new one does). An
        IPv4 route next to one with the same metric is rare (``ip route append``); more often the
        old one vanished unnoticed.
        """
        ipv4 = found[0].family == "inet"
        rivals = {route for route in self.known if route.same_slot(found[0])} - set(found)
        if ipv4 and replaced and len(rivals) == 1:
            self.known -= rivals
            rivals = set()
        self.known.update(found)
        return bool(rivals) and (ipv4 or replaced)

    def remove(self, found: tuple[Route, ...]) -> bool:
        """Drop a deleted route, dead legs or not; return whether only the kernel can tell which.

        IPv6 announces deletions of routes that were dropped before with their link.
        """
        rivals: set[Route] = set()
        for gone in found:
            same = {route for route in self.known if route.same_slot(gone)}
            meant = {route for route in same if route.matches(gone)}
            self.known -= meant
            rivals |= set() if meant else same
        return bool(rivals) and found[0].family == "inet"

    def over(self, index: int) -> set[Route]:
        """Return the routes with a live leg over link ``index``."""
        return {route for route in self.known if any(leg.index == index for leg in route.legs)}

    def drop_over(self, index: int) -> set[str]:
        """Let the legs over ``index`` die; return the families that this touched."""
        hit = self.over(index)
        left = (route.without(index) for route in hit)
        self.known = (self.known - hit) | {route for route in left if route.legs}
        return {route.family for route in hit}


class Table:
    """Links, addresses and default routes of the host, as far as the messages told.

    ``wanted`` are the sections that must be listed (again); ``asked`` the one being listed.
    ``details`` is what was asked for per link: driver, speed in Mbit/s, and whether it is a virtual
    function. ``led`` are links that are looked at because they carried a default route before.
    ``changed`` says that more than single watched links may differ since the last :meth:`view`.
    """

    def __init__(
        self, watch: Watch, details: dict[int, Details] | None = None, led: Iterable[int] = ()
    ) -> None:
        self.watch = watch
        self.details = {} if details is None else details
        self.links: dict[int, Link] = {}
        self.addresses: dict[int, dict[tuple[str, str, int], Address]] = {}
        self.routes = RouteSet()
        self.wanted = set(SECTIONS)
        self.asked = ""
        self.changed = True
        self._watched: frozenset[int] = frozenset()
        self.led = set(led)
        self._seen: HostNetwork | None = None
        self._touched: set[int] = set()
        self._listed = RouteSet()
        self._listing = False
        # Family and link of legs that are dead or were dropped, and may come back silently.
        self._sleeping: set[tuple[str, int]] = set()
        self._handlers: dict[int, Callable[[bytes, Message], None]] = {
            netlink.RTM_NEWLINK: self._new_link,
            netlink.RTM_DELLINK: self._del_link,
            netlink.RTM_NEWADDR: self._new_address,
            netlink.RTM_DELADDR: self._del_address,
            netlink.RTM_NEWROUTE: self._new_route,
            netlink.RTM_DELROUTE: self._del_route,
            netlink.RTM_NEWNEXTHOP: lambda _data, _message: self._doubt_objects(),
            netlink.RTM_DELNEXTHOP: lambda _data, _message: self._doubt_objects(),
        }

    def rewatch(self, watch: Watch) -> None:
        """Look at other interfaces from the next :meth:`view` on."""
        self.watch, self.changed = watch, True

    def begin(self) -> str:
        """Start to list the next wanted section and return its name, empty for none.

        Links are wanted in a new table only, and addresses likewise.
        """
        self.asked = next((name for name in SECTIONS if name in self.wanted), "")
        self.wanted.discard(self.asked)
        self._listed = RouteSet()
        if self.asked == "links":
            self.links.clear()
        elif self.asked == "addresses":
            self.addresses.clear()
        return self.asked

    def finish(self, *, again: bool) -> None:
        """End the listing: take it, or throw it away and want it ``again``."""
        family, self.asked = self.asked, ""
        if again:
            self.wanted.add(family)
            return
        self.wanted.discard(family)
        if family in ROUTES:
            self._take_routes(family)

    def _take_routes(self, family: str) -> None:
        others = {route for route in self.routes.known if route.family != family}
        self.routes = RouteSet(others | self._listed.known)
        dead = {(family, leg.index) for route in self._listed.known for leg in route.dead}
        self._sleeping = {pair for pair in self._sleeping if pair[0] != family} | dead
        self.changed = True

    def fold(self, data: bytes, message: Message, *, listed: bool) -> bool:
        """Take one message; return whether it is of a kind that is used here.

        ``listed``: it is part of the section that is being listed. Raises Malformed.
        """
        handler = self._handlers.get(message.kind)
        if handler is None:
            return False
        self._listing = listed
        handler(data, message)
        return True

    def view(self) -> HostNetwork:
        """Return the watched part, in fresh containers that nobody changes later."""
        touched, self._touched, seen = self._touched, set(), self._seen
        if self.changed or seen is None:
            self._seen = self._whole_view()
        elif touched:  # by far the most frequent: a watched link, and nothing else
            links = {**seen.links, **{index: self.links[index] for index in touched}}
            self._seen = HostNetwork(links, seen.addresses, seen.routes)
        self.changed = False
        return self._seen or HostNetwork()

    @property
    def news(self) -> bool:
        """Whether something that is watched may differ since the last :meth:`view`."""
        return self.changed or bool(self._touched)

    def _whole_view(self) -> HostNetwork:
        routes = [one for route in self.routes.known for one in route.default_routes()]
        self._watched = watched(self.links, routes, self.watch, self.led)
        self.led |= {route.index for route in routes}
        return HostNetwork(
            links={index: self.links[index] for index in sorted(self._watched)},
            addresses=frozenset(
                address
                for index in self._watched
                for address in self.addresses.get(index, {}).values()
            ),
            routes=frozenset(route for route in routes if route.index in self._watched),
        )

    def detail(self, index: int, driver: str, speed_mbps: int | None, *, vf: bool = False) -> bool:
        """Keep what was found about a link; return whether that is news."""
        link = self.links.get(index)
        if link is None or self.details.get(index, NO_DETAILS) == (driver, speed_mbps, vf):
            return False
        self.details[index] = (driver, speed_mbps, vf)
        self.links[index] = replace(link, driver=driver, speed_mbps=speed_mbps, vf=vf)
        self.changed = self.changed or index in self._watched
        return True

    def prune(self) -> None:
        """Forget what is known of links that are gone."""
        self.led &= self.links.keys()
        for index in self.details.keys() - self.links.keys():
            del self.details[index]

    def _matters(self, link: Link) -> bool:
        if link.index in self._watched:
            return True
        routed = {leg.index for route in self.routes.known for leg in route.legs}
        return is_watched(link, self.links, routed | self.led, self.watch)

    def _new_link(self, data: bytes, message: Message) -> None:
        family, index = link_index(data, message.start, message.end)
        if family:
            return
        details = self.details.get(index, NO_DETAILS)
        link = decode_link(data, message.start, message.end, *details)
        old = self.links.get(index)
        if link is None or link == old:
            return
        self.links[index] = link
        if old is not None and index in self._watched and _same_place(old, link):
            self._touched.add(index)
        else:
            self.changed = self.changed or self._matters(link)
        if old is not None and not self._listing:
            self._follow(old, link)

    def _follow(self, old: Link, new: Link) -> None:
        """Apply what the kernel does to routes, unannounced, when a link changes."""
        if old.admin_up and not new.admin_up:
            self._lose_legs(new.index)
        if new.admin_up and not old.admin_up:
            self.wanted.update(family for family, index in self._sleeping if index == new.index)
        if old.admin_up != new.admin_up and self.asked in ROUTES:
            self.wanted.add(self.asked)
        if old.master != new.master:
            self.wanted.update(route.family for route in self.routes.over(new.index))

    def _lose_legs(self, index: int) -> None:
        families = self.routes.drop_over(index)
        self._sleeping.update((family, index) for family in families)
        self.changed = self.changed or bool(families)

    def _del_link(self, data: bytes, message: Message) -> None:
        family, index = link_index(data, message.start, message.end)
        if family or index not in self.links:
            return
        self._lose_legs(index)
        self._sleeping = {pair for pair in self._sleeping if pair[1] != index}
        self.changed = self.changed or index in self._watched
        self.led.discard(index)
        del self.links[index]
        self.addresses.pop(index, None)
        self.details.pop(index, None)

    def _new_address(self, data: bytes, message: Message) -> None:
        address = decode_address(data, message.start, message.end)
        if address is None:
            return
        own = self.addresses.setdefault(address.index, {})
        key = (address.family, address.address, address.prefix_len)
        if own.get(key) == address:
            return
        own[key] = address
        if not self._listing and (address.family, address.index) in self._sleeping:
            self.wanted.add(address.family)
        self._note_address(address)

    def _del_address(self, data: bytes, message: Message) -> None:
        address = decode_address(data, message.start, message.end)
        if address is None:
            return
        own = self.addresses.get(address.index, {})
        own.pop((address.family, address.address, address.prefix_len), None)
        if any(
            route.family == address.family and route.source == address.address
            for route in self.routes.known
        ):
            self.wanted.add(address.family)
        over = self.routes.over(address.index)
        self.wanted.update(route.family for route in over if route.family == address.family)
        self._note_address(address)

    def _note_address(self, address: Address) -> None:
        """Without RTNL a listing may show an older state after the event: list again."""
        self.changed = self.changed or address.index in self._watched
        if not self._listing and self.asked == "addresses":
            self.wanted.add("addresses")

    def _new_route(self, data: bytes, message: Message) -> None:
        found = decode_routes(data, message.start, message.end)
        if not found:
            return
        if self._listing:
            self._listed.add(found, replaced=False)
            return
        replaced = bool(message.flags & netlink.NLM_F_REPLACE)
        if self.routes.add(found, replaced=replaced):
            self.wanted.add(found[0].family)
        self._sleeping.update((route.family, leg.index) for route in found for leg in route.dead)
        self._note_route(found[0].family)

    def _del_route(self, data: bytes, message: Message) -> None:
        found = decode_routes(data, message.start, message.end)
        if not found:
            return
        if self.routes.remove(found):
            self.wanted.add(found[0].family)
        self._note_route(found[0].family)

    def _note_route(self, family: str) -> None:
        self.changed = True
        if self.asked == family:
            self.wanted.add(family)

    def _doubt_objects(self) -> None:
        self.wanted.update(route.family for route in self.routes.known if route.nexthop_id)


def _same_place(old: Link, new: Link) -> bool:
    """Tell whether nothing changed by which it is decided what is watched."""
    return (old.name, old.kind, old.master) == (new.name, new.kind, new.master)
