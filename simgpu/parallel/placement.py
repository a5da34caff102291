"""Which pipeline rank runs which stage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The map from global stages to pipeline ranks.

    Parameters
    ----------
    ranks : int
        Pipeline ranks p.
    rank_of_stage : tuple of int
        Rank of every stage, first stage first (PyTorch's stage_to_rank map).
    mirrored_from : int or None
        DualPipe: microbatches from this one on enter at the last rank, so that stage s of theirs runs on rank
        p - 1 - rank_of_stage[s]. None where every stage lives on one rank.
    run_microbatches : int or None
        Microbatches after which the same begins again; None where a step is one run of the pipeline.

    Examples
    --------
    >>> loop(2, 2).rank_of_stage, wave(2, 2).rank_of_stage
    ((0, 1, 0, 1), (0, 1, 1, 0))
    >>> wave(2, 2).stages_on(0)
    (0, 3)
    >>> both_ways(4, mirrored_from=5).rank(1, microbatch=7)
    2
    """

    ranks: int
    rank_of_stage: tuple[int, ...]
    mirrored_from: int | None = None
    run_microbatches: int | None = None

    @property
    def stages(self) -> int:
        """Number of global stages."""
        return len(self.rank_of_stage)

    def rank(self, stage: int, microbatch: int = 0) -> int:
        """Return the rank that runs a stage for a microbatch."""
        rank = self.rank_of_stage[stage]
        number = microbatch % self.run_microbatches if self.run_microbatches else microbatch
        mirrored = self.mirrored_from is not None and number >= self.mirrored_from
        return self.ranks - 1 - rank if mirrored else rank

    def stages_on(self, rank: int) -> tuple[int, ...]:
        """Return the stages whose weights a rank holds, in stage order."""
        homes = {rank} if self.mirrored_from is None else {rank, self.ranks - 1 - rank}
        return tuple(stage for stage, home in enumerate(self.rank_of_stage) if home in homes)


def loop(ranks: int, chunks: int = 1) -> Placement:
    """Place stage s on rank s mod p: every chunk runs from the first rank to the last.

    Parameters
    ----------
    ranks, chunks : int
        Pipeline ranks, and stages that each of them holds.

    Returns
    -------
    Placement

    References
    ----------
    D. Narayanan et al., arXiv 2104.04473.

    Examples
    --------
    >>> loop(3).rank_of_stage
    (0, 1, 2)
    """
    return Placement(ranks=ranks, rank_of_stage=tuple(stage % ranks for stage in range(ranks * chunks)))


def wave(ranks: int, chunks: int = 2) -> Placement:
    """Place every other chunk from the last rank back to the first; two chunks make a V, four a W.

    Parameters
    ----------
    ranks, chunks : int
        Pipeline ranks, and stages that each of them holds.

    Returns
    -------
    Placement

    References
    ----------
    P. Qi et al., arXiv 2405.15362 (V); Z. Liu et al., arXiv 2308.15762 (waves).

    Examples
    --------
    >>> wave(3, 4).rank_of_stage
    (0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0)
    """
    down = tuple(range(ranks))
    return Placement(
        ranks=ranks,
        rank_of_stage=tuple(rank for chunk in range(chunks) for rank in (down[::-1] if chunk % 2 else down)),
    )


def both_ways(ranks: int, *, mirrored_from: int) -> Placement:
    """Place stage s on rank s and, for the microbatches that run the other way, on rank p - 1 - s.

    Parameters
    ----------
    ranks : int
        Pipeline ranks; as many stages.
    mirrored_from : int
        First microbatch that enters at the last rank.

    Returns
    -------
    Placement

    References
    ----------
    DeepSeek-AI, arXiv 2412.19437.

    Examples
    --------
    >>> both_ways(4, mirrored_from=8).stages_on(0)
    (0, 3)
    """
    return Placement(ranks=ranks, rank_of_stage=tuple(range(ranks)), mirrored_from=mirrored_from)
