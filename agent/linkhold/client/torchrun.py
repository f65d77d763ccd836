"""``python -m linkhold.client.torchrun ...``: torchrun that tells how the run ended.

Takes what torchrun takes. Two things differ: a run that linkhold stopped ends with that exit code
(75) instead of 1, so that a scheduler knows it may be started again; and torchrun's store waits
``read_timeout=900`` s instead of 60, so that an outage of minutes does not end a healthy run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.client.marker import NOTE_VARIABLE
from linkhold.kept import read_kept

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

MOST_NOTE_BYTES = 1 << 16
READ_TIMEOUT = "read_timeout=900"
STORES = ("c10d", "etcd-v2")
"""Backends that ask a store while ranks run, and take this argument."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run torchrun; return the exit code that the ranks were stopped with, else torchrun's.

    Raises what torchrun raises unless linkhold stopped the run; :class:`SystemExit` without torch.
    """
    try:
        from torch.distributed.elastic.multiprocessing.errors import record  # noqa: PLC0415
        from torch.distributed.run import get_args_parser, run  # noqa: PLC0415 - costs nothing here
    except ImportError as error:
        raise SystemExit(f"linkhold.client.torchrun: torch is needed here: {error}") from None

    arguments = get_args_parser().parse_args(argv)
    wait_longer(arguments)
    with tempfile.TemporaryDirectory(prefix="linkhold-") as folder:
        note = Path(folder) / "stopped"
        os.environ[NOTE_VARIABLE] = str(note)
        try:
            record(run)(arguments)
        except BaseException as error:
            code = _noted(note)
            if code is None or isinstance(error, KeyboardInterrupt):
                raise
            return code
        return _noted(note) or 0


def wait_longer(arguments: Namespace) -> None:
    """Set the store's timeout unless the command line or PET_RDZV_CONF does."""
    if not arguments.standalone and arguments.rdzv_backend not in STORES:
        return
    if "read_timeout" not in arguments.rdzv_conf:
        given = f"{arguments.rdzv_conf}," if arguments.rdzv_conf else ""
        arguments.rdzv_conf = given + READ_TIMEOUT


def _noted(note: Path) -> int | None:
    try:
        return int(json.loads(read_kept(note, MOST_NOTE_BYTES))["code"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


if __name__ == "__main__":
    sys.exit(main())
