"""Waits until a node is well after a change, or says what is not and what to do next."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gate
short_description: Waits until linkhold is well on a node, or says what is not
description:
  - Asks C(linkhold status --json) until nothing is wrong for O(settle_s), at most for O(timeout_s),
    then C(linkhold check --connect) where the node has a fleet.
  - In check mode it asks nothing. It changes nothing but a file that keeps O(before) until the gate
    opens, so that an alert that closed it is none of before when the play is run again. A day
    after the last try that file counts no more, and O(before) is that of the new one.
version_added: "0.1.0"
author: linkhold contributors
options:
  networks:
    description: Words for the network that let the rollout go on.
    type: list
    elements: str
    default: [ok]
  before:
    description: Fingerprints of the alerts that there were before the batch.
    type: list
    elements: str
    default: []
  known_alerts:
    description: Alerts that may come, each C(TYPE) or C(TYPE SUBJECT).
    type: list
    elements: str
    default: []
  fleet:
    description: Whether the node must be connected to a broker of its fleet.
    type: bool
    default: false
  settle_s:
    description: Seconds without anything wrong before the rollout goes on.
    type: int
    default: 10
  timeout_s:
    description: Seconds after which the rollout stops.
    type: int
    default: 90
attributes:
  check_mode:
    support: full
    description: It asks nothing in check mode, since nothing was changed.
"""
EXAMPLES = r"""
- name: Gate
  linkhold.linkhold.gate:
    before: "{{ _linkhold_node.state.alerts | default([]) }}"
"""
RETURN = r"""
waited_s:
  description: Seconds until the node had been well for long enough.
  returned: success
  type: float
wrong:
  description: What is wrong, a line each.
  returned: failure
  type: list
"""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

COMMAND = "/usr/local/bin/linkhold"
KEPT = "/var/lib/linkhold/gate.json"
KEPT_S = 86_400
EVERY_S = 1.0


def main() -> None:
    """Answer the task."""
    module = AnsibleModule(
        {
            "networks": {"type": "list", "elements": "str", "default": ["ok"]},
            "before": {"type": "list", "elements": "str", "default": []},
            "known_alerts": {"type": "list", "elements": "str", "default": []},
            "fleet": {"type": "bool", "default": False},
            "settle_s": {"type": "int", "default": 10},
            "timeout_s": {"type": "int", "default": 90},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, waited_s=0.0)
    began, kept = time.monotonic(), Path(KEPT)
    keep(kept, module.params["before"])
    wrong = wait(module, began) or (brokers(module) if module.params["fleet"] else [])
    if wrong:
        module.fail_json(msg="; ".join(wrong), wrong=wrong)
    kept.unlink(missing_ok=True)
    module.exit_json(changed=False, waited_s=round(time.monotonic() - began, 1))


def keep(kept: Path, before: list[str]) -> None:
    """Keep the alerts of before the first try of this rollout; each try makes them last a day more.

    What is older is of a rollout that was given up: by then alerts have come and gone, and each
    would count as new. A boot ends nothing: to mend a node may take one. A moment in the future is
    of a clock that was set back.
    """
    with contextlib.suppress(OSError):  # no agent has made the folder, or the disk is full
        if kept.exists() and abs(time.time() - kept.stat().st_mtime) < KEPT_S:
            kept.touch()
        else:
            kept.write_text(json.dumps(before), encoding="utf-8")


def wait(module: Any, began: float) -> list[str]:
    """Return what is still wrong at the end of the time, empty when the node stayed well."""
    well_since = None
    while True:
        document, problem = status(module)
        wrong = [problem] if problem else judge(document, module.params)
        now = time.monotonic()
        if wrong:
            well_since = None
        elif well_since is None:
            well_since = now
        if well_since is not None and now - well_since >= module.params["settle_s"]:
            return []
        if now - began >= module.params["timeout_s"]:
            return wrong or ["it was well only at the very end of the time"]
        time.sleep(EVERY_S)


def status(module: Any) -> tuple[dict[str, Any], str]:
    """Return the state of a running agent, or why there is none."""
    code, said, error = module.run_command([COMMAND, "status", "--json"])
    if code:
        return {}, f"the agent does not answer: {error.strip()[-300:] or f'code {code}'}"
    try:
        return json.loads(said), ""
    except ValueError:
        return {}, "linkhold status --json gave no JSON"


def judge(document: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Return what is wrong in a state, for this gate; pure."""
    agent = document["detail"]["agent"]
    wrong = []
    if document["network"] not in wanted["networks"]:
        because = ", ".join(document["cause"]) or "no cause is known"
        wrong.append(f"network is {document['network']} ({because})")
    if word(agent["leg_a"]) != "up":
        wrong.append(f"the node's own broker is {agent['leg_a']}")
    if word(agent["outbox"]) != "ok":
        wrong.append(f"the outbox is {agent['outbox']}")
    if wanted["fleet"] and word(agent["leg_b"]) != "up":
        wrong.append(f"the connection to the fleet's broker is {agent['leg_b']}")
    news = [alert for alert in document["alerts"] if is_new(alert, wanted)]
    return wrong + [f"new alert {kind(alert)}: {alert['text']}" for alert in news]


def is_new(alert: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Tell whether an alert was neither there before nor is known to come; what informs is none."""
    if alert["severity"] == "info" or alert["fingerprint"] in wanted["before"]:
        return False
    return not {alert["type"], kind(alert)} & set(wanted["known_alerts"])


def kind(alert: dict[str, Any]) -> str:
    """Return type and subject, as an alert is named in O(known_alerts)."""
    return f"{alert['type']} {alert['subject']}"


def word(text: str) -> str:
    """Return the word before the reason."""
    return text.partition(":")[0]


def brokers(module: Any) -> list[str]:
    """Return what the brokers of the fleet do not let this node do."""
    code, said, error = module.run_command([COMMAND, "check", "--connect"])
    if not code:
        return []
    lines = [line for line in (said + error).splitlines() if line and ": right for " not in line]
    wrong = [f"the fleet's broker {line}" for line in lines if line != "configuration OK"]
    return wrong or [f"linkhold check --connect ended with {code}"]


if __name__ == "__main__":
    main()
