"""The configuration of ``linkhold relay``: a file of its own, on the machine that alerts."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- typing.get_type_hints() looks it up
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.config.brokers import BrokerSettings, TlsSettings
from linkhold.config.finding import Finding
from linkhold.config.metrics import MetricsSettings
from linkhold.config.option import option

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PLACES = 4096


@dataclass(frozen=True, slots=True)
class AlertmanagerSettings:
    """One Alertmanager; every member of a cluster is named, since each must be told."""

    url: str = option("", "where it listens", text=True, url=True, example="http://127.0.0.1:9093")
    tls: TlsSettings | None = option(None, "certificates for https", item=TlsSettings)
    username: str = option("", "user name, where a proxy before it wants one", example="relay")
    password_file: str = option(
        "", "file with the password, on one line", path=True, example="/etc/linkhold/password"
    )


@dataclass(frozen=True, slots=True)
class CableSettings:
    """Where one interface of a place's nodes is plugged in."""

    switch: str = option(
        "", "the switch it is plugged into", text=True, safe=True, example="tor-12a"
    )


@dataclass(frozen=True, slots=True)
class PlaceSettings:
    """Where nodes stand and what they hang on; the first place that matches a node counts."""

    nodes: tuple[str, ...] = option(
        (),
        "names of nodes, with * and ? as in a shell",
        text=True,
        least=1,
        most=1024,
        word=True,
        example=("gpu-r12-*",),
    )
    site: str = option("", "only nodes of this site; empty: of any", safe=True)
    rack: str = option("", "the rack they stand in", safe=True, example="r12")
    switch: str = option(
        "", "the switch that all of a node's links hang on", safe=True, example="tor-12"
    )
    links: Mapping[str, CableSettings] = option(
        dict,
        "switches by interface, where a node hangs on more than one",
        item=CableSettings,
        most=64,
        example="eth0",
    )


@dataclass(frozen=True, slots=True)
class PagingSettings:
    """When the relay tells what it sees, in seconds."""

    offline_after_s: float = option(
        5.0, "a node counts as offline this long after its will", least=0, most=600
    )
    return_s: float = option(
        1800.0, "a node that was stopped on purpose is missed after this", least=60, most=86400
    )
    gone_s: float = option(
        300.0,
        "a node that does not come back with its broker is missed after this",
        least=10,
        most=86400,
    )
    repost_s: float = option(60.0, "every alert is posted again this often", least=5, most=180)
    ends_s: float = option(
        300.0,
        "an alert that is posted no more ends after this; three reposts at least",
        least=30,
        most=3600,
    )
    digest_s: float = option(
        1800.0, "what a node that was cut off missed is shown this long", least=300, most=86400
    )
    group_share: float = option(
        0.5,
        "rack, switch or site count as dark when this share of their nodes is",
        least=0.1,
        most=1,
    )
    group_least: int = option(3, "and not fewer nodes than this", least=2, most=1000)


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """The whole configuration of the relay."""

    name: str = option(
        "relay", "name of this relay; two that run side by side have two names", safe=True
    )
    brokers: tuple[BrokerSettings, ...] = option(
        (), "every broker of the fleet; the relay listens on all", item=BrokerSettings, most=16
    )
    alertmanagers: tuple[AlertmanagerSettings, ...] = option(
        (), "Alertmanagers, API v2; each is told", item=AlertmanagerSettings, most=8
    )
    apprise_file: str = option(
        "",
        "file of Apprise URLs, one a line, for a site without Alertmanager; one relay only",
        path=True,
        example="/etc/linkhold/apprise.urls",
    )
    state_dir: str = option(
        "/var/lib/linkhold-relay", "where the position in each node's events is kept", path=True
    )
    runbook_url: str = option(
        "",
        "link to your runbook, in each alert",
        url=True,
        example="https://wiki.example.org/nodes",
    )
    places: tuple[PlaceSettings, ...] = option(
        (),
        "racks and switches, for labels and for one page when one fails",
        item=PlaceSettings,
        most=MAX_PLACES,
    )
    paging: PagingSettings = option(PagingSettings, "when people are told")
    metrics: MetricsSettings = option(MetricsSettings, "metrics of the relay itself")


def relay_contradictions(settings: RelaySettings) -> Iterator[Finding]:
    """Yield what no relay can work with."""
    if not settings.brokers:
        yield Finding(("brokers",), "no broker; allowed: 1 to 16, all brokers of the fleet")
    if not settings.alertmanagers and not settings.apprise_file:
        yield Finding(("alertmanagers",), "nobody to tell; allowed: alertmanagers or apprise_file")
    if settings.alertmanagers and settings.apprise_file:
        text = "both would tell people twice; allowed: alertmanagers or apprise_file"
        yield Finding(("apprise_file",), text, ("alertmanagers",))
    paging = settings.paging
    if paging.ends_s < 3 * paging.repost_s:
        text = f"{paging.ends_s:g} s is less than three reposts; an alert would end while it lasts"
        yield Finding(("paging", "ends_s"), text, ("paging", "repost_s"))
