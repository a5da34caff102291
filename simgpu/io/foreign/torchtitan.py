"""torchtitan's job configurations in TOML, of 2024 (``[experimental]``) and of 2025 (``[parallelism]``).

Names and defaults: pytorch/torchtitan torchtitan/config/job_config.py; what they do: torchtitan/distributed and
models/llama3/infra/parallelize.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simgpu.hardware.table import read_table
from simgpu.io.foreign.accelerate import ROTATE_METHODS
from simgpu.io.foreign.degrees import Degrees
from simgpu.io.foreign.dimensions import dimensions
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.selected_layers import model_layers
from simgpu.io.foreign.toml_text import is_toml, parse_toml
from simgpu.io.foreign.torchtitan_formats import format_settings, is_compiled
from simgpu.io.foreign.torchtitan_keys import IDLE, NOT_SIMULATED
from simgpu.io.foreign.torchtitan_pipeline import batch_settings, schedule_settings, steps_of
from simgpu.io.foreign.torchtitan_recompute import recompute_settings
from simgpu.io.text_file import read_text

KIND: Final = "torchtitan"
_DEGREES: Final = ("data_parallel_shard_degree", "tensor_parallel_degree", "data_parallel_replicate_degree")
_OPTIMIZERS: Final = ("Adam", "AdamW")
_FOLDED: Final = ("zbv", "dualpipev")
DDP_BUCKET_MIB: Final = 100  # models/llama3/infra/parallelize.py, apply_ddp


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a text is a job of torchtitan.

    Examples
    --------
    >>> recognise(Path("llama3_8b.toml"), "[parallelism]\ntensor_parallel_degree = 1")
    True
    """
    return path.suffix.lower() == ".toml" and (any(name in text for name in (*_DEGREES, "flavor")) or not is_toml(text))


def read_torchtitan(path: Path) -> Reading:
    r"""Read a job.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading
        The batch is per data-parallel rank, as torchtitan has it.

    Raises
    ------
    ScenarioError
        When it is no TOML, or asks for what is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "job.toml"
    ...     _ = path.write_text("[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 4\n"
    ...                         "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'GPipe'")
    ...     reading = read_torchtitan(path)
    >>> [reading.settings[f] for f in ("model", "training.micro_batch_size", "training.gradient_accumulation")]
    ['llama-3-8b', 1, 4]
    """
    return read_job(Document(source=path.name, data=parse_toml(read_text(path, str(path)), path.name)))


def read_job(document: Document) -> Reading:
    """Read the options of a job.

    Parameters
    ----------
    document : Document
        Tables of options; the reading keeps them.

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        When they ask for what is not simulated.

    Examples
    --------
    >>> job = read_job(Document(source="j.toml", data={"parallelism": {"tensor_parallel_degree": "2"}}))
    >>> job.settings["parallel.sequence_parallel"]
    True
    """
    ledger = Ledger(document)
    block = "parallelism" if "parallelism" in ledger.data else "training"
    pipes = "parallelism" if "parallelism" in ledger.data else "experimental"
    tp = ledger.integer(f"{block}.tensor_parallel_degree", least=1) or 1
    pp = ledger.integer(f"{pipes}.pipeline_parallel_degree", least=1) or 1
    cp = ledger.integer(f"{pipes}.context_parallel_degree", least=1) or 1
    model = _model(ledger)
    layers = model_layers(model)
    compiled = is_compiled(ledger)
    settings: dict[str, Any] = {
        "model": model,
        "training.sequence_length": ledger.integer("training.seq_len", least=1) or 2048,
        "training.optimizer": _optimizer(ledger),
        "training.dropout": 0.0,
        "parallel.tp": tp,
        "parallel.pp": pp,
        "parallel.cp": cp,
        "parallel.sequence_parallel": tp > 1,
        "parallel.ep": ledger.integer(f"{block}.expert_parallel_degree", least=1),
    }
    expert_tp = ledger.integer(f"{block}.expert_tensor_parallel_degree", least=1)
    settings["parallel.expert_tp"] = expert_tp if expert_tp is not None and expert_tp != tp else None
    if cp > 1:
        rotate = ledger.choice(f"{pipes}.context_parallel_rotate_method", ROTATE_METHODS) or "all_gather"
        settings["parallel.cp_comm_type"] = rotate
        balancer = ledger.text(f"{pipes}.context_parallel_load_balancer")
        if balancer not in (None, "headtail"):
            ledger.note(f"context_parallel_load_balancer {balancer}: ranks have equal shares of attention here")
    if ledger.flag(f"{block}.enable_async_tensor_parallel") or ledger.flag("experimental.enable_async_tensor_parallel"):
        if compiled and tp > 1:
            settings["parallel.tp_overlap"] = True
            ledger.note(
                "enable_async_tensor_parallel: chunks beside the matrix products, as Transformer Engine cuts them"
            )
        else:
            ledger.note(
                "enable_async_tensor_parallel has no effect: torchtitan needs compile and tensor parallelism for it"
            )
    norm = ledger.text("model.norm_type") or ""  # of 2024
    if norm.endswith("layernorm"):
        settings["model.norm"] = "layernorm"
    elif norm.startswith("fused") and not compiled:
        ledger.note(f"model.norm_type {norm} is not simulated: norms are kernels op by op")
    settings |= batch_settings(ledger, pp, pipes)
    settings |= schedule_settings(ledger, pipes, pp, layers)
    settings |= _replicas(ledger, block, pp)
    if settings["parallel.data_parallel"] == "ddp" and settings.get("parallel.pipeline_microbatches") is not None:
        ledger.note("DDP reduces gradients in every run of the pipeline there, and in the last run of a step here")
    settings |= recompute_settings(
        ledger, _placed(settings, layers, pp), pp, settings.get("parallel.schedule") in _FOLDED
    )
    settings |= format_settings(ledger, compiled, experts=_has_experts(model))
    _left_out(ledger, pipes)
    ledger.idle(*IDLE)
    dp = settings.get("parallel.dp")
    if dp is None:
        return replace(ledger.reading(KIND, settings), options=document.data)
    settings |= steps_of(ledger, settings, dp)
    inner = {f"{block}.tensor_parallel_degree": tp, f"{pipes}.pipeline_parallel_degree": pp}
    degrees = _degrees(ledger, block, dp, {**inner, f"{pipes}.context_parallel_degree": cp})
    return replace(ledger.reading(KIND, settings, gpus=degrees.ranks), degrees=degrees, options=document.data)


def _degrees(ledger: Ledger, block: str, dp: int, inner: Mapping[str, int]) -> Degrees:
    """Return all degrees, which multiply to the ranks (distributed/parallel_dims.py)."""
    replicate = ledger.integer(f"{block}.data_parallel_replicate_degree") or 1
    of_2024 = ledger.raw(f"{block}.data_parallel_shard_degree") is None
    shard = "data_parallel_degree" if of_2024 else "data_parallel_shard_degree"
    outer = {f"{block}.data_parallel_replicate_degree": replicate, f"{block}.{shard}": dp // replicate}
    return Degrees(source=ledger.source, framework=KIND, sizes={**outer, **inner})


def _model(ledger: Ledger) -> dict[str, Any] | str | None:
    name, flavor = ledger.text("model.name"), ledger.text("model.flavor")
    if name is None or flavor is None:
        return None
    if name.startswith("flux"):
        ledger.refuse("model.name", "is a diffusion model, which is not simulated")
    for known, size, model in flavors():
        if (known, size.lower()) == (name, flavor.lower()):
            if isinstance(model, dict) and isinstance(model.get("dense_layers"), list):
                ledger.note(f"model {name} {flavor}: attention is over the whole sequence in every layer")
            return model
    return f"{name} {flavor}"


def flavors() -> Iterator[tuple[str, str, dict[str, Any] | str]]:
    """Yield torchtitan's models: name, flavor, and what a scenario calls it, a bundled name or dimensions.

    Examples
    --------
    >>> next(flavors())
    ('llama2', '7B', 'llama-2-7b')
    """
    for row in read_table("torchtitan_models.csv"):
        if "=" not in row["model"]:
            yield row["name"], row["flavor"], row["model"]
            continue
        sizes = dimensions(row["model"])
        every = sizes.pop("dense_every", None)
        if every is not None:
            sizes["dense_layers"] = [layer for layer in range(sizes["layers"]) if (layer + 1) % every]
        yield row["name"], row["flavor"], sizes


def _optimizer(ledger: Ledger) -> str:
    name = ledger.text("optimizer.name") or _OPTIMIZERS[1]
    if name.lower() not in (known.lower() for known in _OPTIMIZERS):
        ledger.refuse("optimizer.name", "is not known here", allowed=", ".join(_OPTIMIZERS))
    return str(optimizer(name, ledger, "optimizer.name")["training.optimizer"])


def _has_experts(model: dict[str, Any] | str | None) -> bool:
    """Return whether a model may have experts: one of nobody's may."""
    from simgpu.workload.bundled import bundled_model, bundled_models

    if isinstance(model, dict):
        return "experts" in model
    return model not in bundled_models() or getattr(bundled_model(str(model)), "experts", None) is not None


def _placed(settings: dict[str, Any], layers: int | None, pp: int) -> Sequence[int] | None:
    """Return the layers of each stage, where they are known."""
    stages = pp * settings.get("parallel.virtual_stages", 1)
    equal = None if layers is None else [layers // stages] * stages
    placed: Sequence[int] | None = settings.get("parallel.layers_per_stage", equal)
    return placed


def _left_out(ledger: Ledger, pipes: str) -> None:
    """Note options that would change the step and are not simulated, and refuse a run without GPUs."""
    for key, instead in NOT_SIMULATED.items():
        if ledger.flag(key):
            ledger.note(f"{key} is not simulated: {instead}")
    method = ledger.text("fault_tolerance.semi_sync_method")
    if method is not None and ledger.flag("fault_tolerance.enable"):
        ledger.note(f"fault_tolerance.semi_sync_method {method}: gradients are reduced in every step here")
    mode = ledger.text("comm.mode")
    if mode not in (None, "default"):
        ledger.refuse("comm.mode", "runs no job on GPUs", allowed="default")
    backend = ledger.text("parallelism.expert_parallel_comm_backend")
    if backend not in (None, "standard"):
        ledger.note(f"parallelism.expert_parallel_comm_backend {backend}: tokens go by NCCL's all-to-all here")
    overlap, schedule = "parallelism.pipeline_parallel_expert_parallel_overlap", f"{pipes}.pipeline_parallel_schedule"
    if ledger.flag(overlap) and ledger.raw(schedule) == "DualPipeV":
        ledger.note(f"{overlap} is not simulated: tokens travel between the computations of one micro-batch")


def _replicas(ledger: Ledger, block: str, pp: int) -> dict[str, Any]:
    replicate = ledger.integer(f"{block}.data_parallel_replicate_degree", least=1) or 1
    shard = ledger.integer(f"{block}.data_parallel_shard_degree", least=-1)
    if shard is None:
        shard = ledger.integer(f"{block}.data_parallel_degree", least=-1)  # the name of 2024
    shard = -1 if shard is None else shard
    if ledger.flag("training.enable_cpu_offload"):
        offload: dict[str, Any] = {"fsdp.cpu_offload": True}
    else:
        offload = {}
    kind = (ledger.text("training.data_parallel_type") or "fsdp").lower()  # of early 2024, with one degree
    if kind not in ("fsdp", "ddp"):
        ledger.refuse("training.data_parallel_type", "is not known to torchtitan", allowed="fsdp, ddp")
    if kind == "ddp" and shard != 1:
        dp = None if shard < 0 else shard
        return {"parallel.data_parallel": "ddp", "ddp.bucket_cap_mb": DDP_BUCKET_MIB, "parallel.dp": dp}
    if shard == 1 and replicate > 1:
        return {"parallel.data_parallel": "ddp", "ddp.bucket_cap_mb": DDP_BUCKET_MIB, "parallel.dp": replicate}
    if shard == 1:
        return {"parallel.data_parallel": "none", "parallel.dp": 1}
    policy = ledger.text(f"{block}.fsdp_reshard_after_forward") or "default"
    if policy not in ("default", "always", "never"):
        ledger.refuse(f"{block}.fsdp_reshard_after_forward", "is not known", allowed="default, always, never")
    found: dict[str, Any] = {
        "parallel.data_parallel": "fsdp" if replicate == 1 else "hsdp",
        "parallel.dp": None if shard < 0 else shard * replicate,
        "fsdp.reshard_after_forward": policy == "always" or (policy == "default" and pp == 1),
        "fsdp.wrap_embedding_and_head": True,
        **offload,
    }
    if replicate > 1:
        if shard > 0:
            found["fsdp.shard_size"] = shard
        else:
            ledger.open["sharded_replicas"] = str(replicate)  # each has what they leave of the GPUs
    return found
