"""What an HTTP answer inside an error says: its status, its error code, its Retry-After.

Sources: RFC 9110 section 10.2.3 (Retry-After: seconds or a date) and 15 (status codes);
RFC 6585 (429); botocore's ``retries/standard.py`` and ``data/_retry.json`` (codes of AWS).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Any

from linkhold.client.retry.names import No, Sort, package

TOO_MANY = 429
TIMED_OUT = frozenset({408, 504})
LATER = frozenset({425})
"""425 Too Early: the same request may pass a moment later (RFC 8470)."""
SERVER_FAULTS = range(500, 600)
HOPELESS = frozenset({501, 505, 506, 508, 510, 511})
"""5xx that say what the server cannot do, not that it is ill: trying again changes nothing."""
CLIENT_FAULTS = range(400, 500)

THROTTLING = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
"""Codes of AWS for "later", most of which come with status 400."""
SLOW = frozenset({"RequestTimeout", "RequestTimeoutException"})
TORN = frozenset({"IncompleteBody"})
"""The upload broke off half-way, which comes with status 400."""
ILL = frozenset({"InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable"})

STATUS_NAMES = {"aiohttp": "status", "gcsfs": "code", "google": "code", "urllib": "code"}
"""What an error's status is called where it has no response. Elsewhere these names may mean
anything: aiohttp's own parser gives ``code`` 400 to an answer that broke off."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, error code and headers of the answer that an error stands for."""

    status: int
    code: str
    headers: Any


def answer(error: BaseException) -> Answer | None:
    """Return the HTTP answer that ``error`` carries, None if there is none."""
    response = read(error, "response")
    if isinstance(response, dict):  # botocore.exceptions.ClientError
        return _of_aws(response)
    status = _status(error, response)
    if status is None:
        return None
    headers = read(error if response is None else response, "headers")
    return Answer(status, "", headers)


def judge(found: Answer) -> Sort | No:
    """Return what sort of failure an answer is. Client errors (400, 403, 404) are final."""
    if found.code in THROTTLING or found.status == TOO_MANY or found.status in LATER:
        return Sort.THROTTLED
    if found.code in SLOW or found.status in TIMED_OUT:
        return Sort.TIMEOUT
    if found.code in TORN:
        return Sort.CONNECTION
    faulty = found.status in SERVER_FAULTS and found.status not in HOPELESS
    return Sort.SERVER if faulty or found.code in ILL else No.FINAL


def retry_after_s(headers: Any) -> float | None:
    """Return the seconds that an answer asks to wait, never negative; None if it does not ask.

    A date counts from the answer's own ``Date``, so that a wrong clock here does no harm.
    """
    asked = _header(headers, "Retry-After")
    if asked is None:
        return None
    try:
        seconds = float(asked)
    except ValueError:
        seconds = _until(asked, _header(headers, "Date"))
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(date: str, sent: str | None) -> float:
    end_s = _epoch_s(date)
    began_s = math.nan if sent is None else _epoch_s(sent)
    return end_s - (time.time() if math.isnan(began_s) else began_s)


def _epoch_s(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return math.nan


def _header(headers: Any, name: str) -> str | None:
    """Return one header of any library's headers; plain dicts are looked through for the case."""
    try:
        pairs = list(headers.items())
    except Exception:  # noqa: BLE001 - headers of any library, or none
        return None
    for key, value in pairs:
        if isinstance(key, str) and key.lower() == name.lower() and isinstance(value, str):
            return value.strip()
    return None


def _of_aws(response: dict[str, Any]) -> Answer | None:
    problem, about = response.get("Error"), response.get("ResponseMetadata")
    problem = problem if isinstance(problem, dict) else {}
    about = about if isinstance(about, dict) else {}
    code, status = str(problem.get("Code", "")), about.get("HTTPStatusCode")
    if not isinstance(status, int):
        # HEAD has no body: botocore then gives the status as the code.
        status = int(code) if code.isascii() and code.isdigit() else 0
    return Answer(status, code, about.get("HTTPHeaders"))


def read(thing: Any, name: str) -> Any:
    """Return an attribute of a stranger's object, None where there is none or it raises."""
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - httpx raises in a property that was never set
        return None


def _status(error: BaseException, response: Any) -> int | None:
    """Return the status, read from where the libraries keep it."""
    places = [read(response, "status_code"), read(error, "status_code")]
    named = STATUS_NAMES.get(package(error))
    if named is not None:
        places.append(read(error, named))
    for value in places:
        if isinstance(value, int) and (value in CLIENT_FAULTS or value in SERVER_FAULTS):
            return int(value)
    return None
