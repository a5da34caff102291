"""Number formats and kernels of a torchtitan job.

pytorch/torchtitan torchtitan/config/job_config.py; pytorch/ao torchao/float8.
"""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import FORMATS

_KERNELS: Final = {"fused": "fused", "foreach": "foreach", "for-loop": "for_loop"}
_FUSING: Final = "inductor"
_TABLES: Final = ("float8", "quantize.linear.float8")
_IN_BF16: Final = ("output", "router.gate", "moe.router.gate")
"""Modules that are in bf16 here too."""
_FORMATS: Final = {word: FORMATS[word] for word in ("bfloat16", "float32")}


def is_compiled(ledger: Ledger) -> bool:
    """Return whether the model is compiled.

    Parameters
    ----------
    ledger : Ledger

    Returns
    -------
    bool

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> is_compiled(Ledger(Document(source="j.toml", data={"compile": {"enable": True, "components": ["loss"]}})))
    False
    """
    if ledger.flag("training.compile"):
        return True
    if not ledger.flag("compile.enable"):
        return False
    backend = ledger.text("compile.backend") or _FUSING
    if backend != _FUSING:
        ledger.note(f"compile.backend {backend}: kernels are those of eager PyTorch here")
        return False
    parts = ledger.names("compile.components")
    if ledger.raw("compile.components") is None or "model" in parts:
        return True
    ledger.note(f"compile.components: {', '.join(parts)} alone are compiled; kernels are those of eager PyTorch here")
    return False


def format_settings(ledger: Ledger, compiled: bool, *, experts: bool = True) -> dict[str, Any]:
    """Return formats and kernels: FSDP gathers in bf16, reduces in fp32; fp8 finds scales in a pass over each tensor.

    Parameters
    ----------
    ledger : Ledger
    compiled : bool
    experts : bool
        Whether the model may have experts.

    Returns
    -------
    dict
        Scenario fields.

    Raises
    ------
    ScenarioError
        For MX formats.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> format_settings(Ledger(Document(source="j.toml", data={})), True)
    {'training.precision': 'bf16', 'training.reduce_dtype': 'fp32', 'software': 'compile'}
    """
    param = ledger.choice("training.mixed_precision_param", _FORMATS) or "bf16"
    reduce = ledger.choice("training.mixed_precision_reduce", _FORMATS) or "fp32"
    converters = ledger.get("model.converters")
    listed = converters if isinstance(converters, list) else str(converters or "").split(",")
    fp8 = any("float8" in str(name) or "quantize" in str(name) for name in listed) or _of_2024(ledger)
    if any("mx" in str(name) for name in listed):
        ledger.refuse("model.converters", "is not simulated: MX formats", allowed="float8")
    grouped = [str(name) for name in listed if "grouped_mm" in str(name)]
    if fp8 and grouped and all("grouped_mm" in str(name) or not str(name).strip() for name in listed):
        if experts:
            ledger.note(f"model.converters: {grouped[0]} has the experts' products alone in fp8; all of them are here")
        else:
            fp8 = False
            ledger.note(f"model.converters: {grouped[0]} has no effect on a model without experts")
    elif fp8 and experts and not grouped and ledger.raw("float8.moe_fqns_prototype") is None:
        ledger.note(
            "model.converters: products of experts, where the model has some, are in bf16 in the job; in fp8 here"
        )
    if fp8:
        _note_recipe(ledger)
    precision = "fp8" if fp8 else param
    kernels = ledger.choice("optimizer.implementation", _KERNELS)
    if ledger.flag("optimizer.fused") is False:  # of 2024
        kernels = kernels or "foreach"
    settings: dict[str, Any] = {"training.precision": precision}
    if ledger.choice("training.dtype", _FORMATS) == "bf16":
        settings |= {"training.param_dtype": "bf16", "training.grad_dtype": "bf16", "training.master_dtype": "none"}
        ledger.note("training.dtype bfloat16: the moments are in bf16 there and in fp32 here")
    if precision != "fp32":
        settings["training.reduce_dtype"] = reduce
    if compiled:
        settings["software"] = {"preset": "compile", "optimizer": kernels} if kernels else "compile"
    elif fp8:
        settings["software"] = {"preset": "flash", "optimizer": kernels} if kernels else "flash"
        ledger.note(
            "software: flash, whose elementwise kernels are fused; torchtitan runs float8 without compile slower"
        )
    else:
        # Without compile: PyTorch's FlashAttention, and norms, rotary embedding, SwiGLU and loss op by op.
        settings["software"] = {"preset": "megatron-2023", "optimizer": kernels or "fused"}
        ledger.note("software: kernels of PyTorch op by op around FlashAttention-2, which are those of megatron-2023")
    return settings


def _of_2024(ledger: Ledger) -> bool:
    """Return whether fp8 is asked for by a name from before there were converters."""
    names = ("float8.enable_float8_linear", "training.enable_float8_linear", "training.enable_fp8_linear")
    word = ledger.text("training.fp8_linear")  # "", dynamic, delayed
    asked = [ledger.flag(name) for name in names]  # all of them are read
    return any(asked) or (word or "").lower() not in ("", "false", "none")


def _note_recipe(ledger: Ledger) -> None:
    """Note what of a recipe of fp8 is not simulated, and refuse the one that has no fp8 in it.

    pytorch/ao torchao/float8/config.py, Float8LinearRecipeName; with tensorwise scales torchtitan gathers the inputs
    of tensor-parallel layers in fp8 (models/llama3/infra/parallelize.py).
    """
    tp = max(ledger.integer(f"{block}.tensor_parallel_degree") or 1 for block in ("parallelism", "training"))
    for table in _TABLES:
        if ledger.flag(f"{table}.emulate"):
            ledger.refuse(f"{table}.emulate", "runs products in fp32 that stand for those in fp8", allowed="false")
        if ledger.flag(f"{table}.enable_fsdp_float8_all_gather"):
            ledger.note(f"{table}.enable_fsdp_float8_all_gather is not simulated: weights are gathered in bf16")
        recipe = ledger.text(f"{table}.recipe_name") or ""
        if recipe.endswith("gw_hp"):
            ledger.note(f"{table}.recipe_name {recipe}: gradients of weights are in bf16 in the job, and in fp8 here")
        elif recipe == "rowwise":
            ledger.note(f"{table}.recipe_name rowwise: scales of rows are priced as those of whole tensors")
        others = [name for name in ledger.names(f"{table}.filter_fqns") if name not in _IN_BF16]
        if others:
            ledger.note(f"{table}.filter_fqns: {', '.join(others)} are in bf16 in the job, and in fp8 here")
        kinds = [ledger.text(f"{table}.scaling_type_{part}") for part in ("input", "weight", "grad_output")]
        if "delayed" in kinds:
            ledger.note(f"{table}.scaling_type_*: delayed: scales are found in a pass over each tensor here")
    if tp > 1 and not any("rowwise" in (ledger.text(f"{table}.recipe_name") or "") for table in _TABLES):
        ledger.note("float8: inputs of tensor-parallel layers are gathered in fp8 in the job, and in bf16 here")
