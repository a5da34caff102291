"""One rank's share of a layer's experts and of the tokens that visit them."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.workload.experts import Experts
from simgpu.workload.shard import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertShare:
    """Experts of a rank, and rows (tokens times visits) that it sends and computes.

    Parameters
    ----------
    shard : Shard
    experts : Experts

    Notes
    -----
    With expert parallelism a rank routes its own tokens: T active rows, T / tp active under sequence parallelism. As
    many come in when all experts are visited alike. ``moe_imbalance`` i makes one expert's rows i times the mean m and
    leaves the others ``(count - i) / (count - 1)`` m each; the rank that holds it, with L experts, gets
    ``(i + (L - 1) (count - i) / (count - 1)) / L`` times its mean. Every exchange waits for that rank, so that its rows
    are those of all: time and memory are the busiest rank's.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.splits import Splits
    >>> from simgpu.workload.training import Training
    >>> model = bundled_model("mixtral-8x7b")
    >>> shard = Shard(model=model, tp=1, sequence_parallel=False, splits=Splits(ep=8),
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1, moe_imbalance=1.5))
    >>> share = ExpertShare(shard=shard, experts=model.experts)
    >>> share.count, share.routed, share.rows, share.busiest
    (1, 128, 192, 192)
    """

    shard: Shard
    experts: Experts

    @property
    def apart(self) -> bool:
        """Whether experts are laid out in another way than the rest of the model, so that tokens travel to them."""
        return self.shard.splits.ep > 1 or self.tp != self.shard.tp

    @property
    def tp(self) -> int:
        """Ranks over which the columns of an expert are split."""
        given = self.shard.splits.expert_tp
        return self.shard.tp if given is None else given

    @property
    def count(self) -> int:
        """Experts on this rank."""
        return self.experts.count // self.shard.splits.ep

    @property
    def inner(self) -> int:
        """Columns of an expert on this rank."""
        return self.experts.ffn // self.tp

    @property
    def routed(self) -> int:
        """Rows that this rank's own tokens make."""
        return (self.shard.own_tokens if self.apart else self.shard.tokens) * self.experts.active

    @property
    def sent(self) -> int:
        """Rows that the busiest rank of the group receives from it."""
        return round(self.routed * self._busiest_share)

    @property
    def rows(self) -> int:
        """Rows that the experts of this rank compute, those of its tensor-parallel neighbours included."""
        return self.sent * self.tp if self.apart else self.routed

    @property
    def busiest(self) -> int:
        """Rows of the busiest expert."""
        mean = self.routed * (self.tp if self.apart else 1) / self.count
        return min(self.rows, round(mean * self.shard.training.moe_imbalance))

    @property
    def _busiest_share(self) -> float:
        imbalance, count = self.shard.training.moe_imbalance, self.experts.count
        if count == self.count:
            return 1.0
        others = (self.count - 1) * (count - imbalance) / (count - 1)
        return (imbalance + others) / self.count
