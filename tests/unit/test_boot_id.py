"""Which boot it is, told by the kernel each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.client import boot

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_moment_without_an_answer_is_not_taken_for_good(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without it every state is of another boot: such a process would never hold again."""
    told = boot.boot_id()
    monkeypatch.setattr(boot, "BOOT_ID", tmp_path / "nothing")
    assert (bool(told), boot.boot_id()) == (True, "")

    for other in ("a", "b"):
        (tmp_path / "nothing").write_text(f"{other}\n", encoding="ascii")
        assert boot.boot_id() == other
