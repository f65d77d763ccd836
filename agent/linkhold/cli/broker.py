"""``linkhold broker``: what linkhold-broker.service runs before and after mosquitto."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from linkhold import paths
from linkhold.legs.broker import UNIT_FOLDER, BrokerFiles, listeners, open_to_trainers, write_files
from linkhold.model import BrokerError

if TYPE_CHECKING:
    import argparse

SOCKETS_S = 10.0
POLL_S = 0.02
_DESCRIPTION = """\
The two steps around mosquitto in linkhold-broker.service; people need neither. Both work in the
run folder, /run/linkhold unless LINKHOLD_RUN_DIR names another.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.add_argument(
        "step",
        choices=("prepare", "open"),
        help="prepare: write its configuration, as the broker's user; "
        "open: wait for its sockets and give them their owners, as root",
    )


def run(args: argparse.Namespace) -> int:
    """Do one step and return 0."""
    files = BrokerFiles(paths.run_dir(), UNIT_FOLDER)
    if args.step == "prepare":
        write_files(files, None)
    else:
        _await_sockets(files)
        open_to_trainers(files, listeners())
    return 0


def _await_sockets(files: BrokerFiles) -> None:
    deadline = time.monotonic() + SOCKETS_S
    while not files.sockets_exist():
        if time.monotonic() > deadline:
            raise BrokerError(f"mosquitto has made no sockets in {files.sockets} for 10 s")
        time.sleep(POLL_S)
