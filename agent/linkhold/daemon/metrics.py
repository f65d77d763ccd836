"""The agent's metrics: made from each heartbeat's state document, in a thread of its own.

The loop hands over bytes and never waits: a textfile may lie on a disk that hangs. Where the
thread is still busy, the newest document waits in its place and older ones are dropped.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from linkhold import __version__
from linkhold.config.metrics import MetricsSettings
from linkhold.daemon.log import log
from linkhold.exporter import Exporter
from linkhold.wire import load_json
from linkhold.wire.job_metrics import job_families
from linkhold.wire.metrics import families

if TYPE_CHECKING:
    from linkhold.model.numbers import JobNumbers

    Jobs = tuple[JobNumbers, ...]


class Metrics:
    """Shows metrics as the settings of the last heartbeat say; without settings it does nothing."""

    def __init__(self) -> None:
        self._settings = MetricsSettings()
        self._slot: tuple[MetricsSettings, bytes, Jobs] | None = None
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._exporter: Exporter | None = None
        self._problem = ""

    def show(self, document: bytes, settings: MetricsSettings, jobs: Jobs = ()) -> None:
        """Hand over the newest state document and the jobs' numbers; never waits."""
        if self._thread is None:
            if settings == MetricsSettings():
                return
            self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
            self._thread.start()
        with self._news:
            self._slot = (settings, document, jobs)
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                while self._slot is None:
                    self._news.wait()
                (settings, document, jobs), self._slot = self._slot, None
            try:
                self._write(settings, document, jobs)
            except Exception as error:  # noqa: BLE001 -- metrics must not end for one document
                self._tell(f"{type(error).__name__}: {error}")

    def _write(self, settings: MetricsSettings, document: bytes, jobs: Jobs) -> None:
        if self._exporter is None or settings != self._settings:
            if self._exporter is not None:
                self._exporter.close()
            self._settings, self._exporter = settings, Exporter(settings)
        if self._exporter.wanted:
            found = families(load_json(document), __version__, time.time())
            self._exporter.show((*found, *job_families(jobs)))
        self._tell(self._exporter.problem)

    def _tell(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.warning("metrics: %s", problem or "shown again")
