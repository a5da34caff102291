"""How Composer shards the models of llm-foundry.

Names and defaults: mosaicml/composer ``composer/utils/parallelism.py`` (FSDPConfig).
"""

from __future__ import annotations

from typing import Any

from simgpu.io.foreign.fsdp_options import read_fsdp
from simgpu.io.foreign.ledger import Ledger


def sharding(ledger: Ledger, precision: str | None) -> dict[str, Any]:
    """Read ``fsdp_config``.

    Parameters
    ----------
    ledger : Ledger
    precision : str or None
        Of the arithmetic.

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x", data={"fsdp_config": {"data_parallel_replicate_degree": 2}}))
    >>> sharding(ledger, "bf16")["parallel.data_parallel"], ledger.open
    ('hsdp', {'sharded_replicas': '2'})
    """
    if not isinstance(ledger.raw("fsdp_config"), dict):
        return {"parallel.data_parallel": "ddp"}
    settings = read_fsdp(ledger, "fsdp_config") | {"fsdp.no_sync": None}  # Composer reduces in every micro-batch
    if settings["parallel.data_parallel"] in ("fsdp1", "hsdp") and ledger.raw("fsdp_config.backward_prefetch") is None:
        settings["fsdp.backward_prefetch"] = "backward_post"  # Composer's default
    settings["training.recompute"] = "full" if ledger.flag("fsdp_config.activation_checkpointing") else "none"
    if ledger.flag("fsdp_config.keep_low_precision_grads"):
        ledger.note("fsdp_config.keep_low_precision_grads is not simulated: gradients are kept in fp32")
    if ledger.flag("fsdp_config.activation_cpu_offload"):
        ledger.note("fsdp_config.activation_cpu_offload is not simulated: activations stay on the GPU")
    for key in ("fsdp_config.activation_checkpointing_target", "model.activation_checkpointing_target"):
        target = ledger.raw(key)
        if target is not None and settings["training.recompute"] == "full":
            ledger.note(f"{key}: blocks are recomputed whole, and all of them, whatever it names")
        ledger.idle(key)
    return settings | _reductions(ledger, precision) | _replicas(ledger, settings["parallel.data_parallel"])


def _reductions(ledger: Ledger, precision: str | None) -> dict[str, Any]:
    """Return formats of reductions as Composer has them: parameters and gradients are in fp32 in any case.

    mosaicml/composer composer/distributed/mosaic_parallelism.py, get_mixed_precision: DEFAULT gathers in the format of
    the precision and reduces in fp32, PURE does both in that format, FULL neither.
    """
    mode = ledger.choice("fsdp_config.mixed_precision", {word: word for word in ("pure", "default", "full")})
    low = {"bf16": "bf16", "fp16": "fp16", "fp8": "bf16"}.get(str(precision))
    if low is None:
        return {}
    if mode == "full":
        ledger.note(
            f"fsdp_config.mixed_precision: FULL gathers parameters in fp32 there, and in {low} here: half the bytes"
        )
    return {"training.reduce_dtype": low if mode == "pure" else "fp32"}


def _replicas(ledger: Ledger, kind: str) -> dict[str, Any]:
    """Return the mesh that Composer makes of its degrees, which goes before the strategy's name.

    mosaicml/composer composer/distributed/dist_strategy.py, prepare_fsdp_module: on a mesh of copies FULL_SHARD is
    HYBRID_SHARD and SHARD_GRAD_OP is _HYBRID_SHARD_ZERO2, on any other the reverse (from 0.24 on; all have a mesh).
    """
    replicate = ledger.integer("fsdp_config.data_parallel_replicate_degree", least=1) or 1
    shard = ledger.integer("fsdp_config.data_parallel_shard_degree", least=-1) or -1
    if kind == "ddp" or replicate == shard == 1:
        return {}
    if kind == "hsdp" and replicate == 1:
        if ledger.raw("fsdp_config.data_parallel_replicate_degree") is None:
            ledger.note(
                "fsdp_config.sharding_strategy: without a data_parallel_replicate_degree Composer shards over all GPUs "
                "(from 0.24 on)"
            )
        return {"parallel.data_parallel": "fsdp1", **({"parallel.dp": shard} if shard > 0 else {})}
    if replicate > 1:
        hybrid = {"parallel.data_parallel": "hsdp"}
        if shard > 0:
            return {**hybrid, "fsdp.shard_size": shard, "parallel.dp": shard * replicate}
        ledger.open["sharded_replicas"] = str(replicate)  # each has what they leave of the GPUs
        return hybrid
    return {} if shard < 0 else {"parallel.dp": shard}
