"""What ``linkhold status`` says of things beyond the node: a line for probes, one for metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.cli.shown import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_METADATA = {"reachable": "answers", "gone": "does not answer", "unknown": "unknown"}


def lines(detail: Mapping[str, Any], now_ns: int) -> Iterator[str]:
    """Yield what is asked beyond the node and how it is; nothing where nothing is asked.

    ``now_ns`` is CLOCK_MONOTONIC.
    """
    probes: Mapping[str, Mapping[str, Any]] = detail.get("probes") or {}
    if probes:
        bad = [f"{name} {_worded(one, now_ns)}" for name, one in probes.items() if _is_bad(one)]
        alive = sum(one["verdict"] == "alive" for one in probes.values())
        rest = "".join(f"; {text}" for text in bad)
        yield f"beyond: {alive} of {len(probes)} answer{rest}"
    metadata = detail.get("metadata") or {"verdict": "not_asked"}
    if metadata["verdict"] != "not_asked":
        cloud = metadata["vendor"] or "no known cloud"
        reason = f" ({metadata['reason']})" if metadata["reason"] else ""
        age = duration((now_ns - metadata["since_ns"]) / 1e9)
        yield f"metadata service: {cloud}, {_METADATA[metadata['verdict']]} for {age}{reason}"


def _is_bad(one: Mapping[str, Any]) -> bool:
    return bool(one["verdict"] != "alive")


def _worded(one: Mapping[str, Any], now_ns: int) -> str:
    if one["verdict"] == "unknown":
        return f"is unknown ({one['reason']})"
    if one["verdict"] == "mute":
        return f"has not answered since the start ({one['reason']})"
    return f"is dead for {duration((now_ns - one['since_ns']) / 1e9)} ({one['reason']})"
