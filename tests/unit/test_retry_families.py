"""Which errors are worth another attempt."""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import errno
import http.client as plain_http
import importlib
import pickle
import socket
import ssl
import subprocess
import sys
import urllib.error
from email.message import Message
from typing import TYPE_CHECKING, Any

import aiohttp
import fsspec.exceptions
import pytest
import requests
import requests.exceptions
import urllib3.exceptions as pool
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.retry.answers import retry_after_s
from linkhold.client.retry.errors import BudgetSpent
from linkhold.client.retry.families import Family, family

if TYPE_CHECKING:
    from collections.abc import Callable

aws: Any = importlib.import_module("botocore.exceptions")  # these two come without types
s3fs_errors: Any = importlib.import_module("s3fs.errors")
POOL: Any = None


def plain(status: int, **headers: str) -> urllib.error.HTTPError:
    """Return the standard library's error for an answer."""
    message = Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://x/", status, "", message, None)


def answered(status: int, **headers: str) -> requests.HTTPError:
    """Return requests' error for an answer."""
    response = requests.Response()
    response.status_code = status
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return requests.HTTPError("bad", response=response)


def amazon(code: str, status: int | None = None, **headers: str) -> Exception:
    """Return botocore's error for an answer."""
    response: Any = {"Error": {"Code": code}}
    if status is not None:
        response["ResponseMetadata"] = {"HTTPStatusCode": status, "HTTPHeaders": headers}
    error: Exception = aws.ClientError(response, "PutObject")
    return error


def awaited(status: int, **headers: str) -> aiohttp.ClientResponseError:
    """Return aiohttp's error for an answer."""
    given: Any = {name.replace("_", "-"): value for name, value in headers.items()}
    return aiohttp.ClientResponseError(POOL, (), status=status, headers=given)


def raised(outer: BaseException, *, cause: BaseException) -> BaseException:
    """Return ``outer`` as ``raise outer from cause`` leaves it."""
    outer.__cause__ = cause
    return outer


def while_handling(inner: BaseException, outer: BaseException) -> BaseException:
    """Return ``outer`` as it is left when it is raised while ``inner`` is handled."""
    outer.__context__ = inner
    return outer


def refused() -> ConnectionRefusedError:
    """Return what connect(2) raises."""
    return ConnectionRefusedError(errno.ECONNREFUSED, "refused")


CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")

KNOWN: list[tuple[BaseException, str]] = [
    (ConnectionResetError(errno.ECONNRESET, "reset"), "connection"),
    (ConnectionResetError("crossed a process, no errno"), "connection"),
    (BrokenPipeError(errno.EPIPE, "pipe"), "connection"),
    (OSError(errno.ENETUNREACH, "unreachable"), "connection"),
    (OSError(errno.EHOSTUNREACH, "no route"), "connection"),
    (OSError(errno.ESTALE, "stale"), "connection"),
    (TimeoutError("timed out"), "timeout"),
    (OSError(errno.ETIMEDOUT, "timed out"), "timeout"),
    (asyncio.TimeoutError(), "timeout"),
    (concurrent.futures.TimeoutError(), "timeout"),
    (socket.gaierror(socket.EAI_AGAIN, "temporary failure"), "dns"),
    (socket.gaierror(socket.EAI_NONAME, "not known"), "dns"),
    (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), "connection"),
    (plain_http.RemoteDisconnected("closed"), "connection"),
    (plain_http.IncompleteRead(b"half"), "connection"),
    (plain(429), "throttled"),
    (plain(503), "server"),
    (plain(500), "server"),
    (plain(504), "timeout"),
    (plain(408), "timeout"),
    (urllib.error.URLError(socket.gaierror(socket.EAI_AGAIN, "again")), "dns"),
    (urllib.error.URLError(refused()), "connection"),
    (answered(502), "server"),
    (requests.ConnectionError("aborted"), "connection"),
    (requests.ReadTimeout("slow"), "timeout"),
    (requests.ConnectTimeout("slow"), "timeout"),
    (requests.exceptions.ChunkedEncodingError("half"), "connection"),
    (requests.exceptions.RetryError("too many 503"), "server"),
    (
        requests.ConnectionError(
            pool.MaxRetryError(POOL, "/", pool.NameResolutionError("h", POOL, socket.gaierror()))
        ),
        "dns",
    ),
    (pool.ProtocolError("aborted", refused()), "connection"),
    (pool.NewConnectionError(POOL, "failed"), "connection"),
    (pool.ReadTimeoutError(POOL, "/", "slow"), "timeout"),
    (aiohttp.ServerDisconnectedError(), "connection"),
    (aiohttp.ClientPayloadError("half"), "connection"),
    (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), "connection"),
    (aiohttp.ServerTimeoutError(), "timeout"),
    (awaited(503), "server"),
    (aws.EndpointConnectionError(endpoint_url="http://x", error=refused()), "connection"),
    (aws.ConnectionClosedError(endpoint_url="http://x"), "connection"),
    (aws.ReadTimeoutError(endpoint_url="http://x"), "timeout"),
    (aws.ConnectTimeoutError(endpoint_url="http://x"), "timeout"),
    (aws.HTTPClientError(error=TimeoutError()), "timeout"),
    (amazon("SlowDown", 503), "throttled"),
    (amazon("ThrottlingException", 400), "throttled"),
    (amazon("RequestTimeout", 400), "timeout"),
    (amazon("IncompleteBody", 400), "connection"),
    (amazon("InternalError"), "server"),
    (amazon("503"), "server"),
    (fsspec.exceptions.FSTimeoutError(), "timeout"),
    (s3fs_errors.translate_boto_error(amazon("SlowDown", 503)), "throttled"),
    (s3fs_errors.translate_boto_error(amazon("InternalError", 500)), "server"),
    (raised(RuntimeError("upload failed"), cause=refused()), "connection"),
    (raised(ValueError("no host"), cause=socket.gaierror(socket.EAI_AGAIN, "")), "dns"),
    (while_handling(refused(), RuntimeError("upload failed")), "connection"),
]

NOT: list[BaseException] = [
    FileNotFoundError(errno.ENOENT, "gone"),
    PermissionError(errno.EACCES, "no"),
    OSError(errno.ENOSPC, "full"),
    OSError(errno.EDQUOT, "quota"),
    OSError(errno.EIO, "a disk"),
    OSError("says nothing"),
    IsADirectoryError(errno.EISDIR, "folder"),
    socket.gaierror(socket.EAI_SERVICE, "no such service"),
    CERTIFICATE,
    ssl.SSLError(1, "wrong version number"),
    plain(400),
    plain(403),
    plain(404),
    plain(501),
    urllib.error.URLError(CERTIFICATE),
    answered(401),
    requests.exceptions.InvalidURL("http://"),
    requests.exceptions.JSONDecodeError("no", "", 0),
    requests.exceptions.SSLError(pool.MaxRetryError(POOL, "/", pool.SSLError(CERTIFICATE))),
    requests.TooManyRedirects("round and round"),
    pool.LocationParseError("x"),
    awaited(404),
    aiohttp.InvalidURL("x"),
    aiohttp.ClientConnectorCertificateError(POOL, CERTIFICATE),
    amazon("AccessDenied", 403),
    amazon("NoSuchBucket", 404),
    amazon("404"),
    amazon("ExpiredToken", 400),
    aws.NoCredentialsError(),
    aws.ParamValidationError(report="x"),
    aws.SSLError(endpoint_url="https://x", error=CERTIFICATE),
    s3fs_errors.translate_boto_error(amazon("AccessDenied", 403)),
    s3fs_errors.translate_boto_error(amazon("NoSuchKey", 404)),
    KeyError("x"),
    TypeError("x"),
    AssertionError(),
    NotImplementedError(),
    MemoryError(),
    pickle.UnpicklingError(),
    RuntimeError("says nothing"),
    KeyboardInterrupt(),
    SystemExit(1),
    asyncio.CancelledError(),
    BudgetSpent("spent"),
    raised(BudgetSpent("spent"), cause=refused()),
    while_handling(refused(), KeyError("a bug in the handler")),
    raised(RuntimeError("upload failed"), cause=amazon("AccessDenied", 403)),
    raised(FileNotFoundError("gone"), cause=amazon("NoSuchKey", 404)),
]


@pytest.mark.parametrize(("error", "name"), KNOWN, ids=lambda value: repr(value)[:60])
def test_known_failures_have_a_family(error: BaseException, name: str) -> None:
    """Failures of network, names and servers are tried again, by whichever library they come."""
    assert family(error) == Family(name)


@pytest.mark.parametrize("error", NOT, ids=lambda value: repr(value)[:60])
def test_mistakes_and_refusals_have_none(error: BaseException) -> None:
    """What trying again cannot change is not tried again."""
    assert family(error) is None


def test_torch_stores_have_a_family() -> None:
    """Errors of torch's store are tried again, an empty queue and a collective's error are not."""
    import torch.distributed as dist

    assert family(dist.DistNetworkError("refused")) == Family("store")
    assert family(dist.DistStoreError("wait timeout after 60000ms")) == Family("store")
    assert family(dist.QueueEmptyError("empty")) is None
    assert family(dist.DistBackendError("connection reset by peer")) is None


@pytest.mark.parametrize("make", [plain, answered, awaited])
def test_retry_after_is_read_from_every_library(make: Callable[..., Exception]) -> None:
    """Retry-After is taken from the answer, whoever made the error of it."""
    assert family(make(503, Retry_After="7")) == Family("server", 7.0)
    assert family(make(503, retry_after="7")) == Family("server", 7.0)


def test_retry_after_of_amazon() -> None:
    """In botocore headers are in lower case in a dict."""
    assert family(amazon("SlowDown", 503, **{"retry-after": "3"})) == Family("throttled", 3.0)


def test_retry_after_as_a_date_counts_from_the_answers_own_date() -> None:
    """A clock that is wrong here does not change how long the other side asked to wait."""
    headers = {
        "Date": "Wed, 21 Oct 2015 07:28:00 GMT",
        "Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT",
    }

    assert retry_after_s(headers) == 30.0
    assert retry_after_s({**headers, "Retry-After": "Wed, 21 Oct 2015 07:27:00 GMT"}) == 0.0


@given(st.text() | st.floats().map(str) | st.integers().map(str))
def test_retry_after_is_never_nonsense(value: str) -> None:
    """Whatever a server sends, it is a finite time, not negative, or nothing."""
    found = retry_after_s({"Retry-After": value})

    assert found is None or 0 <= found < float("inf")


def test_all_of_a_group_must_be_retryable() -> None:
    """An ExceptionGroup is tried again when each of its errors is; the longest wait counts."""
    if sys.version_info < (3, 11):
        pytest.skip("exception groups came with Python 3.11")

    group = getattr(builtins, "ExceptionGroup")  # noqa: B009 - mypy checks for 3.10 too
    assert family(group("two", [refused(), plain(503, Retry_After="9")])) == Family("server", 9.0)
    group = getattr(builtins, "ExceptionGroup")  # noqa: B009 - mypy checks for 3.10 too
    assert family(group("two", [refused(), KeyError("x")])) is None


def test_a_users_subclass_belongs_to_its_base() -> None:
    """A class derived from a library's error is known by that."""

    class Ours(requests.ConnectionError):
        pass

    assert family(Ours()) == Family("connection")


def test_errors_in_a_circle_end() -> None:
    """Errors that are each other's cause are judged in bounded time."""
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one

    assert family(one) is None


def test_strangers_whose_attributes_raise_are_judged() -> None:
    """A property that raises (httpx has some) does not come out of family()."""

    class Strange(ConnectionResetError):
        @property
        def response(self) -> object:
            raise RuntimeError("not set")

    assert family(Strange("x")) == Family("connection")


_ATOMS = st.sampled_from([KeyError, RuntimeError, ConnectionResetError, TimeoutError, OSError])


@st.composite
def _webs(draw: st.DrawFn) -> BaseException:
    """Return an error in a web of causes, contexts, arguments and reasons, circles included."""
    errors = [draw(_ATOMS)("x") for _ in range(draw(st.integers(1, 30)))]
    for error in errors:
        for name in ("__cause__", "__context__", "reason"):
            if draw(st.booleans()):
                setattr(error, name, draw(st.sampled_from(errors)))
        error.args = tuple(draw(st.lists(st.sampled_from(errors), max_size=3)))
    return errors[0]


@given(_webs())
def test_any_web_of_errors_is_judged(error: BaseException) -> None:
    """Judging raises nothing and ends, whatever points to whatever."""
    found = family(error)

    assert found is None or found.name in {"connection", "timeout"}


def test_nothing_is_imported_to_judge() -> None:
    """Neither the module nor a judgement brings a network library or tenacity into the process."""
    heavy = "tenacity asyncio ssl requests urllib3 aiohttp botocore torch fsspec http urllib.error"
    code = (
        "import sys; from linkhold.client.retry import family, retry; retry('x');"
        "family(ConnectionResetError('x')); family(RuntimeError('x'));"
        f"print(' '.join(m for m in {heavy.split()!r} if m in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.strip() == ""
