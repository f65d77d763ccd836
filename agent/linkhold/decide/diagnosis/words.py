"""Words that several rules use. Pure."""

from __future__ import annotations

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def age(seconds: float) -> str:
    """Return a time in its largest unit: ``40 s``, ``14 min``, ``2 h``, ``3 d``."""
    whole = max(0, round(seconds))
    for size, name in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if whole >= size:
            return f"{whole // size} {name}"
    return f"{whole} s"


def listed(names: tuple[str, ...], most: int = 3) -> str:
    """Return names with commas; of many the first ones and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def together(names: tuple[str, ...], most: int = 3) -> str:
    """Return names as a sentence has them: ``eth0 and eth1``; of many the first ones."""
    if len(names) > most:
        return listed(names, most)
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def asking(link: str, address: str) -> str:
    """Return the command that asks for an address on a link: by ARP, or neighbour discovery."""
    if ":" in address:
        return f"ndisc6 {address} {link}"
    return f"arping -c 3 -I {link} {address}"
