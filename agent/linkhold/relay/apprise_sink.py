"""Apprise: for a site without Alertmanager. One relay only, since nothing de-duplicates.

What was told is kept on disk, so that a relay that starts again tells nothing twice. People hear
when an alert begins and when it ends; what many nodes have in common comes as one message.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from linkhold.exporter import write_whole
from linkhold.model import StoreError, Unavailable, WireError
from linkhold.wire import dumps, load_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from linkhold.model import Moment
    from linkhold.relay.decide.values import Labels, Page

NAME = "apprise-told.json"
DEADLINE_S = 30.0
"""Apprise's services have timeouts of their own, of a few seconds each, one after the other."""
MOST_TOLD = 10_000
SHOWN = 20
SILENT = frozenset({"LinkholdRelayAlive"})
HIDING = {"SiteDark": "site", "RackDark": "rack", "SwitchDown": "switch", "SitePowerLost": "site"}
"""While one of these fires, single nodes with the same label are not told (no inhibition here)."""


class AppriseSink:
    """Tells people by every URL of a file."""

    def __init__(self, file: Path, state_dir: Path) -> None:
        try:
            import apprise  # noqa: PLC0415 -- an optional package, of sites that use it
        except ImportError:
            raise Unavailable(
                "apprise is not installed; try: pip install 'linkhold[apprise]'"
            ) from None
        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # URLs hold passwords
        self._library: Any = apprise
        self._apprise = apprise.Apprise()
        for line in _lines(file):
            if not self._apprise.add(line):
                raise Unavailable(f"{file}: a line is no URL that Apprise knows")
        self._store = state_dir / NAME
        self._told: set[Labels] = _load(self._store)
        self._hiding: set[tuple[str, str]] = set()
        self._busy: threading.Thread | None = None
        self.counters: Counter[str] = Counter()

    def post(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:  # noqa: ARG002
        """Tell what begins and what ends; raises :class:`Unavailable` when it cannot be told."""
        self._note_hiding(pages)
        begun = [p for p in pages if p.ends_s is None and p.labels not in self._told]
        over = [p for p in pages if p.ends_s is not None and p.labels in self._told]
        begun = [page for page in begun if page.name not in SILENT and not self._is_hidden(page)]
        if begun:
            self._notify("begun", begun)
        if over:
            self._notify("over", over)
        self._told |= {page.labels for page in begun[:MOST_TOLD]}
        self._told -= {page.labels for page in over}
        if begun or over:
            self.counters["alerts_posted"] += len(begun) + len(over)
            self._save()

    def still_firing(self) -> frozenset[Labels] | None:
        """Apprise knows nothing of what it was told."""
        return None

    def close(self) -> None:
        """Nothing is kept open."""

    def _note_hiding(self, pages: Sequence[Page]) -> None:
        for page in pages:
            label = HIDING.get(page.name)
            if label is None:
                continue
            named = (label, dict(page.labels).get(label, ""))
            self._hiding.add(named) if page.ends_s is None else self._hiding.discard(named)

    def _is_hidden(self, page: Page) -> bool:
        return page.name not in HIDING and any(pair in self._hiding for pair in page.labels)

    def _notify(self, what: str, pages: Sequence[Page]) -> None:
        """Send one message, in a thread that may hang; raises :class:`Unavailable`."""
        if self._busy is not None and self._busy.is_alive():
            raise Unavailable("apprise: the message before is still on its way")
        title, body = _message(what, pages)
        kind = self._library.NotifyType
        type_ = kind.SUCCESS if what == "over" else kind.FAILURE
        sent: list[bool] = []
        self._busy = threading.Thread(
            target=lambda: sent.append(
                bool(self._apprise.notify(body=body, title=title, notify_type=type_))
            ),
            name="apprise",
            daemon=True,
        )
        self._busy.start()
        self._busy.join(DEADLINE_S)
        if sent != [True]:
            self.counters["posts_failed"] += 1
            raise Unavailable("apprise: not every service took the message")

    def _save(self) -> None:
        try:
            write_whole(self._store, dumps(sorted(self._told)), durable=True)
        except StoreError:
            self.counters["store_failed"] += 1


def _message(what: str, pages: Sequence[Page]) -> tuple[str, str]:
    lines = []
    for page in pages[:SHOWN]:
        texts = dict(page.annotations)
        lines.append(f"{page.name}: {texts.get('description') or texts.get('summary', '')}")
        if what == "begun" and texts.get("next"):
            lines.append(f"Next: {texts['next']}")
    if len(pages) > SHOWN:
        lines.append(f"and {len(pages) - SHOWN} more")
    first = dict(pages[0].annotations).get("summary", pages[0].name)
    title = first if len(pages) == 1 else f"{len(pages)} alerts: {first}"
    return f"[linkhold] {'over: ' if what == 'over' else ''}{title}"[:250], "\n".join(lines)


def _lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise Unavailable(f"{file}: {reason}") from error
    urls = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not urls:
        raise Unavailable(f"{file}: no URL in it; one a line, see Apprise's documentation")
    return urls


def _load(store: Path) -> set[Labels]:
    try:
        found = load_json(store.read_bytes())
        return {tuple((str(k), str(v)) for k, v in labels) for labels in found}
    except (OSError, WireError, TypeError, ValueError):
        return set()
