"""The metadata services: where they are, what is asked, how often (facts of each vendor's page)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN_TTL_S = 21_600
"""How long a token lives; it is renewed at half of that."""
LONG_POLL_S = 60
"""How long Google may hold an answer back while nothing changes."""
ODD_MAX_S = 30.0
SOON_S = 0.2
MAX_DOUBLINGS = 8


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One URL path. ``waits``: the service answers when the value changes (Google's etags).

    ``first_timeout_s`` is for the first call, where that is slower. ``calm_every_s`` is for a
    machine that is known to be no spot machine; 0: as the others.
    """

    name: str
    path: str
    every_s: float
    waits: bool = False
    timeout_s: float = 5.0
    first_timeout_s: float = 5.0
    calm_every_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Service:
    """One vendor's service.

    ``address`` is numeric: no name is looked up to hear of a notice. ``host`` is what requests
    name. ``session_path`` and the two headers are for services that want a token first;
    ``machine_path`` describes this machine (its name, and whether it is a spot machine).
    """

    vendor: str
    address: str
    host: str
    endpoints: tuple[Endpoint, ...]
    headers: tuple[tuple[str, str], ...] = ()
    session_path: str = ""
    session_ttl_header: str = ""
    session_header: str = ""
    machine_path: str = ""

    def url(self, endpoint: Endpoint) -> str:
        """Return the URL as the vendor writes it."""
        return f"http://{self.host}{endpoint.path}"


_AWS = "/latest/meta-data"
_GCP = "/computeMetadata/v1/instance"
_AZURE = "/metadata/scheduledevents?api-version=2020-07-01"

SERVICES: Mapping[str, Service] = {
    "aws": Service(
        "aws",
        "169.254.169.254",
        "169.254.169.254",
        (
            # EC2 guide: "we recommend that you check for these notices every 5 seconds".
            Endpoint("aws spot", f"{_AWS}/spot/instance-action", 5.0),
            Endpoint("aws rebalance", f"{_AWS}/events/recommendations/rebalance", 5.0),
            Endpoint("aws scheduled", f"{_AWS}/events/maintenance/scheduled", 60.0),
        ),
        session_path="/latest/api/token",
        session_ttl_header="X-aws-ec2-metadata-token-ttl-seconds",
        session_header="X-aws-ec2-metadata-token",
    ),
    "gcp": Service(
        "gcp",
        "169.254.169.254",
        "metadata.google.internal",
        (
            Endpoint("gcp preempted", f"{_GCP}/preempted", 1.0, waits=True),
            Endpoint("gcp maintenance", f"{_GCP}/maintenance-event", 1.0, waits=True),
            Endpoint("gcp upcoming", f"{_GCP}/upcoming-maintenance?alt=json", 60.0),
        ),
        (("Metadata-Flavor", "Google"),),
    ),
    "azure": Service(
        "azure",
        "169.254.169.254",
        "169.254.169.254",
        # One may poll "as frequently or infrequently as you like", and is advised to do it each
        # second since a preemption leaves 30 s. All else leaves five minutes or more, so a machine
        # that cannot be preempted is asked every 5 s. The first call switches the service on and
        # may take two minutes.
        (Endpoint("azure events", _AZURE, 1.0, first_timeout_s=130.0, calm_every_s=5.0),),
        (("Metadata", "true"),),
        machine_path="/metadata/instance/compute?api-version=2021-02-01&format=json",
    ),
    "alibaba": Service(
        "alibaba",
        "100.100.100.200",
        "100.100.100.200",
        (
            Endpoint("alibaba spot", f"{_AWS}/instance/spot/termination-time", 5.0),
            Endpoint("alibaba events", "/latest/maintenance/active-system-events", 60.0),
        ),
        session_path="/latest/api/token",
        session_ttl_header="X-aliyun-ecs-metadata-token-ttl-seconds",
        session_header="X-aliyun-ecs-metadata-token",
    ),
    "tencent": Service(
        "tencent",
        "169.254.0.23",
        "metadata.tencentyun.com",
        (Endpoint("tencent spot", f"{_AWS}/spot/termination-time", 5.0),),
    ),
}


VENDORS_BY_CLOUD: Mapping[str, str] = {
    "Amazon EC2": "aws",
    "Google Cloud": "gcp",
    "Microsoft Azure": "azure",
    "Alibaba Cloud": "alibaba",
    "Tencent Cloud": "tencent",
}
"""The services of the clouds, by the names that :mod:`linkhold.survey.cloud` has for them."""


def wait_s(endpoint: Endpoint, odd: int, *, token_refused: bool, spot: bool | None = None) -> float:
    """Return the seconds until the next request after ``odd`` odd answers in a row.

    ``spot``: whether this is a spot machine, None where nobody knows.

    The first odd one is asked again at once (a cut-off answer, an expired token), then ever more
    slowly, but for ever.
    """
    if not odd:
        every_s = endpoint.every_s if spot is not False else endpoint.calm_every_s
        return 0.0 if endpoint.waits else every_s or endpoint.every_s
    if odd == 1:
        return 0.0 if token_refused else SOON_S
    doubled = endpoint.every_s * 2.0 ** min(odd - 2, MAX_DOUBLINGS)
    return max(endpoint.every_s, min(ODD_MAX_S, doubled))
