"""Which errors are worth another attempt: by families, without importing whoever raised them.

An error is judged by itself first. If it says nothing by itself (a ``RuntimeError`` around it),
what it wraps and what it was raised from decide. A programming error that only happened while a
network error was handled is a programming error; one that was raised ``from`` it tells of it.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.client.retry import answers, names
from linkhold.client.retry.names import No, Sort
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Word: TypeAlias = "Family | No | None"

MOST_ERRORS = 64
"""So many errors inside errors are looked at."""

ERRNOS = {
    errno.ETIMEDOUT: Sort.TIMEOUT,
    **dict.fromkeys(
        (
            errno.ECONNRESET,
            errno.ECONNREFUSED,
            errno.ECONNABORTED,
            errno.EPIPE,
            errno.ESHUTDOWN,
            errno.ENOTCONN,
            errno.EHOSTUNREACH,
            errno.EHOSTDOWN,
            errno.ENETUNREACH,
            errno.ENETDOWN,
            errno.ENETRESET,
            errno.EADDRNOTAVAIL,  # the interface lost its address
            errno.ESTALE,  # NFS: the server came back as another one; opening again helps
        ),
        Sort.CONNECTION,
    ),
}
VAGUE = frozenset({errno.EIO, errno.EBUSY, errno.EREMOTEIO, errno.EAGAIN})
"""Numbers that s3fs and other translators use for anything: what is inside decides."""

DNS = frozenset(
    {
        socket.EAI_AGAIN,
        socket.EAI_FAIL,
        socket.EAI_NODATA,
        socket.EAI_NONAME,  # also a service whose name comes back after its restart
        socket.EAI_SYSTEM,
        socket.EAI_MEMORY,
    }
)
TORN = ("EOF", "BAD_RECORD_MAC", "CONNECTION_RESET")
"""Reasons of OpenSSL that are the connection's fault, not that of keys or settings."""

MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    NotImplementedError,
    RecursionError,
    StopAsyncIteration,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)
INSIDE = ("reason", "os_error", "last_exception", "original_error", "inner_exception")
"""Where libraries keep the error that theirs stands for."""


@dataclass(frozen=True, slots=True)
class Family:
    """Why an error is worth another attempt.

    ``name`` is connection, timeout, dns, throttled, server or store. ``retry_after_s`` is how
    long the other side asked to wait, None where it did not.
    """

    name: str
    retry_after_s: float | None = None


def family(error: BaseException) -> Family | None:
    """Return the family of ``error``, None if it must not be tried again. Raises nothing."""
    found = _judge(error, {})
    return found if isinstance(found, Family) else None


def _judge(error: BaseException, known: dict[int, Word]) -> Word:
    """Return the word about ``error``; ``known`` keeps those found, so that no loop is endless."""
    if id(error) in known:
        return known[id(error)]
    if len(known) >= MOST_ERRORS:
        return None
    known[id(error)] = None
    known[id(error)] = found = _find(error, known)
    return found


def _find(error: BaseException, known: dict[int, Word]) -> Word:
    if _is_group(error):
        return _judge_all(error, known)
    own = _own(error)
    if isinstance(own, Family) or own is No.FINAL:
        return own
    if own is No.OWN:
        return _family_of(error.__cause__, known) or No.OWN
    around = names.wrapper(error)
    told = _first_word(_stated(error), known) or _family_of(_while_handling(error), known)
    return told or (None if around is None else Family(around.value))


def _own(error: BaseException) -> Word:
    """Return what ``error`` says by itself."""
    if not isinstance(error, Exception) or isinstance(error, LinkholdError):
        return No.FINAL  # an interrupt, or an end that linkhold decided
    answer = answers.answer(error)
    if answer is not None:
        sort = answers.judge(answer)
        after_s = answers.retry_after_s(answer.headers)
        return sort if isinstance(sort, No) else Family(sort.value, after_s)
    found: Sort | No | None = names.sure(error)
    if found is None and names.wrapper(error) is None:
        found = _of_system(error) if isinstance(error, OSError) else _of_program(error)
    return Family(found.value) if isinstance(found, Sort) else found


def _of_program(error: Exception) -> No | None:
    return No.OWN if isinstance(error, MISTAKES) else None


def _of_system(error: OSError) -> Sort | No | None:
    if names.is_ssl(error):  # its errno is OpenSSL's, not the system's
        torn = any(word in (getattr(error, "reason", None) or "") for word in TORN)
        return Sort.CONNECTION if torn else No.FINAL
    if isinstance(error, socket.gaierror):  # its errno is one of EAI_*
        return Sort.DNS if error.errno in DNS or error.errno is None else No.OWN
    return ERRNOS.get(error.errno or 0) or _without_number(error)


def _without_number(error: OSError) -> Sort | No | None:
    """Judge by class: errors that crossed a process (DataLoader workers) keep no errno."""
    if isinstance(error, TimeoutError):
        return Sort.TIMEOUT
    if isinstance(error, ConnectionError):
        return Sort.CONNECTION
    if isinstance(error, MISTAKES):
        return No.OWN
    vague = type(error) is OSError or names.package(error) != "builtins"
    return None if vague and (error.errno is None or error.errno in VAGUE) else No.OWN


def _stated(error: BaseException) -> Iterator[BaseException | None]:
    """Yield what the error says it stands for."""
    for name in INSIDE:
        yield _attribute(error, name)
    kwargs = answers.read(error, "kwargs")
    if isinstance(kwargs, dict):  # botocore keeps what its text is made of
        yield from (value for value in kwargs.values() if isinstance(value, BaseException))
    yield from (value for value in error.args if isinstance(value, BaseException))
    yield error.__cause__


def _attribute(error: BaseException, name: str) -> BaseException | None:
    value = answers.read(error, name)
    return value if isinstance(value, BaseException) else None


def _while_handling(error: BaseException) -> BaseException | None:
    return None if error.__suppress_context__ else error.__context__


def _first_word(errors: Iterator[BaseException | None], known: dict[int, Word]) -> Word:
    for error in errors:
        found = None if error is None else _judge(error, known)
        if found is not None:
            return found
    return None


def _family_of(error: BaseException | None, known: dict[int, Word]) -> Family | None:
    found = None if error is None else _judge(error, known)
    return found if isinstance(found, Family) else None


def _is_group(error: BaseException) -> bool:
    """Tell whether it is an ExceptionGroup (Python 3.11, or its backport)."""
    return any(known.__name__ == "BaseExceptionGroup" for known in type(error).__mro__)


def _judge_all(group: BaseException, known: dict[int, Word]) -> Family | No:
    """Return the most patient family of a group, a no if one of its errors is no family."""
    found = [_judge(error, known) for error in getattr(group, "exceptions", ())]
    families = [one for one in found if isinstance(one, Family)]
    if not families or len(families) < len(found):
        return No.FINAL
    return max(families, key=lambda one: one.retry_after_s or 0.0)
