"""Rules about the card itself: errors that grow while one looks, and lost PCIe lanes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.model.diagnosis import Place, State, Sure, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.diagnosis_facts import Card, Counted, Facts

# struct rtnl_link_stats64 (linux/if_link.h): what each kind of error means.
WIRE = ("rx_crc_errors", "rx_frame_errors", "rx_length_errors", "tx_carrier_errors")
HOST = ("rx_missed_errors", "rx_fifo_errors", "rx_over_errors")
CARD = ("tx_aborted_errors", "tx_fifo_errors", "tx_heartbeat_errors", "tx_window_errors")
OTHER = ("rx_errors", "tx_errors")


def growing_errors(facts: Facts) -> Iterator[Verdict]:
    """Errors that grew during the run; old ones are evidence, and no fault of now."""
    for counted in facts.counters or ():
        for names, place, sure, why in (
            (WIRE, Place.CABLE, Sure.LIKELY,
             "an oxidised contact, a bent fibre, a bad cable or transceiver"),
            (HOST, Place.HOST, Sure.LIKELY,
             "this host takes packets too slowly (ring too small, processor busy)"),
            (CARD, Place.NIC, Sure.GUESS, "the card cannot send what it is given"),
            (OTHER, Place.NIC, Sure.GUESS, "the card or the cable"),
        ):  # fmt: skip
            grown = {name: counted.grown(name) for name in names if counted.grown(name)}
            if grown:
                yield _growing(counted, grown, place, sure, why)
                break


def _growing(
    counted: Counted, grown: dict[str, int], place: Place, sure: Sure, why: str
) -> Verdict:
    what = ", ".join(f"{name} +{count}" for name, count in grown.items())
    text = f"errors of {counted.link} grow ({what} in {counted.seconds:.1f} s): {why}"
    return Verdict(State.DEGRADED, place, sure, text, (
        f"ip -s -s link show {counted.link}", f"ethtool -S {counted.link}",
        f"ethtool -m {counted.link}" if place is Place.CABLE else f"ethtool -g {counted.link}",
    ))  # fmt: skip


def narrow_slot(facts: Facts) -> Iterator[Verdict]:
    """A card that runs narrower or slower than both it and its slot can: a bad seat or riser.

    One in a slot that can no more is how the machine was built. Slower alone may be power saving.
    """
    for card in facts.cards or ():
        width = min(card.width_most, card.slot_width_most or card.width_most)
        if not 0 < card.width < width:
            continue
        text = (
            f"{card.link} runs with {card.width} of {width} PCIe lanes that card and slot have: "
            "it is not well seated, or the riser or slot is bad"
        )
        yield Verdict(State.DEGRADED, Place.NIC, Sure.LIKELY, text, (
            "lspci -vv | grep -e Ethernet -e LnkSta -e LnkCap",
            f"ethtool -i {card.link}", "dmesg | grep -i pcie",
        ))  # fmt: skip


def pcie(card: Card) -> str:
    """Return the PCIe link of a card in words, empty where nothing is known."""
    if not card.width:
        return ""
    most = f" of {card.width_most}" if card.width_most else ""
    speed = (
        f", {card.speed:g} of {card.speed_most:g} GT/s" if card.speed and card.speed_most else ""
    )
    return f"PCIe {card.width}{most} lanes{speed}"
