"""What counts when some are silent, when a broker repeats old words, and when an end is ordered."""

from __future__ import annotations

import errno

import pytest

from linkhold.decide.power import Rules
from linkhold.decide.power.reports import of_status
from linkhold.decide.power.source import FORCED_S
from linkhold.model.power_sources import SensorMessage
from linkhold.sensors.nut import _why
from support.power_place import BATTERY, LOW, OK, SECOND, SENSORS, UNKNOWN, UPS, Place, one


def left_s(place: Place) -> float:
    """Return the seconds until the deadline."""
    assert place.outcome is not None
    assert place.outcome.view.deadline is not None
    return (place.outcome.view.deadline.at.mono_ns - place.now_ns) / SECOND


def test_a_sensor_tells_of_mains_while_the_ups_is_silent() -> None:
    """Mains are there, and people hear that nothing is known of the UPS; nobody heard: unknown."""
    place = Place(Rules((UPS, *SENSORS)))
    place.ups("OL")
    place.esp(b"1")
    for _ in range(4):
        place.sleep(30)
        place.esp(b"1")

    assert place.sleep(1) is OK
    assert place.outcome is not None
    assert place.outcome.view.degraded == ("ups1: tells nothing",)
    assert place.sleep(120) is UNKNOWN


def test_a_sensor_ends_no_outage_of_a_ups_that_fell_silent_in_it() -> None:
    """On battery and then silent stays on battery, whatever a sensor of mains says (nut#2454)."""
    place = Place(Rules((UPS, *SENSORS)))
    place.esp(b"1")
    place.ups("OB DISCHRG")
    for _ in range(10):
        place.sleep(30)
        place.esp(b"1")

    assert place.sleep(1) is BATTERY


@pytest.mark.parametrize(("repeated", "certain"), [(b"1", False), (b"0", True)])
def test_what_changed_while_nobody_listened_is_not_certain(repeated: bytes, certain: bool) -> None:  # noqa: FBT001
    """A retained 0 after a live 1 may be hours old; after a live 0 it says the same."""
    place = Place(Rules(SENSORS))
    for number in (1, 2):
        place.esp(repeated, number)
        place.sleep(2)
    for number in (1, 2):
        place.esp(b"0", number, retained=True)

    assert place.sleep(2) is BATTERY
    assert place.outcome is not None
    assert place.outcome.power.confirmed is certain
    place.esp(b"0", 1)
    place.esp(b"0", 2)
    place.sleep(2)
    assert place.outcome.power.confirmed is True


def will(place: Place, word: bytes, *, retained: bool = True) -> None:
    """Hear the will of the first sensor."""
    place.take(of_status("esp1", SensorMessage("rack/status", word, retained)))


@pytest.mark.parametrize("will_first", [True, False])
def test_what_a_dead_sensor_left_on_the_broker_is_nobodys_word(will_first: bool) -> None:  # noqa: FBT001
    """A retained will that says offline, and a retained 0: unknown, in whatever order they come."""
    place = Place(Rules(SENSORS))
    for turn in (will_first, not will_first):
        will(place, b"offline") if turn else place.esp(b"0", retained=True)

    assert place.sleep(60) is UNKNOWN
    assert "mains_lost" not in place.news
    will(place, b"online")
    place.esp(b"0", retained=True)
    assert place.sleep(2) is BATTERY


def test_a_sensor_that_dies_right_after_its_word_is_believed() -> None:
    """A live 0 and then its will: the outage took its access point, and the word stands."""
    place = Place(Rules(SENSORS))
    place.esp(b"1")
    place.sleep(5)
    place.esp(b"0")
    place.sleep(0.5)
    will(place, b"offline", retained=False)

    assert place.sleep(5) is BATTERY


def test_a_forced_shutdown_leaves_less_than_the_battery() -> None:
    """FSD counts from its first word, by NUT's own times; a battery that ends sooner wins."""
    place = one()
    assert place.ups("OL FSD", charge=100.0, runtime_s=1800.0) is LOW
    assert left_s(place) == pytest.approx(FORCED_S)
    place.sleep(9)
    place.ups("OL FSD", charge=100.0, runtime_s=1800.0)
    assert left_s(place) == pytest.approx(FORCED_S - 9)
    place.ups("OB LB FSD", charge=1.0, runtime_s=12.0)
    assert left_s(place) == pytest.approx(12)
    place.ups("OB LB", charge=1.0, runtime_s=120.0)
    assert left_s(place) == pytest.approx(120)


def test_an_order_that_ended_nothing_still_stands() -> None:
    """After its time FSD is low and forced as before; the deadline is the battery's again."""
    place = one()
    place.ups("OL FSD", charge=100.0, runtime_s=1800.0)
    for _ in range(5):
        place.sleep(9)
        place.ups("OL FSD", charge=100.0, runtime_s=1800.0)

    assert place.outcome is not None
    assert place.outcome.power.forced_shutdown
    assert left_s(place) == pytest.approx(1800)


def test_a_silent_source_shows_what_it_said_last() -> None:
    """Its old word does not stand there as if it still counted."""
    place = Place(Rules(SENSORS))
    place.esp(b"1")
    place.sleep(200)

    assert place.outcome is not None
    details = [one.detail for one in place.outcome.view.sources]
    assert details[0].startswith("silent; the last word was: ")
    assert details[1] == "not heard of yet"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)"),
         "Connection refused"),
        (OSError(-2, "Name or service not known"), "Name or service not known"),
        (EOFError(), "closed the connection"),
        (ValueError("a list without end"), "a list without end"),
    ],
)  # fmt: skip
def test_people_read_no_errno(error: Exception, text: str) -> None:
    """A failure is told in the system's words, once."""
    assert _why(error) == text
