"""What upsmon and apcupsd announce: types, event names and the sentences they come with.

NUT: clients/upsmon.h (the table of NOTIFYTYPEs and their default texts). apcupsd:
platforms/apccontrol.in (event names and the texts for wall, some misspelt there). Whole phrases are
matched: "no longer overloaded" contains "overloaded".
"""

from __future__ import annotations

import re

from linkhold.decide.power.meaning import Meaning, What, meaning
from linkhold.model import Severity

_Entry = tuple[What, str, "Severity | None"]

UPSMON: dict[str, _Entry] = {
    "ONLINE": (What.RESTORED, "", None),
    "ONBATT": (What.LOST, "", None),
    "LOWBATT": (What.LOW, "", None),
    "FSD": (What.SHUTDOWN, "", None),
    "SHUTDOWN": (What.SHUTDOWN, "", None),
    "SHUTDOWN_HOSTSYNC": (What.SHUTDOWN, "", None),
    "COMMOK": (What.COMM_OK, "", None),
    "COMMBAD": (What.COMM_LOST, "", None),
    "NOCOMM": (What.COMM_LOST, "", None),
    "NOPARENT": (What.DEGRADED, "upsmon cannot shut down any more", Severity.CRITICAL),
    "REPLBATT": (What.DEGRADED, "replace battery", None),
    "CAL": (What.CALIBRATION, "", None),
    "NOTCAL": (What.OK, "", None),
    "OFF": (What.DEGRADED, "output off", None),
    "NOTOFF": (What.OK, "", None),
    "BYPASS": (What.DEGRADED, "bypass", None),
    "NOTBYPASS": (What.OK, "", None),
    "ECO": (What.OK, "", None),
    "NOTECO": (What.OK, "", None),
    "ALARM": (What.DEGRADED, "alarm", None),
    "NOTALARM": (What.OK, "", None),
    "OVER": (What.DEGRADED, "overload", None),
    "NOTOVER": (What.OK, "", None),
    "TRIM": (What.OK, "", None),
    "NOTTRIM": (What.OK, "", None),
    "BOOST": (What.OK, "", None),
    "NOTBOOST": (What.OK, "", None),
    "OTHER": (What.UNKNOWN, "", None),
    "NOTOTHER": (What.OK, "", None),
    "SUSPEND_STARTING": (What.NONE, "", None),
    "SUSPEND_FINISHED": (What.NONE, "", None),
}

_UPSMON_TEXTS = (
    ("NOTBYPASS", "no longer on bypass"),
    ("NOTOVER", "no longer overloaded"),
    ("NOTCAL", "calibration finished|no longer calibrating|calibration.*no longer"),
    ("NOTOFF", "no longer administratively off"),
    ("NOTECO", "no longer (in|on) eco"),
    ("NOTALARM", "no longer in an alarm state|no longer has active alarms"),
    ("NOTTRIM", "no longer trimming"),
    ("NOTBOOST", "no longer boosting"),
    ("NOTOTHER", "no longer has unclassified"),
    ("FSD", "forced shutdown in progress"),
    ("SHUTDOWN", "auto logout and shutdown proceeding"),
    ("LOWBATT", "battery is low"),
    ("REPLBATT", "needs to be replaced"),
    ("ONBATT", "on battery"),
    ("ONLINE", "on line power"),
    ("COMMBAD", r"communications with ups .* lost"),
    ("COMMOK", r"communications with ups .* established"),
    ("NOCOMM", "is unavailable"),
    ("NOPARENT", "parent process died"),
    ("CAL", "calibration in progress"),
    ("OFF", "administratively off or asleep"),
    ("BYPASS", r"on bypass"),
    ("ECO", r"in eco mode"),
    ("ALARM", "active alarms?:|one or more active alarms"),
    ("OVER", "overloaded"),
    ("TRIM", "trimming"),
    ("BOOST", "boosting"),
    ("OTHER", "unclassified status"),
)

APCUPSD: dict[str, _Entry] = {
    "powerout": (What.LOST, "", Severity.WARNING),
    "onbattery": (What.LOST, "", None),
    "annoyme": (What.LOST, "", Severity.WARNING),
    "offbattery": (What.RESTORED, "", None),
    "mainsback": (What.RESTORED, "", None),
    "failing": (What.LOW, "", None),
    "timeout": (What.LOW, "", None),
    "loadlimit": (What.LOW, "", None),
    "runlimit": (What.LOW, "", None),
    "doreboot": (What.SHUTDOWN, "", None),
    "doshutdown": (What.SHUTDOWN, "", None),
    "emergency": (What.SHUTDOWN, "", None),
    "remotedown": (What.SHUTDOWN, "", None),
    "killpower": (What.SHUTDOWN, "", None),
    "changeme": (What.DEGRADED, "replace battery", None),
    "battdetach": (What.DEGRADED, "battery disconnected", Severity.CRITICAL),
    "battattach": (What.OK, "", None),
    "startselftest": (What.CALIBRATION, "", None),
    "endselftest": (What.OK, "", None),
    "commfailure": (What.COMM_LOST, "", None),
    "mastertimeout": (What.COMM_LOST, "", None),
    "commok": (What.COMM_OK, "", None),
    "masterconnect": (What.COMM_OK, "", None),
    "restartme": (What.NONE, "", None),
}

_APCUPSD_TEXTS = (
    ("commfailure", r"comm\w+ lost|connection to master lost"),
    ("commok", r"comm\w+ (restored|established)|connection to master established"),
    ("failing", "battery power exhaus"),
    ("timeout", "battery time limit exce|reached run time limit on batteries"),
    ("loadlimit", "remaining battery charge below limit|battery charge below low limit"),
    ("runlimit", "remaining battery runtime below limit|reached remaining time percentage limit"),
    ("emergency", "emergency shutdown"),
    ("remotedown", "remote shutdown"),
    ("doreboot", "initiating reboot sequence"),
    ("doshutdown", "initiated shutdown sequence|initiating system shutdown"),
    ("changeme", "batteries have failed|battery must be replaced|change them now"),
    ("battdetach", "battery disconnected"),
    ("battattach", "battery (reattached|reconnected)"),
    ("offbattery", "power has returned|mains returned|power is back"),
    ("annoyme", "power problems with ups"),
    ("endselftest", "self.?test (completed|ended|passed|end)"),
    ("startselftest", "self.?test"),
    ("onbattery", "running on (ups )?batter"),
    ("powerout", "power (failure|loss)"),
)


def upsmon(text: str, notifytype: str = "") -> Meaning:
    """Return what upsmon announces: by NOTIFYTYPE where it is known, else by its sentence."""
    name = notifytype.strip().upper() or text.strip().upper()
    if name not in UPSMON:
        name = _phrase(_UPSMON_TEXTS, text)
    return _told(UPSMON.get(name), f"upsmon announces {name}", text)


def apcupsd_event(text: str) -> Meaning:
    """Return what an event name of apccontrol means, alone or with its arguments."""
    name = (text.split() or [""])[0].lower()
    if name not in APCUPSD:
        return apcupsd_text(text)
    return _told(APCUPSD.get(name), f"apcupsd announces {name}", text)


def apcupsd_text(text: str) -> Meaning:
    """Return what a sentence of apcupsd means."""
    name = _phrase(_APCUPSD_TEXTS, text)
    return _told(APCUPSD.get(name), f"the sentence of apcupsd for {name}", text)


def _phrase(table: tuple[tuple[str, str], ...], text: str) -> str:
    plain = " ".join(text.lower().split())[:400]
    return next((name for name, pattern in table if re.search(pattern, plain)), "")


def _told(entry: _Entry | None, why: str, text: str) -> Meaning:
    if entry is None:
        severity = Severity.WARNING if text.strip() else Severity.INFO
        return meaning(What.UNKNOWN, "no announcement of a known kind", severity)
    what, reason, severity_or_none = entry
    return meaning(what, why, severity_or_none, reason=reason)
