"""Properties of publications: packed as the protocol wants, and remembered at a small price."""

from __future__ import annotations

import gc
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from linkhold.mqtt.properties import publish_properties

MOST_BLOCKS = 1500
"""Sixty-four remembered publications: their keys, texts and bytes."""
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(TEXT, st.lists(st.tuples(TEXT, TEXT), max_size=3), st.integers(0, 0xFFFFFFFF))
def test_what_is_packed_is_read_as_it_was_meant(
    content_type: str, user: list[tuple[str, str]], expiry_s: int
) -> None:
    """A broker reads the type, the pairs in their order and the expiry; nothing needs nothing."""
    made = publish_properties(content_type, tuple(user), expiry_s)
    if made is None:
        assert (content_type, user, expiry_s) == ("", [], 0)
        return
    read: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    packed = made.pack()  # type: ignore[no-untyped-call]
    _, size = read.unpack(packed)

    assert size == len(packed)
    assert getattr(read, "ContentType", "") == content_type
    assert getattr(read, "UserProperty", []) == user
    assert getattr(read, "MessageExpiryInterval", 0) == expiry_s


def test_requests_that_come_once_take_little_memory() -> None:
    """Each replay names its request in a property: thousands of names keep little."""
    publish_properties.cache_clear()
    publish_properties("application/json", (("replay", "first"),))
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(2000):
        publish_properties("application/json", (("replay", f"r{number}"),))
    gc.collect()

    assert sys.getallocatedblocks() - before < MOST_BLOCKS
