"""Which values of keepalive a node wants, and why.

Two aims, both to be met: the idle time stays at or below a third of the shortest limit on the way,
so that no middlebox forgets a connection even when two probes are lost; and connections live
through an outage of ``survive`` seconds, so that keepalive itself is not what ends them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.config.keepalive import Profile
from linkhold.model.keepalive import Timers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.config.keepalive import KeepaliveSettings

PROBES_MOST = 127
"""MAX_TCP_KEEPCNT: what a socket takes (include/net/tcp.h); the sysctl takes 255."""
DEFAULT = Timers(600, 60, 20)
NO_REMEDY = f"more than {PROBES_MOST} probes would be needed, which a socket does not take"
SHARE = 3
"""Two lost probes must not cost a connection its place in a middlebox."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Something on the way that forgets an idle connection after ``idle_s``."""

    idle_s: int
    what: str


@dataclass(frozen=True, slots=True)
class Known:
    """A place with known limits: the idle time that serves them all, and the shortest of them.

    Sources are the vendors' pages named in docs/keepalive.md.
    """

    time_s: int
    shortest: Limit


KNOWN: Mapping[Profile, Known] = {
    Profile.AWS: Known(110, Limit(350, "AWS NAT gateway, NLB, and Nitro v6 security groups")),
    Profile.AZURE: Known(75, Limit(240, "Azure load balancer and NAT gateway")),
    Profile.GCP: Known(60, Limit(600, "Google Cloud VPC firewall")),
    Profile.ALIBABA: Known(300, Limit(900, "Alibaba Cloud CLB")),
}
CLOUDS: Mapping[str, Profile] = {
    "Amazon EC2": Profile.AWS,
    "Microsoft Azure": Profile.AZURE,
    "Google Cloud": Profile.GCP,
    "Alibaba Cloud": Profile.ALIBABA,
}
"""Names that :mod:`linkhold.survey.cloud` gives."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The values of a profile, the profile that they are of, and the reasons for a person.

    ``limit`` is the shortest known limit on the way, None where none is known. ``warnings`` name
    an aim that these values break, with the figure.
    """

    timers: Timers
    profile: Profile
    limit: Limit | None
    why: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def wanted(settings: KeepaliveSettings, cloud: str) -> Wanted | None:
    """Return the values that ``settings`` mean on a node in ``cloud`` (empty: none found).

    None when keepalive is not to be managed.
    """
    if settings.profile is Profile.UNMANAGED:
        return None
    profile, why = _profile(settings, cloud)
    limit = _limit(settings, profile)
    if profile is Profile.CUSTOM:
        timers = Timers(settings.time_s, settings.interval_s, settings.probes)
        why = (*why, "time_s, interval_s and probes of the configuration")
    else:
        timers = _timers(profile, limit, settings.survive)
        why = (*why, *_reasons(timers, limit, settings.survive))
    return Wanted(timers, profile, limit, why, tuple(warnings(timers, limit, settings.survive)))


def warnings(timers: Timers, limit: Limit | None, survive_s: float) -> list[str]:
    """Return which of the two aims these values break, each with its figure."""
    found = []
    if limit is not None and timers.gap_s * SHARE > limit.idle_s:
        found.append(
            f"an idle connection is probed every {timers.gap_s} s, more than a third of the "
            f"{limit.idle_s} s after which {limit.what} forgets it; at most "
            f"{max(1, limit.idle_s // SHARE)} s are safe"
        )
    if timers.most_survived_s < survive_s:
        enough = probes_for(timers, survive_s)
        remedy = f"{enough} probes would do" if enough <= PROBES_MOST else NO_REMEDY
        found.append(
            f"keepalive itself ends an idle connection after {timers.most_survived_s} s "
            f"({timers.time_s} + {timers.interval_s} x {timers.probes}), less than the "
            f"{survive_s:g} s that it shall survive; {remedy}"
        )
    return found


def probes_for(timers: Timers, survive_s: float) -> int:
    """Return how many probes let every idle connection live through ``survive_s``."""
    return math.ceil(survive_s / timers.interval_s) + 1


def good_enough(present: Timers, want: Wanted, survive_s: float) -> bool:
    """Whether values that are there already meet both aims as well as the wanted ones do.

    Both ends count: many short probes after a long idle time have the same luckiest connection,
    and end the unlucky ones early.
    """
    least_s = min(survive_s, want.timers.least_survived_s)
    most_s = min(survive_s, want.timers.most_survived_s)
    survives = present.least_survived_s >= least_s and present.most_survived_s >= most_s
    return survives and present.gap_s <= want.timers.gap_s


def _profile(settings: KeepaliveSettings, cloud: str) -> tuple[Profile, tuple[str, ...]]:
    if settings.profile is not Profile.AUTO:
        return settings.profile, (f"profile {settings.profile.value} of the configuration",)
    found = CLOUDS.get(cloud)
    if found is not None:
        return found, (f"this is a machine of {cloud}",)
    if cloud:
        return Profile.DEFAULT, (f"this is a machine of {cloud}, of which no limits are known",)
    return Profile.DEFAULT, ("no cloud was found: bare metal",)


def _limit(settings: KeepaliveSettings, profile: Profile) -> Limit | None:
    limits = [KNOWN[profile].shortest] if profile in KNOWN else []
    if settings.middlebox_limit:
        limits.append(Limit(int(settings.middlebox_limit), "the middlebox of middlebox_limit"))
    return min(limits, key=lambda limit: limit.idle_s, default=None)


def _timers(profile: Profile, limit: Limit | None, survive_s: float) -> Timers:
    time_s = KNOWN[profile].time_s if profile in KNOWN else DEFAULT.time_s
    # More probes than a socket may have need longer pauses between them.
    interval_s = max(DEFAULT.interval_s, math.ceil(survive_s / (PROBES_MOST - 1)))
    if limit is not None:  # it comes first: a connection that is forgotten survives nothing
        time_s, interval_s = (max(1, min(s, limit.idle_s // SHARE)) for s in (time_s, interval_s))
    needed = min(PROBES_MOST, math.ceil(survive_s / interval_s) + 1)
    if profile is Profile.DEFAULT and survive_s <= DEFAULT.interval_s * DEFAULT.probes:
        needed = DEFAULT.probes
    return Timers(time_s, interval_s, max(needed, DEFAULT.probes))


def _reasons(timers: Timers, limit: Limit | None, survive_s: float) -> list[str]:
    reasons = []
    if limit is not None:
        reasons.append(
            f"an idle connection is forgotten after {limit.idle_s} s at the earliest, by "
            f"{limit.what}: a probe every {timers.gap_s} s keeps it known even when two are lost"
        )
    probes = f"{timers.probes} probes, {timers.interval_s} s apart,"
    if timers.least_survived_s >= survive_s:
        reasons.append(
            f"{probes} let idle connections live through the {survive_s:g} s of keepalive.survive"
        )
    elif timers.most_survived_s >= survive_s:
        reasons.append(
            f"{probes} let every idle connection live through {timers.least_survived_s} s and the "
            f"luckiest through {timers.most_survived_s} s; keepalive.survive is {survive_s:g} s"
        )
    else:
        reasons.append(f"{probes} are the most that a socket takes")
    return reasons
