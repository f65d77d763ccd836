"""``linkhold setup``: linkhold as a service of this host, and its removal."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import linkhold
from linkhold.cli import arguments
from linkhold.cli.arguments import WrongCall
from linkhold.install.files import AGENT, CURRENT, PARTS, RELAY, RIGHTS, Part
from linkhold.install.hosts import Host, host_of
from linkhold.install.later import waiting
from linkhold.install.plan import Target, install, is_configured, present, removal, rights_of
from linkhold.install.steps import below, perform
from linkhold.install.venv import Venv, plan_venv
from linkhold.model import HostError

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = "/run/linkhold-setup.lock"
_DESCRIPTION = """\
Install linkhold as a service: a venv of its own below /opt/linkhold with pinned dependencies,
three units, /etc/linkhold/linkhold.yaml (every default, as comments) and the command
/usr/local/bin/linkhold. The agent starts in mode observe: it reports and changes nothing.
Run again it upgrades or repairs what differs, and changes nothing where nothing does.

With --relay it is the relay in place of the agent: its unit and /etc/linkhold/relay.yaml, which is
to be filled in before the relay starts. A host may have both; an upgrade is of all that is there.
"""
FOUND = "usr/local/sbin:usr/local/bin:usr/sbin:usr/bin:sbin:bin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--system", action="store_true", help="install or upgrade")
    what.add_argument(
        "--remove", action="store_true", help="undo it; configuration and state folder stay"
    )
    parser.add_argument(
        "--relay", action="store_true", help="the relay to Alertmanager in place of the agent"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, do nothing")
    parser.add_argument(
        "--restore-host", action="store_true", help="with --remove: run linkhold restore as well"
    )
    parser.add_argument("--wheel", type=arguments.path, metavar="FILE", help="the wheel to install")
    parser.add_argument("--python", metavar="P", help="the interpreter of the venv")
    parser.add_argument(
        "--allow",
        action="append",
        choices=RIGHTS,
        default=[],
        help="give the agent the rights that keepalive.cover or keepalive.namespaces needs",
    )
    parser.add_argument("--no-start", action="store_true", help="enable the units, start nothing")
    parser.add_argument(
        "--root",
        type=arguments.path,
        metavar="DIR",
        help="work on the host in this folder, such as an image",
    )


def run(args: argparse.Namespace) -> int:
    """Install or remove; return 0, also when there was nothing to do."""
    root = (args.root or Path("/")).absolute()
    if args.restore_host and not args.remove:
        raise WrongCall("--restore-host goes with --remove")
    if os.geteuid() != 0 and not args.dry_run:
        raise HostError("setup changes /opt, /etc and the units of systemd: run it as root")
    if args.relay and (args.allow or args.restore_host):
        raise WrongCall("--allow and --restore-host are about the agent: leave out --relay")
    os.umask(0o022)  # a hardened root has 077, and the units' users must reach the venv
    with contextlib.nullcontext() if args.dry_run else _alone(root):
        return _run(args, root)


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Refuse to work beside another setup: both would make the same venv.

    The kernel drops the lock (flock(2)) with the process, however it ends. Who can open a file can
    lock it: this one is root's alone, or any user could keep every upgrade away.
    """
    place = below(root, LOCK)
    place.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            at_work = "another linkhold setup is at work here; wait until it has ended"
            raise HostError(at_work) from None
        yield
    finally:
        os.close(descriptor)


def _run(args: argparse.Namespace, root: Path) -> int:
    lives = args.root is None and Path("/run/systemd/system").is_dir()
    target = Target(root, lives)
    parts: tuple[Part, ...]
    if args.remove:
        parts = (RELAY,) if args.relay else PARTS
        steps = removal(target, restore_host=args.restore_host, parts=parts)
    else:
        parts = _parts(root, RELAY if args.relay else AGENT)
        host = host_of(_release(root))
        _refuse_without_packages(root, host, parts)
        venv = _venv(args, root, host)
        rights = rights_of(root) if args.relay else tuple(args.allow)
        steps = install(target, venv, rights, start=not args.no_start, parts=parts)
    count = perform(steps, print, dry_run=args.dry_run)
    print(_outcome(args, target, count))
    if RELAY in parts and not args.remove:
        _say_what_the_relay_needs(args, root, lives=lives)
    return 0


def _parts(root: Path, asked: Part) -> tuple[Part, ...]:
    """Return what is asked for, with what there is: all of a host runs from one venv."""
    return tuple(part for part in PARTS if part in {asked, *present(root)})


def _outcome(args: argparse.Namespace, target: Target, count: int) -> str:
    what = "linkhold relay" if args.relay else "linkhold"
    if not count:
        return f"nothing to do: {what} is " + (
            "not installed" if args.remove else "as it should be"
        )
    if args.dry_run:
        return f"{count} steps; nothing was changed"
    if args.remove and args.relay:
        return "removed; /etc/linkhold/relay.yaml and /var/lib/linkhold-relay stay"
    if args.remove:
        return "removed; /etc/linkhold and /var/lib/linkhold stay, with the history of this node"
    return _how_it_runs(args, target)


def _how_it_runs(args: argparse.Namespace, target: Target) -> str:
    if units := waiting(target.root):
        return (
            f"installed and enabled; what runs is as before ({', '.join(sorted(units))}): run this "
            "without --no-start, or boot, to start it anew"
        )
    if not target.lives or args.no_start:
        return "installed and enabled; it starts at the next boot"
    unit = "linkhold-relay" if args.relay else "linkhold"
    return f"installed and started; see: systemctl status {unit}"


def _say_what_the_relay_needs(args: argparse.Namespace, root: Path, *, lives: bool) -> None:
    """Say that a relay cannot start before it knows brokers and Alertmanagers."""
    python = below(root, CURRENT) / "bin/python"
    if args.dry_run or not lives or is_configured(lambda *words: _of(python, *words)):
        return
    print(
        f"the relay does not run yet: fill in brokers and alertmanagers in {RELAY.config}, then\n"
        "  linkhold relay --check && systemctl restart linkhold-relay"
    )


def _of(python: Path, *words: str) -> list[str]:
    return [str(python), "-I", "-m", "linkhold", *words]


def _release(root: Path) -> str:
    for name in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            return below(root, name).read_text(encoding="utf-8")
        except OSError:
            continue
    raise HostError(f"{root}: no /etc/os-release, so this is no host that setup knows")


def _refuse_without_packages(root: Path, host: Host, parts: tuple[Part, ...]) -> None:
    """Name every missing package at once, with the command that installs them."""
    unneeded = frozenset.intersection(*(part.without for part in parts))
    lacking = [
        package
        for package, paths in host.packages
        if package not in unneeded
        and not any(below(root, path).exists() for path in paths.split("|"))
    ]
    if lacking:
        note = f"\n{host.note}" if host.note and not unneeded else ""
        raise HostError(
            f"missing: {', '.join(lacking)}; run: {host.install} {' '.join(lacking)}{note}"
        )


def _venv(args: argparse.Namespace, root: Path, host: Host) -> Venv:
    return plan_venv(root, args.python or _python(host), _wheel(args), linkhold.__version__)


def _python(host: Host) -> str:
    for name in host.python:
        # Not $PATH: a venv on somebody's pyenv in /root would be out of the sandbox's reach.
        path = ":".join(f"/{folder}" for folder in FOUND.split(":"))
        if found := shutil.which(name, path=path):
            return found
    raise HostError(f"none of {', '.join(host.python)} is installed; name one with --python")


def _wheel(args: argparse.Namespace) -> Path:
    """Return the wheel to install: the one named, or the one that we run from."""
    wheel: Path | None = args.wheel
    if wheel is None:
        wheel = next((Path(name) for name in sys.path if name.endswith(".whl")), None)
    if wheel is None:
        raise HostError(
            "which linkhold? name its wheel with --wheel FILE; `make wheel` in a checkout makes one"
        )
    if not (wheel.is_file() and zipfile.is_zipfile(wheel)):
        raise HostError(f"wheel {wheel}: no such wheel")
    return wheel
