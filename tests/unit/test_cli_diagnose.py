"""The command around a diagnosis: what it asks, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkhold import cli
from linkhold.cli import diagnose as command
from linkhold.config import Settings
from linkhold.config.paths import DnsSettings, PathSettings, PathTarget
from linkhold.diagnose import Aim, document, plan_of
from linkhold.model.diagnosis import (
    Diagnosis,
    Evidence,
    Mark,
    Missing,
    Place,
    State,
    Sure,
    Verdict,
)

if TYPE_CHECKING:
    from pathlib import Path

VERDICT = Verdict(State.DOWN, Place.CABLE, Sure.LIKELY, "eth0 has no carrier", ("ethtool eth0",))
ROW = Evidence("links", "eth0", Mark.BAD, "no carrier")
FOUND = Diagnosis(VERDICT, (), (ROW,), (Missing("firewall", "run as root"),), 1.5)


@pytest.mark.parametrize("state", State)
def test_the_state_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    """Healthy 0, degraded 1, down 2, unknown 3; --json prints one document and nothing else."""

    async def found(*_: object) -> Diagnosis:
        return replace(FOUND, verdict=replace(VERDICT, state=state))

    monkeypatch.setattr(command, "diagnose", found)
    code = cli.main(["diagnose", "--json"])
    told = json.loads(capsys.readouterr().out)

    assert code == {"healthy": 0, "degraded": 1, "down": 2, "unknown": 3}[state.value]
    assert (told["state"], told["place"], told["sure"]) == (state.value, "cable", "likely")
    assert told["next"] == ["ethtool eth0"]
    assert told["missing"] == [{"step": "firewall", "why": "run as root"}]


def test_the_sentence_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Then place and certainty, the commands, the evidence, and what was not seen."""
    command.show(FOUND)
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "DOWN: eth0 has no carrier."
    assert lines[1] == "fault most likely in: cable (likely)"
    assert lines[2] == "  next 1: ethtool eth0"
    assert any("links" in line and "no carrier" in line for line in lines[3:])
    assert lines[-1] == "not seen: firewall: run as root"


def test_a_pipe_that_is_closed_is_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """`diagnose | head`: 141, not the 1 of a host that is degraded."""
    reader, writer = os.pipe()
    os.close(reader)

    async def found(*_: object) -> Diagnosis:
        return FOUND

    monkeypatch.setattr(command, "diagnose", found)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        code = cli.main(["diagnose"])

    assert code == 141


def test_no_part_of_an_address_becomes_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    """``:b:`` and ``[red]`` mean something to rich; in evidence they are names."""
    row = Evidence("targets", "[red]fd00:b:a::1", Mark.BAD, ":x: silent")
    command.show(replace(FOUND, evidence=(row,), verdict=replace(VERDICT, sentence="fd00:b:a::1")))

    out = capsys.readouterr().out
    assert "DOWN: fd00:b:a::1." in out
    assert "[red]fd00:b:a::1" in out
    assert ":x: silent" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target", "a b"], "allowed: host, host:port or http(s)://..."),
        (["--target", "a:b:c"], "allowed: host, host:port or http(s)://..."),
        (["--target", "192.0.2.1/24"], "allowed: host, host:port or http(s)://..."),
        (["--target", "fe80::1"], "name one: fe80::1%eth0"),
        (["--target", "255.255.255.255"], "no single host"),
        (["--target", "http://[ff02::1]/"], "no single host"),
        (["--target", "http:///x"], "names no host"),
        (["--target", "ftp://x"], "allowed: http, https"),
        (["--target", "x:70000"], "allowed: 1 to 65535"),
        (["--since", "soon"], "allowed: 90s, 15m, 2h, 1d"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_wrong_call_is_64(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what is allowed."""
    assert cli.main(["diagnose", *words]) == 64
    assert says in capsys.readouterr().err


def test_a_broken_configuration_that_is_named_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit codes of states are not for that: an unknown file is a wrong call."""
    assert cli.main(["diagnose", "--config", str(tmp_path / "none.yaml")]) == 64
    assert "none.yaml" in capsys.readouterr().err


def test_only_what_the_owner_names_is_asked() -> None:
    """Nobody without a configuration; its targets and those of the call with one."""
    paths = PathSettings(
        targets=(PathTarget("nfs", tcp="192.0.2.10:2049", storage=True),
                 PathTarget("", http="https://api.example.org/", link="eth1")),
        dns=DnsSettings(("example.org",)),
    )  # fmt: skip
    plan = plan_of(replace(Settings(), paths=paths), ("[fd00::1]:22",))

    assert plan_of(Settings()).aims == ()
    assert plan.names == ("example.org",)
    assert plan.aims == (
        Aim("[fd00::1]:22", "tcp", "fd00::1", 22),
        Aim("nfs", "tcp", "192.0.2.10", 2049, storage=True),
        Aim(
            "https://api.example.org/", "http", "api.example.org", 443,
            "https://api.example.org/", "eth1",
        ),
    )  # fmt: skip


def test_a_report_stays_below_what_is_published() -> None:
    """256 KiB, however much was seen and however long its texts are."""
    row = Evidence("targets", "x" * 60, Mark.BAD, "y" * 5000)
    many = Diagnosis(
        VERDICT, (VERDICT,) * 500, (row,) * 200, (Missing("firewall", "z" * 5000),) * 500
    )

    assert len(json.dumps(document(many)).encode()) < 256 << 10
