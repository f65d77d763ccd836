"""Metrics as text: what strict parsers read, bounded, with names by Prometheus' convention."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold import exporter as exporter_module
from linkhold.config.metrics import MetricsSettings
from linkhold.exporter import Exporter
from linkhold.model import Moment, NodeState
from linkhold.wire.metrics import families
from linkhold.wire.openmetrics import MOST_SAMPLES, Family, Kind, gauge, render, sample
from linkhold.wire.state import StateEncoder
from support.metrics import lenient, strict
from support.outbox import IDENTITY
from support.swarm import SwarmNode

if TYPE_CHECKING:
    from pathlib import Path

values = st.floats(allow_nan=False)
labels = st.dictionaries(st.sampled_from(["device", "leg", "state"]), st.text(max_size=12))


@given(st.lists(st.tuples(values, labels), max_size=5, unique_by=lambda one: str(one[1])))
def test_strict_parsers_read_back_every_value(samples: list[tuple[float, dict[str, str]]]) -> None:
    """Any value with any labels (quotes, line ends, backslashes) survives in both formats."""
    clean = [(v, {k: t.encode("utf-8", "replace").decode() for k, t in ls.items()})
             for v, ls in samples]  # fmt: skip
    family = Family("linkhold_x", Kind.GAUGE, 'a "help"\nof\\two lines', tuple(
        sample(value, **names) for value, names in clean))  # fmt: skip
    expected = sorted((value, sorted(names.items())) for value, names in clean)

    for text, parse in (
        (render([family]).decode(), lenient),
        (render([family], openmetrics=True).decode(), strict),
    ):
        found = [one for parsed in parse(text) for one in parsed.samples]
        assert sorted((one.value, sorted(one.labels.items())) for one in found) == expected


def documents() -> list[dict[str, Any]]:
    """Return state documents: a real empty one, and one of a node with links."""
    encoded = StateEncoder(IDENTITY).encode(NodeState(), Moment(9, 9.0), clock_synced=None)
    document = json.loads(SwarmNode("lab", "n1").state())["data"]
    document["detail"]["agent"] = {
        "leg_a": "up",
        "leg_b": "down: no route",
        "outbox": "ok",
        "pending": 3,
        "parked": 0,
        "unavailable": {},
        "counters": {"losses": 2},
    }
    return [json.loads(encoded), document]


@pytest.mark.parametrize("document", documents())
def test_every_metric_is_valid_openmetrics(document: dict[str, Any]) -> None:
    """A strict parser takes what a state becomes.

    Names begin with linkhold, counters and units are where Prometheus' convention wants them.
    """
    found = tuple(families(document, "1.0", 1.5))
    text = render(found, openmetrics=True).decode()
    parsed = {one.name: one for one in strict(text)}

    assert all(name.startswith("linkhold_") for name in parsed)
    assert len({one.name for one in found}) == len(found)
    assert not [name for name in parsed if name.endswith(("_ms", "_ns", "_s", "_percent"))]
    network = parsed["linkhold_network_state"].samples
    assert sum(one.value for one in network) == 1
    assert text.endswith("# EOF\n")


def test_labels_are_bounded() -> None:
    """A host with thousands of links fills no Prometheus."""
    document = documents()[1]
    links = {f"veth{n}": {"carrier": True, "flapping": False} for n in range(5000)}
    document["detail"]["links"] = links
    found = {one.name: one for one in families(document, "1", 1.0)}

    assert len(found["linkhold_link_carrier"].samples) <= MOST_SAMPLES
    assert len(render(found.values())) < 40_000


def test_a_name_that_is_none_is_found_at_once() -> None:
    """A family with a bad name is a mistake of ours."""
    with pytest.raises(ValueError, match="no name of a metric"):
        gauge("linkhold-x", "", 1.0)


def test_textfile_and_endpoint_show_the_same(tmp_path: Path) -> None:
    """The file is whole and readable by node_exporter.

    The endpoint speaks both formats, and nothing but /metrics is there.
    """
    path = tmp_path / "linkhold.prom"
    exporter = Exporter(MetricsSettings(str(path), "127.0.0.1:0"))
    exporter.show([gauge("linkhold_x", "x", 4.0)])
    try:
        url = f"http://127.0.0.1:{exporter.port}/metrics"
        wants = {"Accept": "application/openmetrics-text; version=1.0.0"}
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert answer.read() == path.read_bytes()
        with urllib.request.urlopen(urllib.request.Request(url, headers=wants)) as answer:
            assert answer.read().endswith(b"# EOF\n")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url.replace("metrics", ""), timeout=5)
    finally:
        exporter.close()
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("asks", [True, False])
def test_a_reader_that_takes_his_time_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
    asks: bool,  # noqa: FBT001
) -> None:
    """One who sends a byte now and then, or takes no answer, is hung up on; the end never waits."""
    monkeypatch.setattr(exporter_module, "READER_S", 0.3)
    exporter = Exporter(MetricsSettings("", "127.0.0.1:0"))
    large = [gauge(f"linkhold_x{n}", "x" * 10_000, 4.0) for n in range(2000)]
    exporter.show(large if asks else [])
    with socket.create_connection(("127.0.0.1", exporter.port)) as slow:
        slow.sendall(b"GET /metrics HTTP/1.0\r\n" + b"\r\n" * asks)
        began_s = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() < began_s + 5:
                slow.sendall(b"" if asks else b"a")
                time.sleep(0.05)
                if asks and time.monotonic() > began_s + 0.5:
                    break
        exporter.close()
    assert time.monotonic() < began_s + 3


def test_what_cannot_be_shown_is_said(tmp_path: Path) -> None:
    """A folder that is not there and an address that is taken are problems, not ends."""
    taken = Exporter(MetricsSettings("", "127.0.0.1:0"))
    try:
        exporter = Exporter(MetricsSettings(f"{tmp_path}/none/x.prom", f"127.0.0.1:{taken.port}"))
        exporter.show([gauge("linkhold_x", "x", 4.0)])
    finally:
        taken.close()
    assert "Address already in use" in exporter.problem
    assert "No such file or directory" in exporter.problem
