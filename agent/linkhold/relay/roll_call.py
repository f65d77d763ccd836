"""Who is connected to a broker, when all that there is of a node is the broker's own word.

A broker answers 0x10 to a command that nobody is subscribed to (MQTT v5, 3.4.2.1). One with
persistence says online for ever of a node that died together with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.mqtt import CODE_FAILURE, CODE_NO_SUBSCRIBER

if TYPE_CHECKING:
    import threading

    from linkhold.relay.decide.values import Key


class RollCall:
    """The commands sent on one connection, and what their answers tell.

    ``heard`` is of all brokers: set once any node was there for a command. Until then an answer
    says nothing, since nodes may not be allowed to hear commands in this fleet.
    """

    def __init__(self, heard: threading.Event) -> None:
        self._heard = heard
        self._asked: dict[int, Key | None] = {}
        self._absent: dict[Key, None] = {}
        self._present: list[Key] = []

    def asked(self, mid: int, key: Key | None) -> None:
        """Take in that a command was sent to a node; None: only to learn whether any hears one."""
        self._asked[mid] = key

    def answered(self, mid: int, code: int) -> None:
        """Take in the answer to a publication, which may be one of ours."""
        if mid not in self._asked:
            return
        key = self._asked.pop(mid)
        if code < CODE_FAILURE and code != CODE_NO_SUBSCRIBER:
            self._heard.set()
            self._present += [key] if key is not None else []
        elif code == CODE_NO_SUBSCRIBER and key is not None:
            self._absent[key] = None

    def spoke(self, key: Key) -> None:
        """Take in that a node says something: it is there by now."""
        self._absent.pop(key, None)

    def present(self) -> list[Key]:
        """Return who has heard a command; each once."""
        found, self._present = self._present, []
        return found

    def absent(self) -> list[Key]:
        """Return who is known by now not to be connected; each once."""
        if not self._heard.is_set():
            return []
        found, self._absent = list(self._absent), {}
        return found
