"""What many unit tests need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkhold.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.called import Outcome


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return a function that runs linkhold and gives exit code, stdout and stderr."""

    def run(*argv: str) -> Outcome:
        code = main(argv)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
