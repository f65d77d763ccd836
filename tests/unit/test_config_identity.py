"""The node's name, certificates, and files that the configuration names."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from linkhold.config import BrokerSettings, MqttSettings, Settings, TlsSettings, load, node_name
from linkhold.config.certificate import common_name
from linkhold.model import ConfigError
from linkhold.wire import topic_safe


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    """Return one authority for the whole module."""
    return trustme.CA()


def write_pair(folder: Path, ca: trustme.CA, name: str) -> TlsSettings:
    """Write CA, certificate for ``name`` and key, and return the settings that name them."""
    pair = ca.issue_cert("x.example", common_name=name)
    tls = TlsSettings(*(str(folder / f"{name}.{part}") for part in ("ca", "cert", "key")))
    ca.cert_pem.write_to_path(tls.ca)
    Path(tls.cert).write_bytes(b"".join(blob.bytes() for blob in pair.cert_chain_pems))
    pair.private_key_pem.write_to_path(tls.key)
    return tls


def with_tls(*all_tls: TlsSettings, node: str = "") -> Settings:
    """Return settings with one broker for each client certificate."""
    fleet = tuple(BrokerSettings(f"b{n}", tls=tls) for n, tls in enumerate(all_tls))
    return Settings(node=node, mqtt=MqttSettings(fleet=fleet))


def check(folder: Path, text: str) -> list[str]:
    """Return the mistakes of a file, with the files that it names looked at."""
    path = folder / "c.yaml"
    path.write_text(text)
    try:
        load(path, files=True)
    except ConfigError as error:
        return [line.removeprefix(f"{path}:") for line in error.mistakes]
    return []


def broker_text(tls: TlsSettings) -> str:
    """Return a file with one broker."""
    return (
        f"mqtt:\n  fleet:\n  - host: b\n    tls: {{ca: {tls.ca}, cert: {tls.cert}, key: {tls.key}}}"
    )


@pytest.mark.parametrize("name", ["gpu-17", "n" * 64, "Grüße 1", "a.b_c"])
def test_common_name(ca: trustme.CA, name: str) -> None:
    """The common name is read from the leaf, whatever else the file holds."""
    pair = ca.issue_cert("x.example", common_name=name)
    pem = b"Certificate:\n text of openssl x509\n" + pair.private_key_and_cert_chain_pem.bytes()

    assert common_name(pem) == name


def test_no_common_name(ca: trustme.CA) -> None:
    """A certificate without a common name says so."""
    with pytest.raises(ValueError, match="without a common name"):
        common_name(ca.issue_cert("x.example").cert_chain_pems[0].bytes())


@given(st.data())
def test_damaged_certificate(ca: trustme.CA, data: st.DataObject) -> None:
    """A damaged certificate is a ValueError or a name, never another error and never endless."""
    pem = bytearray(ca.cert_pem.bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        pem[data.draw(st.integers(0, len(pem) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        common_name(bytes(pem))


def test_name_from_the_host() -> None:
    """Without name and certificate the host's name is used, made safe for a topic."""
    assert node_name(Settings()) == topic_safe(os.uname().nodename)


def test_name_as_configured() -> None:
    """A configured name is used as it stands."""
    assert node_name(Settings(node="gpu-1")) == "gpu-1"


def test_name_from_the_certificate(tmp_path: Path, ca: trustme.CA) -> None:
    """An empty node takes the certificate's common name, since the broker allows no other."""
    assert node_name(with_tls(write_pair(tmp_path, ca, "gpu-9"))) == "gpu-9"


def test_name_differs_from_the_certificate(tmp_path: Path, ca: trustme.CA) -> None:
    """A node that would publish under a name the broker refuses does not start."""
    settings = with_tls(write_pair(tmp_path, ca, "gpu-9"), node="gpu-8")
    with pytest.raises(ConfigError) as caught:
        node_name(settings)

    assert caught.value.mistakes == (
        (
            "mqtt.fleet[0].tls.cert: the certificate's CN is 'gpu-9', but node says 'gpu-8'; "
            "allowed: one name"
        ),
    )


def test_two_certificates_disagree(tmp_path: Path, ca: trustme.CA) -> None:
    """A node has one name at all brokers."""
    settings = with_tls(write_pair(tmp_path, ca, "a"), write_pair(tmp_path, ca, "b"))
    with pytest.raises(ConfigError, match=r"fleet\[1\].*is 'b', but mqtt.fleet\[0\].tls.cert say"):
        node_name(settings)


def test_unsafe_common_name(tmp_path: Path, ca: trustme.CA) -> None:
    """A common name that cannot be a topic level is a mistake, not silently changed."""
    with pytest.raises(ConfigError, match="cannot be one level of an MQTT topic"):
        node_name(with_tls(write_pair(tmp_path, ca, "a b")))


def test_unreadable_certificate_has_no_say(tmp_path: Path) -> None:
    """The node's own leg does not depend on a file of the fleet's leg."""
    tls = TlsSettings(cert=str(tmp_path / "none"), key=str(tmp_path / "none"))

    assert node_name(with_tls(tls, node="a")) == "a"
    assert node_name(with_tls(tls)) == topic_safe(os.uname().nodename)


def test_good_files(tmp_path: Path, ca: trustme.CA) -> None:
    """Files that fit together are no mistake."""
    assert check(tmp_path, broker_text(write_pair(tmp_path, ca, "gpu-9"))) == []


def test_missing_files_are_named(tmp_path: Path) -> None:
    """Each named file that is missing is a mistake at its own key."""
    tls = TlsSettings("/none/ca", "/none/cert", str(tmp_path))

    assert check(tmp_path, broker_text(tls)) == [
        "4: mqtt.fleet[0].tls.ca: /none/ca does not exist",
        "4: mqtt.fleet[0].tls.cert: /none/cert does not exist",
        f"4: mqtt.fleet[0].tls.key: {tmp_path} is a directory",
    ]


def test_load_alone_looks_at_no_files(tmp_path: Path) -> None:
    """The agent starts without its certificates: the node's own leg works."""
    path = tmp_path / "c.yaml"
    path.write_text(broker_text(TlsSettings("/none/ca", "/none/cert", "/none/key")))

    assert load(path).mqtt.fleet[0].host == "b"


def test_key_of_another_certificate(tmp_path: Path, ca: trustme.CA) -> None:
    """Certificate and key that do not belong together are found before a broker says so."""
    one, two = write_pair(tmp_path, ca, "a"), write_pair(tmp_path, ca, "b")
    (found,) = check(tmp_path, broker_text(TlsSettings(one.ca, one.cert, two.key)))

    assert found.startswith(f"4: mqtt.fleet[0].tls.key: {two.key} is encrypted, no PEM key, or not")


def test_files_that_hold_something_else(tmp_path: Path, ca: trustme.CA) -> None:
    """A CA file or certificate with other content is a mistake of that key."""
    good = write_pair(tmp_path, ca, "a")
    junk = tmp_path / "junk"
    junk.write_text("hello")

    assert check(tmp_path, broker_text(TlsSettings(str(junk), str(junk), good.key))) == [
        f"4: mqtt.fleet[0].tls.ca: {junk} holds no usable PEM certificates",
        f"4: mqtt.fleet[0].tls.cert: {junk} holds no PEM certificate",
    ]


def test_node_and_certificate_in_a_file(tmp_path: Path, ca: trustme.CA) -> None:
    """A mismatch is shown with both places."""
    text = "node: gpu-8\n" + broker_text(write_pair(tmp_path, ca, "gpu-9"))

    assert check(tmp_path, text) == [
        (
            "5: mqtt.fleet[0].tls.cert: the certificate's CN is 'gpu-9', but node says 'gpu-8'; "
            "allowed: one name; see node (line 1)"
        ),
    ]


@pytest.mark.parametrize(("content", "good"), [("a\n", True), ("", False), ("a\nb\n", False)])
def test_password_file(tmp_path: Path, content: str, good: bool) -> None:  # noqa: FBT001
    """A password file holds one line."""
    secret = tmp_path / "secret"
    secret.write_text(content)
    text = f"mqtt: {{fleet: [{{host: b, username: u, password_file: {secret}}}]}}"
    wrong = [f"1: mqtt.fleet[0].password_file: {secret} does not hold one line"]

    assert check(tmp_path, text) == ([] if good else wrong)
