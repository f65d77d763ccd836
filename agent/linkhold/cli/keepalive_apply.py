"""``linkhold keepalive apply`` and ``restore``: write the wanted sysctls, or the ones found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold import config
from linkhold.actuators import cover_record, namespaces, sysctls
from linkhold.actuators.cover import Cover
from linkhold.cli.beside_agent import refuse_beside_agent
from linkhold.decide.keepalive.sysctls import differing, rules_of
from linkhold.model import HostError
from linkhold.survey import cloud
from linkhold.survey.files import Reader

COVERED = "covered sockets"

if TYPE_CHECKING:
    import argparse

    from linkhold.model.keepalive import Values


def run(args: argparse.Namespace) -> int:
    """Do it; return 0 when every value is as it should be, 1 when one is not."""
    if os.geteuid() != 0:
        raise HostError(f"keepalive {args.verb} writes sysctls: run it as root")
    if args.verb == "restore":
        refuse_beside_agent()
        done = restored()
    else:
        done = applied(args.config)
    if args.json:
        print(json.dumps({"namespaces": done}, indent=2))
    else:
        _show(done, args.verb)
    return 1 if any(one["problem"] for one in done) else 0


def applied(file: Path | None) -> list[dict[str, Any]]:
    """Write what the configuration wants in every namespace of its scope.

    Raises :class:`ConfigError` for a wrong configuration, :class:`HostError` when what was there
    before cannot be kept.
    """
    settings = config.load(file)
    vendor, _ = cloud.machine(Reader(Path("/")))
    rules = rules_of(settings.keepalive, vendor, enforce=True)
    host = namespaces.look(settings.keepalive.namespaces)
    wanted = {
        one.namespace: {} if one.error else differing(rules, one.values) for one in host.values
    }
    changes = [(one, wanted[one.namespace]) for one in host.values if wanted[one.namespace]]
    wrote = sysctls.apply(changes, namespaces.write_in(host.places)) if changes else []
    after = {one.namespace: one for one in (*host.values, *wrote)}
    return [_document(one, wanted[one.namespace], after[one.namespace]) for one in host.values]


def to_restore() -> bool:
    """Tell whether something was written in this boot, or a record is there that is damaged."""
    try:
        return bool(sysctls.Record.load().namespaces) or cover_record.exists()
    except HostError:
        return True


def restored() -> list[dict[str, Any]]:
    """Put every namespace and every covered socket back.

    Raises :class:`HostError` for a damaged record.
    """
    done = [
        {"name": one.name, "written": dict(one.values), "problem": one.problem}
        for one in namespaces.restore()
    ]
    sockets = Cover().restore()
    problem = "; ".join(sockets.problems)
    if sockets.restored or problem:
        done.append({"name": COVERED, "written": {"sockets": sockets.restored}, "problem": problem})
    return done


def _prefix(name: str) -> str:
    if name in (sysctls.HOST, COVERED):
        return "" if name == sysctls.HOST else f"{name}: "
    return f"namespace {name}: "


def _document(before: Values, write: dict[str, int], after: Values) -> dict[str, Any]:
    done = {key: value for key, value in write.items() if after.values.get(key) == value}
    old = {key: before.values.get(key) for key in done}
    return {"name": before.name, "before": old, "written": done, "problem": after.error}


def _show(done: list[dict[str, Any]], verb: str) -> None:
    for one in done:
        name = _prefix(one["name"])
        if one["name"] == COVERED:
            print(f"{one['written']['sockets']} covered sockets have their old values again")
        for key, value in one["written"].items() if one["name"] != COVERED else ():
            old = f"{one['before'][key]} -> " if "before" in one else "back to "
            print(f"{name}net.ipv4.{key}: {old}{value}")
        if one["problem"]:
            print(f"{name}not done: {one['problem']}")
        elif not one["written"] and verb == "apply":
            print(f"{name}nothing to do: the values are as wanted or better")
    if not any(one["written"] or one["problem"] for one in done) and verb == "restore":
        print("nothing to restore: no value here is one that linkhold wrote")
