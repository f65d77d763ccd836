"""The bond's profile for networkd and NetworkManager: what goes into it, and when it is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkhold.decide.bonding.handover import NETWORK_MANAGER, NETWORKD, Holding
from linkhold.decide.bonding.plan import Asked, plan
from linkhold.decide.bonding.steps import WriteFile
from linkhold.model.survey import OwnerKind
from linkhold.survey import firewall, holding
from support.bond_looks import LOOK, SETTINGS, SURVEY, address, standing, titles, with_owner

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.decide.bonding import steps
    from linkhold.model.look import Look

TEXTS = {
    NETWORKD: "[Match]\nName=bond0\n\n[Network]\nAddress=10.0.0.2/24\n",
    NETWORK_MANAGER: "[connection]\nid=wired\nzone=dmz\n\n[ipv4]\nmethod=auto\n",
}
FASTER = replace(SETTINGS, miimon_ms=100)


def written(made: steps.Plan) -> dict[str, str]:
    """Return the files that a plan writes below /etc, by their last part."""
    every = [step for phase in made.phases for step in phase.steps]
    writes = [step for step in every if isinstance(step, WriteFile) and "/etc/" in step.path]
    return {step.path.rpartition("/")[2]: step.content or "" for step in writes}


def with_mtu(look: Look, mtu: int) -> Look:
    """Return the host with that MTU on every interface."""
    return replace(look, links=tuple(replace(one, mtu=mtu) for one in look.links))


def made_for(kind: str, look: Look = LOOK, holding: Holding | None = None) -> steps.Plan:
    """Return the plan for NICs of which networkd or NetworkManager owns the first."""
    owner = OwnerKind.NETWORKD if kind == NETWORKD else OwnerKind.NETWORK_MANAGER
    uuid = "" if kind == NETWORKD else "u"
    survey = with_owner("eth0", owner, native=True, connection_uuid=uuid, profile_files=("10-x",))
    survey = replace(survey, owners=(survey.owners[0],))
    return plan("bond0", SETTINGS, look, survey, Asked(holding=holding or Holding(TEXTS[kind])))


@pytest.mark.parametrize("kind", TEXTS)
def test_profile_that_cannot_be_read_is_never_written_anew(kind: str) -> None:
    """Without its text the next boot would have no network: apply refuses, a repair leaves it."""
    asked = Asked(record={"persist": kind})
    refused = plan("bond0", FASTER, standing(), SURVEY, asked)
    repair = plan("bond0", FASTER, standing(), SURVEY, asked, spare=frozenset())

    assert refused.phases == ()
    assert "the next boot needs it" in refused.refusals[0].reason
    assert titles(repair) == ["set options of bond0: miimon, updelay, downdelay, peer_notif_delay"]
    assert any("its profile is not" in warning for warning in repair.warnings)


@pytest.mark.parametrize("kind", TEXTS)
def test_profile_of_an_adjusted_bond_keeps_what_it_had(kind: str) -> None:
    """What is not the bond's own is copied from its present profile."""
    asked = Asked(record={"persist": kind}, holding=Holding(TEXTS[kind]))
    files = written(plan("bond0", FASTER, with_mtu(standing(), 9000), SURVEY, asked))
    name = "05-linkhold-bond0.network" if kind == NETWORKD else "linkhold-bond0.nmconnection"

    assert ("Address=10.0.0.2/24" if kind == NETWORKD else "method=auto") in files[name]
    assert "9000" in files[name.replace("bond0.network", "bond0.netdev")]


def test_own_profile_is_read_whether_its_manager_runs_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text comes from the bond's own file, without drop-ins; an absent one has none."""
    file = tmp_path / "05-linkhold-bond0.network"
    monkeypatch.setattr(holding, "own_profile", lambda bond, kind: str(file) if kind else "")

    assert holding.own_text("bond0", NETWORKD) == ""
    file.write_text(TEXTS[NETWORKD], encoding="utf-8")
    assert holding.own_text("bond0", NETWORKD) == TEXTS[NETWORKD]
    assert holding.own_text("bond0", "") == ""


@pytest.mark.parametrize(
    ("kind", "file", "line"),
    [
        (NETWORKD, "05-linkhold-bond0.netdev", "MTUBytes=9000"),
        (NETWORK_MANAGER, "linkhold-bond0.nmconnection", "mtu=9000"),
    ],
)
def test_jumbo_mtu_is_there_after_a_boot(kind: str, file: str, line: str) -> None:
    """The MTU of the NIC that carries goes into the profile, where none is configured."""
    assert line in written(made_for(kind, with_mtu(LOOK, 9000)))[file]


def test_networkmanager_is_kept_away_and_its_adoption_is_checked() -> None:
    """Whoever starts it meanwhile, it leaves the NICs alone; it starts anew when it shall adopt."""
    made = made_for(NETWORK_MANAGER)
    first, last = made.phases[0].steps, [step.text for step in made.phases[-1].steps]
    aside = "/run/NetworkManager/conf.d/90-linkhold-bond0.conf"

    assert isinstance(first[0], WriteFile)
    assert first[0].path == aside
    assert "interface-name:eth0;interface-name:eth1;interface-name:bond0" in str(first[0].content)
    order = [f"run systemctl stop {NETWORK_MANAGER}", f"remove {aside}"]
    order += [f"run systemctl start {NETWORK_MANAGER}"]
    assert [text for text in last if text in order] == order
    assert "has NetworkManager's profile" in last[-1]
    assert f"restore {aside}" in [one.step.text for one in made.undo]


def test_members_come_with_a_bond_that_is_brought_up_by_hand() -> None:
    """Without autoconnect-slaves `nmcli connection up` gives a bond that waits for members."""
    text = written(made_for(NETWORK_MANAGER))["linkhold-bond0.nmconnection"]

    assert "autoconnect-slaves=1" in text


def test_firewall_zone_goes_along() -> None:
    """NetworkManager's zone of the connection is the bond's as well."""
    assert "zone=dmz" in written(made_for(NETWORK_MANAGER))["linkhold-bond0.nmconnection"]


def test_dhcp_identity_goes_along_for_both_families() -> None:
    """IAID is set for DHCPv4 and DHCPv6, but not over one that somebody chose."""
    client = {"IAID": "7"}
    text = written(made_for(NETWORKD, holding=Holding(TEXTS[NETWORKD], client=client)))
    chosen = Holding(TEXTS[NETWORKD] + "[DHCPv6]\nIAID=9\n", client=client)
    kept = written(made_for(NETWORKD, holding=chosen))

    assert "[DHCPv4]\nIAID=7\n\n[DHCPv6]\nIAID=7\n" in text["05-linkhold-bond0.network"]
    assert kept["05-linkhold-bond0.network"].count("[DHCPv6]") == 1


def test_lease_that_may_change_is_told() -> None:
    """An address of DHCPv6 without a known identity is named in the plan."""
    known = address(2, "10.0.0.9/32")
    leased = replace(known, family="inet6", address="fd00::7/128", flags=0)
    look = replace(LOOK, addresses=(*LOOK.addresses, leased))

    assert any("fd00::7/128 seems" in one for one in made_for(NETWORK_MANAGER, look).warnings)


def test_profile_that_is_no_keyfile_is_refused() -> None:
    """From an ifcfg file of NetworkManager's no profile of a bond can be made."""
    survey = with_owner(
        "eth0",
        OwnerKind.NETWORK_MANAGER,
        native=True,
        connection_uuid="u",
        profile_files=("/etc/sysconfig/network-scripts/ifcfg-eth0",),
    )
    survey = replace(survey, owners=(survey.owners[0],))

    refused = plan("bond0", SETTINGS, LOOK, survey).refusals
    assert [one.remedy for one in refused] == ["nmcli connection migrate u, then plan again"]


def test_firewall_files_that_name_a_member_are_told(tmp_path: Path) -> None:
    """A rule for eth0 does not hold for bond0; another word or a comment is no rule."""
    for name, text in {
        "nftables.conf": 'iifname "eth0" accept\n# eth1\n',
        "ufw/user.rules": "-A ufw -i eth01 -j ACCEPT\n",
        "firewalld/zones/public.xml": '<interface name="eth1"/>\n',
    }.items():
        path = tmp_path / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = firewall.mentions(("eth0", "eth1"), tmp_path)
    made = plan("bond0", SETTINGS, LOOK, SURVEY, Asked(mentions=found))

    assert [name for _, name in found] == ["eth0", "eth1"]
    assert any("/etc/nftables.conf names eth0" in warning for warning in made.warnings)
