"""Every wrong configuration has a message that says where, what, and what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from linkhold.config import Settings, document, load
from linkhold.config.schema import options
from linkhold.model import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

TOP = ", ".join(one.name for one in options(Settings))
NAME = "1 to 64 letters, digits, . _ -, with no . or - at the ends"
INTERFACE = "an interface name, 1 to 15 bytes without space, / and :"

KEYS = [
    ("place: a", f"1: place: unknown key; allowed: {TOP}"),
    ("\n\nSite: a", f"3: Site: unknown key (did you mean site?); allowed: {TOP}"),
    ("settle_s: 1", f"1: settle_s: unknown key (did you mean policy.settle_s?); allowed: {TOP}"),
    (
        "mqtt:\n  fleet:\n  - host: b\n    password: secret",
        (
            "4: mqtt.fleet[0].password: unknown key (did you mean password_file?); "
            "allowed: host, port, tls, username, password_file"
        ),
    ),
    ("site: a\nsite: b", "2: site: given twice; allowed: once; see line 1"),
    ("links:\n  eth0:\n  eth0:", "3: links.eth0: given twice; allowed: once; see line 2"),
    ("links: {1: {}}", "1: links: the key '1' means a number in YAML; put it in quotes"),
    ("links: {on: {}}", "1: links: the key 'on' means a yes/no value in YAML; put it in quotes"),
    ("links: {'': {}}", f"1: links['']: is no interface name; allowed: {INTERFACE}"),
    ("links: {a/b: {}}", f"1: links['a/b']: is no interface name; allowed: {INTERFACE}"),
    ("links: {a b: {}}", f"1: links['a b']: is no interface name; allowed: {INTERFACE}"),
    (
        "links: {abcdefghijklmnop: {}}",
        f"1: links.abcdefghijklmnop: is no interface name; allowed: {INTERFACE}",
    ),
    ("? [a]\n: b", "1: the top level: a list is used as a key"),
    ("<<: {site: a}", "1: the top level: a merge key (<<) is not allowed; write the keys out"),
]

TYPES = [
    ("- a", f"1: the top level: is a list; allowed: a mapping with {TOP}"),
    ("words", f"1: the top level: is text; allowed: a mapping with {TOP}"),
    ("site:", f"1: site: has no value; allowed: {NAME}"),
    ("site: [a]", f"1: site: is a list; allowed: {NAME}"),
    ("node: 7", f"1: node: 7 means a number in YAML; put it in quotes; allowed: {NAME}, or empty"),
    ("site: yes", f"1: site: yes means a yes/no value in YAML; put it in quotes; allowed: {NAME}"),
    ("site: 2020-01-01", "1: site: 2020-01-01 means a date in YAML; put it in quotes; allowed: "),
    ("mqtt: 3", "1: mqtt: is a number; allowed: a mapping with local, fleet, keepalive_s, "),
    ("mqtt: {local: 1}", "1: mqtt.local: 1 is not true or false; allowed: true or false"),
    ("mqtt: {local: 'yes'}", "1: mqtt.local: 'yes' is text; allowed: true or false"),
    ("mqtt: {fleet: {}}", "1: mqtt.fleet: is a mapping; allowed: a list, at most 16 entries"),
    ("mqtt: {keepalive_s: true}", "1: mqtt.keepalive_s: true is not a number; allowed: 5 to 30"),
    (
        "mqtt: {keepalive_s: '10'}",
        "1: mqtt.keepalive_s: '10' is text; write the number without quotes; allowed: 5 to 30",
    ),
    (
        "mqtt: {keepalive_s: 10.5}",
        "1: mqtt.keepalive_s: 10.5 is not a whole number; allowed: 5 to 30",
    ),
    ("mqtt: {keepalive_s: ten}", "1: mqtt.keepalive_s: 'ten' is not a number; allowed: 5 to 30"),
    ("mqtt: {keepalive_s: }", "1: mqtt.keepalive_s: has no value; allowed: 5 to 30"),
    ("links: [eth0]", "1: links: is a list; allowed: a mapping of names, at most 1024 entries"),
    (
        "mqtt: {fleet: [{host: b, tls: }]}",
        "1: mqtt.fleet[0].tls: has no value; allowed: {} for the defaults, or no such key",
    ),
    *(
        (
            f"mqtt: {{keepalive_s: {number}}}",
            (
                f"1: mqtt.keepalive_s: {number} is not written in plain decimal digits; "
                "allowed: 5 to 30"
            ),
        )
        for number in ("010", "0x10", "0b11", "1_0", "1:10")
    ),
]

VALUES = [
    (
        "mode: enforced",
        "1: mode: 'enforced' is unknown (did you mean enforce?); allowed: observe, ",
    ),
    ("mode: yes", "1: mode: yes is unknown; allowed: observe, enforce"),
    ("site: ''", f"1: site: '' cannot be one level of an MQTT topic; allowed: {NAME}"),
    ("site: a/b", f"1: site: 'a/b' cannot be one level of an MQTT topic; allowed: {NAME}"),
    ("node: |\n  a\n", "1: node: 'a\\n' holds a line break or an invisible character; allowed: "),
    ("policy: {settle_s: .nan}", "1: policy.settle_s: .nan is not a finite number; allowed: 0 to "),
    ("policy: {settle_s: -.inf}", "1: policy.settle_s: -.inf is not a finite number; allowed: 0"),
    ("policy: {settle_s: 1e999}", "1: policy.settle_s: 1e999 is too large; allowed: 0 to 60"),
    ("policy: {settle_s: -0.1}", "1: policy.settle_s: -0.1 is too small; allowed: 0 to 60"),
    (f"mqtt: {{keepalive_s: {'9' * 5000}}}", "has too many digits; allowed: 5 to 30"),
    (
        "mqtt:\n  fleet:\n    - host: b\n      port: 70000",
        "4: mqtt.fleet[0].port: 70000 is too large; allowed: 0 to 65535",
    ),
    (
        "mqtt: {fleet: [{port: 1}]}",
        "1: mqtt.fleet[0].host: is missing; allowed: a host name or an IP address",
    ),
    ("mqtt: {fleet: [{host: ''}]}", "1: mqtt.fleet[0].host: '' is empty; allowed: a host name or"),
    *(
        (f"mqtt: {{fleet: [{{host: '{host}'}}]}}", f"1: mqtt.fleet[0].host: '{host}' is no host ")
        for host in ("mqtt://b", "b:1883", "a b", "10.0.0.256", "a..b", "-a")
    ),
    (
        "mqtt: {fleet: [{host: b, tls: {ca: ca.pem}}]}",
        (
            "1: mqtt.fleet[0].tls.ca: 'ca.pem' is no absolute path of a file; allowed: an absolute "
            "path, or empty"
        ),
    ),
    (
        "mqtt: {fleet: [" + "{host: b}," * 17 + "]}",
        "1: mqtt.fleet: 17 entries are too many; allowed: a list, at most 16 entries",
    ),
    *(
        (
            f"ways_out: [{{name: a, link: eth0, target: '{target}'}}]",
            f"1: ways_out[0].target: '{target}' is no address of another machine; allowed: an IP ",
        )
        for target in ("gw", "10.0.0.1/24", "0.0.0.0", "127.0.0.1", "::", "ff02::1", "fe80::1%e")
    ),
    (
        "ways_out: [{name: a, link: eth/0, target: 10.0.0.1}]",
        f"1: ways_out[0].link: 'eth/0' is no interface name; allowed: {INTERFACE}",
    ),
    (
        f"mqtt: {{fleet: [{{host: b, username: {'u' * 256}}}]}}",
        "is longer than 255 characters; allowed: text",
    ),
]

CONTRADICTIONS = [
    (
        "policy:\n  flap_quiet_s: 700",
        (
            "2: policy.flap_window_s: 600 is shorter than flap_quiet_s, 700; allowed: at least "
            "flap_quiet_s; see policy.flap_quiet_s (line 2)"
        ),
    ),
    (
        "keepalive: {busy: {tcp_rto_max_ms: 500}}",
        (
            "1: keepalive.busy.tcp_rto_max_ms: 500 is too small; allowed: 0 (as it is), or 1000 to "
            "120000"
        ),
    ),
    (
        "policy:\n  flap_window_s: 30",
        (
            "2: policy.flap_window_s: 30 is shorter than flap_quiet_s, 60; allowed: at least "
            "flap_quiet_s; see policy.flap_quiet_s (default)"
        ),
    ),
    (
        "mqtt:\n  fleet:\n  - host: b\n    tls:\n      cert: /c",
        (
            "5: mqtt.fleet[0].tls.cert: given without key; allowed: both or neither; "
            "see mqtt.fleet[0].tls.key (default)"
        ),
    ),
    (
        "mqtt:\n  fleet:\n  - host: b\n    tls:\n      cert: ''\n      key: /k",
        (
            "6: mqtt.fleet[0].tls.key: given without cert; allowed: both or neither; "
            "see mqtt.fleet[0].tls.cert (line 5)"
        ),
    ),
    (
        "mqtt:\n  fleet:\n  - host: b\n    password_file: /p",
        (
            "4: mqtt.fleet[0].password_file: given without username; allowed: both, neither or "
            "username alone; see mqtt.fleet[0].username (default)"
        ),
    ),
    (
        "mqtt:\n  fleet:\n  - host: b\n    tls: {}\n  - host: B\n    port: 8883",
        (
            "5: mqtt.fleet[1].host: B port 8883 is given twice; allowed: a broker once; "
            "see mqtt.fleet[0].host (line 3)"
        ),
    ),
    (
        "ways_out:\n- {name: a, link: e, target: 10.0.0.1}\n- {name: a, link: e, target: 10.0.0.2}",
        (
            "3: ways_out[1].name: 'a' is given twice; allowed: a name once; "
            "see ways_out[0].name (line 2)"
        ),
    ),
    (
        "ways_out:\n- {name: a, link: e, target: 10.0.0.1}\n- {name: b, link: e, target: 10.0.0.1}",
        (
            "3: ways_out[1].target: 10.0.0.1 over e is given twice; allowed: once; "
            "see ways_out[0].target (line 2)"
        ),
    ),
    (
        "links:\n  e.7:\n    role: ignore\nways_out:\n- {name: a, link: e.7, target: 10.0.0.1}",
        (
            "5: ways_out[0].link: e.7 has the role ignore; allowed: a link that is watched; "
            "see links['e.7'].role (line 3)"
        ),
    ),
]

FORM = [
    ("site: &a b", "1: anchor &a is not allowed"),
    ("mqtt:\n  local: *a", "2: alias *a is not allowed; write the value out"),
    ("site: !!str 1", "1: tag !!str is not allowed"),
    ("site: !env X", "1: tag !env is not allowed"),
    ("site: a\n---\nsite: b", "2: a second document begins; allowed: one"),
    ("mqtt:\n\tlocal: true", "2: a tab in the indentation; allowed: spaces"),
    ("site: a\nmode: [", ": not valid YAML: "),
    ("a: b: c", "1: not valid YAML: mapping values are not allowed"),
    ('site: "\\UFFFFFFFF"', "1: not valid YAML: "),
    ("%YAML 1." + "9" * 5000 + "\n---\n", "1: not valid YAML: "),
    ("- " * 10_000, "1: nested too deeply; allowed: 16 levels"),
    ("x: [" + "1," * 20_000 + "]", "1: more than 20000 keys and values"),
    ("site: a\0", "1: character U+0000 is not allowed"),
    ("# \n# \u2028", "2: character U+2028 is not allowed"),
]


def mistakes(path: Path, content: str | bytes) -> tuple[str, ...]:
    """Return the mistakes in a file with this content, without the file's name."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert all(line.startswith(f"{path}:") for line in caught.value.mistakes)

    return tuple(line.removeprefix(f"{path}:") for line in caught.value.mistakes)


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def either_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with libyaml and with the parser in Python; they differ in details."""
    monkeypatch.setattr(document, "LOADER", getattr(yaml, request.param))


@pytest.mark.usefixtures("either_loader")
@pytest.mark.parametrize(
    ("content", "message"), [*KEYS, *TYPES, *VALUES, *CONTRADICTIONS, *FORM], ids=repr
)
def test_message(tmp_path: Path, content: str, message: str) -> None:
    """A wrong file has one mistake, with its line, the key's path and what is allowed."""
    found = mistakes(tmp_path / "c.yaml", content)

    assert len(found) == 1
    assert message in found[0]


@pytest.mark.usefixtures("either_loader")
def test_all_mistakes_at_once(tmp_path: Path) -> None:
    """Several mistakes are reported together, in the order of the file."""
    text = """\
mode: off
mqtt:
  keepalive_s: 99
  fleet:
    - port: -1
    - host: b
      tls: {cert: /c}
      wort: 1
links: {eth0: &a {role: fast}}
policy: {settle_s: x, flap_quiet_s: 700, flap_window_s: 20}
site: a b
site: c
"""
    found = mistakes(tmp_path / "c.yaml", text)

    assert [line.partition(": ")[0] for line in found] == [
        *("1", "3", "5", "5", "7", "8", "9", "10", "10", "11", "12")
    ]


def test_no_contradiction_with_a_wrong_value(tmp_path: Path) -> None:
    """A value that is wrong by itself is not compared with others: it stands for no intention."""
    found = mistakes(tmp_path / "c.yaml", "policy: {flap_quiet_s: 700, flap_window_s: soon}")

    assert found == ("1: policy.flap_window_s: 'soon' is not a number; allowed: 10 to 86400",)


def test_alias_bomb_is_not_expanded(tmp_path: Path) -> None:
    """Nested aliases cost one mistake each and no memory."""
    text = "a: &a [x]\n" + "".join(f"{n}: &{n} [*{m},*{m}]\n" for m, n in zip("abcd", "bcde"))  # noqa: B905
    found = mistakes(tmp_path / "c.yaml", text)

    assert sum("alias" in line for line in found) == 8


def test_secrets_are_not_repeated(tmp_path: Path) -> None:
    """A password that was written into the file by mistake does not appear in a message."""
    text = "mqtt: {fleet: [{host: b, password: hunter2}]}"

    assert "hunter2" not in "".join(mistakes(tmp_path / "c.yaml", text))


@pytest.mark.parametrize("content", [b"site: \xe4", "site: a".encode("utf-16")])
def test_not_utf8(tmp_path: Path, content: bytes) -> None:
    """A file in another encoding is refused with the offending byte."""
    assert mistakes(tmp_path / "c.yaml", content)[0].endswith("is not UTF-8")
