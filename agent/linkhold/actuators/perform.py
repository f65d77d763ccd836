"""Executes the steps of a compiled plan, one by one: for commands, for the guard, for a boot.

Standard library only, and no decisions: whoever undoes a change at three in the morning runs the
same few lines as the one who made it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from linkhold.actuators.announce import announce
from linkhold.actuators.remedies import remedy_for
from linkhold.children import run
from linkhold.decide.bonding.objects import fingerprint
from linkhold.model import HostError, Unavailable
from linkhold.model.survey import Known
from linkhold.rtnl.exchange import Exchange, Request, Verdict, indexes
from linkhold.survey import snapshot
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Document = dict[str, Any]

POLL_S = 0.02
BURST_MOST = 256
"""Messages in one system call: their answers must fit into the receive buffer."""
ASK_S = 3.0
ASK_AGAIN_S = 0.5

ROOT = Path("/")
NET = Path("/sys/class/net")
INDEX_IN_PATH = re.compile(r"\{index:([^}]*)\}")
"""Stands for an interface's index in the name of a file."""


class Postponed(HostError):
    """Not now: going on would take away what works. The text says what it waits for."""


def perform(step: Mapping[str, Any]) -> None:
    """Carry out one step and raise :class:`HostError` if that failed."""
    _DO[step["do"]](step)


def _netlink(step: Mapping[str, Any]) -> None:
    changes: Sequence[Document] = step["changes"]
    problems = []
    with Exchange() as kernel:
        for start in range(0, len(changes), BURST_MOST):
            try:
                _send(kernel, changes[start : start + BURST_MOST])
            except HostError as error:  # the other parts all the same, as within one part
                problems.append(error)
    if problems:
        raise problems[0]


def _send(kernel: Exchange, changes: Sequence[Document]) -> None:
    """Send ``changes`` in one system call; the first failure that is not fine is raised.

    Only then: one that fails does not keep the others from the kernel, which an undo counts on.
    """
    known = indexes()
    requests = []
    kept = []
    problems = []
    for change in changes:
        try:
            requests.append(_request(change, known))
            kept.append(change)
        except HostError as error:
            if error.code not in change["fine"]:
                problems.append(HostError(f"{change['text']}: {error}", code=error.code))
    for change, verdict in zip(kept, kernel.change(requests), strict=True):
        if verdict.code and verdict.code not in change["fine"]:
            problems.append(_refused(change["text"], verdict))
    if problems:
        raise problems[0]


def _request(change: Document, known: Mapping[str, int]) -> Request:
    body = bytearray.fromhex(change["body"])
    for offset, name in change["holes"]:
        if name not in known:
            raise HostError(f"{name}: there is no such interface", code=errno.ENODEV)
        body[offset : offset + 4] = known[name].to_bytes(4, _ORDER)
    return Request(change["kind"], change["flags"], bytes(body))


def _refused(what: str, verdict: Verdict) -> HostError:
    name = errno.errorcode.get(verdict.code, str(verdict.code))
    remedy = remedy_for(verdict.code, verdict.text, what)
    text = f"{what}: the kernel says {name}, {verdict.reason}"
    return HostError(f"{text}; {remedy}" if remedy else text, code=verdict.code)


def _sysctls(step: Mapping[str, Any]) -> None:
    for path, value in step["values"].items():
        with contextlib.suppress(OSError):  # a kernel without it, or one that cannot be read
            file = ROOT / "proc/sys" / path
            if file.read_text(encoding="ascii").strip() != value:
                file.write_text(value, encoding="ascii")


def _await(step: Mapping[str, Any]) -> None:
    if _wait(lambda: all(_good(name, step["bond"]) for name in step["links"]), step["timeout_s"]):
        return
    if step["optional"]:
        return
    bad = [name for name in step["links"] if not _good(name, step["bond"])]
    where = f" in {step['bond']}" if step["bond"] else ""
    raise HostError(
        f"{', '.join(bad)} did not come up{where} within {step['timeout_s']:g} s; "
        "check the cable and the switch port, and try again"
    )


def _worth(step: Mapping[str, Any]) -> None:
    """Raise :class:`Postponed` while the bond carries and the NIC, that shall again, cannot."""
    dead = _read(NET / step["link"] / "carrier") == "0"
    if dead and _read(NET / step["bond"] / "carrier") == "1":
        raise Postponed(
            f"{step['link']} has no link, while {step['bond']} carries: {step['bond']} stays until "
            f"{step['link']} is back; check its cable (it is tried again by itself)"
        )


def _wait(true: Callable[[], bool], timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def _good(name: str, bond: str) -> bool:
    """Whether a link has carrier and, inside a bond, is used and gives the bond carrier."""
    if _read(NET / name / "carrier") != "1":
        return False
    if not bond:
        return True
    mii = _read(NET / name / "bonding_slave/mii_status")
    return mii == "up" and _read(NET / bond / "carrier") == "1"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:  # absent, or (carrier of a link that is set down) EINVAL
        return ""


def _ask(step: Mapping[str, Any]) -> None:
    """Fail on a no. Unknown, as where nothing can be asked, is left to the checks at the end."""
    answer = ask(step["link"], step["targets"], timeout_s=ASK_S)
    if answer.verdict is Known.NO:
        raise HostError(
            f"{step['text']}: {answer.reason or 'no answer'}; check its cable and switch port, "
            "that the port is in the same network (VLAN) as the other NIC's, and the gateway"
        )


def _announce(step: Mapping[str, Any]) -> None:
    with contextlib.suppress(Unavailable):  # no Ethernet: the bonding driver announces itself
        announce(step["link"], step["addresses"])


def _unchanged(step: Mapping[str, Any]) -> None:
    if fingerprint(snapshot.take(), step["link"]) != step["digest"]:
        raise HostError(
            f"addresses or routes of {step['link']} were changed by somebody else meanwhile; "
            "find out who (`ip monitor`), then plan and apply again"
        )


def _file(step: Mapping[str, Any]) -> None:
    known = indexes()
    if any(name not in known for name in INDEX_IN_PATH.findall(step["path"])):
        return  # the state of an interface that is gone is nobody's
    path = INDEX_IN_PATH.sub(lambda found: str(known[found[1]]), step["path"])
    write_file(Path(path), step["content"], step["mode"])


def write_file(path: Path, content: str | None, mode: int) -> None:
    """Replace a file as a whole, on disk when this returns; ``content`` None removes it."""
    fresh = path.with_name(f".{path.name}.linkhold")
    try:
        if content is None:
            path.unlink(missing_ok=True)
            _drop_empty(path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(fresh, path, content.encode(), mode)
        if path.parent.is_dir():
            _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise HostError(f"{path}: {error.strerror}") from error


def _drop_empty(folder: Path) -> None:
    """Remove a profile's folder of drop-ins in /run that has none any more: it was for ours."""
    if folder.name.endswith(".network.d") and folder.is_relative_to(ROOT / "run"):
        with contextlib.suppress(OSError):  # others have files there, or it is gone
            folder.rmdir()


def _replace(fresh: Path, path: Path, content: bytes, mode: int) -> None:
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(content)
        while left:  # the last that fits onto a full disk is written in part, without an error
            left = left[os.write(fd, left) :]
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)
    fresh.replace(path)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _run(step: Mapping[str, Any]) -> None:
    expected = step.get("expect", "")  # a journal of an older version has none
    outcome = run(step["argv"], timeout_s=step["timeout_s"])
    end = time.monotonic() + step["timeout_s"]
    while expected and outcome.last_line != expected:
        if time.monotonic() > end:
            said = outcome.last_line or "nothing"
            raise HostError(f"{step['text']}: {' '.join(step['argv'])} says {said}, not {expected}")
        time.sleep(ASK_AGAIN_S)
        outcome = run(step["argv"], timeout_s=step["timeout_s"])
    if outcome.code and not step["optional"]:
        said = outcome.last_line or f"exit code {outcome.code}"
        raise HostError(f"{step['text']}: {said}")


_ORDER: Literal["little", "big"] = sys.byteorder

_DO: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "netlink": _netlink,
    "sysctls": _sysctls,
    "await": _await,
    "ask": _ask,
    "worth": _worth,
    "announce": _announce,
    "unchanged": _unchanged,
    "file": _file,
    "run": _run,
}
