"""What data loaders and storage clients give up, where arguments or environment say so. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from linkhold.decide.survival.values import (
    Layer,
    Setting,
    argument,
    number_of,
    raised,
    variable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.survival.values import JobFacts

LOADERS = ("--dataloader_timeout", "--loader_timeout", "--data_timeout")
BOTO_CONNECT_S = 60.0
"""botocore.config.Config: connect_timeout."""
MLFLOW_S, MLFLOW_RETRIES = 120.0, 7
METADATA_S, METADATA_TRIES = 1.0, 1
PLAIN = {
    "HF_HUB_DOWNLOAD_TIMEOUT": ("downloads from the Hugging Face hub", "huggingface_hub.constants"),
    "HF_HUB_ETAG_TIMEOUT": ("look-ups in the Hugging Face hub", "huggingface_hub.constants"),
    "WANDB_HTTP_TIMEOUT": ("requests of wandb", "wandb's manual, environment variables"),
    "WANDB_INIT_TIMEOUT": ("wandb.init()", "wandb's manual, environment variables"),
}
"""Variables that hold seconds: what they limit, and where that is written."""
_HOW = "{}={:.0f}"


def client_layers(facts: JobFacts, aim_s: float) -> Iterator[Layer]:
    """Yield what somebody has set; libraries have more limits, which nobody sees from outside."""
    yield from _loaders(facts, aim_s)
    for name, (what, source) in PLAIN.items():
        setting = variable(facts, name)
        seconds = None if setting is None else setting.number()
        if setting is not None and seconds is not None:
            how = _HOW.format(name, raised(seconds, aim_s))
            yield Layer(what, seconds, f"{seconds:g} s", setting.where, how, source)
    yield from _mlflow(facts, aim_s)
    yield from _metadata(facts, aim_s)
    yield from _boto(facts, aim_s)


def _loaders(facts: JobFacts, aim_s: float) -> Iterator[Layer]:
    setting = argument(facts, *LOADERS)
    seconds = None if setting is None else setting.number()
    if setting is None or seconds is None:
        return
    outage_s = seconds if seconds > 0 else math.inf
    option = setting.where.split()[1]
    yield Layer(
        "DataLoader waiting for a worker",
        outage_s,
        f"timeout {seconds:g} s" if seconds > 0 else "no timeout",
        setting.where,
        f"{option} {raised(outage_s, aim_s):.0f}" if seconds > 0 else "",
        "torch.utils.data.DataLoader(timeout=...)",
    )


def _mlflow(facts: JobFacts, aim_s: float) -> Iterator[Layer]:
    timeout = variable(facts, "MLFLOW_HTTP_REQUEST_TIMEOUT")
    retries = variable(facts, "MLFLOW_HTTP_REQUEST_MAX_RETRIES")
    setting = timeout or retries
    if setting is None:
        return
    tries = 1 + int(number_of(retries, MLFLOW_RETRIES))
    outage_s = tries * number_of(timeout, MLFLOW_S)
    yield Layer(
        "requests of MLflow",
        outage_s,
        f"{tries} tries of {number_of(timeout, MLFLOW_S):g} s",
        setting.where,
        _HOW.format("MLFLOW_HTTP_REQUEST_TIMEOUT", raised(outage_s, aim_s) / tries),
        "mlflow.environment_variables",
        note="less where a connection is refused at once",
    )


def _metadata(facts: JobFacts, aim_s: float) -> Iterator[Layer]:
    timeout = variable(facts, "AWS_METADATA_SERVICE_TIMEOUT")
    tries = variable(facts, "AWS_METADATA_SERVICE_NUM_ATTEMPTS")
    setting = timeout or tries
    if setting is None:
        return
    each_s = number_of(timeout, METADATA_S)
    count = int(number_of(tries, METADATA_TRIES))
    wanted = math.ceil(raised(each_s * count, aim_s) / max(each_s, 1.0))
    yield Layer(
        "AWS credentials of the machine",
        each_s * count,
        f"{count} tries of {each_s:g} s",
        setting.where,
        f"AWS_METADATA_SERVICE_NUM_ATTEMPTS={wanted}",
        "botocore.utils.InstanceMetadataFetcher",
    )


def _boto(facts: JobFacts, aim_s: float) -> Iterator[Layer]:
    setting: Setting | None = variable(facts, "AWS_MAX_ATTEMPTS")
    tries = None if setting is None else setting.number()
    if setting is None or tries is None:
        return
    yield Layer(
        "requests of AWS clients (S3)",
        None,
        f"{tries:g} tries",
        setting.where,
        f"AWS_MAX_ATTEMPTS={math.ceil(aim_s / BOTO_CONNECT_S)} at least",
        "botocore.config.Config: max_attempts, connect_timeout",
        note=(
            f"at most {tries * BOTO_CONNECT_S:g} s, when nothing answers; next to nothing when "
            "the kernel refuses at once, since the pauses between tries are random"
        ),
    )
