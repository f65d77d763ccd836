"""What makes the classification quick changes nothing of what it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide.kernel_log import classify, head
from linkhold.decide.kernel_log import rules as r
from linkhold.model.kernel_log import LineClass

TABLE = (
    *r.group("t", r.LINK_DOWN, "m", "^link is down", "port 0 down", "synd 0x8:"),
    *r.group("t", r.NOTHING, "m", "access_reg(0x805)*failed", "^synd 0x0:"),
    *r.group("t", r.RESET, "m", "synd 0x", "reset*done$", "queue * timed out"),
    *r.group("t", r.DEGRADED, "m", "802.3ad", "down", "failed"),
)
WORDS = (
    "link is down", "port ", "0", "1", "8", "805", " down", "synd 0x", ":", "access_reg(0x", ") ",
    "failed", "reset", " done", "queue ", "timed out", "802.3ad", "\u0663", "\ud800", " ",
)  # fmt: skip


def one_by_one(text: str) -> r.Rule | None:
    """Return what a search from the table's start finds."""
    return next((rule for rule in TABLE if rule.fits(text)), None)


@given(st.lists(st.sampled_from(WORDS), max_size=8).map("".join))
def test_the_first_rule_of_the_table_decides(text: str) -> None:
    """Rules with and without digits, texts that differ in numbers only, odd characters too."""
    searched = r.Search(*TABLE)

    assert searched.first(text) is one_by_one(text)
    assert searched.first(text) is one_by_one(text)  # and when it is remembered


def test_numbers_that_a_rule_names_are_told_apart() -> None:
    """A remembered text speaks for others with other numbers, but not for a rule about numbers."""
    searched = r.Search(*TABLE)

    assert [searched.first(f"synd 0x{n}:") for n in (8, 0, 9, 8)] == [
        TABLE[2], TABLE[4], TABLE[5], TABLE[2],
    ]  # fmt: skip


def test_a_speaker_is_found_before_any_space() -> None:
    """The colon may be followed by a tab, or by nothing; without one nobody speaks."""
    told = classify("cxgb4 0000:02:00.4:\tPort 0 link down, reason: cable unplugged")
    silent = head.parse("igb 0000:01:00.0 eth0:")

    assert (told.cls, told.address) == (LineClass.LINK_DOWN, "0000:02:00.4")
    assert silent is not None
    assert (silent.driver, silent.interface, silent.text) == ("igb", "eth0", "")
    assert head.parse("igb 0000:01:00.0 eth0") is None


def test_what_is_remembered_is_not_taken_for_another_nic() -> None:
    """The same words of two cards are two findings, also of cards that share a beginning."""
    lines = [f"igb 0000:0{n}:00.0 eth{n}: igb: eth{n} NIC Link is Down" for n in (1, 2, 1)]
    found = [classify(line) for line in lines]

    assert [(one.interface, one.address) for one in found] == [
        ("eth1", "0000:01:00.0"), ("eth2", "0000:02:00.0"), ("eth1", "0000:01:00.0"),
    ]  # fmt: skip
