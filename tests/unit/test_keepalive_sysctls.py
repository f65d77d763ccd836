"""What is written into a network namespace, and when linkhold stops writing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linkhold.config.keepalive import BusySettings, KeepaliveSettings, Profile
from linkhold.decide.keepalive.sysctls import (
    BUSY,
    FORGET_NS,
    IDLE,
    Memory,
    Rules,
    differing,
    look,
    rules_of,
    written,
)

KERNEL = dict(zip((*IDLE, *BUSY), (7200, 75, 9, 15, 120_000, 6), strict=True))
WANTED = dict(zip(IDLE, (600, 60, 20), strict=True))


def rules(*, enforce: bool = True, **busy: int) -> Rules:
    """Return the rules of bare metal."""
    settings = KeepaliveSettings(profile=Profile.DEFAULT, busy=BusySettings(**busy))
    return rules_of(settings, "", enforce=enforce)


def test_the_kernels_defaults_are_replaced() -> None:
    """What the kernel starts with is too late for a middlebox and is written over."""
    decided = look(rules(), Memory(), KERNEL, 0)

    assert dict(decided.write) == WANTED
    assert [one.news for one in decided.differences] == [True] * 3
    assert not decided.enough


def test_observe_writes_nothing_and_tells_once() -> None:
    """In mode observe each difference is news once, and again when it changes."""
    first = look(rules(enforce=False), Memory(), KERNEL, 0)
    second = look(rules(enforce=False), first.memory, KERNEL, 1)
    third = look(rules(enforce=False), second.memory, {**KERNEL, IDLE[0]: 9000}, 2)

    assert not first.write
    assert not any(one.news for one in second.differences)
    assert [one.key for one in third.differences if one.news] == [IDLE[0]]


def test_a_value_changed_back_twice_ends_in_a_conflict() -> None:
    """Linkhold writes, is undone, writes again, is undone: it stops, and says so once."""
    decided = look(rules(), Memory(), KERNEL, 0)
    decided = look(rules(), decided.memory, KERNEL, 1)
    assert dict(decided.write) == WANTED
    decided = look(rules(), decided.memory, KERNEL, 2)

    assert not decided.write
    assert all(one.new_conflict for one in decided.differences)
    again = look(rules(), decided.memory, KERNEL, 3)
    assert not again.write
    assert all(one.conflict and not one.new_conflict for one in again.differences)
    # Who writes other values all the time makes no event of each.
    other = look(rules(), again.memory, {**KERNEL, IDLE[0]: 7201}, 4)
    assert not any(one.news for one in other.differences)


def test_a_conflict_ends_when_the_value_is_right() -> None:
    """Whoever makes it right ends the conflict: the next drift is repaired again."""
    memory = Memory()
    for now_ns in range(3):
        memory = look(rules(), memory, KERNEL, now_ns).memory
    memory = look(rules(), memory, {**KERNEL, **WANTED}, 4).memory

    assert dict(look(rules(), memory, KERNEL, 5).write) == WANTED


def test_one_change_in_an_hour_is_no_fight() -> None:
    """Somebody who runs sysctl --system now and then is repaired each time."""
    memory = Memory()
    for hour in range(1, 9):
        decided = look(rules(), memory, KERNEL, hour * (FORGET_NS + 1))
        assert dict(decided.write) == WANTED
        memory = decided.memory


def test_a_write_that_failed_is_not_somebody_elses_doing() -> None:
    """A read-only /proc/sys never becomes a conflict, and is tried again."""
    memory = Memory()
    for now_ns in range(5):
        decided = look(rules(), memory, KERNEL, now_ns)
        assert dict(decided.write) == WANTED
        memory = written(decided.memory, decided.write, "read-only")
    assert memory.error == "read-only"
    assert written(memory, WANTED, "").error == ""


def test_busy_values_are_left_alone_where_they_are_better_or_the_kernel_has_none() -> None:
    """More retries and a shorter longest pause are better; a key that is not there is passed."""
    asked = rules(tcp_retries2=100, tcp_rto_max_ms=2000)
    present = {**KERNEL, **WANTED}

    assert differing(asked, present) == {"tcp_retries2": 100, "tcp_rto_max_ms": 2000}
    assert differing(asked, {**present, "tcp_retries2": 255, "tcp_rto_max_ms": 1000}) == {}
    old = {key: value for key, value in present.items() if key != "tcp_rto_max_ms"}
    assert differing(asked, old) == {"tcp_retries2": 100}
    assert differing(rules(), present) == {}


@given(st.dictionaries(st.sampled_from((*IDLE, *BUSY)), st.integers(0, 40_000)), st.booleans())
def test_what_is_written_is_never_wanted_again(values: dict[str, int], enforce: bool) -> None:  # noqa: FBT001
    """After a write that worked nothing differs; keys that are not there are never written."""
    asked = rules(enforce=enforce, tcp_retries2=30)
    decided = look(asked, Memory(), values, 0)

    assert set(decided.write) <= set(values)
    after = {**values, **differing(asked, values)}
    assert differing(asked, after) == {}
    assert not decided.write or enforce
