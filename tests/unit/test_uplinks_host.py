"""Uplinks under a simulated clock: what the host does to them, and what it does not let pass."""

from __future__ import annotations

from dataclasses import replace

from linkhold.decide.uplinks import LineRules, Unsent
from support.uplink_world import RULES, TARGETS, Line, Lines

SILENT = f"no answer from {', '.join(TARGETS)}"


def settled(**changes: object) -> Lines:
    """Return lines that have been watched for a minute."""
    world = Lines(**changes)  # type: ignore[arg-type]
    world.run(60)
    return world


def test_order_counts_more_than_metrics() -> None:
    """Where the host's metrics prefer the USB line, traffic is put on bond0 all the same."""
    world = settled(natural="usb0")

    assert [link for _, link in world.switches] == ["bond0"]
    assert world.placed == "bond0"


def test_other_interface_with_the_default_route_is_left_alone() -> None:
    """Default traffic over an interface that is no uplink is left there: it is said."""
    world = settled(natural="eth7")
    world.lines["bond0"].answers = False
    world.run(60)

    assert world.switches == []
    assert world.shown.problem == "default traffic goes over eth7, which is none of the uplinks"


def test_reverse_path_filter_makes_a_spare_unknown() -> None:
    """A spare whose filter drops the answers is unknown with the remedy, and never used."""
    world = settled(lines={"bond0": Line(1), "usb0": Line(2, strict=True)})
    world.lines["bond0"].answers = False
    world.run(60)

    assert world.switches == []
    assert world.verdict("usb0") == (
        "unknown",
        "rp_filter 1 on usb0 drops answers; set 2 (sysctl net.ipv4.conf.usb0.rp_filter=2)",
    )


def test_reverse_path_filter_of_the_preferred_line_is_told_after_the_switch() -> None:
    """A preferred line with a strict filter cannot be asked from the spare: it says so.

    Traffic returns by itself once the filter lets answers pass.
    """
    world = settled(lines={"bond0": Line(1, strict=True), "usb0": Line(2)})
    world.lines["bond0"].answers = False
    world.run(20)
    assert world.carrying == "usb0"
    assert world.verdict("bond0")[0] == "dead"
    assert "rp_filter 1 on bond0 drops answers; set 2" in world.verdict("bond0")[1]

    world.lines["bond0"].answers = True
    world.run(120)
    assert world.carrying == "usb0"
    world.change("bond0", strict=False)
    world.run(60)
    assert world.carrying == "bond0"


def test_metered_line_is_asked_rarely_beside_one_that_never_answers() -> None:
    """A preferred line of which nothing is known does not make the metered one cost more."""
    rules = replace(RULES, lines=(LineRules("bond0", ("10.9.9.9",)), RULES.lines[1]))
    world = Lines(rules, {"bond0": Line(1, answers=False), "usb0": Line(2)})
    world.run(30)
    world.asked.clear()
    world.run(600)

    assert world.asked["usb0"] <= 70


def test_probe_that_cannot_be_sent_is_unknown() -> None:
    """A firewall that refuses our probes says nothing of the line."""
    world = settled()
    world.lines["bond0"].answers = False
    for _ in range(20):
        world.take(Unsent("bond0", "probes are refused: Operation not permitted"))
        world.run(1)

    assert world.switches == []
    assert world.verdict("bond0")[0] == "unknown"


def test_refused_switch_is_told_and_tried_again() -> None:
    """When the kernel refuses, that is told, and tried again later and later until it obeys."""
    world = settled(refuses="File exists")
    world.lines["bond0"].answers = False
    world.run(22)
    assert world.types().count("uplink.switch_failed") == 3
    assert world.switches == []

    world.refuses = ""
    world.run(30)
    assert [link for _, link in world.switches] == ["usb0"]


def test_removed_routes_are_told_and_made_again() -> None:
    """When somebody removes our routes, that is told, and the dead line is left again."""
    world = settled()
    world.lines["bond0"].answers = False
    world.run(20)
    world.placed = ""
    world.look()
    world.run(5)

    assert world.placed == "usb0"
    reasons = [h.data["reason"] for _, h in world.news if h.type == "uplink.switched"]
    assert reasons == [f"bond0 has {SILENT}", "the host's routes changed", f"bond0 has {SILENT}"]


def test_restarted_agent_goes_on_with_its_routes() -> None:
    """An agent that finds its own routes at start keeps them until the better line is proven."""
    world = Lines(lines={"bond0": Line(1, answers=False), "usb0": Line(2)}, placed="usb0")
    world.run(60)
    assert world.switches == []

    world.lines["bond0"].answers = True
    world.run(40)
    assert [link for _, link in world.switches] == ["bond0"]


def test_returned_interface_must_answer_first() -> None:
    """An uplink that was plugged in again is unknown until it answers, and waits like any other."""
    world = settled()
    world.change("bond0", obstacle="bond0 is gone")
    world.run(10)
    world.change("bond0", obstacle="", index=7)
    assert world.verdict("bond0") == ("unknown", "not asked yet")
    back_s = world.now_s
    world.run(60)

    assert [link for _, link in world.switches] == ["usb0", "bond0"]
    assert world.switches[1][0] - back_s >= 30.0


def test_spare_is_pinned_when_the_better_routes_vanish() -> None:
    """Where the kernel removes the routes of an uplink with its interface, the spare is pinned.

    So traffic does not return when the routes do, but when the uplink has answered for long.
    """
    world = settled()
    world.natural = "usb0"
    world.change("bond0", obstacle="bond0 is gone")
    world.run(1)
    assert world.placed == "usb0"

    world.natural = "bond0"
    world.change("bond0", obstacle="", index=7, answers=False)
    world.run(60)
    assert world.carrying == "usb0"
    world.lines["bond0"].answers = True
    world.run(40)
    assert (world.carrying, world.placed) == ("bond0", "")


def test_first_line_stays_in_front_while_a_spare_with_a_better_metric_comes_and_goes() -> None:
    """A spare whose own metric wins does not draw traffic each time it is plugged in."""
    world = settled(natural="usb0")
    world.natural = "bond0"
    world.change("usb0", obstacle="usb0 is gone")
    world.run(60)
    world.natural = "usb0"
    world.change("usb0", obstacle="", index=8)
    world.run(60)

    assert [link for _, link in world.switches] == ["bond0"]
    assert world.placed == "bond0"
