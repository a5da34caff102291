"""Adapters beside frozen weights, and weights in fewer than 16 bits, as Trainer's scripts ask for them."""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

LORA_RANK: Final = 16  # huggingface/trl trl/trainer/model_config.py, lora_r
_ADAPTED: Final = ("use_peft", "use_lora", "lora_enable")  # Transformers' examples, others, LLaVA
_QUANTIZED: Final = ("", "model_init_kwargs.quantization_config.")


def lora(ledger: Ledger, at: str) -> dict[str, Any]:
    """Read adapters, and the 4- or 8-bit weights below them.

    Parameters
    ----------
    ledger : Ledger
        Gets the bits in ``open["quantized_bits"]``.
    at : str
        In front of every key.

    Returns
    -------
    dict

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> lora(Ledger(Document(source="x", data={"lora_r": 8, "lora_target_modules": ["q_proj"]})), "")
    {'training.lora': {'rank': 8, 'targets': ['q_proj']}}
    """
    settings: dict[str, Any] = {}
    rank = ledger.integer(f"{at}lora_rank", least=1) or ledger.integer(f"{at}lora_r", least=1)
    given = [flag for name in _ADAPTED if (flag := ledger.flag(f"{at}{name}")) is not None]
    wanted = given[0] if given else None
    targets = ledger.names(f"{at}lora_target_modules") or ledger.names(f"{at}lora_target")
    if rank is None and wanted:
        rank = LORA_RANK
        ledger.note(f"the rank of the adapters is not given: {LORA_RANK}, TRL's default")
    if rank is not None and wanted is not False:
        settings["training.lora"] = {"rank": rank, **adapter_targets(ledger, targets)}
    bits = ledger.integer(f"{at}quantization_bit") or _bits(ledger, at)
    if bits:
        quantized(ledger, bits)
        ledger.open["quantized_bits"] = str(bits)
    return settings


def adapter_targets(ledger: Ledger, targets: list[str]) -> dict[str, list[str]]:
    """Return the projections that get adapters, as a scenario names them; those it does not know are said."""
    if not targets or any(name.lower() in ("all", "all-linear", "all_linear") for name in targets):
        return {"targets": ["all-linear"]}
    known = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    aliases = {"output_proj": "o_proj", "w1": "gate_proj", "w3": "up_proj", "w2": "down_proj", "wq": "q_proj"}
    names = [aliases.get(name, name) for name in targets]
    other = [name for name in names if name not in known]
    if other:
        ledger.note(f"adapters on {', '.join(other)} are not simulated")
    return {"targets": [name for name in names if name in known] or ["all-linear"]}


def quantized(ledger: Ledger, bits: int) -> None:
    """Say what becomes of weights in fewer than 16 bits."""
    ledger.note(
        f"the {bits}-bit weights are simulated in 16 bits: {16 // bits} times their memory and traffic, and no time to "
        "unpack them"
    )


def _bits(ledger: Ledger, at: str) -> int | None:
    """Return the bits of bitsandbytes' weights, among the arguments or in ``model_init_kwargs``."""
    if ledger.flag(f"{at}q_lora"):  # lm-sys/FastChat, QwenLM/Qwen
        return 4
    for block in _QUANTIZED:
        for bits in (4, 8):
            if ledger.flag(f"{at}{block}load_in_{bits}bit"):
                return bits
    return None
