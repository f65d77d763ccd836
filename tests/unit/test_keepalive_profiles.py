"""Which values of keepalive are wanted, and whether those that are there will do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.config.keepalive import KeepaliveSettings, Profile
from linkhold.decide.keepalive.profiles import (
    DEFAULT,
    KNOWN,
    PROBES_MOST,
    Wanted,
    good_enough,
    wanted,
)
from linkhold.model.keepalive import Timers

AUTO = KeepaliveSettings()
MANAGED = [one for one in Profile if one not in (Profile.UNMANAGED, Profile.CUSTOM)]


def want(settings: KeepaliveSettings, cloud: str = "") -> Wanted:
    """Return what is wanted, which is something."""
    found = wanted(settings, cloud)
    assert found is not None
    return found


def test_bare_metal_gets_the_default() -> None:
    """Where no cloud is found, auto is default: time 600, interval 60, probes 20."""
    assert want(AUTO).timers == DEFAULT == Timers(600, 60, 20)
    assert want(replace(AUTO, profile=Profile.DEFAULT), "Amazon EC2").timers == DEFAULT


@pytest.mark.parametrize(
    ("cloud", "profile"),
    [
        ("Amazon EC2", Profile.AWS),
        ("Microsoft Azure", Profile.AZURE),
        ("Google Cloud", Profile.GCP),
        ("Alibaba Cloud", Profile.ALIBABA),
        ("Hetzner Cloud", Profile.DEFAULT),
    ],
)
def test_auto_knows_the_cloud(cloud: str, profile: Profile) -> None:
    """Auto takes the profile of the cloud that the machine is of, and says so."""
    found = want(AUTO, cloud)

    assert found.profile is profile
    assert cloud in found.why[0]


@given(
    st.sampled_from(MANAGED),
    st.floats(10, 86400),
    st.one_of(st.just(0.0), st.floats(1, 864_000)),
    st.sampled_from(["", "Amazon EC2", "Google Cloud", "Vultr"]),
)
def test_every_profile_meets_both_aims(
    profile: Profile, survive_s: float, limit_s: float, cloud: str
) -> None:
    """Probes come within a third of the shortest limit; then connections survive what is asked."""
    settings = KeepaliveSettings(profile=profile, survive=survive_s, middlebox_limit=limit_s)
    found = want(settings, cloud)
    timers, limit = found.timers, found.limit

    assert 1 <= timers.probes <= PROBES_MOST
    if limit is not None and limit.idle_s >= 3:
        assert timers.gap_s * 3 <= limit.idle_s
    if timers.most_survived_s < survive_s:  # a limit too short for so few probes: it is said
        assert timers.probes == PROBES_MOST
        assert any("which a socket does not take" in text for text in found.warnings)


@given(st.sampled_from(sorted(KNOWN)), st.floats(10, 7200))
def test_a_known_cloud_survives_the_outage_whenever_it_begins(
    profile: Profile, survive_s: float
) -> None:
    """Also an outage that begins just before a probe was due."""
    timers = want(KeepaliveSettings(profile=profile, survive=survive_s)).timers

    assert timers.least_survived_s >= survive_s


def test_a_custom_profile_that_breaks_an_aim_is_warned_about_with_the_figure() -> None:
    """Google's own 60/60/5 ends idle connections after 360 s; 300 s of idle time are too many."""
    eager = KeepaliveSettings(profile=Profile.CUSTOM, time_s=60, interval_s=60, probes=5)
    lazy = KeepaliveSettings(profile=Profile.CUSTOM, time_s=300, middlebox_limit=350)

    assert "360 s" in want(eager).warnings[0]
    assert "21 probes would do" in want(eager).warnings[0]
    assert "at most 116 s" in want(lazy).warnings[0]
    assert len(want(eager).warnings) == len(want(lazy).warnings) == 1


def test_unmanaged_wants_nothing() -> None:
    """Hands off means no values at all."""
    assert wanted(replace(AUTO, profile=Profile.UNMANAGED), "Amazon EC2") is None


def test_values_that_are_as_good_or_better_will_do() -> None:
    """A shorter idle time with as long a life is no drift; a longer one, or a short life, is."""
    found = want(AUTO)

    assert good_enough(Timers(300, 75, 40), found, 1200)
    assert good_enough(found.timers, found, 1200)
    assert not good_enough(Timers(7200, 75, 9), found, 1200)
    assert not good_enough(Timers(60, 10, 6), found, 1200)
    # The luckiest connection lives as long as is asked, but the others half as long as wanted.
    assert not good_enough(Timers(600, 10, 60), found, 1200)


@pytest.mark.parametrize(
    ("survive_s", "limit_s", "said"),
    [
        (1140, 0, "live through the 1140 s of"),
        (1200, 0, "every idle connection live through 1140 s and the luckiest through 1800 s"),
        (86400, 60, "127 probes, 20 s apart, are the most that a socket takes"),
    ],
)
def test_reasons_promise_no_more_than_the_values_keep(
    survive_s: float, limit_s: float, said: str
) -> None:
    """What every connection survives, and what the luckiest do, are told apart."""
    asked = KeepaliveSettings(Profile.DEFAULT, survive=survive_s, middlebox_limit=limit_s)

    assert said in want(asked).why[-1]
