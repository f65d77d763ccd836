"""Whether a broker of the fleet lets this node say what it must, and nothing else.

Three messages are sent, each on a connection of its own (some brokers answer a refused message by
closing), with QoS 1 and not retained, to topics that nobody acts upon: the answers are the proof.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.config.access import password_of, tls_of
from linkhold.model import BrokerError
from linkhold.mqtt import Acknowledged, Connected, Connection, Lost
from linkhold.mqtt.happened import CODE_FAILURE
from linkhold.wire import command_topic, diagnosis_topic, node_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.brokers import BrokerSettings
    from linkhold.mqtt import Notice

ANSWER_S = 5.0
"""How long a broker may take for each of its answers."""
ACL_PAGE = "docs/brokers.md"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker made of one message; ``text`` in its own words."""

    accepted: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """Its answers to a topic of this node, to one of another node, and to this node's commands."""

    own: Answer
    foreign: Answer
    command: Answer


def ask(broker: BrokerSettings, site: str, node: str) -> Answers:
    """Send the three messages; raises :class:`BrokerError` when there is no connection.

    The other node is one that does not exist, so that nobody hears what a broker lets through.
    """
    request = f"check-{secrets.token_hex(4)}"
    other = node_prefix(site, f"other-than-{node}"[:64].rstrip("-."))
    own = node_prefix(site, node)
    topics = (diagnosis_topic(own, request), diagnosis_topic(other, request))
    return Answers(*(_publish(broker, one) for one in (*topics, command_topic(own, request))))


def verdict(answers: Answers, node: str) -> list[str]:
    """Return what is wrong with the answers, each with what to do; nothing where all is right."""
    wrong = []
    if not answers.own.accepted:
        wrong.append(
            f"refuses what {node} says under its own name ({answers.own.text}): the broker knows "
            f"it by another name, or its ACL lacks the patterns of {ACL_PAGE}"
        )
    if answers.foreign.accepted:
        wrong.append(
            f"lets {node} speak for other nodes: one node could stop training of all; use the ACL "
            f"of {ACL_PAGE}"
        )
    if answers.command.accepted:
        wrong.append(f"lets {node} give commands (cmd/), which is for operators; see {ACL_PAGE}")
    return wrong


def _publish(broker: BrokerSettings, topic: str) -> Answer:
    connection = Connection(
        f"linkhold-check-{secrets.token_hex(8)}",
        username=broker.username or None,
        password=password_of(broker),
        tls=tls_of(broker),
    )
    connection.open_tcp(broker.host, broker.tcp_port)
    try:
        return _answer(connection, topic)
    finally:
        connection.close()


def _answer(connection: Connection, topic: str) -> Answer:
    connected = False
    for notice in _notices(connection):
        if isinstance(notice, Connected):
            connected = True
            connection.publish(topic, b"{}", qos=1)
        elif isinstance(notice, Acknowledged):
            return Answer(notice.code < CODE_FAILURE, notice.text)
        elif isinstance(notice, Lost):
            if not connected:
                raise BrokerError(notice.reason)
            return Answer(accepted=False, text=f"it closed the connection: {notice.reason}")
    raise BrokerError(f"no answer within {ANSWER_S:g} s")


def _notices(connection: Connection) -> Iterator[Notice]:
    """Yield what happens, until nothing has happened for :data:`ANSWER_S`."""
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        for notice in connection.service(0.2):
            deadline = time.monotonic() + ANSWER_S
            yield notice
