"""Options of kinds of data parallelism: those that no case uses are refused, never ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.draft import Draft
from simgpu.errors import Issue
from simgpu.parallel.data_parallel import STRATEGIES
from simgpu.parallel.data_parallel_options import FSDP_KINDS
from simgpu.parallel.strategy import Strategy

_ZERO: Final = tuple(name for name in STRATEGIES if name.startswith("zero"))
_BLOCKS: Final = {
    "ddp": ("ddp",),
    "zero": _ZERO,
    "fsdp": FSDP_KINDS,
    "distributed_optimizer": ("distributed_optimizer",),
}
_STAGE3: Final = (
    "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold", "stage3_max_live_parameters",
    "zero_quantized_weights", "zero_quantized_gradients", "zero_hpz_partition_size",
)  # fmt: skip
_FIELDS: Final = {
    # Stage 3 updates only the shard it holds; the next forward gathers it.
    **{("zero", name): ("zero1", "zero2") for name in ("allgather_bucket_size", "use_multi_rank_bucket_allreduce")},
    **{("zero", name): ("zero3",) for name in _STAGE3},
    ("fsdp", "backward_prefetch"): ("fsdp1",),
    ("fsdp", "limit_all_gathers"): ("fsdp1",),
    ("fsdp", "shard_size"): ("hsdp",),
}


def unused_options(drafts: Sequence[Draft], strategies: Sequence[Strategy]) -> list[Issue]:
    """Return an issue for each option that is given and that no case uses.

    A case may leave options unused that another case of the same scenario uses.

    Parameters
    ----------
    drafts : sequence of Draft
        One per case.
    strategies : sequence of Strategy
        Likewise.

    Returns
    -------
    list of Issue

    Examples
    --------
    >>> draft = Draft(data={"zero": {"overlap_comm": True}}, source="s.yaml")
    >>> print(unused_options([draft], [Strategy(dp=2, data_parallel="ddp")])[0].problem)
    has no effect: no case uses data_parallel zero1, zero2 or zero3
    """
    used = {strategy.data_parallel for strategy in strategies}
    issues: dict[tuple[str, str], Issue] = {}
    for draft in drafts:
        for block, kinds in _BLOCKS.items():
            for name in draft.data.get(block) or ():
                path = (block, name)
                users = _FIELDS.get(path, kinds)
                if path not in issues and not used.intersection(users):
                    problem = f"has no effect: no case uses data_parallel {_either(users)}"
                    fix = f"leave it out, or set parallel.data_parallel to {_either(users)}"
                    issues[path] = draft.issue(path, problem, value=draft.get(path), fix=fix)
    return list(issues.values())


def _either(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" or {names[-1]}" if len(names) > 1 else names[0]
