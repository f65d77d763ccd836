"""Apprise: for a site without Alertmanager. One relay only, since nothing de-duplicates.

What was told is kept on disk, so that a relay that starts again tells nothing twice. People hear
when an alert begins and when it ends; what many nodes have in common comes as one message.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from linkhold.exporter import write_whole
from linkhold.kept import read_kept
from linkhold.model import StoreError, Unavailable, WireError
from linkhold.relay.decide.inhibit import Inhibition
from linkhold.wire import dumps, load_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from linkhold.model import Moment
    from linkhold.relay.decide.values import Labels, Page

NAME = "apprise-told.json"
MOST_URLS_BYTES = 1 << 20
DEADLINE_S = 30.0
"""Apprise's services have timeouts of their own, of a few seconds each, one after the other."""
SHOWN = 20
SILENT = frozenset({"LinkholdRelayAlive"})


class AppriseSink:
    """Tells people by every URL of a file. Taken is what one of the services took.

    A service that did not take a message gets what it misses with the next repost; the others
    hear nothing twice.
    """

    def __init__(self, file: Path, state_dir: Path) -> None:
        try:
            import apprise  # noqa: PLC0415 -- an optional package, of sites that use it
        except ImportError:
            raise Unavailable(
                "apprise is not installed; try: pip install 'linkhold[apprise]'"
            ) from None
        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # URLs hold passwords
        self._store = state_dir / NAME
        told = _load(self._store)
        self._services: dict[str, _Service] = {}
        for line in _lines(file):
            one = apprise.Apprise()
            if not one.add(line):
                raise Unavailable(f"{file}: a line is no URL that Apprise knows")
            name = hashlib.sha256(line.encode()).hexdigest()[:16]
            self._services[name] = _Service(apprise, one, told.get(name, {}))
        self._inhibition = Inhibition()
        self.counters: Counter[str] = Counter()
        self.refusal = ""

    def post(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:  # noqa: ARG002
        """Tell what begins and what ends; raises :class:`Unavailable` when nobody could be told."""
        self._inhibition.note(pages)
        begun = [
            page
            for page in pages
            if page.ends_s is None and page.name not in SILENT and not self._inhibition.hides(page)
        ]
        over = {page.labels: page for page in pages if page.ends_s is not None}
        self._tell(begun, over.keys())

    def repost(
        self,
        pages: Sequence[Page],
        now: Moment,
        ends_s: float,
        *,
        whole: bool,
    ) -> None:
        """Tell what a service has missed; with ``whole`` also the end of all that is not there.

        What ended while no relay ran would else count as told for ever, and never be told again.
        """
        self.post(pages, now, ends_s)
        if whole:
            there = {page.labels for page in pages if page.ends_s is None}
            told = {labels for service in self._services.values() for labels in service.told}
            self._tell([], told - there)

    def still_firing(self) -> frozenset[Labels] | None:
        """Apprise knows nothing of what it was told."""
        return None

    def close(self) -> None:
        """Nothing is kept open."""

    def _tell(self, begun: Sequence[Page], over: Collection[Labels]) -> None:
        """Let every service tell what it has not told, all at the same time."""
        busy = [one for one in self._services.values() if one.start(begun, over)]
        until_s = time.monotonic() + DEADLINE_S
        taken = [one.finish(until_s) for one in busy]
        if any(taken):
            self.counters["alerts_posted"] += max(taken)
            self._save()
        self.counters["posts_failed"] += taken.count(0)
        if not all(map(self._is_told, begun)) or any(map(self._is_open, over)):
            raise Unavailable("apprise: no service took the message")

    def _is_told(self, page: Page) -> bool:
        return any(page.labels in one.told for one in self._services.values())

    def _is_open(self, labels: Labels) -> bool:
        """Tell whether every service has yet to tell the end of an alert."""
        return all(labels in one.told for one in self._services.values())

    def _save(self) -> None:
        document = {name: list(one.told.items()) for name, one in self._services.items()}
        try:
            write_whole(self._store, dumps(document), durable=True)
        except StoreError:
            self.counters["store_failed"] += 1


@dataclass(slots=True)
class _Job:
    """What a service is to tell, and which of it it took: ``begun``, ``over`` or both."""

    new: Sequence[Page]
    ended: Mapping[Labels, str]
    taken: set[str] = field(default_factory=set)

    def messages(self) -> Iterator[tuple[str, str, str]]:
        """Yield what each message is about, its title and its text."""
        if self.new:
            yield ("begun", *_message("", _summary(self.new[0]), _begun(self.new)))
        if self.ended:
            lines = [f"{dict(labels)['alertname']}: {t}" for labels, t in self.ended.items()]
            yield ("over", *_message("over: ", next(iter(self.ended.values())), lines))

    def settle(self, told: dict[Labels, str]) -> int:
        """Bring ``told`` up to date; return how many alerts were taken."""
        count = 0
        if "begun" in self.taken:
            told.update((page.labels, _summary(page)) for page in self.new)
            count += len(self.new)
        if "over" in self.taken:
            for labels in self.ended:
                told.pop(labels, None)
            count += len(self.ended)
        return count


class _Service:
    """One URL, and what it has told: labels, and the words for their end."""

    def __init__(self, library: Any, notifier: Any, told: dict[Labels, str]) -> None:
        self._library = library
        self._notifier = notifier
        self.told = told
        self._thread: threading.Thread | None = None
        self._job: _Job | None = None

    def start(self, begun: Sequence[Page], over: Collection[Labels]) -> bool:
        """Begin to tell in a thread that may hang; False when there is nothing to tell."""
        new = [page for page in begun if page.labels not in self.told]
        ended = {labels: text for labels, text in self.told.items() if labels in over}
        self._job = None
        if not new and not ended:
            return False
        if self._thread is None or not self._thread.is_alive():  # else it hangs: not taken
            job = self._job = _Job(new, ended)
            self._thread = threading.Thread(
                target=self._send, args=(job,), name="apprise", daemon=True
            )
            self._thread.start()
        return True

    def _send(self, job: _Job) -> None:
        kinds, text = self._library.NotifyType, self._library.NotifyFormat.TEXT
        for what, title, body in job.messages():
            kind = kinds.SUCCESS if what == "over" else kinds.FAILURE
            # As text: what a node says is not to become HTML in a mail.
            if self._notifier.notify(body=body, title=title, notify_type=kind, body_format=text):
                job.taken.add(what)

    def finish(self, until_s: float) -> int:
        """Wait until it has told; return how many alerts, 0 for none."""
        if self._job is None or self._thread is None:
            return 0
        self._thread.join(max(0.0, until_s - time.monotonic()))
        return self._job.settle(self.told)


def _summary(page: Page) -> str:
    return dict(page.annotations).get("summary", page.name)


def _begun(pages: Sequence[Page]) -> Iterator[str]:
    for page in pages:
        texts = dict(page.annotations)
        line = f"{page.name}: {texts.get('description') or texts.get('summary', '')}"
        yield line + (f"\nNext: {texts['next']}" if texts.get("next") else "")


def _message(what: str, first: str, lines: Iterable[str]) -> tuple[str, str]:
    every = list(lines)
    shown = every[:SHOWN]
    if len(every) > SHOWN:
        shown.append(f"and {len(every) - SHOWN} more")
    title = first if len(every) == 1 else f"{len(every)} alerts: {first}"
    return f"[linkhold] {what}{title}"[:250], "\n".join(shown)


def _lines(file: Path) -> list[str]:
    try:
        lines = read_kept(file, MOST_URLS_BYTES).decode("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text, or too large"
        raise Unavailable(f"{file}: {reason}") from error
    urls = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not urls:
        raise Unavailable(f"{file}: no URL in it; one a line, see Apprise's documentation")
    return urls


def _load(store: Path) -> dict[str, dict[Labels, str]]:
    try:
        found = load_json(read_kept(store))
        return {
            str(name): {_labels(pairs): str(summary) for pairs, summary in told}
            for name, told in found.items()
        }
    except (OSError, WireError, TypeError, ValueError, AttributeError):
        return {}


def _labels(pairs: Iterable[Sequence[str]]) -> Labels:
    return tuple((str(key), str(value)) for key, value in pairs)
