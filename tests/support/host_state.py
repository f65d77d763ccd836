"""A host's network as text, for "everything is as before": taken, renamed, compared, shown.

Links, addresses, rules, routes of all tables, nexthop objects, permanent neighbours, IPv6 tokens
and the sysctls of every interface, one line each. What counts or ticks by itself is left out:
interface indexes, statistics, ages, how much of a lifetime is left, duplicate address detection.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.topology import ip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

State = dict[str, list[str]]
"""Lines by part of the network; JSON, so that a scenario can return it."""

PARTS = {
    "links": ("-d", "link"),
    "addresses": ("address",),
    "rules 4": ("-4", "rule"),
    "rules 6": ("-6", "rule"),
    "routes 4": ("-4", "route", "show", "table", "all"),
    "routes 6": ("-6", "route", "show", "table", "all"),
    "nexthops": ("nexthop",),
    "neighbours": ("neighbour", "show", "nud", "permanent"),
    "tokens": ("token",),
}
COUNTERS = frozenset(
    {"ifindex", "link_index", "link_netnsid", "stats", "stats64", "age", "used", "users"}
    | {"tentative", "dadfailed", "optimistic", "link_failure_count", "ipaddr_failures"}
)
LIFETIMES = frozenset({"valid_life_time", "preferred_life_time", "expires"})
FOREVER = (1 << 32) - 1
SYSCTLS = ("net/ipv4/conf", "net/ipv6/conf", "net/ipv4/neigh", "net/ipv6/neigh")
# "all", "default", "lo" and the rails of support.furnish are nobody's to change: passed over.
DEPRECATED = frozenset({"base_reachable_time", "retrans_time"})
"""Other units of what other files hold; the kernel logs whoever reads them."""
KERNELS_OWN = re.compile(r"^table=local |^\S* *dst=(fe80::/64|ff00::/8) ")


def take(*, without: Iterable[str] = ()) -> State:
    """Return the network of this namespace; lines about the devices ``without`` are left out."""
    state = {part: list(_lines(part, json.loads(_asked(words)))) for part, words in PARTS.items()}
    state["sysctls"] = list(_sysctls())
    gone = [re.compile(rf"\b{re.escape(name)}\b") for name in without]
    return {
        part: [line for line in lines if not any(name.search(line) for name in gone)]
        for part, lines in state.items()
    }


def _asked(words: tuple[str, ...]) -> str:
    return ip("-j", *words) or "[]"


def _lines(part: str, objects: list[dict[str, Any]]) -> Iterator[str]:
    if part == "addresses":
        for link in objects:
            if link:
                yield from (f"{link['ifname']}: {_text(one)}" for one in link["addr_info"] if one)
        return
    lines = [_text(one) for one in objects if one]
    if part == "links":
        lines = [line for link in objects for line in _attributes(link["ifname"], link)]
        lines.sort()
    elif part.startswith("routes"):
        lines = [
            f"table={one.get('table', 'main')} {_text(one)}" for one in _without_copies(objects)
        ]
        # Only among routes to one destination does their order mean something, and not even
        # there for those that the kernel makes for each link.
        lines.sort(key=lambda line: (line.split(" ")[:2], line if KERNELS_OWN.match(line) else ""))
    elif part.startswith("rules"):
        lines.sort(key=lambda line: int(re.findall(r"priority=(\d+)", line)[0]))
    else:
        lines.sort()
    yield from lines


def _without_copies(routes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the routes with one default route for each router and NIC that advertises it.

    linkhold brings such a route along as a copy with another metric, which carries until the
    router advertises itself again, and then expires.
    """
    kept: list[dict[str, Any]] = []
    seen = set()
    for one in routes:
        if one.get("protocol") == "ra" and one["dst"] == "default":
            for hop in one.get("nexthops", [one]):
                key = (hop["dev"], hop["gateway"])
                if key not in seen:
                    kept.append({"dst": "default", "dev": key[0], "gateway": key[1], "by": "ra"})
                seen.add(key)
        else:
            kept.append(one)
    return kept


def _attributes(name: str, one: dict[str, Any]) -> Iterator[str]:
    """Yield each attribute of a link on a line of its own: there are fifty."""
    for key, value in one.items():
        if isinstance(value, dict):
            yield from _attributes(name, value)
        elif key not in COUNTERS:
            yield f"{name}: {key}={_value(key, value)}"


def _text(one: dict[str, Any]) -> str:
    first = ("dst", "ifname", "local")
    keys = sorted(one, key=lambda key: (key not in first, key))
    return " ".join(
        f"{key}={_value(key, one[key])}" for key in keys if key not in COUNTERS | {"table"}
    ) + (f" lookup={one['table']}" if "priority" in one else "")


def _value(key: str, value: Any) -> str:
    if key in LIFETIMES:
        return "forever" if value in {FOREVER, 0} else "limited"
    if isinstance(value, dict):
        return f"({_text(value)})"
    if isinstance(value, list):
        shown = [_text(v) if isinstance(v, dict) else str(v) for v in value]
        return f"[{', '.join(sorted(shown) if key == 'flags' else shown)}]"
    return str(value)


def _sysctls() -> Iterator[str]:
    for folder in SYSCTLS:
        for path in sorted(Path("/proc/sys", folder).glob("[!adlr]*/*")):
            if path.name in DEPRECATED:
                continue
            with suppress(OSError, UnicodeDecodeError):
                yield f"{folder.removeprefix('net/')}/{path.parent.name}/{path.name}={_read(path)}"


def _read(path: Path) -> str:
    return path.read_text().strip().replace("\t", " ")


def carried(state: State, device: str, *, members: Iterable[str] = ()) -> State:
    """Return what ``device`` carries, under the name DEVICE, and what hangs on no device.

    Equal for a NIC before the move and for the bond after it, whose ``members`` are left out:
    addresses, rules, routes that the kernel does not make for each link, nexthops, neighbours,
    token, sysctls, MTU and MAC.
    """
    name = re.compile(rf"(?<![\w.-]){re.escape(device)}(?![\w.-])")
    others = [re.compile(rf"\b{re.escape(m)}\b") for m in members if m != device]
    found: State = {}
    for part, lines in state.items():
        renamed = [name.sub("DEVICE", line) for line in lines]
        kept = [line for line in renamed if not any(other.search(line) for other in others)]
        if part == "links":
            kept = _ours(renamed, r"DEVICE: (address|mtu)=.*")
        elif part == "addresses":
            kept.sort(key=lambda line: line.partition(":")[0])
        elif part.startswith("routes"):
            kept = [line for line in kept if not KERNELS_OWN.match(line)]
        elif part == "sysctls":
            kept = _ours(kept, r".*/DEVICE/.*")
        found[part] = kept
    return found


def _ours(lines: list[str], pattern: str) -> list[str]:
    return [line for line in lines if re.match(pattern, line)]


def differences(before: State, after: State) -> list[str]:
    """Return the lines that are in one of the two alone, as ``part: -line`` and ``part: +line``."""
    return [
        f"{part}: {line}"
        for part in before
        for line in difflib.unified_diff(before[part], after[part], n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]


def wait_equal(
    before: State, *, timeout_s: float = 5.0, look: Callable[[], State] = take
) -> list[str]:
    """Wait until the network is as ``before`` (it settles: DAD); return what still differs."""
    end = time.monotonic() + timeout_s
    while (found := differences(before, look())) and time.monotonic() < end:
        time.sleep(0.1)
    return found
