"""A Shard: what one tensor-parallel rank holds of each dimension of a model in training."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.dtypes import DType
from simgpu.errors import Issue, ScenarioError
from simgpu.workload.model import Model
from simgpu.workload.software import DEFAULT, PRESETS, Software
from simgpu.workload.split_check import split_issues
from simgpu.workload.splits import WHOLE, Splits
from simgpu.workload.training import Training

VOCABULARY_MULTIPLE = 128  # Megatron's make-vocab-size-divisible-by, times tp: NVIDIA/Megatron-LM arguments.py


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Sizes on one rank of a tensor-parallel group of ``tp``.

    Query heads, MLP width and the (padded) vocabulary are split. When there are fewer key/value heads than ranks,
    each rank holds one, the same as its neighbours'; that their gradients would be summed is left out.

    Parameters
    ----------
    model, training : Model, Training
    tp : int
        Tensor-parallel degree.
    sequence_parallel : bool
        Norms and residuals hold 1/tp of the tokens; no effect for tp = 1.
    cast_weights : bool
        Weights stored in another dtype than the arithmetic's are cast once per forward (autocast).
    software : Software
        Which ops are one kernel.
    gradient_buffers : bool
        Stored gradients live in buffers that a weight-gradient GEMM can add into (Megatron's ``main_grad``).
    gathered_weights : bool
        Weights are whole only while their unit runs (FSDP, ZeRO-3); fp8 copies of them cannot be kept.
    splits : Splits
        Context and expert parallelism, and whether exchanges are overlapped.

    Raises
    ------
    ScenarioError
        Lists everything that the degree does not divide and everything that is not modelled.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> shard = Shard(model=bundled_model("llama-3-8b"), tp=4, sequence_parallel=True,
    ...               training=Training(sequence_length=8192, micro_batch_size=1, accumulation=1))
    >>> shard.heads, shard.kv_heads, shard.ffn, shard.vocab, shard.tokens, shard.own_tokens
    (8, 2, 3584, 32128, 8192, 2048)
    """

    model: Model
    training: Training
    tp: int
    sequence_parallel: bool
    cast_weights: bool = False
    software: Software = DEFAULT
    gradient_buffers: bool = False
    gathered_weights: bool = False
    splits: Splits = WHOLE

    def __post_init__(self) -> None:
        issues = list(_issues(self))
        if issues:
            raise ScenarioError(issues)

    @property
    def element(self) -> int:
        """Bytes of one activation element, E."""
        return self.training.precision.bytes

    @property
    def dropout(self) -> bool:
        """True when hidden layers and attention drop out."""
        return self.training.dropout > 0

    @property
    def accumulate_bytes(self) -> int:
        """Bytes per element of the stored gradient that a weight-gradient GEMM adds into; 0 when it does not."""
        fused = self.gradient_buffers and self.software.fused_wgrad_accumulation
        return self.training.grad_dtype.bytes if fused else 0

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch on this rank's tensor-parallel group, T: 1/cp of every sequence."""
        return self.training.tokens // self.splits.cp

    @property
    def own_tokens(self) -> int:
        """Tokens of one micro-batch that norms and residuals see on this rank, T / q."""
        return self.tokens // self.tp if self.scattered else self.tokens

    @property
    def scattered(self) -> bool:
        """True when activations between the parallel regions are split over the group."""
        return self.sequence_parallel and self.tp > 1

    @property
    def overlapped(self) -> bool:
        """True when the exchanges of that run in chunks beside the GEMMs."""
        return self.scattered and self.splits.tp_overlap

    @property
    def heads(self) -> int:
        return self.model.heads // self.tp

    @property
    def kv_heads(self) -> int:
        return max(self.model.kv_heads // self.tp, 1)

    @property
    def qkv(self) -> int:
        """Outputs of this rank's query/key/value projection."""
        return (self.heads * (2 if self.model.output_gate else 1) + 2 * self.kv_heads) * self.model.head_dim

    @property
    def attended(self) -> int:
        """Width of this rank's attention output."""
        return self.heads * self.model.value_dim

    @property
    def ffn(self) -> int:
        return self.model.ffn // self.tp

    @property
    def up(self) -> int:
        """Outputs of this rank's up (and gate) projection."""
        return self.ffn * (2 if self.model.gated else 1)

    @property
    def vocab(self) -> int:
        """Rows of the embedding table on this rank; padded to a multiple of 128 tp when split."""
        if self.tp == 1:
            return self.model.vocab
        multiple = VOCABULARY_MULTIPLE * self.tp
        return -(-self.model.vocab // multiple) * VOCABULARY_MULTIPLE

    @property
    def stream_bytes(self) -> int:
        """Bytes of the residual stream of one micro-batch on this rank, E T h / q."""
        return self.element * self.own_tokens * self.model.hidden

    @property
    def whole_stream_bytes(self) -> int:
        """Bytes of the residual stream of one micro-batch, E T h: the payload of every exchange of it."""
        return self.element * self.tokens * self.model.hidden


def _issues(shard: Shard) -> list[Issue]:
    model, training, tp = shard.model, shard.training, shard.tp
    if tp < 1:
        return [Issue(field="parallel.tp", value=str(tp), problem="must be at least 1")]
    issues = list(
        split_issues(model, training, shard.software, shard.splits, tp=tp, sequence_parallel=shard.sequence_parallel)
    )
    if any(issue.field == "parallel.cp" and shard.splits.cp < 1 for issue in issues):
        return issues

    def indivisible(size: int, what: str) -> None:
        if size % tp:
            allowed = ", ".join(str(n) for n in range(1, min(size, 512) + 1) if size % n == 0)
            fix = f"choose a tp that divides {size}"
            problem = f"does not divide the {size} {what} of {model.name}"
            issues.append(Issue(field="parallel.tp", value=str(tp), problem=problem, allowed=allowed, fix=fix))

    indivisible(model.heads, "attention heads")
    if model.kv_heads % tp and tp % model.kv_heads:
        problem = f"neither divides the {model.kv_heads} key/value heads of {model.name} nor is a multiple of them"
        issues.append(Issue(field="parallel.tp", value=str(tp), problem=problem))
    indivisible(model.ffn, "MLP columns")
    if model.delta is not None:
        indivisible(model.delta.key_heads, "key heads of linear attention")
        if shard.splits.cp > 1:
            problem = f"is not modelled for the linear attention of {model.name}"
            issues.append(Issue(field="parallel.cp", value=str(shard.splits.cp), problem=problem, allowed="1"))
        if training.lora is not None:
            problem = f"is not modelled for {model.name}, whose layers are not all of attention"
            issues.append(Issue(field="training.lora", problem=problem, fix="leave it out"))
    if model.experts is not None and shard.splits.expert_tp != 1:
        indivisible(model.experts.ffn, "columns of an expert")
    length = training.sequence_length
    if shard.scattered and shard.tokens % tp:
        problem = f"the {shard.tokens} tokens of a micro-batch cannot be split over tp = {tp}"
        issues.append(Issue(field="parallel.sequence_parallel", value="true", problem=problem))
    limits: list[tuple[int | None, str]] = []
    if model.window_layers is None:
        limits.append((model.sliding_window, "is longer than the sliding attention window, which is not modelled"))
    elif shard.splits.cp > 1:
        problem = "is longer than the sliding attention window, which is not modelled with context parallelism"
        limits.append((model.sliding_window, problem))
    if model.positions == "learned":
        limits.append((model.max_positions, f"is longer than the position table of {model.name}"))
    issues += [
        Issue(field="training.sequence_length", value=str(length), problem=problem, allowed=f"at most {limit}")
        for limit, problem in limits
        if limit is not None and length > limit
    ]
    if training.fp8 and shard.software.fp8_scaling is None:
        able = ", ".join(name for name, software in PRESETS.items() if software.fp8_scaling)
        problem = f"the software generation {shard.software.name} has no fp8"
        fix = f"set software to one of {able}, or precision to bf16"
        issues.append(Issue(field="training.precision", value="fp8", problem=problem, fix=fix))
    if training.precision is DType.FP8:
        problem = "is no format of activations"
        issues.append(
            Issue(field="precision", value="fp8", problem=problem, allowed="bf16, fp16, tf32, fp32", fix="set fp8")
        )
    return issues
