"""Which clouds have a metadata service, how it is asked, and whether an answer is really its own.

What is asked for is the machine's own identity: the one thing that every service has, that has a
form nobody else's answer has, and that switches nothing on (Azure's scheduled events would). So the
exception of facts on notices, 503 for "nothing planned", never applies: 5xx is unknown here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.decide.notices.judge import OK, status_text
from linkhold.decide.notices.reading import document, excerpt, refuse_page
from linkhold.decide.notices.values import Odd
from linkhold.model.probes import Heard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.model.probes import Answer

LINK_LOCAL = "169.254.169.254"
NOT_FOUND = 404
DIGITS = r"[0-9]{1,20}"
UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
TOKEN = re.compile(r"[!-~]{8,4096}")


@dataclass(frozen=True, slots=True)
class Token:
    """How a token is had by PUT, and the header that carries it. Optional ones may be absent."""

    path: str
    header: str
    wanted: Mapping[str, str]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """One cloud's service: where it is, and what names this machine there.

    ``form`` is what the text must be; or ``key`` is what a JSON object must have. ``proof`` is a
    header that an answer must carry. ``host`` is the name that it goes by, where it wants one.
    """

    vendor: str
    path: str
    form: str = ""
    key: str = ""
    addresses: tuple[str, ...] = (LINK_LOCAL,)
    host: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    token: Token | None = None
    proof: tuple[str, str] | None = None


_SECONDS = "60"
_OPENSTACK = "/openstack/latest/meta_data.json"
SERVICES = (
    Service(
        "Amazon EC2",
        "/latest/meta-data/instance-id",
        r"i-[0-9a-f]{8,17}",
        addresses=(LINK_LOCAL, "fd00:ec2::254"),
        token=Token(
            "/latest/api/token",
            "X-aws-ec2-metadata-token",
            {"X-aws-ec2-metadata-token-ttl-seconds": _SECONDS},
        ),
    ),
    Service(
        "Google Cloud",
        "/computeMetadata/v1/instance/id",
        DIGITS,
        addresses=(LINK_LOCAL, "fd20:ce::254"),
        host="metadata.google.internal",
        headers={"Metadata-Flavor": "Google"},
        proof=("metadata-flavor", "google"),
    ),
    Service(
        "Microsoft Azure",
        "/metadata/instance/compute/vmId?api-version=2021-02-01&format=text",
        UUID,
        headers={"Metadata": "true"},
    ),
    Service(
        "Oracle Cloud",
        "/opc/v2/instance/id",
        r"ocid1\.instance\.[!-~]{8,255}",
        addresses=(LINK_LOCAL, "fd00:c1::a9fe:a9fe"),
        headers={"Authorization": "Bearer Oracle"},
    ),
    Service(
        "Alibaba Cloud",
        "/latest/meta-data/instance-id",
        r"(?:i|ic|hbm)-[0-9a-z]{8,40}",
        addresses=("100.100.100.200",),
        token=Token(
            "/latest/api/token",
            "X-aliyun-ecs-metadata-token",
            {"X-aliyun-ecs-metadata-token-ttl-seconds": _SECONDS},
            optional=True,  # wanted in the hardened mode only
        ),
    ),
    Service(
        "Tencent Cloud",
        "/latest/meta-data/instance-id",
        r"[a-z]{2,8}-[0-9a-z]{4,20}",
        addresses=("169.254.0.23",),
        host="metadata.tencentyun.com",
    ),
    Service("OpenStack", _OPENSTACK, key="uuid", addresses=(LINK_LOCAL, "fe80::a9fe:a9fe")),
    Service("Huawei Cloud", _OPENSTACK, key="uuid"),
    Service("DigitalOcean", "/metadata/v1/id", DIGITS),
    Service(
        "Hetzner Cloud",
        "/hetzner/v1/metadata/instance-id",
        DIGITS,
        addresses=(LINK_LOCAL, "fe80::a9fe:a9fe"),
    ),
    Service("Vultr", "/v1.json", key="instanceid"),
    Service(
        "Akamai",
        "/v1/instance",
        key="id",
        addresses=(LINK_LOCAL, "fd00:a9fe:a9fe::1"),
        headers={"Accept": "application/json"},
        token=Token("/v1/token", "Metadata-Token", {"Metadata-Token-Expiry-Seconds": _SECONDS}),
    ),
    Service("Scaleway", "/conf?format=json", key="id", addresses=("169.254.42.42", "fd00:42::42")),
    Service("UpCloud", "/metadata/v1.json", key="instance_id"),
    Service("Exoscale", "/latest/meta-data/instance-id", UUID),
)
"""The vendors go by the names that :mod:`linkhold.survey.cloud` has for them."""

MOST_IDENTITY = 256
_BY_VENDOR = {service.vendor: service for service in SERVICES}
_WORST_LAST = (Heard.ANSWERS, Heard.UNKNOWN, Heard.REFUSED, Heard.SILENT, Heard.UNREACHABLE)


def services(vendor: str, *, asked: bool) -> tuple[Service, ...]:
    """Return which services to ask: the vendor's; every one where no vendor is known and one asks.

    None on a machine that is no cloud's unless ``asked``, and none whose service is not known.
    """
    if vendor:
        return (_BY_VENDOR[vendor],) if vendor in _BY_VENDOR else ()
    return SERVICES if asked else ()


def judge(vendor: str, status: int, headers: Mapping[str, str], body: str) -> tuple[Heard, str]:
    """Return whether an answer is that of the vendor's service, and why. Never raises.

    Only the machine's identity in the form that this cloud gives it is an answer. All else is
    unknown: a captive portal, a proxy or another service stands there, or the service is ill.
    """
    service = _BY_VENDOR.get(vendor)
    if service is None:
        return Heard.UNKNOWN, f"no metadata service of {vendor or 'an unknown cloud'} is known"
    lower = {name.lower(): value.strip().lower() for name, value in headers.items()}
    try:
        return Heard.ANSWERS, _identity(service, status, lower, body)
    except Odd as odd:
        return Heard.UNKNOWN, str(odd)


def _identity(service: Service, status: int, headers: Mapping[str, str], body: str) -> str:
    """Return the machine's identity; raises Odd for anything else."""
    if status == NOT_FOUND:
        raise Odd("404: there is another service, or none of this cloud")
    if status != OK:
        raise Odd(status_text(status))
    refuse_page(body)
    if service.proof and headers.get(service.proof[0]) != service.proof[1]:
        raise Odd(f"without the header {service.proof[0]}: not the service of {service.vendor}")
    identity = _field(service, body) if service.key else body.strip()
    named = len(identity) <= MOST_IDENTITY and identity.isprintable()
    if not named or (service.form and not re.fullmatch(service.form, identity)):
        raise Odd(f"{excerpt(identity)} does not name a machine of {service.vendor}")
    return identity


def _field(service: Service, body: str) -> str:
    value = document(body, dict).get(service.key)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise Odd(f"JSON without {service.key}: not the service of {service.vendor}")
    return str(value).strip()


def token_of(service: Service, status: int, body: str) -> str:
    """Return the token that an answer is; empty where none is needed. Raises Odd else."""
    if service.token is not None and service.token.optional and status == NOT_FOUND:
        return ""
    if status != OK:
        raise Odd(f"no token: {status_text(status)}")
    refuse_page(body)
    token = _unwrapped(body)
    if not TOKEN.fullmatch(token):
        raise Odd(f"{excerpt(token)} is no token")
    return token


def _unwrapped(body: str) -> str:
    """Return a token as text; some give it as a JSON list of one."""
    text = body.strip()
    if not text.startswith("["):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value[0] if len(value) == 1 and isinstance(value[0], str) else text


def fold(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Return who answered where every service was asked; where none did, one word per address.

    Those of other clouds at the same address can only be wrong.
    """
    given = tuple(answers)
    good = tuple(answer for answer in given if answer.heard is Heard.ANSWERS)
    best: dict[str, Answer] = {}
    for answer in given:
        place = answer.target.partition("://")[2].partition("/")[0]
        if place not in best or _rank(answer) < _rank(best[place]):
            best[place] = answer
    return good or tuple(best.values())


def verdict(answers: Iterable[Answer]) -> Heard:
    """Return what the answers over all addresses of one service say together.

    One good one is enough: most clouds have IPv6 there only when it is switched on. One that
    makes no sense is never outweighed by silence.
    """
    return min((answer.heard for answer in answers), key=_WORST_LAST.index, default=Heard.UNKNOWN)


def _rank(answer: Answer) -> int:
    return _WORST_LAST.index(answer.heard)
