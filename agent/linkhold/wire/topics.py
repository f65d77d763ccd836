"""Topic names of linkhold, version 1: ``linkhold/v1/<site>/<node>/...``."""

from __future__ import annotations

import re

ROOT = "linkhold/v1"
MAX_NAME_LENGTH = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def topic_safe(name: str) -> str:
    """Return ``name`` usable as one topic level and as a certificate's common name.

    Everything outside ``A-Z a-z 0-9 . _ -`` becomes ``-``; an empty result becomes ``node``.
    """
    safe = _UNSAFE.sub("-", name).lstrip("-.")[:MAX_NAME_LENGTH].rstrip("-.")
    return safe or "node"


def is_topic_safe(name: str) -> bool:
    """Tell whether ``name`` can be one topic level as it stands."""
    return bool(name) and len(name) <= MAX_NAME_LENGTH and topic_safe(name) == name


def node_prefix(site: str, node: str) -> str:
    """Return ``linkhold/v1/<site>/<node>``, under which everything of a node is published."""
    return f"{ROOT}/{site}/{node}"


def status_topic(prefix: str) -> str:
    """Topic of the retained ``online`` / ``offline`` (last will)."""
    return f"{prefix}/status"


def birth_topic(prefix: str) -> str:
    """Topic of the retained birth document of the running session."""
    return f"{prefix}/birth"


def state_topic(prefix: str) -> str:
    """Topic of the retained state document."""
    return f"{prefix}/state"


def event_topic(prefix: str, event_type: str) -> str:
    """Topic of one type of event, not retained."""
    return f"{prefix}/event/{event_type}"


def command_topic(prefix: str, command: str) -> str:
    """Topic on which the fleet asks this node for something (leg B only)."""
    return f"{prefix}/cmd/{command}"


def diagnosis_topic(prefix: str, request: str) -> str:
    """Topic of the report that answers one request for a diagnosis, not retained."""
    return f"{prefix}/diag/{request}"
