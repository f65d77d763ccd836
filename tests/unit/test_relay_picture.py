"""The picture of a fleet: what fires, with the clock in the test's hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from linkhold.config.brokers import BrokerSettings
from linkhold.config.relay import CableSettings, PlaceSettings, RelaySettings
from linkhold.model import Moment
from linkhold.relay.decide.picture import Picture
from linkhold.relay.decide.values import (
    Birth,
    BrokerSeen,
    Cleared,
    Happened,
    Heard,
    Known,
    NodeAlert,
    Report,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from linkhold.relay.decide.values import Ask, Page

START_S = 1_000_000.0
REPORT = Report("boot1", "s1", (1, 1, 1), START_S - 500, clock_synced=True, power="ok")
PLACES = (
    PlaceSettings(nodes=("r1-*",), rack="r1", switch="tor-1"),
    PlaceSettings(nodes=("d-*",), links={"eth0": CableSettings("a"), "eth1": CableSettings("b")}),
)
SETTINGS = RelaySettings(brokers=(BrokerSettings("x"), BrokerSettings("y")), places=PLACES)


def alert(type_: str = "network.down", subject: str = "network", **more: Any) -> NodeAlert:
    """Return an alert of a node."""
    values = {"severity": "critical", "since_s": START_S, "text": "it is down", **more}
    return NodeAlert(f"{type_}/{subject}", type_, subject=subject, **values)


class World:
    """A relay's picture and its clock; ``posted`` is every page in order."""

    def __init__(
        self,
        *,
        brokers: Sequence[str] = ("x", "y"),
        up: bool = True,
        known: Known | None = None,
    ) -> None:
        self.s = 0.0
        self.picture = Picture(SETTINGS, self.now, known)
        self.picture.watch(brokers, self.now)
        self.posted: list[Page] = []
        self.asks: list[Ask] = []
        self.checks: list[tuple[str, Any]] = []
        for broker in brokers if up else ():
            self.broker(broker)

    @property
    def now(self) -> Moment:
        """Return the instant on both clocks."""
        return Moment(int(self.s * 1e9), START_S + self.s)

    def broker(self, name: str, *, up: bool = True) -> None:
        """Connect the relay to a broker, or let it lose it."""
        self.posted += self.picture.take(BrokerSeen(name, up=up, reason="cut"), self.now).pages

    def hear(self, node: str, body: Any, *, broker: str = "x", retained: bool = False) -> None:
        """Take in a message of a node of the site ``lab``."""
        heard = Heard(broker, ("lab", node), retained, body)
        self.posted += self.picture.take(heard, self.now).pages

    def run(self, seconds: float) -> None:
        """Let time pass, second by second."""
        for _ in range(int(seconds)):
            self.s += 1
            outcome = self.picture.tick(self.now)
            self.posted += outcome.pages
            self.asks += outcome.asks
            self.checks += outcome.checks

    def online(self, node: str, report: Report = REPORT, *, broker: str = "x") -> None:
        """Let a node be there."""
        self.hear(node, Status(online=True), broker=broker)
        self.hear(node, report, broker=broker)

    def firing(self) -> list[str]:
        """Return what fires: names with node or group, without the relay's own life sign."""
        found = []
        for page in self.picture.firing:
            labels = dict(page.labels)
            who = labels.get("node") or labels.get("rack") or labels.get("switch") or ""
            found.append(f"{page.name} {who}".strip())
        return sorted(name for name in found if name != "LinkholdRelayAlive")


def event(seq: int, type_: str, at_s: float, subject: str = "eth0", **data: Any) -> Happened:
    """Return an event of session s1."""
    return Happened("boot1", "s1", seq, type_, subject, START_S + at_s, data)


def test_an_alert_fires_while_the_newest_state_shows_it() -> None:
    """A state with an alert posts it once; the next state without it posts its end."""
    world = World()
    world.online("n", replace(REPORT, alerts=(alert(),)))
    world.hear("n", replace(REPORT, order=(1, 2, 1), alerts=(alert(text="still down"),)))
    world.run(10)
    assert [(p.name, p.ends_s) for p in world.posted[1:]] == [("NodeNetworkDown", None)]

    world.hear("n", replace(REPORT, order=(1, 3, 1)))
    assert world.posted[-1].ends_s == START_S + 10
    assert world.firing() == []


def test_a_text_is_an_annotation_and_no_new_alert() -> None:
    """Values that change never are in the labels: another text is the same alert."""
    world = World()
    for number, text in enumerate(("1 of 2", "2 of 2")):
        world.online("n", replace(REPORT, order=(1, number, 1), alerts=(alert(text=text),)))
    (page,) = [page for page in world.picture.firing if page.name == "NodeNetworkDown"]

    assert set(dict(page.labels)) == {"alertname", "severity", "site", "node", "subject"}
    assert "2 of 2" in dict(page.annotations)["summary"]
    words = dict(page.annotations)["description"]
    for part in ("What:", "Where:", "Since:", "Still protects:", "Training:"):
        assert part in words


def test_the_newest_state_wins_over_all_brokers() -> None:
    """An old state that a broker kept never replaces a newer one; of another boot, the later."""
    world = World()
    old = replace(REPORT, alerts=(alert(),))
    world.hear("n", replace(REPORT, order=(1, 5, 1)), broker="x")
    world.hear("n", old, broker="y", retained=True)
    assert world.firing() == []

    booted = replace(REPORT, boot_id="boot2", boot_s=START_S + 100, order=(0, 0, 0))
    world.hear("n", replace(booted, alerts=(alert("bond.down", "bond0"),)), broker="y")
    world.hear("n", replace(REPORT, order=(9, 9, 9)), broker="x")
    assert world.firing() == ["NodeBondDown n"]


messages = st.lists(
    st.tuples(st.sampled_from("xy"), st.integers(1, 6), st.booleans()), min_size=1, max_size=12
)


@given(messages, st.randoms(use_true_random=False))
def test_every_order_ends_in_the_same_picture(sent: list[tuple[str, int, bool]], rng: Any) -> None:
    """States that come twice, late and over several brokers end in what the newest one says."""
    shuffled = list(sent)
    rng.shuffle(shuffled)
    results = []
    for order in (sent, shuffled):
        world = World()
        world.hear("n", Status(online=True))
        for broker, epoch, retained in order:
            alerts = (alert(subject=f"epoch{epoch}"),)
            report = replace(REPORT, order=(1, epoch, 1), alerts=alerts)
            world.hear("n", report, broker=broker, retained=retained)
        labels = {page.labels for page in world.picture.firing}
        results.append(labels)
        newest = max(epoch for _, epoch, _ in sent)
        assert any(dict(one).get("subject") == f"epoch{newest}" for one in labels)

    assert results[0] == results[1]


@given(st.lists(st.tuples(st.sampled_from("xy"), st.booleans(), st.integers(0, 9)), max_size=30))
def test_every_begin_has_one_end(steps: list[tuple[str, bool, int]]) -> None:
    """Whatever comes and goes.

    Pages of one alert begin and end in turn, and what was posted last is what fires.
    """
    world = World()
    for number, (broker, online, seconds) in enumerate(steps):
        world.hear("n", Status(online=online), broker=broker)
        alerts = (alert(),) if number % 3 else ()
        world.hear("n", replace(REPORT, order=(1, number, 1), alerts=alerts), broker=broker)
        world.run(seconds)

    state: dict[Any, bool] = {}
    for page in world.posted:
        begins = page.ends_s is None
        assert state.get(page.labels, False) is not begins
        state[page.labels] = begins
    assert {labels for labels, on in state.items() if on} == {
        page.labels for page in world.picture.firing
    }


def test_offline_by_will_after_its_delay() -> None:
    """A node pages 5 s after its will, not at once, and not when another broker has it."""
    world = World()
    world.online("n")
    world.hear("n", Status(online=False))
    world.run(4)
    assert world.firing() == []
    world.run(2)
    assert world.firing() == ["NodeOffline n"]

    world.hear("n", Status(online=True), broker="y")
    assert world.firing() == []
    world.hear("n", Status(online=False), broker="x", retained=True)
    world.run(30)
    assert world.firing() == ["NodeWasIsolated n"]


def test_a_planned_stop_pages_when_it_does_not_end() -> None:
    """Whoever stops a node on purpose is not paged; after half an hour the node is missed."""
    world = World()
    world.online("n", replace(REPORT, alerts=(alert("bond.degraded", "bond0"),)))
    world.hear("n", Birth("s1", START_S, "", 0, "reboot"))
    world.hear("n", Status(online=False))
    world.run(1790)
    assert world.firing() == []
    world.run(20)
    assert world.firing() == ["NodeBondDegraded n", "NodeOffline n"]

    world.hear("n", Birth("s2", START_S + 1800, "s1", 9, ""))
    world.online("n", replace(REPORT, boot_id="b2", boot_s=START_S + 1800))
    world.run(30)
    assert world.firing() == ["NodeWasIsolated n"]


def test_maintenance_pages_nobody_until_its_end() -> None:
    """Neither alerts nor absence page while planned work is announced; after its end they do."""
    world = World()
    report = replace(
        REPORT, alerts=(alert(),), maintenance_until_s=START_S + 600, maintenance_left_s=600
    )
    world.online("n", report)
    world.hear("n", Status(online=False))
    world.run(590)
    assert world.firing() == []
    world.run(80)
    assert world.firing() == ["NodeNetworkDown n", "NodeOffline n"]


def test_work_that_a_wrong_clock_announced_ends_too() -> None:
    """A node whose clock is years ahead is quiet for as long as was announced, and no longer.

    Where it says itself that its clock is not set, the time that was left counts.
    """
    world = World()
    ahead = replace(REPORT, maintenance_until_s=START_S + 9e7, maintenance_left_s=600)
    behind = replace(REPORT, clock_synced=False, maintenance_until_s=60.0, maintenance_left_s=600)
    for name, report in (("ahead", ahead), ("behind", behind)):
        world.online(name, report)
        world.hear(name, Status(online=False))
    world.run(590)
    assert world.firing() == []
    world.run(80)
    assert world.firing() == ["NodeOffline ahead", "NodeOffline behind"]


def test_a_planned_stop_is_missed_whatever_becomes_of_relays() -> None:
    """Half an hour after it began a planned stop pages, though the relay began anew meanwhile.

    No broker tells since when a node is gone: the relay before this one does.
    """
    first = World()
    first.online("n")
    first.hear("n", Birth("s1", START_S, "", 0, "a new kernel"))
    first.hear("n", Status(online=False))
    first.run(1500)

    world = World(known=first.picture.known(0.0))
    world.s = 1500
    for body in (Status(online=False), Birth("s1", START_S, "", 0, "a new kernel"), REPORT):
        world.hear("n", body, retained=True)
    world.run(290)
    assert world.firing() == []
    world.run(20)
    assert world.firing() == ["NodeOffline n"]
    (gone,) = [page for page in world.picture.firing if page.name == "NodeOffline"]
    assert gone.starts_s == START_S


def test_hostile_words_act_nowhere() -> None:
    """What a node says reaches terminals, chats and mails as words: no escapes, no markup."""
    world = World()
    text = "\x1b[2J<!channel> <http://evil|log in>\n\u202egnp.exe {{ .Labels }}"
    world.online("n", replace(REPORT, alerts=(alert("x.<b>", "et\x00h", text=text),)))
    (found,) = [page for page in world.picture.firing if dict(page.labels).get("node")]
    words = [*dict(found.labels).values(), *dict(found.annotations).values()]

    assert found.name == "NodeXB"
    assert dict(found.labels)["subject"] == "et?h"
    assert all(word.isprintable() and "<" not in word and ">" not in word for word in words)
    assert "\u2039!channel\u203a" in dict(found.annotations)["summary"]


def test_a_dark_rack_is_told_before_its_nodes() -> None:
    """Half of a rack's nodes, and three at least, make the rack dark; it ends at a quarter."""
    world = World()
    names = [f"r1-{number}" for number in range(8)]
    for name in (*names, *(f"n{number}" for number in range(20))):
        world.online(name)
    for name in names[:6]:
        world.hear(name, Status(online=False))
        world.run(1)
    world.run(6)
    told = [page.name for page in world.posted if page.ends_s is None]
    assert told.count("RackDark") == 1
    assert world.firing().count("RackDark r1") == 1

    for name in names[:4]:
        world.hear(name, Status(online=True), broker="y")
    assert "RackDark r1" in world.firing()
    world.hear(names[4], Status(online=True), broker="y")
    assert "RackDark r1" not in world.firing()


def test_a_dead_switch_is_told_by_the_links_that_hang_on_it() -> None:
    """Nodes with two links lose the same one: their switch pages, their racks do not.

    Each bond's alert carries the switch, by which Alertmanager keeps it quiet.
    """
    world = World()
    whole = replace(REPORT, links=frozenset({"eth0", "eth1"}))
    half = replace(
        whole,
        order=(1, 2, 1),
        dark=frozenset({"eth0"}),
        lost=(("bond0", ("eth0",)),),
        alerts=(alert("bond.degraded", "bond0", severity="warning"),),
    )
    for number in range(6):
        world.online(f"d-{number}", whole)
    for number in range(5):
        world.hear(f"d-{number}", half)
    pages = [page for page in world.picture.firing if page.name == "NodeBondDegraded"]

    assert "SwitchDown a" in world.firing()
    assert len(pages) == 5
    assert {dict(page.labels)["switch"] for page in pages} == {"a"}


def test_a_cut_is_one_digest_from_the_replayed_events() -> None:
    """A node that was cut off tells once from when to when and why.

    And which alerts nobody saw; the digest ends by itself.
    """
    world = World()
    world.online("n")
    world.hear("n", event(1, "agent.started", 0))
    world.run(100)
    world.hear("n", Status(online=False))
    world.run(1800)
    world.hear("n", Status(online=True))
    told = {"fingerprint": "f", "alert": "bond.down", "text": "bond0 carries nothing"}
    world.hear("n", event(2, "network.down", 88, "network", cause=["eth0 lost carrier"]))
    world.hear("n", event(3, "alert.opened", 92, "bond0", **told))
    world.hear("n", event(4, "alert.closed", 700, "bond0", **told))
    world.run(10)
    (digest,) = [page for page in world.picture.firing if page.name == "NodeWasIsolated"]

    words = dict(digest.annotations)
    assert "was isolated from 1970-01-12 13:48:08Z to 1970-01-12 14:18:20Z" in words["summary"]
    assert "(30 min), because eth0 lost carrier" in words["summary"]
    assert "NodeBondDown bond0" in words["description"]
    world.run(1800)
    assert world.firing() == []


def test_an_alert_that_no_state_showed_is_told_later() -> None:
    """An alert that begins and ends while nobody could be told becomes information afterwards."""
    world = World()
    world.online("n")
    told = {"fingerprint": "f", "alert": "bond.down", "text": "bond0 carries nothing"}
    world.hear("n", event(1, "alert.opened", 1, "bond0", **told))
    world.hear("n", event(2, "alert.closed", 50, "bond0", **told))
    world.run(10)
    assert world.firing() == ["NodeHadAlerts n"]

    seen = World()
    shown = NodeAlert("f", "bond.down", "critical", "bond0", START_S, "x")
    seen.online("n", replace(REPORT, alerts=(shown,)))
    seen.hear("n", event(1, "alert.opened", 1, "bond0", **told))
    seen.hear("n", replace(REPORT, order=(1, 2, 1)))
    seen.hear("n", event(2, "alert.closed", 50, "bond0", **told))
    seen.run(10)
    assert seen.firing() == []


def test_a_gap_is_asked_of_the_node_and_counted_when_it_cannot_be_had() -> None:
    """A hole in the numbers is asked for after 3 s; what the node no longer has is counted."""
    world = World()
    world.online("n")
    world.hear("n", event(1, "link.up", 0))
    world.hear("n", event(4, "link.up", 0))
    world.run(5)
    (ask,) = world.asks
    assert (ask.session, ask.first, ask.last) == ("s1", 2, 3)

    world.hear("n", event(3, "link.up", 0))
    data = {"request": ask.request, "count": 1, "missing": 1}
    world.hear("n", event(5, "agent.replayed", 6, "agent", **data))
    world.run(200)
    assert world.picture.events_missing() == 1
    assert len(world.asks) == 1


def test_a_node_that_is_gone_for_good_is_forgotten() -> None:
    """Whoever empties a node's status topic ends all that fires for it, groups included."""
    world = World()
    for number in range(4):
        world.online(f"r1-{number}", replace(REPORT, alerts=(alert(),)))
    for number in range(3):
        world.hear(f"r1-{number}", Status(online=False))
    world.run(10)
    assert "RackDark r1" in world.firing()
    for number in range(3):
        world.hear(f"r1-{number}", Cleared())
    world.run(10)
    assert world.firing() == ["NodeNetworkDown r1-3"]
    assert len(world.picture.nodes) == 1


def test_mains_lost_of_a_site_is_one_page() -> None:
    """Three nodes of a site on battery, and half of it, mean that the site has lost its mains."""
    world = World()
    for number in range(4):
        world.online(f"n{number}", replace(REPORT, power="battery"))
    assert [page.name for page in world.posted].count("SitePowerLost") == 1


def test_the_relay_always_gives_a_sign_of_life() -> None:
    """One alert always fires, under the relay's own name: when it stops, somebody is paged."""
    world = World()
    world.run(1)
    (sign,) = [page for page in world.picture.firing if page.name == "LinkholdRelayAlive"]

    assert dict(sign.labels)["relay"] == "relay"
