"""Uplinks in the configuration: what is read, and what every refusal says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkhold.config import UplinkSettings, load
from linkhold.decide.uplinks.sight import rules_of
from linkhold.decide.watch import watch_of
from linkhold.model import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.config import Settings

TWO = "[{link: bond0, targets: [192.0.2.1]}, {link: usb0, metered: true}]"

REFUSED = [
    (
        "uplinks: [{link: bond0}]",
        "uplinks: one entry leaves nothing to switch to; allowed: none, or 2 and more",
    ),
    (
        "uplinks: [{link: a}, {link: b}, {link: a}]",
        "uplinks[2].link: 'a' is given twice; allowed: an interface once; see uplinks[0].link",
    ),
    (
        "uplinks: [{link: a}, {link: b}]\nlinks: {b: {role: ignore}}",
        "uplinks[1].link: 'b' has the role ignore; allowed: a link that is watched",
    ),
    (
        "uplinks: [{link: eth0}, {link: usb0}]\nbonds: {bond0: {members: [eth0, eth1]}}",
        "uplinks[0].link: 'eth0' is a member of bond0; allowed: bond0, or links outside of it",
    ),
    (
        f"uplinks: {TWO}\nuplink_policy: {{probe_interval_s: 20}}",
        "uplink_policy.metered_interval_s: 10 is more often than probe_interval_s, 20",
    ),
    ("uplinks: [{targets: []}, {link: b}]", "uplinks[0].link: is missing"),
    ("uplinks: [{link: a, targets: [host]}, {link: b}]", "uplinks[0].targets[0]: 'host' is no"),
    ("uplink_policy: {down_after: 1}", "uplink_policy.down_after: 1 "),
]


def read(folder: Path, text: str) -> Settings:
    """Return the settings of a file with ``text``."""
    path = folder / "linkhold.yaml"
    path.write_text(text)
    return load(path)


def test_uplinks_are_read_in_order(tmp_path: Path) -> None:
    """The order of the file is the order of preference; numbers come from the policy."""
    text = f"mode: enforce\nuplinks: {TWO}\nuplink_policy: {{down_after: 5, up_after_s: 60}}"
    settings = read(tmp_path, text)
    rules = rules_of(settings, 7)

    assert settings.uplinks == (
        UplinkSettings("bond0", ("192.0.2.1",)),
        UplinkSettings("usb0", metered=True),
    )
    assert rules.order == ("bond0", "usb0")
    assert (rules.enforce, rules.down_after, rules.up_after_s) == (True, 5, 60)
    assert watch_of(settings).forced == {"bond0", "usb0"}


def test_no_uplinks_is_the_default(tmp_path: Path) -> None:
    """Without uplinks there is nothing to look after."""
    assert rules_of(read(tmp_path, ""), 1).order == ()


@pytest.mark.parametrize(("text", "mistake"), REFUSED)
def test_nonsense_is_refused_with_the_reason(tmp_path: Path, text: str, mistake: str) -> None:
    """Each contradiction is one mistake, with its place and what is allowed."""
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)

    assert len(refused.value.mistakes) == 1, refused.value.mistakes
    assert mistake in refused.value.mistakes[0]
