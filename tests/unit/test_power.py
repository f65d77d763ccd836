"""Power sources: known false alarms, several supplies, sensors that vote."""

from __future__ import annotations

from typing import Any

from linkhold.decide.power import Rules
from linkhold.decide.power.reports import of_message, of_supplies, of_ups
from linkhold.decide.power.values import SourceRules
from linkhold.model.power_sources import Dialect, SensorMessage, SourceKind, Supply, UpsReport
from linkhold.sensors.nut import _report
from support.power_place import (
    BATTERY,
    LOW,
    OK,
    SECOND,
    SENSORS,
    UNKNOWN,
    UPS,
    UPS2,
    Place,
    one,
)


def test_a_real_loss_counts_at_once_and_its_end_after_half_a_minute() -> None:
    """OB tells power.mains_lost in the same step; power.restored waits for 30 s of mains."""
    place = one()
    place.ups("OL")
    assert place.ups("OB DISCHRG", runtime_s=600.0, charge=90.0) is BATTERY
    assert place.news == ["mains_lost"]
    assert place.data["mains_lost"]["runtime_s"] == 600.0

    assert place.ups("OL CHRG") is OK
    for _ in range(9):
        place.sleep(3)
        place.ups("OL CHRG")
    assert place.news == ["mains_lost"]
    place.sleep(3)
    assert place.news == ["mains_lost", "restored"]


def test_a_node_that_starts_on_battery_says_so() -> None:
    """The first word is a state and an event, marked initial (R51)."""
    place = one()
    place.ups("OB DISCHRG")

    assert place.news == ["mains_lost"]
    assert place.data["mains_lost"]["initial"] is True


def test_low_battery_that_its_charge_contradicts_waits() -> None:
    """LB in the first second at 97 % is battery for 5 s; then low, counted by the runtime (R46)."""
    place = one()
    place.ups("OL")
    assert place.ups("OB LB", charge=97.0, runtime_s=1600.0) is BATTERY
    assert "97 %" in str(place.outcome.view.sources[0].degraded) if place.outcome else False
    assert place.sleep(5.1) is LOW
    assert place.outcome is not None
    assert place.outcome.view.deadline is not None
    assert place.outcome.view.deadline.at.mono_ns == 2600 * SECOND


def test_low_battery_that_nothing_contradicts_is_believed_at_once() -> None:
    """OB LB at 20 %, or with no charge at all, is low in the same step."""
    empty: tuple[dict[str, Any], ...] = ({"charge": 20.0}, {})
    for figures in empty:
        place = one()
        assert place.ups("OB LB", **figures) is LOW
        assert place.news == ["mains_lost", "low"]


def test_low_battery_on_line_is_no_outage() -> None:
    """OL LB is degraded: no shutdown without OB (R47)."""
    place = one()

    assert place.ups("OL LB") is OK
    assert place.news == ["degraded"]


def test_an_output_that_is_told_off_in_a_test_is_not_believed() -> None:
    """OFF keeps what was known for 30 s, then its supply is unknown, never an outage."""
    place = one()
    place.ups("OL")
    for _ in range(9):
        assert place.ups("OFF") is OK
        place.sleep(3)
    place.sleep(3)
    assert place.ups("OFF") is UNKNOWN
    assert "mains_lost" not in place.news


def test_calibration_excuses_a_battery_but_not_for_ever() -> None:
    """OB with CAL is no outage; without CAL it is, at once; a CAL of hours is stuck (R50)."""
    place = one()
    place.ups("OL")
    assert place.ups("OB CAL DISCHRG LB") is OK
    assert place.ups("OB DISCHRG LB") is LOW

    place = one()
    for _ in range(7200 // 10):
        assert place.ups("OB CAL DISCHRG") is OK
        place.sleep(10)
    assert place.ups("OB CAL DISCHRG") is BATTERY


def test_calibration_excuses_nothing_while_another_supply_is_dark() -> None:
    """A real outage that comes in the middle of a calibration is one."""
    place = Place(Rules((UPS, UPS2), supplies_needed=2))
    place.ups("OB CAL DISCHRG")
    assert place.ups("OL", "ups2") is OK
    assert place.ups("OB", "ups2") is BATTERY
    assert "OB" in str(place.outcome.view.sources[0].tokens) if place.outcome else False


def test_forced_shutdown_stands_when_mains_are_back() -> None:
    """FSD is low and forced, also with OL, for as long as it is told."""
    place = one()
    assert place.ups("FSD OL") is LOW
    assert place.outcome is not None
    assert place.outcome.power.forced_shutdown
    assert place.ups("OL") is OK


def test_lost_contact_is_unknown_and_on_battery_stays_battery() -> None:
    """A network that fails in an outage is no dead UPS and no end of the outage (nut#2454)."""
    place = one()
    place.ups("OL")
    assert place.sleep(16) is UNKNOWN

    place.ups("OB", runtime_s=900.0)
    place.take(of_ups("ups1", UpsReport("ups1", error="DATA-STALE")))
    assert place.sleep(600) is BATTERY
    assert place.news.count("mains_lost") == 1
    assert "low" not in place.news
    assert place.outcome is not None
    assert place.outcome.view.sources[0].stale
    assert place.outcome.view.deadline is not None
    assert place.outcome.view.deadline.at.mono_ns == 1016 * SECOND + 900 * SECOND

    assert place.sleep(3600) is UNKNOWN
    assert "restored" not in place.news

    place = one()
    place.ups("OB")  # a UPS that tells no runtime
    assert place.sleep(3000) is BATTERY


def test_one_feed_of_two_is_degraded() -> None:
    """While the node needs one of two supplies, the loss of one is no outage."""
    place = Place(Rules((UPS, UPS2)))
    place.ups("OL")
    place.ups("OL", "ups2")
    assert place.ups("OB", runtime_s=60.0) is OK
    assert place.news == ["degraded"]
    assert place.ups("OB", "ups2", runtime_s=500.0) is BATTERY
    assert place.outcome is not None
    assert place.outcome.view.deadline is not None
    assert place.outcome.view.deadline.source == "ups2"


def test_the_first_of_two_needed_supplies_ends_it() -> None:
    """A node that needs both dies with the first."""
    place = Place(Rules((UPS, UPS2), supplies_needed=2))
    place.ups("OB", runtime_s=60.0)
    place.ups("OB", "ups2", runtime_s=500.0)
    assert place.outcome is not None
    assert place.outcome.view.deadline is not None
    assert place.outcome.view.deadline.source == "ups1"


def test_a_figure_that_is_none_is_unknown() -> None:
    """Drivers tell -1 for what they do not know: no runtime of zero, which would end training."""
    for word in ("-1", "nan", "-inf", "much"):
        told = _report("ups1", [f'VAR ups1 battery.runtime "{word}"', 'VAR ups1 ups.status "OB"'])
        assert (told.runtime_s, told.status) == (None, "OB"), word


def test_one_sensor_alone_is_never_certain() -> None:
    """One dark sensor asks for a checkpoint at most; two that agree are certain."""
    place = Place(Rules(SENSORS, sensors_needed=1))
    for number in (1, 2, 3):
        place.esp(b"1", number)
    place.sleep(2)
    place.esp(b"0", 1)
    assert place.sleep(2) is BATTERY
    assert place.outcome is not None
    assert not place.outcome.power.confirmed

    place.esp(b"0", 2)
    assert place.sleep(2) is BATTERY
    assert place.outcome is not None
    assert place.outcome.power.confirmed


def test_a_blink_of_a_sensor_is_debounced() -> None:
    """Mains that are gone for less than a second were not gone."""
    place = Place(Rules(SENSORS))
    place.esp(b"1")
    place.sleep(5)
    place.esp(b"0")
    place.sleep(0.6)
    place.esp(b"1")
    assert place.sleep(5) is OK
    assert place.news == []


def test_two_retained_sensors_are_not_certain() -> None:
    """What the broker kept may be hours old: it asks for a checkpoint and stops nobody."""
    place = Place(Rules(SENSORS))
    place.esp(b"0", 1, retained=True)
    place.esp(b"0", 2, retained=True)
    assert place.sleep(2) is BATTERY
    assert place.outcome is not None
    assert not place.outcome.power.confirmed


def test_sensors_that_vanish_are_unknown_never_dark() -> None:
    """A dead switch takes all sensors at once: nothing is known, nothing is lost."""
    place = Place(Rules(SENSORS))
    for number in (1, 2, 3):
        place.esp(b"1", number)
    place.sleep(2)
    assert place.sleep(600) is UNKNOWN
    assert place.news == ["unknown"]


def test_a_ups_on_line_is_believed_more_than_sensors() -> None:
    """Sensors that say dark while the node's own UPS is on line are a reason to look, no outage."""
    place = Place(Rules((UPS, *SENSORS)))
    place.esp(b"0", 1)
    place.esp(b"0", 2)
    place.sleep(2)
    assert place.ups("OL") is OK
    assert "degraded" in place.news


def test_a_retained_command_is_reported() -> None:
    """A command topic says nothing of power; one that is retained there is told once."""
    place = Place(Rules(SENSORS[:1]))
    message = SensorMessage("cmnd/plug/POWER", b"OFF", retained=True)
    outcome = place.take(of_message("esp1", Dialect.TASMOTA, message))

    assert outcome.power.state is UNKNOWN
    assert "retained on cmnd/plug/POWER" in outcome.view.sources[0].degraded[0]


def test_supplies_of_the_kernel() -> None:
    """AC gone with a draining battery is an outage; one of two feeds is not; a mouse is nothing."""
    ac, gone = Supply("AC", "Mains", online=True), Supply("AC2", "Mains", online=False)
    drains = Supply("BAT0", "Battery", status="Discharging", capacity=70.0)
    empty = Supply("BAT0", "Battery", status="Discharging", capacity=3.0)
    mouse = Supply("hid-1", "Battery", scope="Device", status="Discharging", capacity=2.0)
    whats = [
        of_supplies("kernel", supplies).meaning.what.value
        for supplies in ((ac,), (ac, gone), (gone, drains), (gone, empty), (ac, mouse), (mouse,))
    ]

    assert whats == [
        "power_ok", "power_degraded", "power_lost", "power_low", "power_ok", "unknown",
    ]  # fmt: skip


KERNEL = SourceRules("kernel", SourceKind.SUPPLY, max_age_s=100.0)


def test_the_kernel_beside_a_ups_only_adds_a_cable_that_is_out() -> None:
    """Behind a UPS on battery the machine's own "mains are there" is the UPS's: no all-clear.

    A machine that drains its own battery behind a calm UPS is dark: somebody pulled the cable.
    """
    place = Place(Rules((UPS, KERNEL)))
    fed, unfed = Supply("AC", "Mains", online=True), Supply("AC", "Mains", online=False)
    battery = Supply("BAT0", "Battery", status="Discharging", capacity=90.0)
    place.take(of_supplies("kernel", (fed, battery)))
    assert place.ups("OL") is OK
    assert place.ups("OB DISCHRG") is BATTERY

    place.ups("OL")
    place.take(of_supplies("kernel", (unfed, battery)))
    assert place.take(None).power.state is BATTERY
    assert place.take(None).power.source == "kernel"


def test_what_moves_all_the_time_is_not_told_all_the_time() -> None:
    """A poll that brings nothing new reports nothing; a tenth of charge, and each word, does."""
    place = one()
    place.ups("OL", charge=81.0, runtime_s=1000.0)
    reports = []
    for charge, status in ((82.0, "OL"), (83.0, "OL"), (91.0, "OL"), (91.0, "OL RB"), (91.0, "OL")):
        place.now_ns += 3 * SECOND
        place.ups(status, charge=charge, runtime_s=1000.0 + charge)
        reports.append(place.outcome.report if place.outcome else None)

    assert reports == [False, False, True, True, True]


def test_silence_at_the_start_is_told_when_it_has_lasted() -> None:
    """A UPS that was never heard is told of after its age, then that it is heard."""
    place = one()
    place.take(None)
    place.sleep(14)
    assert place.news == []
    place.sleep(2)
    assert place.news == ["unknown"]
    assert place.take(None).view.unknown
    place.ups("OL")
    assert not place.take(None).view.unknown
