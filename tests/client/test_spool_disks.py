"""The spool on disks that are full, read-only or no folder at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from client.conftest import until
from client.spool_trainer import MARKS, Trainer
from support.places import Mounts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = MARKS


@pytest.mark.parametrize("how", ["read-only", "full", "a file"])
def test_bad_disks(run_dir: Path, tmp_path: Path, how: str) -> None:
    """A spool that cannot be written costs one line and its protection, not the upload."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    spool = tmp_path / "spool"
    spool.mkdir()
    mounts = Mounts()
    try:
        mounts.run(f"mount -t tmpfs -o size=3m none {spool}")
        if how == "read-only":
            mounts.run(f"mount -o remount,ro {spool}")
        elif how == "full":
            mounts.run(f"head -c 2500000 /dev/zero >{spool}/fill")
        else:
            mounts.run(f"umount {spool} && rmdir {spool} && touch {spool}")
        trainer = Trainer(
            *mounts.wrap, run=str(run_dir), spool=str(spool), bytes=1_000_000,
            uploads=[(str(tmp_path / f"out-{n}"), str(tmp_path / f"ckpt-{n}")) for n in (1, 2)],
        )  # fmt: skip
        trainer.until("closed")
        assert trainer.end() == 0
        left = mounts.output(f"ls {spool}/entries 2>/dev/null || true")
    finally:
        mounts.close()
    told = "\n".join(trainer.lines)
    assert "the spool does not take" in told
    assert "it is uploaded from where it is" in told
    assert "Traceback" not in told
    assert left == ""
    assert [(tmp_path / f"out-{n}").stat().st_size for n in (1, 2)] == [1_000_000] * 2


def test_full_in_the_middle(run_dir: Path, tmp_path: Path) -> None:
    """A disk that fills up during the copy leaves no half entry behind."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    spool = tmp_path / "spool"
    spool.mkdir()
    mounts = Mounts()
    try:
        mounts.run(f"mount -t tmpfs -o size=350m none {spool}")
        trainer = Trainer(
            *mounts.wrap, run=str(run_dir), spool=str(spool), bytes=250_000_000,
            uploads=[(str(tmp_path / "out"), str(tmp_path / "ckpt-1"))],
        )  # fmt: skip
        assert until(lambda: mounts.output(f"find {spool} -path '*data/ckpt-1'"), 20)
        mounts.run(f"cat /dev/zero >{spool}/fill 2>/dev/null || true")
        trainer.until("closed")
        assert trainer.end() == 0
        assert mounts.output(f"ls {spool}/entries {spool}/incoming").split() == [
            f"{spool}/entries:", f"{spool}/incoming:",
        ]  # fmt: skip
    finally:
        mounts.close()
    assert any("No space left on device" in line for line in trainer.lines)
    assert (tmp_path / "out").stat().st_size == 250_000_000
