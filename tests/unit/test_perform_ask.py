"""What the answer to a question through a NIC means for a change of the network."""

from __future__ import annotations

import itertools

import pytest

from linkhold.actuators import perform
from linkhold.children import Outcome
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


@pytest.mark.parametrize("adopts", [True, False])
def test_a_program_is_asked_until_it_says_what_is_expected(
    monkeypatch: pytest.MonkeyPatch, *, adopts: bool
) -> None:
    """NetworkManager adopts a bond soon after its start, or the change is not made."""
    answers = iter(["", "a-uuid-of-the-moment", "u"] if adopts else itertools.repeat("other"))
    monkeypatch.setattr(perform, "run", lambda *_, **__: Outcome(0, next(answers)))
    monkeypatch.setattr(perform, "ASK_AGAIN_S", 0.001)
    step = {"do": "run", "text": "check", "argv": ["nmcli"], "timeout_s": 0.05, "optional": False}

    if adopts:
        perform.perform({**step, "expect": "u"})
    else:
        with pytest.raises(HostError, match="check: nmcli says other, not u"):
            perform.perform({**step, "expect": "u"})
    assert (next(answers, "") == "") is adopts
