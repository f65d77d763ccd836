"""Takes any text of a kernel log apart: whatever stands in front of the kernel's own message.

Known are raw records of /dev/kmsg and of extended netconsole, dmesg with and without ``-T`` (in
any language), ``-d``, ``-x``, ``--reltime`` and ``--time-format``, journalctl (short, iso, precise,
full, monotonic, unix, cat), syslog (RFC 3164 and 5424, rsyslog, syslog-ng), busybox and OpenWrt,
and grep's file names and line numbers. Lines that a program in user space wrote say nothing of the
kernel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINE_CHARACTERS = 8192
CONTINUATIONS = 64
"""A record carries a dozen at most; more are lines of their own."""


class Entry(NamedTuple):
    """One line, or one raw record with its continuation lines. ``number`` counts from 1.

    ``kernel`` is False when a program in user space wrote it. ``stamp`` is the time as written.
    """

    number: int
    stamp: str
    message: str
    kernel: bool = True
    device: str = ""
    tagless: bool = False


class Message(NamedTuple):
    """A line without its prefixes."""

    stamp: str
    text: str
    kernel: bool = True
    tagless: bool = False
    """After a date, without ``kernel:``: the first word may be the host's name."""


_RAW = re.compile(r"(?:[\w.+~-]+,)?(\d{1,4}),(\d+),(\d+),([-c+])(?:,[^;]*)?;(.*)", re.DOTALL)
_CONTINUATION = re.compile(r" ([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
_GREP = re.compile(
    r"(?:[\w./-]*(?:log|messages|kmsg|dmesg|journal)[\w.-]*:(?:\d+[:-])?|\d+[:-])"
    r"(?=\s*(?:<\d|\[|[A-Z][a-z]{2} |\d{4}-\d|kernel:|\d+,\d+,))"
)
_PRIORITY = re.compile(r"<(\d{1,3})>\s*")
_RFC5424 = re.compile(
    r"\d{1,2} (?P<stamp>\d{4}-\S+|-) (?P<host>\S+) (?P<tag>\S+) \S+ \S+ "
    r"(?:-|(?:\[(?:[^\]\\]|\\.)*\])+)(?:\s+|$)\ufeff?"  # RFC 5424, 6.4: BOM before UTF-8
)
_DATE = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?"
    r"(?:(?:\d{4} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2} (?:\d{4} )?"
    r"\d\d:\d\d:\d\d(?:[.,]\d+)?(?: \d{4}\b)?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?Z\b| ?[+-]\d\d:?\d\d\b)?"
    r"|\d{9,10}\.\d{3,9})"
    r"(?: [A-Z]{2,5}(?= ))?\s"
)
_KERNEL_STAMP = re.compile(
    r"\s*(?:\[\s*\d+\.\d{1,9}(?:,\s*\d+| ?<\s*\d+\.\d+>)?\]|\[\s*[+-]\d+\.\d+\]"
    r"|\[(?:[^\W\d_]{1,5}\.? )?[^\W\d_]{2,6}\.? {0,2}\d{1,2} [\d:.]+(?: \d{4})?\]"
    r"|\[\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+\])"
    r"(?:\s*\[\s*[TC]\d+\])?\s?"
)
_LEVEL = re.compile(
    r"(kern|user|daemon|auth|authpriv|syslog|cron|local\d)\s*[.:]\s*"
    r"(?:emerg|panic|alert|crit|err|error|warn|warning|notice|info|debug)\s*(?::\s*|\s)"
)
_HOST_TAG = re.compile(r"(?P<host>\S+)?\s+(?P<tag>[\w./@-]+?)(?P<pid>\[\d+\])?:(?=\s|\[)\s*")
_BARE_TAG = re.compile(r"(?P<tag>[\w./@-]+?)(?P<pid>\[\d+\])?:(?=\s|\[|$)\s*")


def entries(lines: Iterable[str]) -> Iterator[Entry]:
    """Yield what each line says; continuation lines belong to the raw record before them."""
    number = first = more = 0
    record: Message | None = None
    device = ""
    for line in lines:
        number += 1
        if record is not None:
            extra = _CONTINUATION.match(line.rstrip("\r\n")) if more < CONTINUATIONS else None
            if extra is not None:
                more += 1
                device = extra[2] if extra[1] == "DEVICE" else device
                continue
            yield Entry(first, record.stamp, record.text, record.kernel, device)
            record = None
        found = message_of(line)
        if _is_raw(line):
            record, first, more, device = found, number, 0, ""
        else:
            yield Entry(number, found.stamp, found.text, found.kernel, "", found.tagless)
    if record is not None:
        yield Entry(first, record.stamp, record.text, record.kernel, device)


def _is_raw(line: str) -> bool:
    return ";" in line and _RAW.match(line) is not None


def message_of(line: str) -> Message:
    """Return the kernel's own message of one line of any log, without what stands in front."""
    rest = line[:LINE_CHARACTERS].rstrip("\r\n\0")
    if "\x1b" in rest:
        rest = _COLOUR.sub("", rest)
    raw = _RAW.match(rest) if ";" in rest else None
    if raw is not None:
        return Message(raw[3], raw[5], int(raw[1]) >> 3 == 0)
    return _text(rest)


def _text(rest: str) -> Message:
    rest = rest.lstrip()
    own = _KERNEL_STAMP.match(rest) if rest.startswith("[") else None
    if own is not None:  # dmesg: most of all logs
        return _monotonic(own[0].strip(), rest[own.end() :], kernel=True)
    grep = _GREP.match(rest)
    if grep is not None:
        rest = rest[grep.end() :].lstrip()
    kernel = True
    priority = _PRIORITY.match(rest)
    if priority is not None:
        kernel = int(priority[1]) >> 3 == 0
        rest = rest[priority.end() :]
        structured = _RFC5424.match(rest)
        if structured is not None:
            kernel = kernel and structured["tag"] == "kernel"
            return _stamped(structured["stamp"], rest[structured.end() :], kernel=kernel)
    date = _DATE.match(rest)
    if date is not None:
        return _dated(date[0].strip(), rest[date.end() :], kernel=kernel)
    return _undated(rest, kernel=kernel)


def _dated(stamp: str, rest: str, *, kernel: bool) -> Message:
    """Judge what follows a date: host and tag, a tag, or the kernel's own stamp."""
    level = _LEVEL.match(rest) or _level_after_host(rest)
    if level is not None:
        return _levelled(stamp, rest[level.end() :], kernel=kernel and level[1] == "kern")
    own = _BARE_TAG.match(rest)
    tag = own if rest.startswith("kernel") else _HOST_TAG.match(rest)
    if tag is not None and tag["tag"] == "kernel":
        return _stamped(stamp, rest[tag.end() :], kernel=kernel)
    program = tag if tag is not None and tag["pid"] else own
    if program is not None and program["pid"]:
        return Message(stamp, rest[program.end() :], kernel=False)
    after = rest.partition(" ")[2]
    for left in (rest, after):
        if _KERNEL_STAMP.match(left):
            return _stamped(stamp, left, kernel=kernel)
    return Message(stamp, rest, kernel, tagless=True)


def _level_after_host(rest: str) -> re.Match[str] | None:
    host = rest.partition(" ")[0]
    return _LEVEL.match(rest, len(host) + 1) if host else None


def _levelled(stamp: str, rest: str, *, kernel: bool) -> Message:
    """Judge what follows a facility and level (busybox, OpenWrt, dmesg -x)."""
    tag = _BARE_TAG.match(rest)
    named = tag is not None and tag["tag"] == "kernel"
    return _stamped(stamp, rest[tag.end() :] if tag is not None and named else rest, kernel=kernel)


def _undated(rest: str, *, kernel: bool) -> Message:
    level = _LEVEL.match(rest)
    if level is not None:
        return _levelled("", rest[level.end() :], kernel=kernel and level[1] == "kern")
    stamp = _KERNEL_STAMP.match(rest)
    if stamp is not None:
        return _monotonic(stamp[0].strip(), rest[stamp.end() :], kernel=kernel)
    tag = _BARE_TAG.match(rest)
    after_host = _HOST_TAG.match(rest) if tag is None else None  # the date was cut off
    for found in (tag, after_host):
        if found is not None and found["tag"] == "kernel":
            return _stamped("", rest[found.end() :], kernel=kernel)
    if tag is not None and tag["pid"]:
        return Message("", rest[tag.end() :], kernel=False)
    return Message("", rest, kernel)


def _monotonic(stamp: str, rest: str, *, kernel: bool) -> Message:
    """Judge what follows a kernel's stamp: its message, or host and tag (short-monotonic)."""
    if rest.startswith("kernel: "):
        return Message(stamp, rest[len("kernel: ") :], kernel)
    tag = _HOST_TAG.match(rest)
    if tag is None or not tag["host"] or ":" in tag["host"]:
        return Message(stamp, rest, kernel)
    if tag["tag"] == "kernel":
        return Message(stamp, rest[tag.end() :], kernel)
    if tag["pid"]:
        return Message(stamp, rest[tag.end() :], kernel=False)
    return Message(stamp, rest, kernel)


def _stamped(stamp: str, rest: str, *, kernel: bool) -> Message:
    """Cut the kernel's own level (old klogd) and stamp, which may follow a date."""
    level = _PRIORITY.match(rest) if rest.startswith("<") else None
    rest = rest[level.end() :] if level is not None else rest
    own = _KERNEL_STAMP.match(rest)
    if own is None:
        return Message(stamp, rest, kernel)
    return Message(stamp or own[0].strip(), rest[own.end() :], kernel)
