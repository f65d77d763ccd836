"""Connections of training processes in the agent: covered where asked for, audited now and then."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.actuators import cover_record
from linkhold.actuators.cover import Cover
from linkhold.config import keepalive as keys
from linkhold.config.settings import Mode
from linkhold.daemon.log import log
from linkhold.decide import cover as decide_cover
from linkhold.decide.audit import sentence, summary
from linkhold.decide.happening import Happening
from linkhold.model import Unavailable
from linkhold.model.keepalive import Verdict
from linkhold.survey.audit import audit
from linkhold.survey.files import Reader
from linkhold.survey.training import Finder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.config.settings import Settings
    from linkhold.model.jobs import Training
    from linkhold.model.keepalive import Timers

AUDIT_S, AUDIT_SOON_S = 300.0, 60.0
"""An audit of a node full of connections takes a second of one core: the second is after a change
of what is covered."""
JOBS_MOST = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """What a round found: counts by verdict (None: not audited yet), counts of cover, news."""

    connections: Mapping[str, int] | None = None
    covered: Mapping[str, int] | None = None
    problem: str = ""
    news: tuple[Happening, ...] = ()


@dataclass
class Connections:
    """One look after another. Blocking: every method is for a thread, one call at a time."""

    state_dir: Path
    _finder: Finder = field(default_factory=Finder)
    _cover: Cover | None = None
    _audited_ns: int | None = None
    _changed: bool = False
    _covered: Mapping[str, int] | None = None
    _told: dict[str, int] = field(default_factory=dict)
    _counts: Mapping[str, int] | None = None
    _failed: tuple[str, ...] = ()

    def look(self, settings: Settings, wanted: Timers | None) -> Seen:
        """Cover what is new and, when it is time, audit everything."""
        covers = self._covers(settings)
        if not covers:
            self._uncover()
        audits = self._audit_is_due()
        if not covers and not audits:
            return Seen(self._counts)
        training = self._finder.find(Reader(Path("/")))
        covered, problem = self._scan(settings, wanted, training) if covers else (None, "")
        news: tuple[Happening, ...] = ()
        self._changed |= covered != self._covered
        self._covered = covered
        if audits:
            self._audited_ns, self._changed = time.monotonic_ns(), False
            news = self._audit(training, wanted.time_s if wanted else None)
        return Seen(self._counts, covered, problem, news)

    def _audit_is_due(self) -> bool:
        if self._audited_ns is None:
            return True
        wait_s = AUDIT_SOON_S if self._changed else AUDIT_S
        return time.monotonic_ns() >= self._audited_ns + int(wait_s * 1e9)

    def _covers(self, settings: Settings) -> bool:
        asked = settings.keepalive.cover.processes is keys.Cover.TRAINING
        return asked and settings.mode is Mode.ENFORCE

    def _scan(
        self, settings: Settings, wanted: Timers | None, training: Training
    ) -> tuple[Mapping[str, int], str]:
        if self._cover is None:
            self._cover = Cover(self.state_dir)
        found = self._cover.scan(
            training.processes,
            decide_cover.timers(wanted),
            decide_cover.exclusions(settings.keepalive.cover),
        )
        return found.counts, "; ".join(found.errors[:3])

    def _uncover(self) -> None:
        """Put back what this agent, or one before it, covered: it is switched off."""
        if self._cover is None and not cover_record.exists(self.state_dir):
            return
        done = (self._cover or Cover(self.state_dir)).restore()
        self._cover = None
        if done.restored:
            self._audited_ns = None
            log.info("cover is off: %d sockets have their old values again", done.restored)
        # What is left is tried again in each round, and told when it is news.
        for problem in done.problems:
            if problem not in self._failed:
                log.warning("cover: %s", problem)
        self._failed = done.problems

    def _audit(self, training: Training, profile_s: int | None) -> tuple[Happening, ...]:
        pids = frozenset(one.pid for one in training.processes)
        if not pids:
            self._counts, self._told = None, {}
            return ()
        try:
            seen = audit(Reader(Path("/")), training, pids, profile_s)
        except Unavailable as error:
            log.warning("keepalive audit: %s", error)
            return ()
        totals = summary(seen.found, "training", seen.limit_s)
        self._counts = {one.value: totals.counts[one] for one in Verdict}
        told, self._told = self._told, {}
        news = []
        for job in training.jobs[:JOBS_MOST]:
            members = {one.pid for one in training.of(job)}
            mine = [one for one in seen.found if one.pid in members]
            counts = summary(mine, f"job {job}", seen.limit_s)
            bad = counts.counts[Verdict.UNPROTECTED]
            if bad:
                self._told[job] = bad
            if bad and job not in told:
                data = {"job": job, "unprotected": bad, "connections": counts.total}
                data["text"] = sentence(counts)
                news.append(Happening("keepalive.unprotected", job, data))
        return tuple(news)
