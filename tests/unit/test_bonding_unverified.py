"""Changes that nothing can verify, bonds of others, and routes that somebody else writes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from linkhold.cli.bond_plan import verifiable
from linkhold.decide.bonding.plan import Asked, plan
from linkhold.decide.bonding.release import plan_release
from linkhold.decide.bonding.remove import Leaving, plan_removal
from linkhold.decide.bonding.steps import AskPath
from linkhold.model.look import LookedAddress
from linkhold.model.survey import Owner, OwnerKind
from support.bond_looks import LOOK, SETTINGS, SURVEY, route, standing, titles

NO_GATEWAY = replace(LOOK, routes=LOOK.routes[:1])


def test_change_that_nothing_verifies_needs_a_person() -> None:
    """Without gateway, target or SSH client apply is refused with a remedy, but for --manual."""
    made = plan("bond0", SETTINGS, NO_GATEWAY, SURVEY)
    refused = verifiable(made, manual=False)

    assert refused.phases == ()
    assert "bonds.bond0.targets" in refused.refusals[0].remedy
    assert "--manual" in refused.refusals[0].remedy
    assert verifiable(made, manual=True) == made


@pytest.mark.parametrize(
    ("look", "asked"),
    [
        (LOOK, Asked()),
        (NO_GATEWAY, Asked(pings=("10.0.0.9",))),
        (replace(LOOK, addresses=(), routes=()), Asked()),
    ],
    ids=["gateway", "SSH client", "idle NICs"],
)
def test_change_that_can_be_verified_needs_none(look: object, asked: Asked) -> None:
    """One wire check is enough, and NICs that carry nothing need none."""
    made = plan("bond0", SETTINGS, look, SURVEY, asked)  # type: ignore[arg-type]

    assert verifiable(made, manual=False).phases == made.phases != ()


def test_removal_that_nothing_verifies_needs_a_person() -> None:
    """The targets of before count at the removal too."""
    look = replace(standing(), routes=())
    record = {"persist": "linkhold", "live": "eth0", "members": ["eth0", "eth1"]}

    assert plan_removal("bond0", look, record).unverified
    assert not plan_removal("bond0", look, {**record, "targets": ["10.0.0.7"]}).unverified
    assert not plan_removal("bond0", look, record, Leaving(pings=("10.0.0.7",))).unverified


def test_what_answered_before_must_answer_over_the_hosts_own_routes() -> None:
    """Echoes to near targets are checked after apply, adjust and removal."""
    asked = Asked(pings=("10.0.0.1",))
    adjusted = plan("bond0", replace(SETTINGS, peer_notifications=7), standing(), SURVEY, asked)
    removed = plan_removal("bond0", standing(), None, Leaving(pings=asked.pings))

    assert plan("bond0", SETTINGS, LOOK, SURVEY, asked).checks.pings == asked.pings
    assert adjusted.checks.pings == removed.checks.pings == asked.pings


@pytest.mark.parametrize("protocol", [11, 12, 42, 186, 187, 188, 189, 192])
def test_routes_of_a_routing_daemon_are_refused(protocol: int) -> None:
    """The daemon would go on writing routes to the NIC that is a member then."""
    look = replace(LOOK, routes=(*LOOK.routes, route(2, "10.9.0.0/16", protocol=protocol)))
    refused = plan("bond0", SETTINGS, look, SURVEY).refusals

    assert len(refused) == 1
    assert "routing daemon" in refused[0].reason
    assert "stop it" in refused[0].remedy


def test_ten_thousand_routes_are_planned_in_seconds() -> None:
    """The time grows with the number of routes, and not with its square."""
    more = tuple(route(2, f"10.{1 + n // 256}.{n % 256}.0/24", "10.0.0.1") for n in range(10_000))
    start = time.process_time()
    made = plan("bond0", SETTINGS, replace(LOOK, routes=(*LOOK.routes, *more)), SURVEY)

    assert made.phases
    assert time.process_time() - start < 8


@pytest.mark.parametrize("record", [None, {"persist": "none", "members": []}])
@pytest.mark.parametrize("kind", [OwnerKind.NETWORKD, OwnerKind.NETWORK_MANAGER, OwnerKind.UNKNOWN])
def test_bond_of_a_managers_is_not_removed(kind: OwnerKind, record: dict[str, object]) -> None:
    """Its owner would make it again; the refusal names owner and file."""
    files = ("/etc/netplan/01.yaml",)
    owner = Owner(kind, "bond0", evidence=("seen",), profile_files=files, unknown=("asleep",))
    refused = plan_removal("bond0", standing(), record, Leaving(owner))

    assert refused.phases == ()
    assert ("asleep" if kind is OwnerKind.UNKNOWN else kind.value) in refused.refusals[0].reason
    ours = plan_removal("bond0", standing(), {"persist": "linkhold"}, Leaving(owner))
    assert ours.refusals == ()
    assert plan_removal("bond0", standing(), None, Leaving(Owner(OwnerKind.NOBODY, "b"))).phases


def test_removal_of_a_bond_of_others_says_so() -> None:
    """Nothing of linkhold's brings it back; without members nothing is said to stay."""
    empty = replace(standing(), links=(standing().links[2],), addresses=(), routes=())
    removed = plan_removal("bond0", empty, None)

    assert "not made by linkhold: eth0 gets" in plan_removal("bond0", standing(), None).warnings[0]
    assert plan_removal("bond0", standing(), {"persist": "linkhold"}).warnings == ()
    assert titles(removed) == ["remove bond0"]
    assert "linkhold:  " not in removed.warnings[0]


def test_removal_of_what_is_gone_names_what_brings_it_back() -> None:
    """`is no bond` alone would leave the NICs without the addresses of the record."""
    (refusal,) = plan_removal("bond0", LOOK, {"persist": "linkhold"}).refusals

    assert "linkhold restore" in refusal.text
    assert "linkhold bond repair bond0" in refusal.text


def test_a_link_local_address_stays_with_its_mac() -> None:
    """Another NIC than the one whose MAC the bond has makes a link-local address of its own."""
    own = {"mii_status": 0, "perm_hwaddr": "02:00:00:00:01:01"}
    look = standing(active_slave=3)
    local = LookedAddress(9, "inet6", "fe80::1/64", 253, 0x80, bytes(8))
    ports = (replace(look.links[0], carrier=False), replace(look.links[1], port=own))
    look = replace(look, links=(*ports, look.links[2]), addresses=(*look.addresses, local))
    moved = next(p for p in plan_removal("bond0", look, None).phases if "move" in p.title)

    assert "from bond0 to eth1" in moved.title
    assert not any("fe80" in step.text for step in moved.steps)


def test_removal_asks_the_path_before_anything_leaves() -> None:
    """The NIC that is to stay is asked while it is a member still."""
    first = plan_removal("bond0", standing(), None).phases[0].steps[0]

    assert first == AskPath("eth0", ("10.0.0.1",))


def test_removal_leaves_the_member_that_works() -> None:
    """Where the path of the NIC of before is dead, the active member stays, if no manager's."""
    record = {"live": "eth0", "persist": "linkhold"}
    look = standing(active_slave=3)
    dead = plan_removal("bond0", look, record, Leaving(dead=frozenset({"eth0"})))
    unplugged = tuple(replace(x, carrier=x.name != "eth0") for x in look.links)

    assert titles(dead)[0] == "eth1 leaves bond0"
    assert titles(plan_removal("bond0", look, record))[0] == "eth0 leaves bond0"
    gone = plan_removal("bond0", replace(look, links=unplugged), record)
    assert titles(gone)[0] == "eth1 leaves bond0"
    whole = {**record, "persist": "networkd", "bond": "bond0", "members": ["eth0", "eth1"]}
    native = plan_removal(
        "bond0", look, {**whole, "profile": ""}, Leaving(dead=frozenset({"eth0"}))
    )
    assert titles(native)[1] == "eth0 leaves bond0"


def adjusted_record(**more: object) -> dict[str, object]:
    """Return what is kept of somebody's bond of eth0 alone that became as wanted."""
    ports = tuple(replace(x, master=9 if x.name != "eth1" else 0) for x in standing().links[:2])
    look = replace(standing(miimon=100, primary=0), links=(*ports, standing(miimon=100).links[2]))
    made = plan("bond0", SETTINGS, look, SURVEY)
    assert made.action == "adjust"
    return {**made.record, **more}


def test_restore_gives_an_adjusted_bond_back_as_it_was() -> None:
    """Old options are set and the member that joined leaves; the bond stays, for it is not ours."""
    back = plan_release("bond0", standing(), adjusted_record())
    every = [step.text for phase in back.phases for step in phase.steps]

    assert back.action == "remove"  # of the record
    assert any("miimon 100 ms" in text for text in every)
    assert "set eth1 out of its bond; set eth1 MTU 1500, up" in every
    assert not any("remove bond0" in text for text in every)
    assert len(back.undo) == 3


def test_restore_leaves_what_others_changed_since() -> None:
    """An option with another value than linkhold set is somebody's; a NIC that left is gone."""
    record = adjusted_record()
    look = standing(miimon=200, primary=0)
    ports = (look.links[0], replace(look.links[1], master=0), look.links[2])

    assert plan_release("bond0", replace(look, links=ports), record).phases == ()


def test_restore_of_a_record_without_what_was_before_does_nothing() -> None:
    """A record of an older version does not say what was there: the bond is left."""
    record = adjusted_record()
    del record["before"]

    assert plan_release("bond0", standing(), record).phases == ()
