"""When the end of the service puts the host back: a stop that a person asked for, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkhold import config
from linkhold.children import Outcome
from linkhold.cli import on_stop
from linkhold.config import Settings
from linkhold.model import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STOP, RESTART, OTHER = (
    "101 linkhold.service stop running",
    "102 linkhold.service restart running",
    "103 other.service stop running",
)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Set what systemd answers: its own state, and its list of jobs."""

    def answers(state: str, jobs: str) -> None:
        def run(argv: Sequence[str], *, timeout_s: float) -> Outcome:
            assert timeout_s
            return Outcome(0, state if argv[1] == "is-system-running" else jobs)

        monkeypatch.setattr(on_stop, "run", run)
        monkeypatch.setattr(config, "load", lambda _path: Settings(restore_on_stop=True))

    return answers


@pytest.mark.parametrize(
    ("state", "jobs", "restores"),
    [
        ("running", STOP, True),
        ("degraded", STOP, True),
        ("running", RESTART, False),
        ("running", "", False),
        ("running", OTHER, False),
        ("running", "No jobs running.", False),
        ("stopping", STOP, False),
    ],
)
def test_only_a_stop_restores(
    manager: Callable[[str, str], None],
    state: str,
    jobs: str,
    restores: bool,  # noqa: FBT001
) -> None:
    """No restart, no crash (which has no job) and no shutdown changes the host."""
    manager(state, jobs)

    assert (on_stop.why_nothing_is_restored() == "") is restores


def test_not_unless_asked(
    manager: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, with a broken configuration and without systemd's answer the host stays."""
    manager("running", STOP)
    monkeypatch.setattr(config, "load", lambda _path: Settings())
    assert "restore_on_stop is false" in on_stop.why_nothing_is_restored()

    def broken(_path: object) -> Settings:
        raise ConfigError(("c.yaml:1: mode: no",))

    monkeypatch.setattr(config, "load", broken)
    assert "c.yaml:1" in on_stop.why_nothing_is_restored()

    def silent(_argv: object, *, timeout_s: float) -> Outcome:
        raise Unavailable(f"systemctl: did not end within {timeout_s:g} s")

    manager("running", STOP)
    monkeypatch.setattr(on_stop, "run", silent)
    assert "did not end within 10 s" in on_stop.why_nothing_is_restored()
