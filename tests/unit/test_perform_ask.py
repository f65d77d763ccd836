"""What the answer to a question through a NIC means for a change of the network."""

from __future__ import annotations

import pytest

from linkhold.actuators import perform
from linkhold.model import HostError
from linkhold.model.survey import Answer, Known

STEP = {"do": "ask", "text": "ask 10.0.0.1 through eth1", "link": "eth1", "targets": ["10.0.0.1"]}


def answering(monkeypatch: pytest.MonkeyPatch, verdict: Known, reason: str = "") -> None:
    """Have every question answered so."""
    monkeypatch.setattr(perform, "ask", lambda link, *_, **__: Answer(verdict, link, reason=reason))


@pytest.mark.parametrize("verdict", [Known.YES, Known.UNKNOWN])
def test_only_a_no_fails(monkeypatch: pytest.MonkeyPatch, verdict: Known) -> None:
    """What could not be asked is unknown, never bad."""
    answering(monkeypatch, verdict, "ib0 is no Ethernet interface (ARPHRD 32)")

    perform.perform(STEP)


def test_a_no_names_every_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cable, switch port, VLAN and gateway, after what was seen."""
    answering(monkeypatch, Known.NO, "eth1 has no carrier")

    with pytest.raises(HostError, match="eth1 has no carrier") as caught:
        perform.perform(STEP)

    for suspect in ("cable", "switch port", "VLAN", "gateway"):
        assert suspect in str(caught.value)
