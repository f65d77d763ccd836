"""``linkhold agent``: run the agent in the foreground, as systemd and ``make run`` do."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold import config, paths
from linkhold.config.settings import Mode
from linkhold.daemon.agent import Agent, Start
from linkhold.daemon.locks import AgentLocks
from linkhold.daemon.log import AgentLog, log
from linkhold.model import StoreError

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file")
    parser.add_argument(
        "--run-dir", type=Path, metavar="D", help="folder of state.json and the sockets"
    )
    parser.add_argument(
        "--state-dir", type=Path, metavar="S", help="folder of the outbox, on a disk"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--observe",
        action="store_const",
        const=Mode.OBSERVE,
        dest="mode",
        help="report, change nothing (overrides the file)",
    )
    mode.add_argument(
        "--enforce",
        action="store_const",
        const=Mode.ENFORCE,
        dest="mode",
        help="also repair drift (overrides the file)",
    )


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    start = Start(
        settings=config.load(args.config),
        config_file=args.config,
        run_dir=(args.run_dir or paths.run_dir()).absolute(),
        state_dir=(args.state_dir or paths.state_dir()).absolute(),
        mode=args.mode,
    )
    _claim_run_dir(start.run_dir)
    folders = [start.run_dir]
    problem = _make_state_dir(start.state_dir)
    if not problem:
        folders.append(start.state_dir)
    locks = AgentLocks()
    locks.take(*folders)
    agent_log = AgentLog()
    try:
        for warning in filter(None, (locks.warning, problem)):
            log.warning("%s", warning)
        asyncio.run(_serve(start))
    finally:
        agent_log.close()
        locks.release()
    return 0


async def _serve(start: Start) -> None:
    await Agent(start).run()


def _claim_run_dir(folder: Path) -> None:
    try:
        paths.claim_dir(folder, 0o755 if os.geteuid() == 0 else 0o700)
    except OSError as error:
        raise StoreError(f"run folder {folder}: {error.strerror or error}") from error


def _make_state_dir(folder: Path) -> str:
    """Make the state folder; return in words why it cannot be used, else nothing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"state folder {folder}: {error.strerror}; events are kept in memory only"
    if not os.access(folder, os.W_OK):
        return f"state folder {folder} cannot be written; events are kept in memory only"
    return ""
