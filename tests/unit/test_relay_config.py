"""The relay's own configuration: what it means, and every mistake at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linkhold.cli import main
from linkhold.config import RelaySettings, default_file, load_relay, readme_table
from linkhold.model import ConfigError
from linkhold.relay.decide.places import Places

RIGHT = """\
brokers: [{host: b1.example.org}]
alertmanagers: [{url: "http://127.0.0.1:9093"}]
"""


def test_a_short_file_is_enough(tmp_path: Path) -> None:
    """Brokers and Alertmanagers are all that must be given."""
    path = tmp_path / "relay.yaml"
    path.write_text(RIGHT)
    settings = load_relay(path)
    assert settings.brokers[0].tcp_port == 1883
    assert settings.paging.offline_after_s == 5


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "brokers: no broker; allowed: 1 to 16, all brokers of the fleet"),
        ("brokers: [{host: b}]\n", "nobody to tell; allowed: alertmanagers or apprise_file"),
        (RIGHT + "apprise_file: /x\n", "both would tell people twice"),
        (RIGHT + "paging: {ends_s: 60, repost_s: 30}\n", "less than three reposts"),
        (RIGHT + "places: [{rack: r1}]\n", "places[0].nodes: is missing"),
        (RIGHT + "place: []\n", "unknown key (did you mean places?)"),
    ],
)
def test_mistakes_name_line_and_remedy(tmp_path: Path, text: str, mistake: str) -> None:
    """Each mistake is told with what is allowed."""
    path = tmp_path / "relay.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(mistake)):
        load_relay(path)


def test_the_printed_file_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`linkhold relay --print-default` prints a file whose examples are right."""
    assert main(["relay", "--print-default"]) == 0
    text = capsys.readouterr().out
    assert text.endswith(default_file(RelaySettings, "")[-200:])
    path = tmp_path / "relay.yaml"
    path.write_text(re.sub(r"(?m)^#(?=  )", "", text))
    settings = load_relay(path)
    assert settings.places[0].links["eth0"].switch == "tor-12a"


def test_the_page_has_every_key() -> None:
    """docs/relay.md holds the table of the relay's keys as the schema has it."""
    page = Path(__file__).parents[2] / "docs" / "relay.md"
    assert readme_table(RelaySettings).strip() in page.read_text()


def test_a_place_is_found_by_pattern_and_site() -> None:
    """The first place that matches counts; a group is a rack, a switch, a site or a pattern."""
    path_settings = RelaySettings().places
    assert Places(path_settings).of(("s", "n")).rack == ""
    text = (
        RIGHT + "places:\n"
        "- {nodes: ['gpu-r1-*'], site: fra, rack: r1, switch: tor1}\n"
        "- {nodes: ['gpu-*'], rack: other, links: {eth0: {switch: a}}}\n"
    )
    path = Path(__file__).parent / "no-such-file"
    assert not path.exists()
    places = Places(_loaded(text).places)
    keys = [("fra", "gpu-r1-1"), ("ams", "gpu-r1-1"), ("ams", "x")]
    assert [places.of(key).rack for key in keys] == ["r1", "other", ""]
    assert places.members("tor1", keys) == keys[:1]
    assert places.members("a", keys) == keys[1:2]
    assert places.members("ams", keys) == keys[1:]
    assert places.members("gpu-*", keys) == keys[:2]
    assert places.members("x", keys) == keys[2:]
    assert places.members("nothing", keys) == []


def _loaded(text: str) -> RelaySettings:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return load_relay(Path(file.name))
