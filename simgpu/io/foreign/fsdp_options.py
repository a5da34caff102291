"""PyTorch FSDP's options as Accelerate, Transformers, Axolotl and others spell them.

Accelerate prefixes them with ``fsdp_``, Transformers' ``fsdp_config`` does not; either is read. Defaults:
huggingface/accelerate ``src/accelerate/utils/dataclasses.py``, ``FullyShardedDataParallelPlugin``, which fetches
nothing ahead in backward unless told to.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.reading import Reading

KIND: Final = "fsdp-config"
FILE: Final = "fsdp_config_file"
"""Key in ``open`` of a file of options that Trainer's ``--fsdp_config`` names."""
SWIFT_VERSION: Final = 2
"""Default of ``fsdp_version`` in ms-swift: swift/arguments/sft_args.py, _init_fsdp."""
CHECKPOINTING: Final = "fsdp.activation_checkpointing"
"""Field of a reading, and of no scenario: FSDP recomputes blocks by itself, beside what Trainer's own argument does."""
_READ: Final = (
    "version", "sharding_strategy", "reshard_after_forward", "backward_prefetch", "backward_prefetch_policy",
    "forward_prefetch", "limit_all_gathers", "offload_params", "cpu_offload", "activation_checkpointing",
    "auto_wrap_policy", "ignored_modules",
)  # fmt: skip
_STRATEGIES: Final = {
    "full_shard": ("fsdp1", True), "shard_grad_op": ("fsdp1", False), "no_shard": ("ddp", False),
    "hybrid_shard": ("hsdp", True), "hybrid_shard_zero2": ("hsdp", False),
    "1": ("fsdp1", True), "2": ("fsdp1", False), "3": ("ddp", False), "4": ("hsdp", True), "5": ("hsdp", False),
}  # fmt: skip
_ONLY_FIRST: Final = ("hybrid_shard", "no_shard")
"""huggingface/transformers src/transformers/training_args.py, _apply_legacy_fsdp_to_config."""
_PREFETCH: Final = {
    "backward_pre": "backward_pre", "backward_post": "backward_post", "no_prefetch": "no_prefetch",
    "none": "no_prefetch",
}  # fmt: skip
_BY_SIZE: Final = "units by size are not simulated: one unit per transformer block is"
_WRAPS: Final = {
    "transformer_based_wrap": "", "transformer": "", "auto_wrap": "",
    "size_based_wrap": _BY_SIZE,
    "no_wrap": "",
}  # fmt: skip
IDLE: Final = (
    "cpu_ram_efficient_loading", "state_dict_type", "sync_module_states", "use_orig_params",
    "transformer_layer_cls_to_wrap", "transformer_layer_cls", "min_num_params", "xla", "xla_fsdp_settings",
    "xla_fsdp_v2", "xla_fsdp_grad_ckpt", "cpu_offload_pin_memory",
    "activation_checkpointing_reentrant", "final_state_dict_type", "sync_module_state",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    """Return whether a file holds FSDP's options and nothing else.

    Examples
    --------
    >>> recognise(Path("fsdp2.json"), '{"_note": "", "fsdp": "full_shard", "fsdp_config": {"fsdp_version": 2}}')
    True
    >>> recognise(Path("fsdp.json"), '{"fsdp_version": 2, "reshard_after_forward": false}')
    True
    >>> recognise(Path("ds.json"), '{"zero_optimization": {}}'), recognise(Path("x.json"), "{}")
    (False, False)
    """
    data = mapping_of(text) or {}
    names = [key.removeprefix("fsdp_") for key in data]
    return _of_swift(data) or (bool(names) and all(name in _READ or name in IDLE for name in names))


def read_fsdp_file(path: Path) -> Reading:
    """Read a file of options, for the arguments that name it.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading
        Without settings: which sharding the options are for, Trainer's ``--fsdp`` says. In a file of ms-swift, for
        its ``--fsdp FILE``, both stand together (modelscope/ms-swift swift/config/fsdp2.json), and are the settings.

    Raises
    ------
    ScenarioError
    """
    document = read_document(path)
    data = deepcopy(document.data)
    if not _of_swift(data):
        return Reading(source=path.name, kind=KIND, settings={}, used=tuple(data), options=data)
    ledger = Ledger(document)
    settings = asked_fsdp(ledger, version=SWIFT_VERSION)
    ledger.idle(*(key for key in data if key.startswith("_")))
    return replace(ledger.reading(KIND, settings), options=data)


def _of_swift(data: Mapping[str, Any]) -> bool:
    told = [key for key in data if not key.startswith("_")]
    return isinstance(data.get("fsdp_config"), Mapping) and set(told) <= {"fsdp", "fsdp_config"}


def asked_fsdp(ledger: Ledger, at: str = "", *, version: int | None = None) -> dict[str, Any]:
    """Read Trainer's ``fsdp`` and ``fsdp_config``.

    Parameters
    ----------
    ledger : Ledger
        Gets the name of a file of options in ``open``.
    at : str
        In front of both keys.
    version : int, optional
        Where the options do not say it.

    Returns
    -------
    dict
        Nothing where FSDP is not asked for.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"fsdp": "full_shard auto_wrap offload"}
    >>> fields = asked_fsdp(Ledger(Document(source="x", data=data)))
    >>> fields["parallel.data_parallel"], fields["fsdp.cpu_offload"]
    ('fsdp1', True)
    """
    asked = ledger.get(f"{at}fsdp")
    words = " ".join(map(str, asked)).split() if isinstance(asked, list) else str(asked or "").replace(",", " ").split()
    words = [word.lower() for word in words if word.lower() not in ("false", "none", "no")]
    block = f"{at}fsdp_config"
    inline = isinstance(ledger.raw(block), dict)
    if not inline and words and (named := ledger.text(block)) is not None:
        ledger.open[FILE] = named
    if not words and not inline:
        return {}
    strategy = next(
        (word for word in words if word in ("full_shard", "shard_grad_op", "hybrid_shard", "no_shard")), None
    )
    given = ledger.integer(f"{at}fsdp_version", least=1) or version
    if given is None and "true" in words:
        given = 2  # ``fsdp`` as a truth value came with Transformers 5, whose default it is
    settings = read_fsdp(ledger, block, version=given, strategy=strategy)
    by_size(ledger, f"{at}fsdp_min_num_params")
    if "offload" in words:
        settings["fsdp.cpu_offload"] = True
    if strategy and not {"auto_wrap", "true"}.intersection(words) and not _wrapping_classes(ledger, block):
        settings["fsdp.auto_wrap_policy"] = "no_wrap"  # what Accelerate does unless it is told a policy
    return {key: value for key, value in settings.items() if value is not None}


def _wrapping_classes(ledger: Ledger, block: str) -> bool:
    data = ledger.raw(block)
    return isinstance(data, dict) and any("wrap" in str(key) for key in data)


def read_fsdp(
    ledger: Ledger, block: str, *, version: int | None = None, strategy: str | None = None, launched: bool = False
) -> dict[str, Any]:
    """Read a block of FSDP options.

    Parameters
    ----------
    ledger : Ledger
    block : str
        Its dotted key.
    version : int, optional
        1 or 2 where it is given elsewhere; 1 when nobody says.
    strategy : str, optional
        The sharding strategy where it is given elsewhere.
    launched : bool
        Whether Accelerate's launcher hands the options on.

    Returns
    -------
    dict
        Scenario fields. ``hsdp`` stands for sharding within a node, however many nodes there are;
        `CHECKPOINTING` for recomputation that FSDP asks for.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"fsdp_config": {"fsdp_version": 2, "fsdp_offload_params": True, "reshard_after_forward": False}}
    >>> fields = read_fsdp(Ledger(Document(source="x.yaml", data=data)), "fsdp_config")
    >>> fields["parallel.data_parallel"], fields["fsdp.cpu_offload"], fields["fsdp.reshard_after_forward"]
    ('fsdp', True, False)
    """

    def spelled(name: str) -> str:
        data = ledger.raw(block)
        keys = data if isinstance(data, dict) else {}
        prefixed = any(key.startswith("fsdp_") for key in keys) and name not in keys
        forms = (f"{block}.{name}", f"{block}.fsdp_{name}")
        for form in forms:
            ledger.raw(form)  # either may be what a misspelt one means
        return forms[prefixed]

    version = ledger.integer(spelled("version"), least=1) or version or 1
    if version == 2 and strategy in _ONLY_FIRST:
        problem = f"Trainer: `fsdp={strategy}` is only available with FSDP1"
        ledger.refuse(spelled("version"), problem, fix="set the version to 1, or take full_shard or shard_grad_op")
    kind, whole = ("fsdp1" if version == 1 else "fsdp"), True
    word = ledger.text(spelled("sharding_strategy"))
    reshard = ledger.text(spelled("reshard_after_forward"))
    if launched:
        word, reshard = _handed_on(ledger, (spelled("sharding_strategy"), spelled("reshard_after_forward")), version)
    if reshard is not None and reshard.lower() in _STRATEGIES:  # newer name of the strategy
        word, reshard = word or reshard, None
    word = word or strategy
    if word is not None:
        named = word.lower().rsplit(".", 1)[-1].removeprefix("_")  # as PyTorch writes _HYBRID_SHARD_ZERO2
        if named not in _STRATEGIES:
            ledger.refuse(
                spelled("sharding_strategy"), "is no sharding strategy", allowed="FULL_SHARD, HYBRID_SHARD, ..."
            )
        kind, whole = _STRATEGIES[named]
        kind = "fsdp" if version == 2 and kind == "fsdp1" else kind
        if kind == "ddp":
            ledger.note(
                f"{spelled('sharding_strategy')}: NO_SHARD is simulated as DDP, which reduces the same gradients"
            )
    if reshard is not None:
        whole = bool(ledger.flag(spelled("reshard_after_forward")))
    settings: dict[str, Any] = {"parallel.data_parallel": kind}
    prefetch = ledger.choice(spelled("backward_prefetch"), _PREFETCH) or ledger.choice(
        spelled("backward_prefetch_policy"), _PREFETCH
    )
    settings["fsdp.forward_prefetch"] = ledger.flag(spelled("forward_prefetch"))
    settings["fsdp.limit_all_gathers"] = ledger.flag(spelled("limit_all_gathers"))
    offload = next((name for name in ("offload_params", "cpu_offload") if ledger.flag(spelled(name))), None)
    if kind == "ddp" and offload is not None:
        problem = "keeps whole weights on the CPU beside NO_SHARD, which is not simulated"
        ledger.refuse(spelled(offload), problem, fix="shard them (FULL_SHARD), or leave the offload out")
    if kind != "ddp":
        settings["fsdp.reshard_after_forward"] = whole
        settings["fsdp.backward_prefetch"] = prefetch or "no_prefetch"
        settings["fsdp.no_sync"] = True  # Accelerator.accumulate and Trainer wrap all micro-batches but the last in it
        settings["fsdp.cpu_offload"] = True if offload is not None else None
    if ledger.flag(spelled("activation_checkpointing")):
        settings[CHECKPOINTING] = True
    if ledger.get(spelled("ignored_modules")):
        ledger.note(f"{spelled('ignored_modules')} is not simulated: all modules are sharded")
    wrap = ledger.text(spelled("auto_wrap_policy"))
    if wrap is not None and wrap.lower() == "no_wrap" and kind != "ddp":
        settings["fsdp.auto_wrap_policy"] = "no_wrap"
    if wrap is not None and _WRAPS.get(wrap.lower()):
        ledger.note(f"{spelled('auto_wrap_policy')}: {wrap}: {_WRAPS[wrap.lower()]}")
    elif wrap is None and kind != "ddp":
        by_size(ledger, spelled("min_num_params"))
    ledger.idle(*(spelled(name) for name in IDLE))
    ledger.idle(*(f"{block}.{name}" for name in IDLE))
    return settings


def by_size(ledger: Ledger, key: str) -> None:
    """Note that units are formed by size, where a key sets the least number of their parameters."""
    least = ledger.number(key)
    if least:
        ledger.note(f"{key}: {least:.0f}: {_BY_SIZE}")


def _handed_on(ledger: Ledger, keys: tuple[str, str], version: int) -> tuple[str | None, str | None]:
    """Return the strategy and the resharding that Accelerate's plugin takes of those which its launcher hands it.

    huggingface/accelerate src/accelerate/utils/launch.py sets both variables, each with its default, and
    FullyShardedDataParallelPlugin (utils/dataclasses.py) looks at the first with FSDP 1 and at the second with FSDP 2.
    """
    word, reshard = (ledger.text(key) for key in keys)
    if version == 1:
        if reshard is not None and word is None and reshard.lower() not in ("full_shard", "1", "true"):
            ledger.note(
                f"{keys[1]}: {reshard} has no effect with FSDP 1: Accelerate takes fsdp_sharding_strategy, which is "
                "FULL_SHARD unless it is given"
            )
        return word or "full_shard", None
    if word is not None and word.lower() not in ("full_shard", "1"):
        ledger.note(
            f"{keys[0]}: {word} has no effect with FSDP 2: Accelerate takes fsdp_reshard_after_forward, which is true "
            "unless it is given"
        )
    if reshard is not None and reshard.lower() in _STRATEGIES:
        ledger.refuse(keys[1], "Accelerate takes a truth value with FSDP 2", allowed="true, false")
    return None, reshard
