"""Every error that linkhold raises on purpose.

Errors::

    LinkholdError             base of all errors that linkhold raises on purpose
    +-- ConfigError           the configuration file is wrong (carries every mistake found)
    +-- WireError             bytes from outside are no valid linkhold document
    +-- StoreError            the state folder cannot be read or written
    +-- BrokerError           an MQTT broker could not be reached or refused
    +-- AlreadyRunning        another agent owns these folders or this network namespace
    +-- Unavailable           a part cannot work on this machine; the text says why
    +-- HostError             a change of the host was refused or cannot be verified
    +-- GiveUp                (client) a hold lasted longer than max_hold_s
    +-- UploadsOnHold         (client) code that uploads inline was not to wait any longer
    +-- BudgetSpent           (client.retry) the node has spent its retries of a dependency
    +-- NoAttempt             (client.retry) the time passed before an attempt could be made
"""

from __future__ import annotations


class LinkholdError(Exception):
    """Base of every error that linkhold raises on purpose; its text is meant for a person."""


class ConfigError(LinkholdError):
    """The configuration cannot be used.

    ``mistakes`` holds one line per mistake, each with file, line, path and what is allowed.
    """

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        """Keep every mistake; the text of the error is all of them, a line each."""
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class WireError(LinkholdError):
    """Bytes from outside (topic, file, socket) are no valid linkhold document."""


class StoreError(LinkholdError):
    """The state folder, the outbox or the state file cannot be read or written."""


class BrokerError(LinkholdError):
    """An MQTT broker could not be reached, refused the connection or a publication."""


class AlreadyRunning(LinkholdError):
    """Another agent owns the same folders or the same network namespace."""


class Unavailable(LinkholdError):
    """A part of linkhold cannot work on this machine; the text is the reason."""


class HostError(LinkholdError):
    """The kernel or a manager refused a change of the host; the text names object and remedy.

    ``code`` is the errno where there is one, else 0.
    """

    def __init__(self, text: str, *, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class GiveUp(LinkholdError):
    """A hold lasted longer than the ``max_hold_s`` of the job."""
