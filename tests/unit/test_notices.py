"""Notices over time: once for each status, kept through odd answers, gone when withdrawn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from linkhold.decide.notices import Answer, Memory, Polled, judge, step
from linkhold.decide.power import earliest_deadline
from linkhold.model import Moment, Notice
from linkhold.model.power_view import Deadline

if TYPE_CHECKING:
    from linkhold.decide.notices.machine import Step

SPOT = "http://169.254.169.254/latest/meta-data/spot/instance-action"
SCHEDULED = "http://169.254.169.254/latest/meta-data/events/maintenance/scheduled"
AZURE = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
GCP = "http://metadata.google.internal/computeMetadata/v1/instance/preempted"
SECOND = 1_000_000_000
DATE = {"Date": "Tue, 01 Dec 2026 08:20:00 GMT"}
NOTICE = '{"action": "terminate", "time": "2026-12-01T08:22:00Z"}'
WRONG_WALL_S = 1_000.0
"""This node's clock is off by decades."""


class Cloud:
    """One endpoint and the machine that hears of it."""

    def __init__(self, vendor: str, url: str, this_vm: str = "") -> None:
        self.vendor, self.url, self.this_vm = vendor, url, this_vm
        self.memory = Memory()
        self.now = Moment(100 * SECOND, WRONG_WALL_S)

    def says(self, status: int | None, body: str = "", headers: Any = None) -> Step:
        """Take in one answer, a second after the last."""
        self.now = Moment(self.now.mono_ns + SECOND, self.now.wall_s + 1)
        answer = Answer(self.url, status, body, headers, self.this_vm)
        polled = Polled("endpoint", judge(self.vendor, answer), self.now.mono_ns)
        outcome = step(self.memory, polled, self.now)
        self.memory = outcome.memory
        return outcome


def azure(event_type: str, status: str = "Scheduled", resources: Any = ("vm-3",)) -> str:
    """Return a document with one event."""
    event = {
        "EventId": "C7061BAC",
        "EventType": event_type,
        "EventStatus": status,
        "Resources": resources,
        "NotBefore": "Tue, 01 Dec 2026 08:35:00 GMT" if status == "Scheduled" else "",
        "DurationInSeconds": 5,
    }
    return json.dumps({"DocumentIncarnation": 1, "Events": [event]})


def test_a_notice_is_told_once_and_withdrawn_once() -> None:
    """The same answer again tells nothing; 404 after it withdraws the notice."""
    cloud = Cloud("aws", SPOT)

    assert [n.action for n in cloud.says(200, NOTICE, DATE).fresh] == ["terminate"]
    assert cloud.says(200, NOTICE, DATE).fresh == ()
    assert [n.kind for n in cloud.says(404).withdrawn] == ["spot"]
    assert cloud.memory.notices == ()
    assert cloud.says(404).withdrawn == ()


def test_deadlines_follow_the_clock_of_the_service() -> None:
    """The node's wall clock may be wrong by decades: 120 s by the Date header are 120 s here."""
    cloud = Cloud("aws", SPOT)
    (notice,) = cloud.says(200, NOTICE, DATE).fresh

    assert notice.deadline is not None
    assert notice.deadline.mono_ns == cloud.now.mono_ns + 120 * SECOND

    cloud.says(200, NOTICE, {"Date": "Tue, 01 Dec 2026 08:20:01 GMT"})

    assert cloud.memory.notices[0].deadline == notice.deadline


def test_long_words_of_a_service_are_cut() -> None:
    """Whoever answers may send 256 kB: the state, which repeats them, stays one that is read."""
    body = json.dumps({"action": "x" * 250_000, "time": "2026-12-01T08:22:00Z"})
    (announced,) = judge("aws", Answer(SPOT, 200, body, DATE)).announced
    assert len(repr(announced)) < 2000


def test_odd_answers_keep_what_was_known() -> None:
    """Timeouts, pages, 401 and cut-off JSON neither withdraw a notice nor make one."""
    cloud = Cloud("aws", SPOT)
    odd = [(None, ""), (500, "<html>"), (401, ""), (200, '{"action": "ter'), (200, "<html>")]
    for status, body in odd:
        assert cloud.says(status, body).fresh == ()
    assert "endpoint" in cloud.memory.blind

    cloud.says(200, NOTICE, DATE)
    for status, body in odd:
        assert cloud.says(status, body).withdrawn == ()

    assert len(cloud.memory.notices) == 1


def test_blind_after_three_odd_answers_and_no_longer_after_one_good() -> None:
    """An endpoint that says nothing believable is named with the reason until it does."""
    cloud = Cloud("aws", SPOT)
    cloud.says(401)
    cloud.says(401)
    assert cloud.memory.blind == {}

    cloud.says(401)
    assert "expired" in cloud.memory.blind["endpoint"]

    cloud.says(404)
    assert cloud.memory.blind == {}


def test_each_status_of_an_event_is_told_once() -> None:
    """Freeze: scheduled, started, gone: two tellings and one withdrawal (R59, R60)."""
    cloud = Cloud("azure", AZURE, "vm-3")
    told = [
        len(cloud.says(200, azure("Freeze", status), DATE).fresh)
        for status in ("Scheduled", "Scheduled", "Started", "Started")
    ]

    assert told == [1, 0, 1, 0]
    assert len(cloud.says(200, '{"Events": []}', DATE).withdrawn) == 1


def test_events_of_other_machines_are_nothing_here() -> None:
    """All of a scale set see all events; only those that name this machine count, in any case."""
    cloud = Cloud("azure", AZURE, "vm-3")

    assert cloud.says(200, azure("Preempt", resources=["vm-17"]), DATE).fresh == ()
    assert len(cloud.says(200, azure("Preempt", resources=["VM-3"]), DATE).fresh) == 1


def test_two_scheduled_events_are_two_notices_and_a_cancelled_one_goes() -> None:
    """Events are told by EventId; State decides, whatever the description says."""
    cloud = Cloud("aws", SCHEDULED)
    first = {"EventId": "a", "Code": "system-reboot", "NotBefore": "1 Dec 2026 09:00:00 GMT"}
    second = {"EventId": "b", "Code": "instance-stop", "NotBefore": "2 Dec 2026 09:00:00 GMT"}
    both = [{**first, "State": "active"}, {**second, "State": "active"}]

    assert [n.action for n in cloud.says(200, json.dumps(both), DATE).fresh] == ["reboot", "stop"]

    both[0]["State"] = "canceled"

    assert [n.action for n in cloud.says(200, json.dumps(both), DATE).withdrawn] == ["reboot"]
    assert [n.action for n in cloud.memory.notices] == ["stop"]


def test_preemption_leaves_thirty_seconds() -> None:
    """Google names no time: the documented 30 s count from the moment it was heard."""
    cloud = Cloud("gcp", GCP)
    (notice,) = cloud.says(200, "TRUE").fresh

    assert notice.deadline is not None
    assert notice.deadline.mono_ns == cloud.now.mono_ns + 30 * SECOND


def test_a_rebalance_has_no_deadline() -> None:
    """Its time is when the risk rose; nothing ends then."""
    url = "http://169.254.169.254/latest/meta-data/events/recommendations/rebalance"
    cloud = Cloud("aws", url)
    (notice,) = cloud.says(200, '{"noticeTime": "2026-12-01T08:22:00Z"}', DATE).fresh

    assert (notice.kind, notice.deadline) == ("rebalance", None)


def test_the_earliest_end_counts_and_a_freeze_is_none() -> None:
    """Over battery and notices the first end counts, with its source; a pause ends nothing."""
    at = Moment(1, 0.0)
    power = Deadline(Moment(50, 0.0), "ups1")
    freeze = Notice("maintenance", "freeze", "azure", at, Moment(10, 0.0))
    reboot = Notice("maintenance", "reboot", "azure", at, Moment(40, 0.0))

    assert earliest_deadline(power, (freeze,)) == power
    assert earliest_deadline(power, (freeze, reboot)) == Deadline(Moment(40, 0.0), "azure")
    assert earliest_deadline(None, (freeze,)) is None


def test_a_restart_tells_nothing_twice_and_takes_nothing_back() -> None:
    """Notices of the agent before stand until their endpoint answers, and keep their beginning.

    One that names no time keeps its deadline; one that is gone by then is withdrawn.
    """
    google = Cloud("gcp", GCP)
    (known,) = google.says(200, "TRUE", {"Metadata-Flavor": "Google"}).fresh
    other = Notice("spot", "terminate", "other endpoint", known.seen)
    gone = Notice("maintenance", "reboot", "endpoint e9", known.seen)
    inherited = {one.source: one for one in (known, other, gone)}
    after = Cloud("gcp", GCP)
    after.memory, after.now = Memory(inherited=inherited), google.now

    assert set(after.memory.notices) == set(inherited.values())
    after.says(None)
    assert set(after.memory.notices) == set(inherited.values())
    done = after.says(200, "TRUE", {"Metadata-Flavor": "Google"})
    assert done.fresh == ()
    assert done.withdrawn == (gone,)
    assert set(after.memory.notices) == {known, other}
    assert after.says(200, "FALSE", {"Metadata-Flavor": "Google"}).withdrawn == (known,)


def test_another_action_is_news() -> None:
    """An event that becomes worse under the same name and status is told again."""
    cloud = Cloud("azure", AZURE, "vm-3")
    cloud.says(200, azure("Freeze"), DATE)

    assert [one.action for one in cloud.says(200, azure("Redeploy"), DATE).fresh] == ["redeploy"]
