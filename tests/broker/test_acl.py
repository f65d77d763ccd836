"""The broker that docs/brokers recommends: who may say and hear what; `check --connect`."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

from linkhold.config.brokers import BrokerSettings, TlsSettings
from linkhold.legs.fleet_check import Answer, Answers, ask, verdict
from linkhold.model import BrokerError
from linkhold.mqtt import Acknowledged, Connected, Connection, Subscribed
from linkhold.mqtt.connection import Will
from linkhold.mqtt.happened import CODE_NO_SUBSCRIBER, Received
from linkhold.mqtt.tls import Tls
from support.broker import MOSQUITTO, Broker
from support.running import run_cli

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.mqtt import Notice

pytestmark = pytest.mark.skipif(not shutil.which(MOSQUITTO), reason="mosquitto not installed")
RECIPE = Path(__file__).parents[2] / "docs/brokers"
NOT_AUTHORIZED = 0x87
NODE = "linkhold/v1/lab/n1"


class Fleet:
    """A recommended broker on the loopback, and the certificates of those who use it."""

    def __init__(self, folder: Path, make: Callable[..., Broker], acl: str | None = None) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.ca.cert_pem.write_to_path(folder / "ca.pem")
        server = self.ca.issue_cert("127.0.0.1", "localhost")
        server.cert_chain_pems[0].write_to_path(folder / "broker.pem")
        server.private_key_pem.write_to_path(folder / "broker.key")
        text = (RECIPE / "linkhold.acl").read_text() if acl is None else acl
        (folder / "acl").write_text(text)
        self.broker = make(*self._options(), anonymous=False)
        self.broker.start()

    def _options(self) -> list[str]:
        """Return the recommended lines, but for the listener and the places of files."""
        places = {
            "acl_file": self.folder / "acl",
            "cafile": self.folder / "ca.pem",
            "certfile": self.folder / "broker.pem",
            "keyfile": self.folder / "broker.key",
        }
        left = ("#", "listener", "per_listener", "allow_anonymous", "persistence_location")
        lines = (RECIPE / "linkhold.conf").read_text().splitlines()
        found = [line for line in lines if line and not line.startswith(left)]
        return [
            f"{word} {places[word]}" if (word := line.split()[0]) in places else line
            for line in found
        ]

    def tls(self, name: str, not_after: dt.datetime | None = None) -> TlsSettings:
        """Return the certificate of somebody; its common name is ``name``."""
        leaf = self.ca.issue_cert(common_name=name, not_after=not_after)
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(key)
        return TlsSettings(str(self.folder / "ca.pem"), str(cert), str(key))

    def settings(self, name: str) -> BrokerSettings:
        """Return the broker as the configuration of ``name`` has it."""
        return BrokerSettings("127.0.0.1", self.broker.port, self.tls(name))

    def connect(self, name: str, will: Will | None = None) -> Connection:
        """Return a connection of somebody."""
        tls = self.tls(name)
        made = Connection(name, will=will, tls=Tls(Path(tls.ca), Path(tls.cert), Path(tls.key)))
        made.open_tcp("127.0.0.1", self.broker.port)
        assert until(made, Connected)
        return made

    def code(self, name: str, topic: str) -> int:
        """Return what the broker answers to a message of somebody."""
        connection = self.connect(name)
        connection.publish(topic, b"{}", qos=1)
        answer = until(connection, Acknowledged)
        connection.close()
        assert isinstance(answer, Acknowledged)
        return answer.code


def until(connection: Connection, kind: type[Notice]) -> Notice | None:
    """Return the next notice of a kind, None when two seconds bring none."""
    for _ in range(20):
        for notice in connection.service(0.1):
            if isinstance(notice, kind):
                return notice
    return None


@pytest.fixture
def fleet(tmp_path: Path, brokers: Callable[..., Broker]) -> Fleet:
    """A recommended broker."""
    return Fleet(tmp_path, brokers)


@pytest.mark.parametrize(
    ("who", "topic", "allowed"),
    [
        ("n1", f"{NODE}/status", True),
        ("n1", f"{NODE}/birth", True),
        ("n1", f"{NODE}/state", True),
        ("n1", f"{NODE}/event/link.down", True),
        ("n1", f"{NODE}/diag/a1", True),
        ("n1", f"{NODE}/cmd/diagnose", False),
        ("n1", f"{NODE}/other", False),
        ("n1", "linkhold/v1/lab/n2/state", False),
        ("n1", "linkhold/v1/lab/n2/cmd/diagnose", False),
        ("n1", "power/rack1/mains", False),
        ("sensor-rack1", "power/rack1/mains", True),
        ("sensor-rack1", "power/rack2/mains", False),
        ("sensor-rack1", f"{NODE}/state", False),
        ("relay", f"{NODE}/state", False),
        ("relay", f"{NODE}/cmd/replay", True),
        ("relay", f"{NODE}/cmd/maintenance", True),
        ("relay", f"{NODE}/cmd/diagnose", False),
        ("operator", f"{NODE}/cmd/diagnose", True),
        ("operator", f"{NODE}/state", False),
    ],
)
def test_who_may_write(fleet: Fleet, who: str, topic: str, allowed: bool) -> None:  # noqa: FBT001
    """Nodes write their topics but cmd/, sensors theirs, operators cmd/, the relay two of it."""
    assert fleet.code(who, topic) == (CODE_NO_SUBSCRIBER if allowed else NOT_AUTHORIZED)


@pytest.mark.parametrize(
    ("who", "writer", "topic", "heard"),
    [
        ("n1", "operator", f"{NODE}/cmd/diagnose", True),
        ("n2", "operator", f"{NODE}/cmd/diagnose", False),
        ("n2", "n1", f"{NODE}/state", False),
        ("n1", "sensor-rack1", "power/rack1/mains", True),
        ("sensor-rack2", "sensor-rack1", "power/rack1/mains", True),
        ("relay", "n1", f"{NODE}/event/link.down", True),
        ("operator", "n1", f"{NODE}/diag/a1", True),
        ("sensor-rack1", "n1", f"{NODE}/state", False),
    ],
)
def test_who_may_read(fleet: Fleet, who: str, writer: str, topic: str, heard: bool) -> None:  # noqa: FBT001
    """Nodes hear their own commands and the power sensors; relay and operators hear all nodes."""
    reader = fleet.connect(who)
    reader.subscribe("#")
    assert until(reader, Subscribed)

    fleet.code(writer, topic)
    got = until(reader, Received)

    reader.close()
    assert (isinstance(got, Received) and got.topic == topic) is heard


@pytest.mark.parametrize(
    ("topic", "heard"),
    [(f"{NODE}/status", True), ("linkhold/v1/lab/n2/status", False), (f"{NODE}/cmd/x", False)],
)
def test_whose_will_is_published(fleet: Fleet, topic: str, heard: bool) -> None:  # noqa: FBT001
    """The will of a node speaks for that node only, and gives no commands."""
    reader = fleet.connect("relay")
    reader.subscribe("#", retained=False)
    assert until(reader, Subscribed)

    fleet.connect("n1", Will(topic, b"offline", 0)).abandon()
    got = until(reader, Received)

    reader.close()
    assert (isinstance(got, Received) and got.topic == topic) is heard


def test_each_connection_has_a_descriptor() -> None:
    """The limit of the service is above that of the listener, with room for files and logs."""
    found = {}
    for name, key in (("linkhold.conf", "max_connections "), ("limits.conf", "LimitNOFILE=")):
        lines = (RECIPE / name).read_text().splitlines()
        found[name] = int(next(line for line in lines if line.startswith(key)).removeprefix(key))

    assert found["limits.conf"] >= found["linkhold.conf"] + 100


def test_no_certificate_no_connection(fleet: Fleet) -> None:
    """Without a certificate of the fleet's CA nobody connects."""
    with pytest.raises(BrokerError):
        ask(
            BrokerSettings(
                "127.0.0.1", fleet.broker.port, TlsSettings(str(fleet.folder / "ca.pem"))
            ),
            "lab",
            "n1",
        )


def test_limits_are_taken(fleet: Fleet) -> None:
    """The broker knows every line of the recommended file and complains about none."""
    log = fleet.broker.log().splitlines()
    complaints = [line for line in log if "Error:" in line]

    assert complaints == []


def configured(fleet: Fleet, name: str, not_after: dt.datetime | None = None) -> Path:
    """Write a configuration of a node whose certificate is ``name``'s."""
    tls = fleet.tls(name, not_after)
    path = fleet.folder / "linkhold.yaml"
    files = f"{{ca: {tls.ca}, cert: {tls.cert}, key: {tls.key}}}"
    where = f"{{host: 127.0.0.1, port: {fleet.broker.port}, tls: {files}}}"
    path.write_text(f"site: lab\nmqtt: {{fleet: [{where}]}}\n")
    return path


def test_check_connect_is_content(fleet: Fleet) -> None:
    """`check --connect` says that the recommended broker is right for this node."""
    done = run_cli("check", str(configured(fleet, "n1")), "--connect")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1].endswith(
        "right for n1: its own topics are taken, another node's and commands are refused"
    )


@pytest.mark.parametrize(
    ("acl", "complaints"),
    [
        ("pattern readwrite #\n", ["lets n1 speak for other nodes", "lets n1 give commands"]),
        ("pattern write linkhold/v1/+/%u/#\n", ["lets n1 give commands"]),
        (
            "user nobody\ntopic read x\n",
            ["refuses what n1 says under its own name (Not authorized)"],
        ),
    ],
)
def test_check_connect_complains(
    tmp_path: Path, brokers: Callable[..., Broker], acl: str, complaints: list[str]
) -> None:
    """A broker that lets a node say too much or too little is named, with what to do."""
    fleet = Fleet(tmp_path, brokers, acl)
    done = run_cli("check", str(configured(fleet, "n1")), "--connect")

    said = done.stdout.splitlines()[1:]
    assert done.returncode == 1
    assert len(said) == len(complaints)
    for line, complaint in zip(said, complaints, strict=True):
        assert complaint in line
        assert "docs/brokers.md" in line


def test_check_connect_with_an_expired_certificate(fleet: Fleet) -> None:
    """A broker that refuses the node's certificate is quoted in words."""
    yesterday = dt.datetime.now(dt.timezone.utc) - dt.timedelta(days=1)
    done = run_cli("check", str(configured(fleet, "n1", yesterday)), "--connect")

    assert done.returncode == 1
    assert done.stdout.endswith("cannot be asked: TLS: the broker says: certificate expired\n")


def test_check_connect_with_tls_on_one_side(
    fleet: Fleet, tmp_path: Path, brokers: Callable[..., Broker]
) -> None:
    """Where only one of the two speaks TLS the line says what may be behind it."""
    plain, path = brokers().start().port, tmp_path / "c.yaml"
    said = []
    for port, tls in ((fleet.broker.port, ""), (plain, ", tls: {}")):
        path.write_text(f"mqtt: {{fleet: [{{host: 127.0.0.1, port: {port}{tls}}}]}}\n")
        said.append(run_cli("check", str(path), "--connect").stdout)

    assert "perhaps this port is one for TLS (tls: in the configuration)" in said[0]
    assert "perhaps this port is one without TLS" in said[1]


def test_check_connect_without_a_broker(tmp_path: Path) -> None:
    """A broker that is not there, and a configuration without one, are said in a line each."""
    path = tmp_path / "c.yaml"
    path.write_text("mqtt: {fleet: [{host: 127.0.0.1, port: 1}]}\n")
    gone = run_cli("check", str(path), "--connect")
    path.write_text("{}\n")
    none = run_cli("check", str(path), "--connect")

    assert gone.returncode == none.returncode == 1
    assert "127.0.0.1:1: cannot be asked: connection refused" in gone.stdout.lower()
    assert none.stdout.splitlines()[1] == "mqtt.fleet is empty: there is no broker to ask"


def test_verdict_needs_all_three() -> None:
    """Only own accepted, others refused is right: every other combination has a word."""
    yes, no = Answer(accepted=True), Answer(accepted=False, text="Not authorized")
    right = [
        Answers(own, foreign, command)
        for own in (yes, no)
        for foreign in (yes, no)
        for command in (yes, no)
        if not verdict(Answers(own, foreign, command), "n1")
    ]

    assert right == [Answers(yes, no, no)]
