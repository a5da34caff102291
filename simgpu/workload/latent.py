"""The sizes of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from simgpu.errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Queries, keys and values through narrow latent vectors; positions in a separate part of each head.

    Parameters
    ----------
    kv_rank : int
        Width of the latent vector that keys and values are made from.
    query_rank : int or None
        The same for queries; None when they are projected at once (DeepSeek-V2-Lite).
    nope_dim, rope_dim : int
        Widths of a query or key head without and with rotary positions; the rotary key is one for all heads.
    value_dim : int
        Width of a value head.

    Raises
    ------
    ModelError
        Names every number that cannot be.

    Examples
    --------
    >>> LatentAttention(kv_rank=512, query_rank=1536, nope_dim=128, rope_dim=64, value_dim=128).head_dim
    192
    """

    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    query_rank: int | None = None

    def __post_init__(self) -> None:
        problems = [
            f"latent.{field.name} = {value!r} must be a whole number of at least 1"
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
            and (not isinstance(value, int) or isinstance(value, bool) or value < 1)
        ]
        if problems:
            raise ModelError("\n".join(problems))

    @property
    def head_dim(self) -> int:
        """Width of a query or key head."""
        return self.nope_dim + self.rope_dim

    def matmul_parameters(self, hidden: int, heads: int) -> int:
        """Return the weights of all projections, the output's included, for a model of that width.

        Examples
        --------
        >>> LatentAttention(kv_rank=2, nope_dim=1, rope_dim=1, value_dim=1).matmul_parameters(10, 3)
        132
        """
        rank = self.query_rank
        query = hidden * heads * self.head_dim if rank is None else rank * (hidden + heads * self.head_dim)
        key_value = hidden * (self.kv_rank + self.rope_dim) + self.kv_rank * heads * (self.nope_dim + self.value_dim)
        return query + key_value + heads * self.value_dim * hidden

    @property
    def norm_parameters(self) -> int:
        """Weights of the RMSNorms over the latent vectors."""
        return self.kv_rank + (self.query_rank or 0)
