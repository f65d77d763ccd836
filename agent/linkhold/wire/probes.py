"""What probes beyond the node found, as JSON, and read back after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.model.probes import Cause, CauseKind, Metadata, Probed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FIELDS = tuple(name for name in Probed.__slots__ if name != "name")


def causes_document(causes: Iterable[Cause]) -> list[dict[str, Any]]:
    """Return every cause that stands; times are CLOCK_MONOTONIC in nanoseconds."""
    return [{**_fields(one), "kind": one.kind.value} for one in causes]


def probes_document(probes: Iterable[Probed]) -> dict[str, dict[str, Any]]:
    """Return what is known of each thing that is asked, by its name."""
    return {one.name: {name: getattr(one, name) for name in _FIELDS} for one in probes}


def metadata_document(metadata: Metadata) -> dict[str, Any]:
    """Return what is known of the cloud's metadata service."""
    return {**_fields(metadata), "vendor": metadata.vendor or None}


def parse_causes(value: Iterable[Mapping[str, Any]] | None) -> tuple[Cause, ...]:
    """Return the causes; none in what an agent before them stored. Raises what parsers raise."""
    return tuple(
        Cause(
            kind=CauseKind(one["kind"]),
            subject=str(one["subject"]),
            text=str(one["text"]),
            since_ns=int(one["since_ns"]),
            because=str(one["because"]),
            partial=bool(one["partial"]),
            first_hop=bool(one["first_hop"]),
            never=bool(one.get("never")),
        )
        for one in value or ()
    )


def parse_probes(value: Mapping[str, Mapping[str, Any]] | None) -> tuple[Probed, ...]:
    """Return what was known of each thing; nothing in what an agent before them stored."""
    return tuple(
        Probed(
            name=name,
            kind=str(one["kind"]),
            target=str(one["target"]),
            link=str(one["link"]),
            verdict=str(one["verdict"]),
            reason=str(one["reason"]),
            since_ns=int(one["since_ns"]),
            heard=bool(one["heard"]),
        )
        for name, one in (value or {}).items()
    )


def parse_metadata(value: Mapping[str, Any] | None) -> Metadata:
    """Return what was known of the metadata service."""
    if not value:
        return Metadata()
    return Metadata(
        vendor=str(value["vendor"] or ""),
        verdict=str(value["verdict"]),
        reason=str(value["reason"]),
        since_ns=int(value["since_ns"]),
        heard=bool(value["heard"]),
        wanted=bool(value["wanted"]),
    )


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}
