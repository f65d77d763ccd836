"""Plans of bonds from hand-made looks at a host: phases, ways back, and every refusal."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from linkhold.cli import bond_plan
from linkhold.config.settings import BondSettings
from linkhold.decide.bonding import steps
from linkhold.decide.bonding.plan import Asked, plan
from linkhold.decide.bonding.remove import plan_removal
from linkhold.model.look import Look
from linkhold.model.survey import (
    Answer,
    Cloud,
    CloudInit,
    JobPin,
    JobsView,
    Known,
    Nic,
    Owner,
    OwnerKind,
    RemoteMount,
    RootView,
    Survey,
    Upper,
)
from support.bond_looks import (
    LOOK,
    MACS,
    SETTINGS,
    SURVEY,
    address,
    link,
    route,
    standing,
    titles,
    with_nic,
    with_owner,
)


def test_the_standby_carries_before_the_live_nic_is_touched() -> None:
    """Make before break: create, join the standby, move everything, take the old NIC in."""
    made = plan("bond0", SETTINGS, LOOK, SURVEY)

    assert made.refusals == ()
    assert titles(made)[:4] == [
        "create bond0, silent",
        "eth1 joins bond0",
        "move everything from eth0 to bond0",
        "eth0 joins bond0",
    ]
    assert made == plan("bond0", SETTINGS, LOOK, SURVEY)


@pytest.mark.parametrize(("hw_type", "asked"), [(1, ["eth1", "eth0"]), (32, [])])
def test_only_ethernet_is_asked_for_the_gateway(hw_type: int, asked: list[str]) -> None:
    """IPoIB has other frames: nothing is asked there, and the bond is made all the same."""
    look = replace(LOOK, links=tuple(replace(one, hw_type=hw_type) for one in LOOK.links))
    survey = replace(SURVEY, nics=tuple(replace(one, hw_type=hw_type) for one in SURVEY.nics))
    made = plan("bond0", SETTINGS, look, survey)
    every = [step for phase in made.phases for step in phase.steps]

    assert made.refusals == ()
    assert [step.link for step in every if isinstance(step, steps.AskPath)] == asked


def test_each_phase_has_its_way_back() -> None:
    """What a phase changes is undone by steps that need it to have begun; the bond goes last."""
    made = plan("bond0", SETTINGS, LOOK, SURVEY)
    back = [(one.step.text, one.since) for one in made.undo]
    drops = [text for text, _ in back if text == "remove bond0"]
    first_phase = [text for text, since in back if since == 0]

    assert drops == ["remove bond0"]
    assert "remove bond0" in first_phase
    assert all(since <= len(made.phases) for _, since in back)
    assert back[0][0] == "not while eth0 has no link and bond0 carries"
    assert back[1][0] == "set eth0 out of its bond"
    assert [text for text, _ in back].index("remove bond0") > 3


def test_the_only_nic_says_that_it_interrupts() -> None:
    """One member: one burst, a warning that nothing is protected, and how long it takes."""
    made = plan("bond0", BondSettings(members=("eth0",)), LOOK, SURVEY)

    assert titles(made)[:2] == [
        "create bond0, silent",
        "eth0 joins bond0, which takes everything over",
    ]
    assert "goes down and up" in made.interruption
    assert any("protects nothing" in warning for warning in made.warnings)


def test_idle_nics_make_a_bond_that_carries_nothing() -> None:
    """Without addresses there is nothing to move and nothing to verify."""
    idle = replace(LOOK, addresses=(), routes=())
    made = plan("bond0", SETTINGS, idle, SURVEY)

    assert titles(made)[0] == "create bond0"
    assert made.checks.answers == ()


def test_a_member_named_by_its_permanent_mac_or_bus_path_is_found() -> None:
    """Names change at boot; the burned-in MAC and the slot do not."""
    survey = with_nic("eth1", bus_path="0000:3b:00.1", mac="02:00:00:00:01:00")
    by_mac = plan("bond0", BondSettings(members=("eth0", MACS["eth1"])), LOOK, survey)
    by_path = plan("bond0", BondSettings(members=("eth0", "0000:3b:00.1")), LOOK, survey)

    assert by_mac.record["members"] == by_path.record["members"] == ["eth0", "eth1"]


def test_a_bond_as_wanted_needs_nothing() -> None:
    """A second apply plans no phase."""
    assert plan("bond0", SETTINGS, standing(), SURVEY).phases == ()
    changed = replace(SETTINGS, peer_notifications=7)
    adjusted = plan("bond0", changed, standing(), SURVEY)
    assert titles(adjusted) == ["set options of bond0: num_peer_notif"]
    assert adjusted.undo[0].step.text == "set bond0: num_peer_notif 3"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OwnerKind.NETWORKD, "configured by networkd, and only the standing bond is changed"),
        (OwnerKind.NOBODY, "made by somebody else"),
    ],
)
def test_a_bond_of_others_is_changed_for_now_only_and_the_plan_says_so(
    kind: OwnerKind, words: str
) -> None:
    """Whoever makes it sets it back at a boot; of one made here, or left as it is, nothing."""
    owners = (*SURVEY.owners, Owner(kind, "bond0", native=kind is OwnerKind.NETWORKD))
    survey = replace(SURVEY, owners=owners)
    changed = replace(SETTINGS, peer_notifications=7)
    mine = Asked(record={"persist": "linkhold"})

    assert words in " ".join(plan("bond0", changed, standing(), survey).warnings)
    assert plan("bond0", changed, standing(), survey, mine).warnings == ()
    assert plan("bond0", SETTINGS, standing(), survey).warnings == ()


@pytest.mark.parametrize("dead", ["link", "gateway"])
def test_a_live_nic_that_does_not_work_is_told(dead: str) -> None:
    """It joins last, and could not: the plan says what would become of the change."""
    links = (replace(LOOK.links[0], carrier=dead != "link"), LOOK.links[1])
    answers = {"eth0": Answer(Known.NO, "eth0", reason="no answer")} if dead == "gateway" else {}
    made = plan("bond0", SETTINGS, replace(LOOK, links=links), SURVEY, Asked(answers))

    assert made.refusals == ()
    assert any("eth0" in one and "would be undone" in one for one in made.warnings)
    assert plan("bond0", SETTINGS, LOOK, SURVEY).warnings == ()


def test_removal_moves_to_the_primary_and_says_so_when_it_interrupts() -> None:
    """The primary stays; with nobody to carry meanwhile the interruption is told."""
    ports = tuple(replace(one, master=9, port={"mii_status": 0}) for one in LOOK.links)
    bond = link("bond0", 9, kind="bond", bond={"mode": 1, "miimon": 50, "primary": 2})
    both = Look(links=(*ports, bond), addresses=(address(9, "10.0.0.2/24"),))
    alone = replace(both, links=(ports[0], bond))

    assert titles(plan_removal("bond0", both, None))[0] == "eth0 leaves bond0"
    assert "none expected" in plan_removal("bond0", both, None).interruption
    assert "goes down and up" in plan_removal("bond0", alone, None).interruption
    assert plan_removal("bond7", both, None).refusals[0].remedy == "bonds here: bond0"


NFS_ROOT = RemoteMount("/", "nfs", "server:/root", carriers=("eth0",))
REFUSED: dict[str, tuple[Look, Survey, Asked, str, str]] = {
    "name taken": (
        replace(LOOK, links=(*LOOK.links, link("bond0", 9, kind="bridge"))),
        SURVEY, Asked(), "is no bond (bridge)", "choose another name",
    ),
    "cloud NIC": (
        LOOK, with_nic("eth1", cloud=Cloud("aws", "its MAC is bound")), Asked(),
        "a cloud NIC", "uplinks:",
    ),
    "netvsc": (
        LOOK, with_nic("eth1", netvsc_partner="eth9"), Asked(), "eth9", "leave the pair alone",
    ),
    "wireless": (LOOK, with_nic("eth1", wireless=True), Asked(), "wireless", "uplinks:"),
    "bridge": (
        LOOK, with_nic("eth1", uppers=(Upper("br0", "bridge", master=True),)), Asked(),
        "belongs to br0 (bridge)", "ip link set eth1 nomaster",
    ),
    "vlan": (
        LOOK, with_nic("eth0", uppers=(Upper("eth0.5", "vlan"),)), Asked(),
        "eth0.5 (vlan)", "make it anew on bond0",
    ),
    "tunnel": (
        LOOK, with_nic("eth1", uppers=(Upper("gre1", "gretap"), Upper("vx", "vxlan"))), Asked(),
        "gre1 (gretap), vx (vxlan) on top", "make them anew on bond0",
    ),
    "xdp": (LOOK, with_nic("eth1", xdp=True), Asked(), "XDP", "detach it"),
    "no Ethernet": (LOOK, with_nic("eth1", hw_type=512), Asked(), "ARPHRD 512", "name another NIC"),
    "root over it": (
        LOOK, replace(SURVEY, root=RootView(Known.YES, (NFS_ROOT,))), Asked(),
        "the system's own files (/)", "initramfs",
    ),
    "root somewhere": (
        LOOK, replace(SURVEY, root=RootView(Known.YES)), Asked(), "was not found", "initramfs",
    ),
    "job": (
        LOOK,
        replace(SURVEY, jobs=JobsView((JobPin(7, "py", "NCCL_SOCKET_IFNAME", "eth0", "eth0"),))),
        Asked(), "NCCL_SOCKET_IFNAME=eth0 ties it to eth0", "set NCCL_SOCKET_IFNAME=bond0",
    ),
    "cloud-init": (
        LOOK, replace(SURVEY, cloud_init=CloudInit(Known.YES, "its files are here")), Asked(),
        "at the next boot", "99-disable-network-config.cfg",
    ),
    "standby dead": (
        LOOK, SURVEY, Asked({"eth1": Answer(Known.NO, "eth1", reason="no answer")}),
        "no gateway answers through it", "switch port and VLAN",
    ),
    "two carry": (
        replace(LOOK, addresses=(*LOOK.addresses, address(3, "10.1.0.2/24"))), SURVEY, Asked(),
        "has addresses of its own (10.1.0.2/24)", "ip address del ADDRESS dev eth1",
    ),
    "made here and gone": (
        replace(LOOK, addresses=(), routes=()), SURVEY,
        Asked(record={"persist": "linkhold", "addresses": ["10.0.0.2/24"]}),
        "is gone; its record has what it carried (10.0.0.2/24)", "linkhold bond repair bond0",
    ),
    "an empty bond": (
        replace(LOOK, links=(*LOOK.links, link("bond0", 9, kind="bond", bond={"mode": 0}))),
        SURVEY, Asked(), "without members", "remove the empty one (ip link del bond0)",
    ),
    "NICs beside a bond": (
        replace(
            standing(), links=(*standing().links[1:], link("eth0", 2)),
            addresses=(*standing().addresses, address(2, "10.1.0.2/24")),
        ),
        SURVEY, Asked(), "(10.1.0.2/24), beside bond0", "leave eth0 out of bonds.bond0.members",
    ),
    **{
        f"owner {kind.value}": (LOOK, with_owner("eth0", kind), Asked(), "is configured by", part)
        for kind, part in {
            OwnerKind.IFUPDOWN: "inet manual",
            OwnerKind.IFUPDOWN2: "/etc/network/interfaces",
            OwnerKind.WICKED: "wicked",
            OwnerKind.DHCPCD: "denyinterfaces eth0 eth1 bond0",
            OwnerKind.DHCLIENT: "dhclient -x eth0",
            OwnerKind.CONNMAN: "NetworkInterfaceBlacklist",
            OwnerKind.UNKNOWN: "as root",
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_lose_the_node_is_refused_with_a_remedy(case: str) -> None:
    """Each way in which nodes were lost is refused before anything is done, with what to do."""
    look, survey, asked, reason, remedy = REFUSED[case]
    refused = plan("bond0", SETTINGS, look, survey, asked)
    texts = [one.text for one in refused.refusals]

    assert refused.phases == ()
    assert refused.undo == ()
    assert any(reason in text and remedy in text for text in texts), texts
    assert "flush" not in " ".join(texts)  # of what may be the only way to the node


@pytest.mark.parametrize(
    ("members", "reason", "remedy"),
    [
        (("eth0", "eth7"), "no such NIC on this host", "plug it in, or write one of"),
        (("eth0", MACS["eth0"]), "is eth0, which is named already", "name it once"),
    ],
)
def test_members_that_are_not_here_or_named_twice(
    members: tuple[str, ...], reason: str, remedy: str
) -> None:
    """A member that is absent, or the same NIC by two names, is refused."""
    refused = plan("bond0", BondSettings(members=members), LOOK, SURVEY)

    assert any(reason in one.text and remedy in one.text for one in refused.refusals)


def test_the_present_mac_of_a_nic_is_no_name_for_it() -> None:
    """In a bond a member has another one: the refusal names the permanent one, and never lo."""
    survey = with_nic("eth1", mac="02:00:00:00:01:00")
    lo = Nic("lo", 1, hw_type=772, mac="00:00:00:00:00:00")
    survey = replace(
        survey, nics=(lo, replace(survey.nics[0], mac="02:99:00:00:00:01"), *survey.nics[1:])
    )

    def refused(member: str) -> str:
        (one,) = plan("bond0", BondSettings(members=("eth1", member)), LOOK, survey).refusals
        return one.text

    assert refused("02:99:00:00:00:01").startswith("02:99:00:00:00:01: the MAC that eth0 has at")
    assert f"write {MACS['eth0']} under" in refused("02:99:00:00:00:01")
    assert "write one of eth0, eth1 under" in refused("00:00:00:00:00:00")


def test_thousands_of_routes_are_told_in_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The first three and how many more; the document for programs has each."""
    many = tuple(route(2, f"10.{n // 250}.{n % 250}.0/24", "10.0.0.1") for n in range(5000))
    made = plan("bond0", SETTINGS, replace(LOOK, routes=(*LOOK.routes, *many)), SURVEY)
    bond_plan.show(made)
    shown = capsys.readouterr().out.splitlines()

    assert len(shown) < 60
    assert sum("route 10." in line and "bond0" in line for line in shown) < 5
    assert any("more such lines about routes" in line for line in shown)
    told = json.dumps(bond_plan.document(made))
    assert all(f"route {one.destination} via" in told for one in many)


def test_every_message_of_a_plan_is_compiled() -> None:
    """Names stand in the holes, so that a bond may be named before it has an index."""
    from linkhold.actuators.compile import compiled

    document = compiled(plan("bond0", SETTINGS, LOOK, SURVEY))
    every = itertools.chain(*(phase["steps"] for phase in document["phases"]), document["undo"])
    holes = {
        name
        for step in every
        if step["do"] == "netlink"
        for change in step["changes"]
        for _, name in change["holes"]
    }

    assert holes == {"eth0", "eth1", "bond0"}
