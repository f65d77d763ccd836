"""What an answer of a metadata service says: a notice, calm, or nothing that can be believed.

404 is the usual answer of most endpoints and means calm. Everything odd is unknown: what was known
before stays, and neither a notice nor calm is read out of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.notices import aws, azure, chinese, gcp
from linkhold.decide.notices.dates import seconds
from linkhold.decide.notices.values import Judged, Known, Odd

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.decide.notices.values import Announced, Answer

_RULES: dict[str, Callable[[Answer], Judged]] = {
    "alibaba": chinese.alibaba,
    "aws": aws.judge,
    "azure": azure.judge,
    "gcp": gcp.judge,
    "tencent": chinese.tencent,
}
VENDORS = tuple(_RULES)

_HOSTS = {
    "metadata.google.internal": "gcp",
    "metadata.tencentyun.com": "tencent",
    "100.100.100.200": "alibaba",
}
MOST_CHARACTERS = 200
"""Of a key or a word of a service."""
OK, NOT_FOUND, UNAVAILABLE, TOKEN_REFUSED = 200, 404, 503, 401

_ODD_STATUS = {
    401: "401: the token is missing or has expired",
    403: "403: the service is switched off or needs a token",
    407: "407: a proxy of the environment caught a link-local request",
    429: "429: asked too often, wait longer",
    503: "503: throttled or restarting, wait longer",
    511: "511: the network wants a login",
}


def vendor_of(url: str) -> str:
    """Return whose metadata service a URL is of; empty for none."""
    host = url.partition("://")[2].partition("/")[0].partition(":")[0].lower()
    if host in _HOSTS:
        return _HOSTS[host]
    if "/scheduledevents" in url:
        return "azure"
    if "/computeMetadata/" in url:
        return "gcp"
    return "aws" if "/latest/" in url else ""


def judge(vendor: str, answer: Answer) -> Judged:
    """Return what one answer says. Pure; never raises.

    ``vendor`` is one of :data:`VENDORS`, or empty where nothing says that this is a cloud machine.
    """
    try:
        found = _judge(vendor, answer)
    except Odd as odd:
        found = Judged(Known.UNKNOWN, str(odd))
    headers = {name.lower(): value for name, value in (answer.headers or {}).items()}
    refused = found.known is Known.UNKNOWN and answer.status == TOKEN_REFUSED
    return replace(
        found,
        announced=tuple(map(_short, found.announced)),
        cleared=tuple(key[:MOST_CHARACTERS] for key in found.cleared),
        date_s=seconds(headers.get("date")),
        token_refused=refused,
    )


def _short(one: Announced) -> Announced:
    """Return what is announced in short texts: the state repeats them, and must not be too long."""
    texts = {name: getattr(one, name) for name in ("key", "kind", "action", "status", "text")}
    return replace(one, **{name: text[:MOST_CHARACTERS] for name, text in texts.items()})


def _judge(vendor: str, answer: Answer) -> Judged:
    if answer.status is None:
        return _silence(vendor, answer)
    rule = _RULES.get(vendor or vendor_of(answer.url))
    if rule is None:
        raise Odd("no metadata service that is known")
    if answer.status == OK:
        return rule(answer)
    if answer.status == NOT_FOUND and rule is not azure.judge:
        if rule is gcp.judge:
            gcp.refuse_header(answer)
        return Judged(Known.YES, "404: nothing is announced")
    if answer.status == UNAVAILABLE and answer.path.endswith(gcp.UPCOMING):
        # Observed on every machine type without a plan.
        return Judged(Known.YES, "503 here means that nothing is planned")
    raise Odd(status_text(answer.status))


def _silence(vendor: str, answer: Answer) -> Judged:
    """Judge that nothing came back: no such service, where nothing else points at this cloud.

    A vendor whose service has a name is elsewhere when the name is unknown; a fixed address that
    does not answer tells nothing on a machine that is known to be this vendor's.
    """
    if answer.heard_before:
        return Judged(Known.UNKNOWN, "no answer within the time, from a service that was there")
    if not vendor or vendor_of(answer.url) == "gcp" or "tencentyun" in answer.url:
        return Judged(Known.ABSENT, "no answer at first contact: no such service on this machine")
    more = "; the first call may take two minutes" if vendor == "azure" else ""
    return Judged(Known.UNKNOWN, f"no answer within the time{more}")


def status_text(status: int) -> str:
    """Return in words why an answer with this HTTP status cannot be believed."""
    if status in _ODD_STATUS:
        return _ODD_STATUS[status]
    if 300 <= status < 400:  # noqa: PLR2004 -- the range of redirects
        return f"{status}: a redirect, which a metadata service never sends"
    if status == NOT_FOUND:
        return "404: the service is being updated or switched on"
    return f"{status}: no answer to believe"
