"""What waits for the sink, and what Alertmanager is sent."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
    """Answers posts of alerts, or of Apprise, with ``code``; refuses the alert called Bad.

    It does so in Alertmanager's own words, unless ``kind`` says that it is something else.
    """

    def __init__(self) -> None:
        self.code = 200
        self.kind = "application/json"
        self.got: list[str] = []
        self.ends: list[str] = []
        self.ahead_s = 0.0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if isinstance(told, dict):  # of Apprise
                    names = [told["title"]]
                else:
                    server.ends += [alert["endsAt"] for alert in told]
                    names = [alert["labels"]["alertname"] for alert in told]
                code = 400 if "Bad" in names else server.code
                if code < 300:
                    server.got += names
                self._answer(code)

            def do_GET(self) -> None:
                self._answer(server.code)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string((timestamp or time.time()) + server.ahead_s)

            def _answer(self, code: int) -> None:
                self.send_response(code)
                self.send_header("Content-Type", server.kind)
                self.send_header("Location", "https://elsewhere/")
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b'"no"')

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.block_on_close = False
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


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_alerts_are_posted_in_the_time_of_alertmanagers_clock(
    server: Server, ahead_s: float
) -> None:
    """Clocks that differ by more than an alert lasts would end it before anybody is told."""
    server.ahead_s = ahead_s
    sink = Alertmanagers([AlertmanagerSettings(server.url)])
    now = Moment(10**9, time.time())
    sink.post([page("A")], now, 300)
    sink.post([page("B")], now, 300)
    sink.close()

    assert server.got == ["A", "A", "B"]
    due = [from_rfc3339(text) - now.wall_s for text in server.ends]
    assert due == pytest.approx([300, 300 + ahead_s, 300 + ahead_s], abs=3)


def test_who_rests_is_asked_when_nobody_else_takes_it(server: Server) -> None:
    """A member that has come back takes what the others no longer take, without a wait."""
    other = Server()
    both = Alertmanagers([AlertmanagerSettings(server.url), AlertmanagerSettings(other.url)])
    server.code = 503
    both.post([page("A")], at(200), 300)
    server.code, other.code = 200, 503
    both.post([page("B")], at(201), 300)
    both.close()
    other.http.shutdown()
    other.http.server_close()

    assert (other.got, server.got) == (["A"], ["B"])


def test_a_refused_alert_keeps_none_of_the_others_back(server: Server) -> None:
    """An alert that Alertmanager refuses for good is counted; those with it arrive."""
    sink = Alertmanagers([AlertmanagerSettings(server.url)])
    sink.post([page("A"), page("Bad"), page("C")], at(200), 300)
    sink.close()

    assert server.got == ["A", "C"]
    assert sink.counters["alerts_refused"] == 1
    assert sink.refusal == 'Bad n: "no"'


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        (301, "text/html", "it is at https://elsewhere/ now; name that as url"),
        (401, "text/plain", "it wants a login; see username and password_file"),
        (404, "application/json", "is that Alertmanager's address?"),
        (400, "text/plain", "is that Alertmanager's address?"),  # HTTP to a port of HTTPS
        (500, "text/plain", "answers 500 Internal Server Error"),
    ],
)
def test_what_is_no_alertmanager_takes_nothing(
    server: Server, code: int, kind: str, told: str
) -> None:
    """An answer of something else refuses no alert: all wait, and the reason says what to do."""
    server.code, server.kind = code, kind
    sink = Alertmanagers([AlertmanagerSettings(server.url)])
    with pytest.raises(Unavailable, match=re.escape(told)):
        sink.post([page("A")], at(200), 300)
    assert sink.still_firing() is None
    sink.close()

    assert (sink.counters["alerts_refused"], sink.refusal) == (0, "")


def test_an_answer_that_drips_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then keeps a socket's timeout away, but not the deadline of the whole."""
    monkeypatch.setattr("linkhold.relay.sink.DEADLINE_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def drip() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                while not ended.wait(0.05):
                    peer.send(b"H")

        thread = threading.Thread(target=drip)
        thread.start()
        sink = Alertmanagers(
            [AlertmanagerSettings(f"http://127.0.0.1:{listener.getsockname()[1]}")]
        )
        began_s = time.monotonic()
        with pytest.raises(Unavailable):
            sink.post([page("A")], at(200), 300)
        lasted_s = time.monotonic() - began_s
        ended.set()
        thread.join()
        sink.close()
    assert lasted_s < 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of apprise's own imports
def test_apprise_tells_each_alert_once_over_restarts(tmp_path: Path, server: Server) -> None:
    """Without Alertmanager, what was told is kept on disk.

    Single nodes and switches of a dark rack are not told at all; others of the site are.
    """
    pytest.importorskip("apprise")
    urls = tmp_path / "urls"
    urls.write_text(f"# a comment\njson://127.0.0.1:{server.url.rpartition(':')[2]}/\n")
    rack = Page((("alertname", "RackDark"), ("rack", "r1")), (("summary", "rack"),), 1.0)
    node = Page((("alertname", "NodeOffline"), ("rack", "r1")), (("summary", "node"),), 1.0)
    switch = Page((("alertname", "SwitchDown"), ("rack", "r1")), (("summary", "switch"),), 1.0)
    AppriseSink(urls, tmp_path).post([rack, node, switch], at(5), 300)
    AppriseSink(urls, tmp_path).post([rack, page("A")], at(6), 300)
    AppriseSink(urls, tmp_path).post([page("A", ends_s=9.0)], at(9), 300)

    assert server.got == ["[linkhold] rack", "[linkhold] s", "[linkhold] over: s"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_service_of_apprise_that_fails_doubles_nothing(tmp_path: Path) -> None:
    """Taken is what one service took.

    The other gets it with a repost, and the first hears nothing twice.
    """
    pytest.importorskip("apprise")
    servers = [Server(), Server()]
    urls = tmp_path / "urls"
    urls.write_text("".join(f"json://{one.url.partition('//')[2]}/\n" for one in servers))
    sink = AppriseSink(urls, tmp_path)
    servers[1].code = 500
    for second in (5, 6, 7):
        sink.repost([page("A")], at(second), 300, whole=True)
    assert [one.got for one in servers] == [["[linkhold] s"], []]

    servers[1].code = 200
    sink.repost([page("A")], at(8), 300, whole=True)
    assert [one.got for one in servers] == [["[linkhold] s"], ["[linkhold] s"]]

    for one in servers:
        one.code = 500
    with pytest.raises(Unavailable, match="no service took the message"):
        sink.post([page("B")], at(9), 300)
    for one in servers:
        one.http.shutdown()
        one.http.server_close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_apprise_tells_what_ended_while_no_relay_ran(tmp_path: Path, server: Server) -> None:
    """What a relay before this one told and is over is told as over, and told when it returns.

    Only when the picture is whole: a broker that is not there may still show it.
    """
    pytest.importorskip("apprise")
    urls = tmp_path / "urls"
    urls.write_text(f"json://{server.url.partition('//')[2]}/\n")
    AppriseSink(urls, tmp_path).post([page("A")], at(5), 300)
    sink = AppriseSink(urls, tmp_path)
    sink.repost([page("B")], at(6), 300, whole=False)
    sink.repost([page("B")], at(7), 300, whole=True)
    sink.post([page("A")], at(8), 300)

    assert server.got == [
        "[linkhold] s",
        "[linkhold] s",
        "[linkhold] over: s",
        "[linkhold] s",
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_file_of_urls_that_are_none_is_refused(tmp_path: Path) -> None:
    """The error names the file, and no URL: they hold passwords."""
    pytest.importorskip("apprise")
    urls = tmp_path / "urls"
    urls.write_text("nonsense://secret@host\n")
    with pytest.raises(Unavailable, match="urls: a line is no URL that Apprise knows"):
        AppriseSink(urls, tmp_path)
