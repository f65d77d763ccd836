"""Uplinks under a simulated clock: when default traffic leaves one, and when it returns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkhold.decide.uplinks import LineRules
from support.uplink_world import RULES, TARGETS, Line, Lines

SILENT = f"no answer from {', '.join(TARGETS)}"


def settled(**changes: object) -> Lines:
    """Return lines that have been watched for a minute."""
    world = Lines(**changes)  # type: ignore[arg-type]
    world.run(60)
    return world


def test_whole_lines_change_nothing() -> None:
    """Lines that answer are told alive once each, and nothing is switched in an hour."""
    world = Lines()
    world.run(3600)

    assert world.switches == []
    assert world.types() == ["uplink.alive", "uplink.alive"]
    assert [line.active for line in world.shown.lines] == [True, False]


def test_metered_line_is_asked_rarely_until_it_is_needed() -> None:
    """A metered uplink costs a tenth of the probes of the other one while that is well."""
    world = settled()
    world.asked.clear()
    world.run(600)

    assert 600 <= world.asked["bond0"] <= 700
    assert 60 <= world.asked["usb0"] <= 70


@pytest.mark.parametrize("phase_s", [0.0, 0.3, 0.6, 0.9])
def test_silent_line_is_left_within_four_seconds(phase_s: float) -> None:
    """Three unanswered rounds in a row are death, four seconds after the fault at most."""
    world = settled()
    world.run(phase_s)
    world.lines["bond0"].answers = False
    fault_s = world.now_s
    world.run(10)

    assert [link for _, link in world.switches] == ["usb0"]
    assert 1.5 < world.switches[0][0] - fault_s <= 4.0
    assert world.types()[-2:] == ["uplink.dead", "uplink.switched"]
    told = world.news[-1][1].data
    assert (told["previous"], told["active"]) == ("bond0", "usb0")
    assert told["reason"] == f"bond0 has {SILENT}"
    assert told["took_ms"] == 5.0
    assert told["silence_s"] <= 5.0


def test_lost_carrier_is_acted_on_at_once() -> None:
    """An uplink that cannot carry is left in the same step, without any probe."""
    world = settled()
    world.change("bond0", obstacle="bond0 lost carrier")

    assert world.switches == [(60.0, "usb0")]


def test_late_answers_are_answers() -> None:
    """A line whose answers take two rounds is alive: each round sees some answer."""
    world = Lines()
    world.lines["bond0"].rtt_ms = 1900
    world.run(120)

    assert world.switches == []
    assert world.verdict("bond0") == ("alive", "")


def test_line_that_never_answered_is_unknown_and_stays() -> None:
    """Silence from the beginning proves nothing where no other line hears the same target."""
    rules = replace(RULES, lines=(LineRules("bond0", ("10.9.9.9",)), RULES.lines[1]))
    world = Lines(rules, {"bond0": Line(1, answers=False), "usb0": Line(2)})
    world.run(120)

    assert world.switches == []
    assert world.verdict("bond0") == ("unknown", "no answer from 10.9.9.9 ever")


def test_target_that_answers_elsewhere_is_a_witness() -> None:
    """A line that is dead when the agent starts is left, since its target answers elsewhere."""
    world = Lines(lines={"bond0": Line(1, answers=False), "usb0": Line(2)})
    world.run(10)

    assert [link for _, link in world.switches] == ["usb0"]


def test_gateways_are_asked_where_no_targets_are_given() -> None:
    """Without targets the gateway stands for the line."""
    rules = replace(RULES, lines=(LineRules("bond0"), LineRules("usb0")))
    world = settled(rules=rules)
    world.lines["bond0"].answers = False
    world.run(10)

    assert world.verdict("bond0") == ("dead", "no answer from 10.0.1.1")


def test_traffic_stays_when_the_spare_is_silent_too() -> None:
    """When every line falls silent at once nothing is switched: it is said."""
    world = settled()
    world.lines["bond0"].answers = world.lines["usb0"].answers = False
    world.run(120)

    assert world.switches == []
    assert [line.verdict for line in world.shown.lines] == ["dead", "dead"]


def test_spare_that_died_unseen_is_not_switched_to() -> None:
    """A metered spare that answered ten seconds ago must answer again after the silence began."""
    world = settled()
    world.lines["usb0"].answers = False
    world.run(5)
    world.lines["bond0"].answers = False
    world.run(120)

    assert world.switches == []


def test_traffic_returns_after_a_steady_time() -> None:
    """The better line is used again thirty seconds after its first answer, not before."""
    world = settled()
    world.lines["bond0"].answers = False
    world.run(20)
    world.lines["bond0"].answers = True
    back_s = world.now_s
    world.run(60)

    assert [link for _, link in world.switches] == ["usb0", "bond0"]
    assert 30.0 <= world.switches[1][0] - back_s <= 32.0
    assert world.news[-1][1].data["reason"] == "bond0 answers again"
    assert world.placed == ""


def test_each_return_that_does_not_last_doubles_the_wait() -> None:
    """A line that dies a minute after each return is waited for 30, 60 and 120 seconds."""
    world = settled()
    waits = []
    for _ in range(3):
        world.lines["bond0"].answers = False
        world.run(20)
        world.lines["bond0"].answers = True
        back_s = world.now_s
        world.run(180)
        waits.append(world.switches[-1][0] - back_s)

    assert waits == pytest.approx([30, 60, 120], abs=2)


def test_traffic_returns_at_once_when_the_spare_dies() -> None:
    """The wait for a return ends when the line in use dies."""
    world = settled()
    world.lines["bond0"].answers = False
    world.run(20)
    world.lines["bond0"].answers = True
    world.run(5)
    world.lines["usb0"].answers = False
    world.run(6)

    assert [link for _, link in world.switches] == ["usb0", "bond0"]


def test_own_routes_stand_when_nobody_answers() -> None:
    """When the spare dies too, the host's own routes stand again."""
    world = settled()
    world.lines["bond0"].answers = False
    world.run(20)
    world.lines["usb0"].answers = False
    world.run(20)

    assert [link for _, link in world.switches] == ["usb0", "bond0"]
    assert world.placed == ""
    assert world.news[-1][1].data["reason"] == "no uplink answers"


def test_too_many_switches_lock_and_the_last_is_kept() -> None:
    """With two switches an hour there is no return: the second one is for a failure."""
    world = settled(rules=replace(RULES, switches_per_hour=2))
    world.lines["bond0"].answers = False
    world.run(20)
    world.lines["bond0"].answers = True
    world.run(120)
    assert [link for _, link in world.switches] == ["usb0"]

    world.lines["usb0"].answers = False
    world.run(20)
    world.lines["usb0"].answers, world.lines["bond0"].answers = True, False
    world.run(120)
    assert [link for _, link in world.switches] == ["usb0", "bond0"]
    assert world.types().count("uplink.locked") == 1
    assert world.shown.locked == "2 switches within an hour"

    world.run(3600)
    assert [link for _, link in world.switches] == ["usb0", "bond0", "usb0"]
    assert world.shown.locked == ""


def test_observing_tells_what_it_would_do() -> None:
    """In mode observe nothing is switched; what would be is told once, and shown."""
    world = settled(rules=replace(RULES, enforce=False))
    world.lines["bond0"].answers = False
    world.run(60)

    assert world.switches == []
    assert world.types().count("uplink.would_switch") == 1
    assert world.shown.would == "usb0"
