"""How NeMo's optimizers take gradients: added up in the products, and reduced in buckets or chunks."""

from __future__ import annotations

from typing import Final

from simgpu.io.foreign.ledger import Ledger

FUSED_ADAM: Final = "fused_adam"
SHARDED: Final = ("mcore_distributed_optim", "distributed_fused_adam")
"""Optimizers whose states are shared out among the replicas."""
_APEX_MIB: Final = 100
_CHUNK_MIB: Final = 125  # of grad_allreduce_chunk_size_mb


def accumulates(ledger: Ledger) -> bool:
    """Return whether weight gradients are added in the GEMM, which NeMo switches off where its optimizer cannot.

    Parameters
    ----------
    ledger : Ledger

    Returns
    -------
    bool

    References
    ----------
    NVIDIA/NeMo nemo/collections/nlp/models/language_modeling/megatron_base_model.py, _validate_and_override_config

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> model = {"gradient_accumulation_fusion": True, "megatron_amp_O2": True, "optim": {"name": SHARDED[1]}}
    >>> accumulates(Ledger(Document(source="x.yaml", data={"model": model})))
    True
    """
    asked = ledger.flag("model.gradient_accumulation_fusion") and ledger.flag("model.megatron_amp_O2")
    sharded = (ledger.text("model.optim.name") or FUSED_ADAM) in SHARDED
    pipelined = (ledger.integer("model.pipeline_model_parallel_size") or 1) > 1
    return bool(asked) and not ledger.flag("model.fsdp") and (sharded or pipelined)


def apex_bucket(ledger: Ledger) -> int:
    """Return the elements of a bucket of Apex's optimizer, which NeMo gives a size in MiB.

    Parameters
    ----------
    ledger : Ledger

    Returns
    -------
    int

    Notes
    -----
    100 MiB of the format in which gradients travel (NVIDIA/apex apex/contrib/optimizers/distributed_fused_adam.py).

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> apex_bucket(Ledger(Document(source="x.yaml", data={"model": {"optim": {"bucket_cap_mb": 4}}})))
    1048576
    """
    size = ledger.number("model.optim.bucket_cap_mb") or _APEX_MIB
    half = ledger.text("model.optim.grad_sync_dtype") in ("bf16", "fp16", "16")
    return round(size * 2**20) // (2 if half else 4)


def chunk_mib(ledger: Ledger) -> float | None:
    """Return the size of the chunks that are reduced under backward where no optimizer is sharded.

    Parameters
    ----------
    ledger : Ledger

    Returns
    -------
    float or None
        MiB; None where gradients are reduced after backward.

    Notes
    -----
    Main weights in fp32 (O2) with neither pipeline nor sequence parallelism nor gradients added in the GEMM
    (NVIDIA/NeMo nemo/collections/nlp/models/language_modeling/megatron_base_model.py, configure_optimizers;
    nemo/core/optim/optimizer_with_main_params.py, GradBucket).

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> model = {"megatron_amp_O2": True, "pipeline_model_parallel_size": 1}
    >>> chunk_mib(Ledger(Document(source="x.yaml", data={"model": model})))
    125
    """
    size = ledger.number("model.grad_allreduce_chunk_size_mb") or _CHUNK_MIB
    asked = ledger.flag("model.megatron_amp_O2") and ledger.flag("model.async_grad_allreduce") is not False
    pipelined = (ledger.integer("model.pipeline_model_parallel_size") or 1) > 1
    others = ("sequence_parallel", "gradient_accumulation_fusion")
    waits = pipelined or any(ledger.flag(f"model.{name}") for name in others)
    return size if asked and not waits else None
