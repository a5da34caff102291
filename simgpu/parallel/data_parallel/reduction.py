"""A reduction of gradients: the collectives that it is made of, and the copies around them."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.parallel.data_parallel.shard_group import DP, ShardKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One collective of a reduction; ``bytes`` is the payload of the whole collective.

    ``copy_bytes`` is memory traffic on the collective's own stream before it (averaging, quantisation), by ``copies``
    kernels.
    """

    kind: str
    bytes: int
    communicator: str = DP
    copy_bytes: int = 0
    copies: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A gradient reduction that may start when the gradient ``parameter`` of ``unit`` is ready.

    ``copy_bytes`` is the memory traffic to flatten gradients into the buffer first, or to average them (``copied`` says
    which), and ``copy_back_bytes`` that to bring the result back, both on the compute stream; ``add_bytes`` that to add
    the reduced shard to the kept gradients, on the last hop's stream. ``group`` is the key of the ShardGroup whose
    unsharded gradients it ends, where there is one; ``kept_elements`` are those of this rank's part of the result,
    where that is split. ``copies`` says how many gradients are flattened one by one, each by a kernel that its hook
    issues. ``flat_bytes`` is the memory of a copy that is made to be sent, and lives until the reduction ends.
    """

    hops: tuple[Hop, ...]
    unit: int
    parameter: str
    copy_bytes: int = 0
    copy_back_bytes: int = 0
    add_bytes: int = 0
    what: str = "gradients"
    group: ShardKey | None = None
    kept_elements: int = 0
    copies: int = 1
    copied: str = "flatten gradients"
    flat_bytes: int = 0

    @property
    def kind(self) -> str:
        return self.hops[0].kind

    @property
    def bytes(self) -> int:
        return self.hops[0].bytes
