"""Words that a page explains are those that agent, relay and client say, and none is missing."""

from __future__ import annotations

import re

from docs.pages import ROOT
from linkhold.decide.metadata_watch import GONE, UNKNOWN
from linkhold.model.probes import CauseKind
from linkhold.relay.decide import groups
from linkhold.relay.decide.digest import NAMES
from linkhold.relay.decide.texts import NEXT, alert_name

CODE = ROOT / "agent/linkhold"
SAID = re.compile(r'(?:Condition|Fault)\(\s*f?"([a-z]+(?:\.[a-z_{}.]+)?)",\s')
"""How code begins an alert: its type, then its subject."""
OPEN = {
    "path.{one.kind.value}": [
        f"path.{kind.value}" for kind in CauseKind if kind is not CauseKind.DEFAULT_ROUTE_LOST
    ],
    "metadata.{metadata.verdict}": [f"metadata.{verdict}" for verdict in (GONE, UNKNOWN)],
}
"""Types that are put together."""
ONCALL = (ROOT / "docs/oncall.md").read_text(encoding="utf-8")
TRAINING = (ROOT / "docs/training.md").read_text(encoding="utf-8")


def types() -> set[str]:
    """Return the type of every alert that a node can have."""
    found = {
        name
        for file in (CODE / "decide").glob("**/*.py")
        for name in SAID.findall(file.read_text(encoding="utf-8"))
        if name.partition(".")[0] in NEXT
    }
    return {name for one in found for name in OPEN.get(one, [one])}


def test_every_alert_is_on_the_page_for_those_on_call() -> None:
    """What a node, the relay or a group can alert has a row, and every row is of such an alert."""
    relay = "".join(file.read_text() for file in (CODE / "relay/decide").glob("*.py"))
    fleet = set(re.findall(r'"((?:Fleet|LinkholdRelay)[A-Z]\w+|NodeOffline)"', relay))
    wanted = {*map(alert_name, types()), *groups.WHAT, *NAMES, *fleet}
    table = ONCALL.partition("## What each alert means")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert len(wanted) > 45
    assert told == wanted


def test_what_the_log_of_a_job_says_is_said_by_the_client() -> None:
    """Each line of the log that the page explains is in the client's own words."""
    source = "".join(file.read_text() for file in (CODE / "client").glob("**/*.py"))
    part = TRAINING.partition("## Why does it wait?")[2].partition("\n## ")[0]
    lines = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    lines += re.findall(r"`[^`]+…[^`]*`|`this Hold[^`]+`", part.rpartition("|")[2])
    pieces = [
        piece.strip()
        for line in lines
        for whole in re.findall(r"`([^`]+)`", line)
        for piece in re.split(r"…|75: |(?<=training on hold:) ", whole)
    ]

    assert len(pieces) > 12
    assert [piece for piece in pieces if piece not in source] == []
