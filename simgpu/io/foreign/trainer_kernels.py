"""Kernels that Trainer arguments ask for: attention, torch.compile, Liger's, the optimizer's.

Names and defaults: huggingface/transformers ``src/transformers/training_args.py`` and
``src/transformers/trainer_optimizer.py``; backends of torch.compile: huggingface/accelerate
``src/accelerate/utils/dataclasses.py`` (DynamoBackend).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.liger import with_liger
from simgpu.io.foreign.optimizer_names import optimizer

_FUSED: Final = ("flash", "sdpa", "fa2", "fa3", "flex", "xformers", "true", "unsloth")
"""Parts of the words for attention in one kernel; names of kernels on the hub hold one of them."""
_UNFUSED: Final = ("eager", "disabled", "math")
_ATTENTION: Final = ("attn_implementation", "attn_impl", "flash_attn", "model_init_kwargs.attn_implementation")
_LIGER: Final = ("use_liger_kernel", "use_liger", "enable_liger_kernel")  # Trainer, TRL of 2025, LLaMA-Factory
_UNDECIDED: Final = ("auto", "false", "none")
_UNCOMPILED: Final = ("no", "eager", "aot_eager")
"""Backends that run PyTorch's own kernels."""
_MODES: Final = ("default", "max-autotune-no-cudagraphs")
_LOW_PRECISION: Final = ("float16", "bfloat16", "kahan")


def kernels(ledger: Ledger, at: str = "", *, implied: bool = True) -> dict[str, Any]:
    """Return the software generation and the optimizer.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every key.
    implied : bool
        Whether a backend or a mode alone compiles, as in Trainer.

    Returns
    -------
    dict
        Without ``software`` where nothing is asked for.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> kernels(Ledger(Document(source="x", data={"torch_compile_backend": "inductor", "optim": "adamw_torch_fused"})))
    {'training.optimizer': 'adamw', 'software': {'preset': 'compile', 'optimizer': 'fused'}}
    """
    settings = {key: value for key, value in _optimizer(ledger, at).items() if value is not None}
    found = [_attention(ledger, f"{at}{key}") for key in _ATTENTION]
    attention = next((kind for kind in found if kind is not None), None)
    if ledger.flag(f"{at}use_flash_attn") or ledger.flag(f"{at}use_flash_attention_2"):
        attention = "flash"
    if ledger.flag(f"{at}eager_attention"):  # Axolotl's
        attention = "eager"
    own = settings.pop("software.optimizer", None)
    preset = "compile" if _compiled(ledger, at, implied) else attention or ("flash" if own else None)
    if preset:
        settings["software"] = {"preset": preset, "optimizer": own} if own else preset
    liger = [ledger.flag(f"{at}{name}") for name in _LIGER]
    if any(liger):
        settings["software"] = with_liger(ledger, settings.get("software"), at)
    if ledger.raw(f"{at}loss_type") == "chunked_nll":
        ledger.get(f"{at}loss_type")
        ledger.note("loss_type: chunked_nll never holds all logits; here they are whole in memory")
    return settings


def _compiled(ledger: Ledger, at: str, implied: bool) -> bool:
    """Return whether kernels are those of torch.compile; say what is not simulated of the way it is asked for."""
    backend, mode = (ledger.text(f"{at}torch_compile_{name}") for name in ("backend", "mode"))
    if not (ledger.flag(f"{at}torch_compile") or (implied and (backend or mode))):
        return False
    chosen = (backend or "inductor").lower()
    if chosen in _UNCOMPILED:
        ledger.note(f"torch_compile_backend: {backend} runs the kernels that PyTorch runs without torch.compile")
        return False
    if chosen != "inductor":
        ledger.note(f"torch_compile_backend: {backend} is simulated as inductor")
    if mode and mode.lower() not in _MODES:
        ledger.note(f"torch_compile_mode: {mode}: its CUDA graphs are not simulated: --set software.cuda_graphs=true")
    return True


def _optimizer(ledger: Ledger, at: str) -> dict[str, Any]:
    key = f"{at}optim" if ledger.text(f"{at}optim") else f"{at}optimizer"
    name = None if isinstance(ledger.raw(key), Mapping) else ledger.text(key)  # options of torchtune's block
    settings = {} if name is None else optimizer(name, ledger, key)
    if ledger.flag(f"{at}adafactor"):
        settings = {**settings, "training.optimizer": "adafactor"}
    given = str(ledger.raw(f"{at}optim_args") or "")
    if (name or "").lower() == "sgd" and "momentum" not in given and ledger.raw(f"{at}sgd_momentum") is None:
        ledger.note(f"{key}: sgd keeps nothing there without momentum; here it keeps one, 4 bytes a parameter")
    if "anyprecision" in (name or "") and any(word in given for word in _LOW_PRECISION):
        ledger.get(f"{at}optim_args")
        ledger.note(f"optim_args: {given}: here the optimizer keeps two fp32 moments")
    return settings


def _attention(ledger: Ledger, key: str) -> str | None:
    """Return the software generation of an attention that is asked for; None where the program chooses."""
    word = (ledger.text(key) or "auto").lower()
    if word in _UNDECIDED:
        return None
    if any(part in word for part in _UNFUSED):
        return "eager"
    if not any(part in word for part in _FUSED):
        ledger.refuse(key, "is not known here", allowed="eager, sdpa, flash_attention_2, flash_attention_3, ...")
    return "flash"
