"""Properties of the reader that hold for every file."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from linkhold.config import BondSettings, Detect, Settings, default_file, load
from linkhold.config.brokers import BrokerSettings
from linkhold.config.contradictions import contradictions
from linkhold.config.paths import PathSettings, PathTarget
from linkhold.config.power import PowerSettings, SensorSettings, UpsSettings
from linkhold.config.power_contradictions import GENERIC_KEYS, SEVERAL
from linkhold.config.schema import Kind, Option, options
from linkhold.model import ConfigError
from linkhold.model.power_sources import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# tmp_path is shared by all examples of a test; each writes the file anew.
relaxed = settings(suppress_health_check=list(HealthCheck), deadline=None)

ADDRESSES = st.sampled_from(["192.0.2.1", "10.0.0.7", "2001:db8::5", "fe80::1"])
WORDS = st.text("abcXYZ019", min_size=1, max_size=8)
MACS = st.sampled_from(["02:00:00:00:00:01", "10:22:33:44:55:06", "ac:de:48:00:11:22"])
BUS_PATHS = st.sampled_from(["0000:00:03.0", "0000:3b:00.1", "10000:e1:00.0", "1-1.4:1.0"])
FORMS = {
    "port": st.integers(1, 65535).map(str),
    "ip": ADDRESSES,
    "host": WORDS.map(lambda word: f"h{word}.example") | ADDRESSES,
    "endpoint": st.sampled_from(["10.0.0.7:1", "[2001:db8::5]:65535", "nas.example:2049"]),
    "url": st.sampled_from(["http://10.0.0.7/", "https://[2001:db8::5]:8443/a?b=c"]),
    "interface": WORDS.map(lambda word: f"{word}.7"),
    "new_interface": WORDS.map(lambda word: f"b-{word}"),
    "member": WORDS.map(lambda word: f"{word}.7") | MACS | BUS_PATHS,
    "path": WORDS.map(lambda word: f"/etc/{word}"),
    "prom": WORDS.map(lambda word: f"/var/{word}.prom"),
    "safe": WORDS,
    "topic": WORDS.map(lambda word: f"a/{word}/+/state") | st.sampled_from(["#", "tele/+/SENSOR"]),
    "word": WORDS,
    "text": st.text(min_size=1).filter(lambda text: text.isprintable() and text.strip()),
    "": WORDS | st.sampled_from(["yes", "0x1", "~", "1e5", "- a", "é", "2020-01-01"]),
}


def values(option: Option) -> st.SearchStrategy[Any]:
    """Return a strategy for valid values of an option, made from the schema."""
    bounds, item = option.metadata, option.item
    strategies: dict[Kind, Callable[[], st.SearchStrategy[Any]]] = {
        Kind.SECTION: lambda: sections(item),
        Kind.OPTIONAL: lambda: st.none() | sections(item),
        Kind.LIST: lambda: st.lists(sections(item), max_size=3).map(tuple),
        Kind.TEXTS: lambda: texts(option),
        Kind.TABLE: lambda: st.dictionaries(FORMS[option.key_form], sections(item), max_size=3),
        Kind.CHOICE: lambda: st.sampled_from(list(item)),
        Kind.BOOL: st.booleans,
        Kind.INT: lambda: st.integers(bounds["least"], bounds["most"]),
        Kind.FLOAT: lambda: st.floats(bounds["least"], bounds["most"]),
        Kind.TEXT: lambda: FORMS[option.form],
    }
    return strategies[option.kind]()


def texts(option: Option) -> st.SearchStrategy[Any]:
    """Return a strategy for a list of text, each once."""
    lists = st.lists(FORMS[option.form], min_size=option.least, max_size=3, unique=True)
    return lists.map(tuple)


def agreeing(bond: BondSettings) -> BondSettings:
    """Return a bond like this one whose settings do not contradict each other."""
    delays: dict[str, Any] = {
        name: getattr(bond, name) // bond.miimon_ms * bond.miimon_ms
        for name in ("updelay_ms", "downdelay_ms", "peer_notif_delay_ms")
    }
    if len(bond.members) == 1:
        delays["updelay_ms"] = 0
    return dataclasses.replace(
        bond,
        **delays,
        primary=bond.members[-1] if bond.primary else "",
        targets=bond.targets if bond.detect is Detect.PROBE else (),
        mtu_bytes=max(bond.mtu_bytes, 1280) if bond.mtu_bytes else 0,
        confirm_after_s=min(bond.confirm_after_s, 5.0),
    )


def one_way(target: PathTarget) -> PathTarget:
    """Return a target like this one that is asked in one way."""
    if target.http:
        return dataclasses.replace(target, ping="", tcp="")
    return dataclasses.replace(target, ping="" if target.tcp else target.ping or "192.0.2.1")


def in_order(paths: PathSettings) -> PathSettings:
    """Return probes like these that are not asked less often in trouble."""
    return dataclasses.replace(paths, interval_ok=max(paths.interval_ok, paths.interval_trouble))


def together(broker: BrokerSettings) -> BrokerSettings:
    """Return a broker like this one, with a user for its password and whole TLS."""
    tls = broker.tls and dataclasses.replace(broker.tls, cert="/c", key="/k")
    return dataclasses.replace(broker, tls=tls, username=broker.username or "u")


def known_to_upsd(ups: UpsSettings) -> UpsSettings:
    """Return a UPS like this one, with a password for its user and whole TLS."""
    tls = ups.tls and dataclasses.replace(ups.tls, cert="", key="")
    login = ups.login and bool(ups.user)
    password_file = "/etc/password" if ups.user else ""
    return dataclasses.replace(ups, tls=tls, login=login, password_file=password_file)


def spoken(sensor: SensorSettings) -> SensorSettings:
    """Return a sensor like this one that has the keys of its dialect only."""
    usual = SensorSettings()
    foreign: tuple[str, ...] = ("watch", "channel", "pattern", "absent", "status_topic")
    if sensor.dialect is not Dialect.GENERIC:
        foreign = GENERIC_KEYS if sensor.dialect in SEVERAL else (*GENERIC_KEYS, "watch", "channel")
    return dataclasses.replace(sensor, **{key: getattr(usual, key) for key in foreign})


def counted(power: PowerSettings) -> PowerSettings:
    """Return sources like these, each with its own name, and no more needed than there are."""
    nut = tuple(dataclasses.replace(one, name=f"ups{n}") for n, one in enumerate(power.nut))
    mqtt = tuple(
        dataclasses.replace(one, name=f"s{n}", broker=one.broker or BrokerSettings("broker"))
        for n, one in enumerate(power.mqtt)
    )
    supplies = min(power.supplies_needed, max(1, len(nut)))
    return dataclasses.replace(
        power, nut=nut, mqtt=mqtt, supplies_needed=supplies, sensors_needed=2
    )


def any_sections(section: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a whole section, whose values may contradict each other."""
    return st.builds(section, **{option.name: values(option) for option in options(section)})


def sections(section: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a whole section; some would nearly always contradict themselves."""
    built = any_sections(section)
    mend: dict[Any, Callable[[Any], Any]] = {
        BondSettings: agreeing,
        PathSettings: in_order,
        PathTarget: one_way,
        BrokerSettings: together,
        PowerSettings: counted,
        SensorSettings: spoken,
        UpsSettings: known_to_upsd,
    }
    return built.map(mend[section]) if section in mend else built


def plain(value: Any) -> Any:
    """Return settings as what YAML knows; an absent section is an absent key."""
    if dataclasses.is_dataclass(value):
        pairs = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {name: plain(inner) for name, inner in pairs.items() if inner is not None}
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [plain(inner) for inner in value]
    return value.value if isinstance(value, Enum) else value


BONDS = st.dictionaries(FORMS["new_interface"], sections(BondSettings), min_size=1, max_size=2)


@relaxed
@given(BONDS)
def test_round_trip_of_bonds(tmp_path: Path, bonds: dict[str, BondSettings]) -> None:
    """Bonds of every kind are read back equal; a contradiction is a member of two bonds."""
    wanted = Settings(bonds=bonds)
    found = [one.text for one in contradictions(wanted)]
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(plain(wanted), allow_unicode=True), encoding="utf-8")

    assert all("is in two bonds" in text for text in found)
    assert found or load(path) == wanted


@relaxed
@given(any_sections(BondSettings))
def test_contradictions_can_be_mended(bond: BondSettings) -> None:
    """The multiple that a message proposes ends the contradiction it is about."""
    delays = ("updelay_ms", "downdelay_ms", "peer_notif_delay_ms")
    for one in contradictions(Settings(bonds={"bond0": bond})):
        if one.at[-1] in delays and "such as" in one.text:
            proposed = int(one.text.rpartition("such as ")[2])
            changes: dict[str, Any] = {str(one.at[-1]): proposed}
            bond = dataclasses.replace(bond, **changes)
    found = contradictions(Settings(bonds={"bond0": bond}))

    assert not [one for one in found if "such as" in one.text]


@relaxed
@given(sections(Settings))
def test_round_trip(tmp_path: Path, wanted: Settings) -> None:
    """Whatever is valid, written by another YAML library call, is read back equal."""
    assume(not list(contradictions(wanted)))
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(plain(wanted), allow_unicode=True), encoding="utf-8")

    assert load(path) == wanted


def attempt(path: Path, content: bytes) -> None:
    """Load a file; the only error may be a ConfigError with clean lines."""
    path.write_bytes(content)
    mistakes: tuple[str, ...] = ()
    try:
        load(path, files=True)
    except ConfigError as error:
        mistakes = error.mistakes or ("",)
    assert all(line.isprintable() and str(path) in line for line in mistakes)


@relaxed
@given(st.binary())
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    """Arbitrary bytes are the defaults or a list of mistakes, never another error."""
    attempt(tmp_path / "c.yaml", content)


@relaxed
@given(st.text(st.sampled_from("ab01:-#&*!|>'\"%@`{}[],?<=~ \t\n\r\\xuU.é\u2028\0")))
@example('"\\ud800": 1')
@example("a: 1\n" * 50)
def test_any_yaml_like_text(tmp_path: Path, text: str) -> None:
    """Text made of what YAML finds special is read or refused, never another error."""
    attempt(tmp_path / "c.yaml", text.encode())


@relaxed
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(default_file())),
            st.integers(0, 12),
            st.sampled_from(
                ["", ":", "\n", "  ", "- ", "{", "]", "'", '"', "&a ", "*a", "yes", "#"]
            ),
        ),
        max_size=5,
    )
)
def test_damaged_default_file(tmp_path: Path, edits: list[tuple[int, int, str]]) -> None:
    """A configuration with slips of the keyboard is read or refused, never another error."""
    text = default_file().replace("\n#  ", "\n  ")
    for at, removed, inserted in edits:
        text = text[:at] + inserted + text[at + removed :]
    attempt(tmp_path / "c.yaml", text.encode())


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "site",
                    "mqtt",
                    "fleet",
                    "host",
                    "port",
                    "links",
                    "bonds",
                    "b",
                    "members",
                    "targets",
                ]
            )
            | st.text(max_size=4)
            | st.integers()
            | st.booleans(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@relaxed
@given(trees)
def test_any_valid_yaml(tmp_path: Path, tree: object) -> None:
    """YAML of any shape and type is read or refused, never another error."""
    attempt(tmp_path / "c.yaml", yaml.safe_dump(tree, allow_unicode=True).encode())
