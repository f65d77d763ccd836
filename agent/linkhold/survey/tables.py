"""How full the kernel's tables of neighbours and of connections are.

The limits of the neighbour tables are the host's (gc_thresh3 stands in its first network namespace
only, neigh_sysctl_register); entries are counted there for all namespaces together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.model.diagnosis_facts import Fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.look import Look
    from linkhold.survey.files import Reader

NOT_COUNTED = 0x40 | 0x80
"""NUD_NOARP and NUD_PERMANENT do not count against the limit (neigh_alloc)."""
FAMILIES = (("ipv4", "inet", "IPv4", "arp_cache"), ("ipv6", "inet6", "IPv6", "ndisc_cache"))
CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack"


def fills(reader: Reader, look: Look) -> Iterator[Fill]:
    """Yield each table whose limit can be read."""
    for folder, family, word, stat in FAMILIES:
        most = _number(reader, f"/proc/sys/net/{folder}/neigh/default/gc_thresh3")
        if most:
            own = sum(n.family == family and not n.state & NOT_COUNTED for n in look.neighbours)
            yield Fill(f"neighbours {word}", max(own, _everywhere(reader, stat)), most)
    count, most = _number(reader, f"{CONNTRACK}_count"), _number(reader, f"{CONNTRACK}_max")
    if count is not None and most:
        yield Fill("conntrack", count, most)


def _everywhere(reader: Reader, stat: str) -> int:
    """Return the entries of all namespaces, 0 while the table has never been full.

    One line a processor, numbers hexadecimal: entries first, ``table_fulls`` by its heading
    (neigh_stat_seq_show). Entries that are exempt are among them, so they prove nothing alone.
    """
    heads, *lines = (reader.text(f"/proc/net/stat/{stat}") or "\n").splitlines() or [""]
    names = heads.split()
    try:
        full = sum(int(line.split()[names.index("table_fulls")], 16) for line in lines)
        return int(lines[0].split()[0], 16) if full else 0
    except (IndexError, ValueError):
        return 0


def _number(reader: Reader, path: str) -> int | None:
    try:
        return int(reader.line(path))
    except ValueError:
        return None
