"""What a helper process that cannot be asked is told as."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from linkhold import children
from linkhold.model import Unavailable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv of util-linux")
@pytest.mark.parametrize(
    ("mode", "why"), [(0o600, "Permission denied"), (None, "No such file or directory")]
)
def test_a_program_that_may_not_be_run_is_named(tmp_path: Path, mode: int | None, why: str) -> None:
    """The program and the reason, not the tool that ties it to us."""
    program = tmp_path / "python"
    if mode is not None:
        program.touch(mode)

    with pytest.raises(Unavailable, match="cannot be started") as failed:
        children.ask([str(program)], {}, timeout_s=10.0, most_bytes=100)

    assert f"{program}: {why}" in str(failed.value)
    assert "setpriv" not in str(failed.value)
