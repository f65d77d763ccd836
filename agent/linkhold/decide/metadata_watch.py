"""The cloud's metadata service over time: which cloud, when it is asked, and what is known of it.

A machine like the others: :func:`step` takes what was heard and gives back what is known and when
to ask again. Two equal verdicts in a row are believed. Whose answers are believed is a matter of
:mod:`linkhold.decide.metadata`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkhold.decide.alert_tracking import Condition
from linkhold.decide.dice import SIDES, rolled
from linkhold.decide.happening import Happening
from linkhold.decide.metadata import verdict as judged
from linkhold.model import Network, Severity
from linkhold.model.probes import Heard, Metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.probes import Answer

SECOND = 1_000_000_000
DOUBT_S = 30.0
"""A verdict that may change is settled by a question this soon, or sooner where all are."""
WIDTH = 0.1
"""Questions come up to this share early, by chance, so that a fleet does not ask in step."""
BELIEVED = 2
REACHABLE, GONE, UNKNOWN, NOT_ASKED = "reachable", "gone", "unknown", "not_asked"
NOT_YET = "not asked yet"
_VERDICTS = {
    Heard.ANSWERS: REACHABLE,
    Heard.UNKNOWN: UNKNOWN,
    Heard.REFUSED: GONE,
    Heard.SILENT: GONE,
    Heard.UNREACHABLE: GONE,
}
_MANY = "several clouds"


@dataclass(frozen=True, slots=True)
class Course:
    """What is known, what the latest answers say instead and how often, and the dice."""

    known: Metadata = field(default_factory=Metadata)
    other: str = ""
    times: int = 0
    dice: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows of an answer: the course, and in how many seconds to ask again."""

    course: Course
    wait_s: float


def begin(course: Course, vendor: str, *, wanted: bool, asked: bool, now_ns: int) -> Course:
    """Return the course to go on with: the same, or a new one where another cloud is to be asked.

    ``vendor`` is what the machine says it is, ``wanted`` whether the owner asks for it anyway;
    ``asked`` is False where nothing is sent: on no cloud machine, or by the owner's wish.
    """
    if not asked:
        allowed = bool(vendor) or wanted
        why = "the configuration says so" if allowed else "this is no cloud machine"
        return Course(Metadata(vendor, NOT_ASKED, why))
    known = course.known
    if known.verdict != NOT_ASKED and vendor in ("", known.vendor):
        return replace(course, known=replace(known, wanted=wanted))
    return Course(Metadata(vendor, UNKNOWN, NOT_YET, now_ns, wanted=wanted))


def step(
    course: Course, answers: tuple[Answer, ...], every_s: float, seed: int, now_ns: int
) -> Outcome:
    """Take the answers of all addresses in, and decide. Pure."""
    verdict = _VERDICTS[judged(answers)]
    course = replace(course, dice=rolled(course.dice, seed))
    known = course.known
    first = known.reason == NOT_YET
    if verdict == known.verdict and not first:
        course = replace(course, known=_told(known, verdict, answers, known.since_ns), times=0)
        return Outcome(course, _wait_s(course, every_s))
    times = course.times + 1 if course.other == verdict else 1
    if first or times >= BELIEVED:
        known = _told(known, verdict, answers, now_ns)
        course = replace(course, known=known, other="", times=0)
        return Outcome(course, _wait_s(course, every_s))
    course = replace(course, other=verdict, times=times)
    return Outcome(course, _wait_s(course, min(every_s, DOUBT_S)))


def _wait_s(course: Course, every_s: float) -> float:
    return every_s * (1.0 - WIDTH * course.dice / SIDES)


def _told(known: Metadata, verdict: str, answers: tuple[Answer, ...], since_ns: int) -> Metadata:
    """Return what is known after a believed verdict; who answers as a cloud is that cloud's."""
    reason = "" if verdict == REACHABLE else _reason(answers)
    heard = known.heard or verdict == REACHABLE
    vendor = known.vendor
    if not vendor and verdict == REACHABLE:
        names = {one.detail.partition(":")[0] for one in answers if one.heard is Heard.ANSWERS}
        vendor = names.pop() if len(names) == 1 else _MANY
    return replace(
        known, vendor=vendor, verdict=verdict, reason=reason, since_ns=since_ns, heard=heard
    )


def _reason(answers: tuple[Answer, ...]) -> str:
    """Return what the answer says that decided the verdict."""
    worst = judged(answers)
    one = next((one for one in answers if one.heard is worst), None)
    if one is None:
        return "there is no address to ask"
    place = one.target.partition("://")[2].partition("/")[0] or one.target
    return f"{place}: {one.detail}"


def compare(before: Metadata, after: Metadata, now_ns: int) -> Iterator[Happening]:
    """Yield what happened between two looks: a service that was found, or lost."""
    if after.verdict in {before.verdict, NOT_ASKED} or after.reason == NOT_YET:
        return
    first = before.verdict == NOT_ASKED or before.reason == NOT_YET
    bad = _matters(after)
    data: dict[str, object] = {"vendor": after.vendor or None, "reason": after.reason}
    data["previous_s"] = None if first else round((now_ns - before.since_ns) / 1e9, 3)
    severity = Severity.WARNING if bad else Severity.INFO
    yield Happening(f"metadata.{after.verdict}", "metadata", data, severity)


def conditions(metadata: Metadata, network: Network) -> Iterator[Condition]:
    """Yield what a person should know.

    A service that never answered may be switched off on purpose, so it alerts only where the
    owner wants it asked. A network that is down explains it.
    """
    if network is Network.DOWN or not _matters(metadata):
        return
    cloud = metadata.vendor or "this cloud"
    without = f"notices of {cloud} are not heard meanwhile, and credentials from it run out"
    if metadata.verdict == GONE:
        text = f"the metadata service does not answer ({metadata.reason}); {without}"
    else:
        text = f"nobody knows whether the metadata service works ({metadata.reason}); {without}"
    yield Condition(f"metadata.{metadata.verdict}", "metadata", Severity.WARNING, text)


def _matters(metadata: Metadata) -> bool:
    bad = metadata.verdict in (GONE, UNKNOWN) and metadata.reason != NOT_YET
    return bad and (metadata.heard or metadata.wanted)
