"""Options of a bond as people read them, in the words of the files in sysfs. Pure."""

from __future__ import annotations

WORDS = {
    "mode": ("balance-rr", "active-backup"),
    "primary_reselect": ("always", "better", "failure"),
    "fail_over_mac": ("none", "active", "follow"),
}
"""linux/if_bonding.h, as the files in sysfs spell them."""
IN_MS = frozenset({"miimon", "updelay", "downdelay", "peer_notif_delay", "arp_interval"})


def of(option: str, value: object) -> str:
    """Return the value of an option: a word for a number that has one, milliseconds with unit."""
    words = WORDS.get(option)
    if words is not None and isinstance(value, int) and value < len(words):
        return words[value]
    if option in IN_MS:
        return f"{value} ms"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or "none"
    return str(value) if value != "" else "none"
