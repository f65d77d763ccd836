"""The verdict on one connection, from the timer that inet_diag shows. Pure.

SO_KEEPALIVE itself is not exported. It shows in the timer: an established socket that has it
always has the keepalive timer armed (tcp_set_keepalive, tcp_keepalive_timer), and one without it
never has. While data is in flight the retransmission timer is shown in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.model.keepalive import Verdict

if TYPE_CHECKING:
    from linkhold.model.keepalive import Connection

NO_TIMER, KEEPALIVE = 0, 2
TIMERS = {
    NO_TIMER: "none",
    1: "retransmission",
    KEEPALIVE: "keepalive",
    3: "time_wait",
    4: "zero_window",
}
ROUNDING_MS = 50
"""A timer armed a moment ago may show some ticks more than its value (CONFIG_HZ=100, slack)."""


def verdict(connection: Connection, wanted_s: int | None) -> Verdict:
    """Return what keepalive does for a connection when ``wanted_s`` is the idle time to have.

    None asks for no certain time. What a timer was armed with is not exported, only what is left
    of it: one with more left than ``wanted_s`` was armed with more, for sure. One with less
    probes in time, and takes the present value after that.
    """
    if connection.timer == KEEPALIVE:
        late = wanted_s is not None and connection.timer_ms > wanted_s * 1000 + ROUNDING_MS
        return Verdict.STALE if late else Verdict.PROTECTED
    return Verdict.UNPROTECTED if connection.timer == NO_TIMER else Verdict.BUSY


def limit_s(profile_s: int | None, present_s: int | None) -> int | None:
    """Return the idle time that a socket of a namespace should have at most.

    ``profile_s`` is what the configuration wants, None where keepalive is not managed;
    ``present_s`` is the namespace's own tcp_keepalive_time, None where it could not be read. The
    shorter counts: more than the profile's is too late for a middlebox, and more than the
    namespace's was armed before it was set.
    """
    return min((one for one in (profile_s, present_s) if one is not None), default=None)


def timer_name(connection: Connection) -> str:
    """Return the name of the timer that runs; a number for one that is not known."""
    return TIMERS.get(connection.timer, str(connection.timer))
