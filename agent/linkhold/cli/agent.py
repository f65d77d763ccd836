"""``linkhold agent``: run the agent in the foreground, as systemd and ``make run`` do."""

from __future__ import annotations

import asyncio
import faulthandler
import os
from typing import TYPE_CHECKING

from linkhold import config, paths
from linkhold.cli import arguments
from linkhold.config.settings import Mode
from linkhold.daemon.agent import Agent
from linkhold.daemon.locks import AgentLocks
from linkhold.daemon.log import AgentLog, log
from linkhold.daemon.start import Start
from linkhold.model import StoreError
from linkhold.threads import bounded

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

STATE_DIR_WAIT_S = 2.0
MAX_SOCKET_PATH = 107


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.add_argument("--config", type=arguments.path, metavar="FILE", help="configuration file")
    parser.add_argument(
        "--run-dir", type=arguments.path, metavar="D", help="folder of state.json and the sockets"
    )
    parser.add_argument(
        "--state-dir", type=arguments.path, metavar="S", help="folder of the outbox, on a disk"
    )
    parser.add_argument(
        "--broker-by-unit",
        action="store_true",
        help="the node's broker is linkhold-broker.service: start none",
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
    faulthandler.enable()  # the watchdog's SIGABRT: the journal says where every thread is
    start = Start(
        settings=config.load(args.config),
        config_file=args.config,
        run_dir=(args.run_dir or paths.run_dir()).absolute(),
        state_dir=(args.state_dir or paths.state_dir()).absolute(),
        mode=args.mode,
        broker_by_unit=args.broker_by_unit,
    )
    _claim_run_dir(start.run_dir)
    locks = AgentLocks()
    locks.take(start.run_dir)
    agent_log = AgentLog()
    try:
        problem = _use_state_dir(locks, start.state_dir)
        for warning in filter(None, (locks.warning, problem)):
            log.warning("%s", warning)
        asyncio.run(_serve(start, locks))
    finally:
        locks.release()
        written = agent_log.close()
    if not written:
        os._exit(0)
    return 0


async def _serve(start: Start, locks: AgentLocks) -> None:
    locks.attend(asyncio.get_running_loop())
    await Agent(start).run()


def _claim_run_dir(folder: Path) -> None:
    if len(os.fsencode(folder / paths.BROKER_SOCKET)) > MAX_SOCKET_PATH:
        limit = f"the path of a Unix socket has at most {MAX_SOCKET_PATH} bytes"
        raise StoreError(f"run folder {folder}: too long; {limit}")
    try:
        paths.claim_run_dir(folder)
    except OSError as error:
        reason = f"{folder}: {error.strerror}" if error.strerror else error
        raise StoreError(f"run folder {reason}") from error


def _use_state_dir(locks: AgentLocks, folder: Path) -> str:
    """Make and lock the state folder; return in words why it cannot be used, else nothing.

    Raises AlreadyRunning when another agent uses it.
    """
    in_memory = "events are kept in memory only"
    try:
        bounded(lambda: _lock_state_dir(locks, folder), STATE_DIR_WAIT_S)
    except TimeoutError:
        return f"state folder {folder}: the disk does not answer; {in_memory} until it does"
    except StoreError as error:
        return f"state folder {error}; {in_memory}"
    except FileExistsError:
        return f"state folder {folder}: not a folder; {in_memory}"
    except OSError as error:
        return f"state folder {folder}: {error.strerror or error}; {in_memory}"
    return ""


def _lock_state_dir(locks: AgentLocks, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    locks.take_folder(folder)
