"""Bonds that drift from what is wanted: what is told, what is repaired, and when linkhold stops."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.config.settings import BondSettings, MacPolicy, Mode, Settings
from linkhold.decide.keeping import HostSeen, JournalSeen, Restart, Rules, recall
from linkhold.decide.readings import BondKeepsReading
from linkhold.model import Address, HostNetwork, Network
from support.keeping import (
    GONE,
    LEFT,
    OPTIONS,
    SETTINGS,
    WHOLE,
    Keeping,
    host,
    loose,
    member,
)
from support.world import World, bonded, nic, types

OBSERVE = Rules({"bond0": SETTINGS})


def kept(seen: HostNetwork = WHOLE, **changes: object) -> Keeping:
    """Return a machine that has looked at ``seen`` first."""
    keeping = Keeping(**changes)  # type: ignore[arg-type]
    keeping.begin(seen)
    return keeping


def drifted(seen: HostNetwork, **changes: object) -> Keeping:
    """Return a machine that saw a whole bond, then ``seen`` for two seconds."""
    keeping = kept(WHOLE, **changes)
    keeping.look(seen, after_s=60)
    keeping.sleep(2)
    return keeping


def kinds(keeping: Keeping) -> list[tuple[str, str]]:
    """Return kind and subject of all that differs now."""
    return [drift.key for drift in keeping.keep.drift]


def test_a_bond_as_wanted_is_silent() -> None:
    """Nothing is told, asked or repaired while nothing differs."""
    keeping = kept()
    keeping.sleep(86400)

    assert (keeping.news, keeping.repairs, keeping.inquiries) == ([], [], 0)
    assert (keeping.keep.applied, keeping.keep.drift) == (True, ())


def test_a_member_that_left_is_told_and_repaired() -> None:
    """After a second it is an event with both values, and the repair is started."""
    keeping = drifted(LEFT)
    keeping.sleep(5)

    assert keeping.types == ["bond.drift", "bond.repaired", "bond.drift_ended"]
    told = keeping.news[0].data
    assert (told["kind"], told["subject"]) == ("member_left", "eth2")
    assert (told["wanted"], told["seen"], told["by"]) == ("in bond0", "in no bond", "")
    assert keeping.last("bond.repaired").data["took_s"] == 3.0
    assert [repair.spare for _, repair in keeping.repairs] == [()]
    assert keeping.keep.drift == ()


def test_a_drift_shorter_than_a_second_is_no_event() -> None:
    """A manager in the middle of its work is left alone; the state shows it at once."""
    keeping = kept()
    keeping.look(LEFT, after_s=60)

    assert kinds(keeping) == [("member_left", "eth2")]

    keeping.look(WHOLE, after_s=0.9)
    keeping.sleep(60)

    assert (keeping.news, keeping.repairs) == ([], [])


def test_observe_mode_says_what_enforce_would_do() -> None:
    """In mode observe nothing is repaired, and the event says so."""
    keeping = drifted(LEFT, rules=OBSERVE)
    keeping.sleep(86400)

    assert keeping.repairs == []
    assert keeping.types == ["bond.drift"]
    assert keeping.news[0].data["repair"].startswith("observe only")
    assert keeping.keep.repair == "observe only"


def test_an_option_is_told_with_both_values() -> None:
    """R13: an option that is not as set is told with what is and what should be."""
    keeping = drifted(host(member(1), member(2), options=replace(OPTIONS, miimon_ms=200)))

    told = keeping.news[0].data
    assert (told["subject"], told["wanted"], told["seen"]) == ("miimon", "50", "200")
    assert len(keeping.repairs) == 1


@pytest.mark.parametrize(
    ("options", "subject", "seen"),
    [
        (replace(OPTIONS, peer_notif_delay_ms=0), "peer_notif_delay", "0"),
        (replace(OPTIONS, resend_igmp=5), "resend_igmp", "5"),
        (replace(OPTIONS, all_slaves_active=1), "all_slaves_active", "1"),
        (replace(OPTIONS, primary_reselect=0), "primary_reselect", "0"),
        (replace(OPTIONS, primary=2), "primary", "eth2"),
        (replace(OPTIONS, primary=None), "primary", "none"),
        (replace(OPTIONS, num_peer_notif=1), "num_peer_notif", "1"),
    ],
)
def test_every_option_is_watched(options: object, subject: str, seen: str) -> None:
    """Each option that apply sets is compared, by its name in the kernel."""
    keeping = drifted(host(member(1), member(2), options=options), rules=OBSERVE)  # type: ignore[arg-type]

    assert [(d.subject, d.seen) for d in keeping.keep.drift] == [(subject, seen)]


def test_what_an_old_kernel_does_not_report_does_not_differ() -> None:
    """Without peer_notif_delay (before Linux 5.3) there is nothing to compare."""
    old = replace(OPTIONS, peer_notif_delay_ms=None)

    assert drifted(host(member(1), member(2), options=old)).keep.drift == ()


def test_fail_over_mac_counts_only_where_it_was_chosen() -> None:
    """With auto, what was chosen when the bond was made stands; a chosen one is never set."""
    seen = host(member(1), member(2), options=replace(OPTIONS, fail_over_mac=1))
    chosen = replace(SETTINGS, fail_over_mac=MacPolicy.NONE)
    strict = drifted(seen, rules=Rules({"bond0": chosen}, enforce=True))

    assert drifted(seen).keep.drift == ()
    assert kinds(strict) == [("option", "fail_over_mac")]
    assert strict.repairs == []


def test_a_bond_that_was_removed_is_made_again() -> None:
    """R19: the kernel closes the members of a deleted bond; that is nobody's decision."""
    keeping = drifted(GONE)

    assert keeping.news[0].data["kind"] == "gone"
    assert [repair.spare for _, repair in keeping.repairs] == [()]


def test_a_removed_bond_whose_nics_serve_elsewhere_stays_away() -> None:
    """A NIC that somebody put into a bridge is not taken out of it."""
    bridge = nic(7, kind="bridge")
    keeping = drifted(host(loose(1), loose(2, master=7), bridge, options=None))
    keeping.sleep(86400)

    assert keeping.repairs == []
    assert "eth2 is in eth7 now" in keeping.news[0].data["repair"]


def test_a_member_in_another_master_is_named_and_left_there() -> None:
    """Where it is now is said; it is not pulled out."""
    bridge = nic(7, kind="bridge")
    keeping = drifted(host(member(1), nic(2, master=7), bridge))
    keeping.sleep(86400)

    told = keeping.news[0].data
    assert (told["kind"], told["seen"]) == ("member_elsewhere", "in eth7")
    assert keeping.repairs == []


def test_a_member_that_is_set_down_is_reported_and_never_raised() -> None:
    """R05: administratively down in the bond, and later out of it: no repair for a year."""
    keeping = drifted(host(member(1), member(2, admin_up=False)))
    told = keeping.news[0].data

    assert (told["kind"], told["subject"]) == ("member_admin_down", "eth2")
    assert told["repair"].startswith("never raised")

    keeping.look(LEFT, after_s=5)
    keeping.sleep(365 * 86400)

    assert kinds(keeping) == [("member_left", "eth2")]
    assert keeping.repairs == []


def test_a_nic_set_down_outside_is_spared_by_other_repairs() -> None:
    """When an option drifts as well, the repair is told which NIC to leave alone."""
    keeping = drifted(host(member(1), nic(2)), rules=OBSERVE)
    keeping.look(LEFT, after_s=5)  # it was up outside for a while: a decision
    keeping.rules = replace(OBSERVE, enforce=True)
    keeping.look(host(member(1), loose(2), options=replace(OPTIONS, miimon_ms=100)))
    keeping.sleep(2)

    assert [repair.spare for _, repair in keeping.repairs] == [("eth2",)]


def test_a_bond_that_is_set_down_is_reported_and_never_raised() -> None:
    """Neither it nor anything in it is touched."""
    keeping = drifted(host(member(1), loose(2), admin_up=False))
    keeping.sleep(86400)

    assert ("bond_admin_down", "bond0") in kinds(keeping)
    assert keeping.repairs == []


def test_a_member_absent_at_the_start_joins_when_it_appears() -> None:
    """No such NIC: degraded, nothing to repair; a NIC that appears was set down by nobody."""
    keeping = kept(host(member(1)))
    keeping.sleep(600)

    assert keeping.types == ["bond.drift"]
    assert keeping.news[0].data["kind"] == "member_absent"
    assert keeping.repairs == []

    keeping.look(host(member(1), loose(2)))
    keeping.sleep(2)

    assert kinds(keeping) == [("member_left", "eth2")]
    assert len(keeping.repairs) == 1


def test_a_nic_down_at_first_sight_is_raised_only_if_it_never_was_up() -> None:
    """The agent does not know who set it down before it looked; the kernel's counter tells."""
    was_up = kept(host(member(1), loose(2)))
    never_up = kept(host(member(1), loose(2, carrier_ups=0)))
    for keeping in (was_up, never_up):
        keeping.sleep(5)

    assert was_up.repairs == []
    assert len(never_up.repairs) == 1


def test_a_bond_gone_at_first_sight_is_made_again() -> None:
    """R19: an agent that starts when bond and members are gone takes that for the kernel's doing.

    Who deletes a bond leaves its members closed; nobody who could tell was there to see it.
    """
    keeping = kept(GONE)
    keeping.sleep(5)

    assert [repair.spare for _, repair in keeping.repairs] == [()]


def test_a_member_is_found_by_permanent_mac_and_bus_path() -> None:
    """The bond's MAC, which all members have, is nobody's name."""
    settings = BondSettings(members=("02:00:00:00:00:02", "0000:3b:00.0"))
    rules = Rules({"bond0": settings}, enforce=True)
    one = member(1, bus_path="0000:3b:00.0")
    seen = host(one, member(2), options=replace(OPTIONS, primary=2))

    assert drifted(seen, rules=rules).keep.drift == ()


def test_a_stranger_and_addresses_on_a_member_are_reported() -> None:
    """Both are somebody's mistake, and somebody's to mend."""
    seen = host(member(1), member(2), member(3))
    seen = replace(seen, addresses=seen.addresses | {Address(1, "inet", "10.0.0.9", 24)})
    keeping = drifted(seen)

    assert kinds(keeping) == [("member_addressed", "eth1"), ("stranger", "eth3")]
    assert keeping.repairs == []


def test_another_mode_is_reported() -> None:
    """A committed bond that is balance-rr now is no repair: it would need to be made anew."""
    keeping = drifted(host(member(1), member(2), options=replace(OPTIONS, mode=0)))

    assert kinds(keeping) == [("not_active_backup", "bond0")]
    assert keeping.keep.drift[0].seen == "balance-rr"
    assert keeping.repairs == []


def test_a_bond_never_applied_is_said_to_be_so_once() -> None:
    """Configured, not there and not committed: an event, no alert, no repair."""
    keeping = kept(GONE, journal=JournalSeen())
    keeping.sleep(86400)

    assert keeping.types == ["bond.not_applied"]
    assert not keeping.keep.applied
    assert keeping.repairs == []


def test_a_bond_that_others_made_is_watched_and_not_changed() -> None:
    """It stands as configured, but was not committed here: drift is told, with the command."""
    keeping = drifted(LEFT, journal=JournalSeen())
    keeping.sleep(86400)

    assert keeping.types == ["bond.drift"]
    assert "linkhold bond apply bond0" in keeping.news[0].data["repair"]
    assert keeping.repairs == []


def test_undoing_a_repair_twice_is_a_conflict_and_then_peace() -> None:
    """R20: the third time nothing is repaired; the owner is named; an hour of silence follows."""
    keeping = kept(owners={"eth2": "NetworkManager"})
    for _ in range(3):
        keeping.look(LEFT, after_s=20)
        keeping.sleep(5)
    told = keeping.last("bond.config_conflict")

    assert len(keeping.repairs) == 2
    assert told.data == {
        "what": "eth2 is not in bond0",
        "by": "NetworkManager configures eth2",
    }
    events = len(keeping.news)
    for _ in range(100):
        keeping.look(WHOLE, after_s=15)
        keeping.look(LEFT, after_s=15)

    assert len(keeping.news) == events
    assert len(keeping.repairs) == 2
    assert keeping.keep.conflict is not None


def in_conflict() -> Keeping:
    """Return a machine that has just given in."""
    keeping = kept()
    for _ in range(3):
        keeping.look(LEFT, after_s=20)
        keeping.sleep(5)
    assert keeping.keep.conflict is not None
    return keeping


def test_a_conflict_ends_with_a_reload() -> None:
    """Who read the configuration again wants the bond kept."""
    keeping = in_conflict()
    keeping.reload()
    keeping.sleep(5)

    assert keeping.last("bond.conflict_ended").data["reason"].startswith("the configuration")
    assert len(keeping.repairs) == 3
    assert keeping.keep.drift == ()


def test_a_conflict_ends_after_an_hour() -> None:
    """Then it is tried again, under the same rule."""
    keeping = in_conflict()
    keeping.sleep(3590)
    assert len(keeping.repairs) == 2

    keeping.sleep(20)
    assert len(keeping.repairs) == 3


def test_a_conflict_ends_when_the_bond_is_changed_by_hand() -> None:
    """The journal shows a change that was not the agent's."""
    keeping = in_conflict()
    keeping.journal = replace(keeping.journal, last="by-hand", last_bond="bond0")
    keeping.take(keeping.journal)

    assert "by hand" in keeping.last("bond.conflict_ended").data["reason"]
    assert keeping.keep.conflict is None


def test_undoing_while_the_repair_is_verified_counts_as_well() -> None:
    """A loop that is faster than the verification makes repairs fail; that is a conflict too."""
    keeping = kept(after_repair=None, error="eth2 is not in bond0. Everything was undone")
    keeping.look(LEFT, after_s=20)
    keeping.sleep(600)

    assert len(keeping.repairs) == 2
    assert "bond.config_conflict" in keeping.types
    assert keeping.last("bond.repair_failed").data["retry_s"] is None


def test_failed_repairs_are_tried_later_and_later() -> None:
    """After 15 s, a minute, 4 minutes, 16 minutes, then each hour; each says why and when."""
    keeping = kept(after_repair=None, error="none of 10.0.0.1 answers over bond0", repair_s=0)
    keeping.look(LEFT, after_s=20)
    keeping.sleep(3 * 3600)
    starts = [start for start, _ in keeping.repairs]
    waits = [round((b - a) / 1e9) for a, b in itertools.pairwise(starts)]

    assert waits == [15, 60, 240, 960, 3600, 3600]
    assert keeping.news[1].data == {
        "reason": "none of 10.0.0.1 answers over bond0",
        "retry_s": 15,
    }
    assert "bond.config_conflict" not in keeping.types


def test_nothing_is_judged_while_a_change_is_at_work() -> None:
    """`linkhold bond` by hand takes members out and in; the agent waits until it has ended."""
    keeping = kept()
    keeping.journal = replace(keeping.journal, busy="bond0")
    keeping.look(LEFT, after_s=60)
    keeping.sleep(30)

    assert (keeping.news, keeping.repairs) == ([], [])

    keeping.journal = replace(keeping.journal, busy="")
    keeping.look(WHOLE)
    keeping.take(keeping.journal)
    keeping.sleep(30)

    assert (keeping.news, keeping.repairs) == ([], [])
    assert keeping.keep.drift == ()


def test_what_was_seen_before_a_change_was_known_is_no_drift() -> None:
    """Else the state would say `bond0 is gone` for as long as a removal is watched."""
    keeping = kept()
    keeping.take(HostSeen(GONE))
    assert [drift.kind for drift in keeping.keep.drift] == ["gone"]
    keeping.journal = replace(keeping.journal, busy="bond0", action="remove")
    keeping.take(keeping.journal)
    keeping.sleep(30)

    assert (keeping.keep.drift, keeping.news, keeping.repairs) == ((), [], [])

    keeping.take(JournalSeen(last="remove", last_bond="bond0"))
    keeping.sleep(30)
    assert (keeping.types, keeping.repairs) == (["bond.not_applied"], [])


def test_a_damaged_journal_stops_repairs_and_says_so() -> None:
    """Nobody knows then what was committed here."""
    keeping = drifted(LEFT, journal=JournalSeen(problem="journal.json is damaged"))

    assert keeping.repairs == []
    assert keeping.news[0].data["repair"] == "journal.json is damaged"


def test_a_manager_that_just_started_is_named() -> None:
    """What is known is said with its time; an old start or a later one is no evidence."""
    start = Keeping().now_ns
    at_ns = start + int(59.6e9)
    restarts = (
        Restart("systemd-networkd", at_ns),
        Restart("wickedd", start),
        Restart("connmand", at_ns + 10**9),
    )
    keeping = drifted(LEFT, restarts=restarts)

    assert keeping.news[0].data["by"] == "systemd-networkd started 0.4 s before"


@given(st.lists(st.tuples(st.sampled_from([WHOLE, LEFT, GONE]), st.floats(0.1, 900)), max_size=60))
def test_never_more_than_six_repairs_an_hour(script: list[tuple[HostNetwork, float]]) -> None:
    """Whatever somebody does and when, one at a time and six an hour, not counting reloads."""
    keeping = kept()
    for number, (seen, wait_s) in enumerate(script):
        keeping.look(seen, after_s=wait_s)
        if number % 7 == 0:
            keeping.reload()
    starts = [start for start, _ in keeping.repairs]

    for start in starts:
        assert sum(start - 3600 * 10**9 < other <= start for other in starts) <= 6


HOSTS = st.builds(
    host,
    st.builds(lambda up: member(1, admin_up=up), st.booleans()),
    st.one_of(
        st.builds(lambda up: member(2, admin_up=up), st.booleans()),
        st.builds(lambda up: loose(2, admin_up=up), st.booleans()),
    ),
    options=st.sampled_from([OPTIONS, replace(OPTIONS, miimon_ms=0), None]),
    admin_up=st.booleans(),
)


@given(st.lists(st.tuples(HOSTS, st.floats(0.1, 60)), max_size=30))
def test_observe_mode_never_repairs(script: list[tuple[HostNetwork, float]]) -> None:
    """Whatever the host does."""
    keeping = kept(rules=OBSERVE)
    for seen, wait_s in script:
        keeping.look(seen, after_s=wait_s)

    assert keeping.repairs == []


@given(st.lists(st.tuples(HOSTS, st.floats(0.6, 60)), max_size=30))
def test_what_was_set_down_is_never_raised(script: list[tuple[HostNetwork, float]]) -> None:
    """A NIC that went down while it was nobody's release is spared by every repair after it.

    Looks are more than two seconds apart: before that the kernel may have closed it.
    """
    keeping = kept(after_repair=None)
    set_down, last = False, WHOLE.links[2]
    for seen, wait_s in script:
        keeping.look(seen, after_s=wait_s)
        now = seen.links[2]
        if now.admin_up:
            set_down = False
        elif last.admin_up and (now.master is not None or last.master is None):
            set_down = True
        last = now
        began = len(keeping.repairs)
        keeping.sleep(1.5)
        for _, repair in keeping.repairs[began:]:
            assert not (set_down and now.master is None) or "eth2" in repair.spare


def test_a_restart_tells_nothing_twice_and_renews_no_fight() -> None:
    """What the stored state says was told; a conflict goes on until its hour is over."""
    for before in (in_conflict(), drifted(host(member(1), member(2, admin_up=False)))):
        after = Keeping(now_ns=before.now_ns, memory=recall(before.keeps, before.now_ns))
        seen = before.memory.host
        assert seen is not None
        after.begin(seen)
        after.sleep(600)

        assert (after.news, after.repairs) == ([], [])
        assert recall(before.keeps, 0).told == before.keeps


# In the node's core.


def test_a_lost_member_degrades_the_node_though_no_link_went_down() -> None:
    """R22: membership counts, not only carrier."""
    world = World(Settings(mode=Mode.OBSERVE, bonds={"bond0": SETTINGS}))
    world.look(bonded())
    world.take(BondKeepsReading(drifted(LEFT, rules=OBSERVE).keeps))
    world.sleep(5)

    assert world.state.network is Network.DEGRADED
    assert world.state.cause == ("eth2 is not in bond0", "bond0: 1 of 2 members")
    assert world.alerts == ["bond.drift"]
    shown = world.document()["detail"]["bonds"]["bond0"]
    assert (shown["wanted"], shown["applied"], shown["there"]) == (True, True, True)
    assert [drift["kind"] for drift in shown["drift"]] == ["member_left"]


def test_a_member_that_is_set_down_is_one_alert() -> None:
    """The bond's own alert tells of it; a second one of the same fault would be noise."""
    seen = bonded(active=1)
    down = replace(seen.links[2], admin_up=False, carrier=False)
    world = World()
    world.look(replace(seen, links={**seen.links, 2: down}))
    world.take(BondKeepsReading(drifted(host(member(1), member(2, admin_up=False))).keeps))
    world.sleep(5)

    assert world.alerts == ["bond.degraded"]
    assert world.state.cause == ("eth2 is set down", "bond0: 1 of 2 members")


def test_a_bond_that_is_gone_is_in_the_state() -> None:
    """It has no members, and says that it is not there."""
    world = World()
    world.look(HostNetwork({1: nic(1)}))
    world.take(BondKeepsReading(drifted(GONE).keeps))
    shown = world.document()["detail"]["bonds"]["bond0"]

    assert (shown["there"], shown["members"], shown["repair"]) == (False, {}, "running")


def test_a_conflict_is_one_alert_that_names_who() -> None:
    """It replaces the alert about the drift."""
    world = World()
    world.look(bonded())
    keeping = in_conflict()
    world.take(BondKeepsReading(keeping.keeps, tuple(keeping.news)))
    world.sleep(5)

    assert world.alerts == ["bond.config_conflict"]
    assert "linkhold bond repair bond0" in world.state.alerts[0].text
    assert "bond.config_conflict" in types(world.events)
    assert world.document()["detail"]["bonds"]["bond0"]["conflict"]["by"] == ""
    assert world.restart().state.keeps == keeping.keeps
