"""Weights that ranks share out among each other: what is gathered together, and how far ahead of its use."""

from __future__ import annotations

from dataclasses import dataclass

DP, SHARD, REPLICATE = "dp", "dp_shard", "dp_replicate"
"""Communicators: all replicas; those of one sub-group that shares a copy of the states; one of each sub-group."""
COPIES = "dp_copies"
"""Stream of copies around reductions, where that is neither the compute stream nor a communicator's."""


ShardKey = tuple[int, str]
"""A ShardGroup, by its first unit and the communicator over which its weights are gathered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """An all-gather of sharded weights.

    Parameters
    ----------
    bytes : int
        Payload of the whole collective.
    communicator : str
    copy_in_bytes, copy_out_bytes : int
        Memory traffic to bring this rank's shard into the gather's buffer (a cast or a quantisation), beside the
        transfers, and to spread the result into weights, on the compute stream.
    """

    bytes: int
    communicator: str = DP
    copy_in_bytes: int = 0
    copy_out_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardGroup:
    """Units whose weights are gathered together before use and dropped after it.

    Parameters
    ----------
    units : tuple of int
    elements : int
    bytes : int
        Memory of the weights while they are whole.
    shard_elements : int
        Weights of the group that one rank stores.
    gather : Gather
    regather : Gather or None
        What backward does instead (ZeRO++ keeps a second copy within a node).
    gradient_bytes : int
        Unsharded gradients that live from backward to the end of their reduction.
    reshard : bool
        The weights are dropped between forward and backward.
    backward : bool
        Backward enters one of the units.
    hooked : int
        Modules whose weights are fetched and released by hooks of their own, in Python.
    """

    units: tuple[int, ...]
    elements: int
    bytes: int
    shard_elements: int
    gather: Gather
    regather: Gather | None = None
    gradient_bytes: int = 0
    reshard: bool = True
    backward: bool = True
    hooked: int = 0

    @property
    def key(self) -> ShardKey:
        """What tells it from other groups of a stage."""
        return self.units[0], self.gather.communicator


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """When gathers are asked for ahead of their use, and what holds them back.

    Parameters
    ----------
    forward : bool
        The CPU asks for following groups before it issues this one's forward; otherwise for each when its turn comes.
    backward : str
        ``pre``: before it issues this one's backward; ``post``: after it, before its reduction; ``none``: in turn.
    ahead_elements : int
        Groups are fetched until at least so many elements are ahead of their use: 1 is one group.
    live_elements : int or None
        Nothing is fetched ahead when more than this would be whole.
    hold : str
        What a gather waits for on the GPU: ``compute``, all that was issued before; ``copies``, FSDP 2: the last
        gathered group's copy-out (in forward the one before it, whose buffer is used again); ``freed``, FSDP 1's
        limiter: the CPU waits until the second last group was dropped; ``none``.
    late : frozenset of int
        Units that ask for the next group after their backward where others ask before it.
    """

    forward: bool = False
    backward: str = "none"
    ahead_elements: int = 1
    live_elements: int | None = None
    hold: str = "compute"
    late: frozenset[int] = frozenset()
