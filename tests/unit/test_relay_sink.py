"""What waits for the sink, and what Alertmanager is sent."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.config.relay import AlertmanagerSettings
from linkhold.model import Moment, Unavailable
from linkhold.relay.apprise_sink import AppriseSink
from linkhold.relay.decide.pending import Pending
from linkhold.relay.decide.values import Page
from linkhold.relay.sink import Alertmanagers, alert_document
from linkhold.wire import from_rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def page(name: str, starts_s: float = 100.0, ends_s: float | None = None) -> Page:
    """Return a page with one more label."""
    return Page((("alertname", name), ("node", "n")), (("summary", "s"),), starts_s, ends_s)


def at(seconds: float) -> Moment:
    """Return an instant."""
    return Moment(int(seconds * 1e9), seconds)


def test_what_ends_before_it_was_taken_was_told_to_nobody() -> None:
    """Alertmanager notifies nobody of an alert that arrives over: such ones are given back."""
    pending = Pending()
    assert pending.put([page("A")], at(100)) == []
    over = page("A", ends_s=130)
    assert pending.put([over], at(130)) == [over]
    assert pending.waiting() == [over]


def test_what_was_told_late_and_ended_at_once_was_told_to_nobody() -> None:
    """An alert that was held up and ends within Alertmanager's wait for its group is given.

    Back; one that was told in time is not.
    """
    late, timely = Pending(), Pending()
    for pending, now_s in ((late, 400.0), (timely, 101.0)):
        pending.put([page("A")], at(now_s))
        pending.accepted(pending.waiting(), at(now_s))
        untold = pending.put([page("A", ends_s=now_s + 10)], at(now_s + 10))
        assert bool(untold) is (pending is late)
        assert len(pending) == 1


def test_what_changes_while_it_is_posted_waits_on() -> None:
    """Only what was posted counts as accepted: a newer word on the same alert is posted too."""
    pending = Pending()
    pending.put([page("A")], at(1))
    posted = list(pending.waiting())
    pending.put([page("A", ends_s=5.0)], at(5))
    pending.accepted(posted, at(5))
    assert [one.ends_s for one in pending.waiting()] == [5.0]


@given(st.floats(-1e9, 4e9), st.one_of(st.none(), st.floats(-1e9, 4e9)), st.floats(1e9, 2e9))
def test_an_alert_never_begins_after_it_ends(
    starts_s: float, ends_s: float | None, now_s: float
) -> None:
    """Alertmanager refuses such ones; a node's clock may be wrong by years."""
    document = alert_document(page("A", starts_s, ends_s), at(now_s), 300)
    assert from_rfc3339(document["startsAt"]) <= from_rfc3339(document["endsAt"])


class Server:
    """Answers posts of alerts, or of Apprise, with ``code``; refuses the alert called Bad."""

    def __init__(self) -> None:
        self.code = 200
        self.got: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if isinstance(told, dict):  # of Apprise
                    names = [told["title"]]
                else:
                    names = [alert["labels"]["alertname"] for alert in told]
                code = 400 if "Bad" in names else server.code
                if code < 300:
                    server.got += names
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    """Make a server that ends with the test."""
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def test_one_member_of_a_cluster_is_enough(server: Server) -> None:
    """Accepted is what one Alertmanager took; when none does, that is said with the reason."""
    gone = AlertmanagerSettings("http://127.0.0.1:1")
    both = Alertmanagers([gone, AlertmanagerSettings(server.url)])
    both.post([page("A")], at(200), 300)
    assert server.got == ["A"]

    server.code = 503
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1: Connection refused; .* answers 503"):
        both.post([page("B")], at(200), 300)
    both.close()


def test_a_dead_member_holds_nothing_up(server: Server) -> None:
    """A member of a cluster that did not answer is asked again after ten seconds, not before."""
    gone = AlertmanagerSettings("http://127.0.0.1:1")
    both = Alertmanagers([gone, AlertmanagerSettings(server.url)])
    for second in (200, 205, 209, 211):
        both.post([page("A")], at(second), 300)
    both.close()

    assert server.got == ["A"] * 4
    assert both.counters["posts_failed"] == 2


def test_a_refused_alert_keeps_none_of_the_others_back(server: Server) -> None:
    """An alert that Alertmanager refuses for good is counted; those with it arrive."""
    sink = Alertmanagers([AlertmanagerSettings(server.url)])
    sink.post([page("A"), page("Bad"), page("C")], at(200), 300)
    sink.close()

    assert server.got == ["A", "C"]
    assert sink.counters["alerts_refused"] == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of apprise's own imports
def test_apprise_tells_each_alert_once_over_restarts(tmp_path: Path, server: Server) -> None:
    """Without Alertmanager, what was told is kept on disk.

    Single nodes of a dark rack are not told at all.
    """
    pytest.importorskip("apprise")
    urls = tmp_path / "urls"
    urls.write_text(f"# a comment\njson://127.0.0.1:{server.url.rpartition(':')[2]}/\n")
    rack = Page((("alertname", "RackDark"), ("rack", "r1")), (("summary", "rack"),), 1.0)
    node = Page((("alertname", "NodeOffline"), ("rack", "r1")), (("summary", "node"),), 1.0)
    AppriseSink(urls, tmp_path).post([rack, node], at(5), 300)
    AppriseSink(urls, tmp_path).post([rack, page("A")], at(6), 300)
    AppriseSink(urls, tmp_path).post([page("A", ends_s=9.0)], at(9), 300)

    assert server.got == ["[linkhold] rack", "[linkhold] s", "[linkhold] over: s"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_file_of_urls_that_are_none_is_refused(tmp_path: Path) -> None:
    """The error names the file, and no URL: they hold passwords."""
    pytest.importorskip("apprise")
    urls = tmp_path / "urls"
    urls.write_text("nonsense://secret@host\n")
    with pytest.raises(Unavailable, match="urls: a line is no URL that Apprise knows"):
        AppriseSink(urls, tmp_path)
