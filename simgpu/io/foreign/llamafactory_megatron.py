"""LLaMA-Factory's arguments for its Megatron backends: hiyouga/LLaMA-Factory ``src/llamafactory/hparams``."""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.llamafactory_keys import MEGATRON_PRICED

MEGATRON: Final = {
    "tensor_model_parallel_size": "parallel.tp",
    "pipeline_model_parallel_size": "parallel.pp",
    "virtual_pipeline_model_parallel_size": "parallel.virtual_stages",
    "context_parallel_size": "parallel.cp",
    "expert_model_parallel_size": "parallel.ep",
}
"""Fields of a scenario by the options that make a run one of Megatron's."""
_FUSIONS: Final = {"bias_activation_fusion": "bias_activation", "apply_rope_fusion": "rope"}


def megatron(ledger: Ledger) -> dict[str, Any]:
    """Read the options of its Megatron backends, which are Megatron-Core's.

    Parameters
    ----------
    ledger : Ledger

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"tensor_model_parallel_size": 2, "apply_rope_fusion": False}
    >>> fields = megatron(Ledger(Document(source="x", data=data)))
    >>> fields["parallel.tp"], fields["software"]
    (2, {'preset': 'te', 'unfused': ['rope']})
    """
    settings: dict[str, Any] = {field: ledger.integer(name, least=1) for name, field in MEGATRON.items()}
    settings["parallel.sequence_parallel"] = ledger.flag("sequence_parallel")
    if ledger.flag("use_distributed_optimizer"):
        settings["parallel.data_parallel"] = "distributed_optimizer"
        for name in ("overlap_grad_reduce", "overlap_param_gather"):
            settings[f"distributed_optimizer.{name}"] = ledger.flag(name)
    granularity = ledger.choice("recompute_granularity", {"full": "full", "selective": "selective"})
    settings["training.recompute"] = granularity or "none"
    layers = ledger.integer("recompute_num_layers", least=1)
    by_block = granularity == "full" and (ledger.text("recompute_method") or "").lower() == "block"
    settings["training.recompute_layers"] = layers if by_block else None  # otherwise how many are recomputed together
    ledger.told(MEGATRON_PRICED)
    dispatcher = (ledger.text("moe_token_dispatcher_type") or "alltoall").lower()
    if dispatcher != "alltoall":
        ledger.note(f"moe_token_dispatcher_type: {dispatcher} is simulated as alltoall")
    if ledger.flag("moe_grouped_gemm") is False:
        ledger.note("moe_grouped_gemm: false: experts one after the other are simulated as one grouped product")
    if "fp8" in (ledger.text("mixed_precision") or ""):  # bf16_with_fp8_current_scaling_mixed and the like
        settings["training.precision"] = "fp8"
    off = [fusion for name, fusion in _FUSIONS.items() if ledger.flag(name) is False]
    return settings | {"software": {"preset": "te", "unfused": off} if off else "te"}
