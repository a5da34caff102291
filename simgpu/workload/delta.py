"""The sizes of linear attention by the gated delta rule (Gated DeltaNet, arXiv 2412.06464; Qwen3-Next)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from simgpu.errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaAttention:
    """A state of ``key_dim x value_dim`` numbers per head takes the place of attention's keys and values.

    Parameters
    ----------
    key_heads, value_heads : int
        Heads of queries and keys, and of values; the former are repeated to the latter.
    key_dim, value_dim : int
        Widths of a head.
    taps : int
        Tokens under the causal convolution over queries, keys and values.

    Raises
    ------
    ModelError
        Names every number that cannot be.

    Examples
    --------
    >>> DeltaAttention(key_heads=16, value_heads=32, key_dim=128, value_dim=128).parameters(2048)
    33718464
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    taps: int = 4

    def __post_init__(self) -> None:
        problems = [
            f"delta.{field.name} = {value!r} must be a whole number of at least 1"
            for field in fields(self)
            if not isinstance(value := getattr(self, field.name), int) or isinstance(value, bool) or value < 1
        ]
        if not problems and self.value_heads % self.key_heads:
            problems.append(f"delta.value_heads = {self.value_heads} is no multiple of the {self.key_heads} key heads")
        if problems:
            raise ModelError("\n".join(problems))

    @property
    def mixed_width(self) -> int:
        """Channels of queries, keys and values, which the convolution passes over."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def value_width(self) -> int:
        """Channels of the values, of their gate and of the output."""
        return self.value_heads * self.value_dim

    @property
    def projected_width(self) -> int:
        """Outputs of the input projection: queries, keys, values, the output's gate, and two numbers per head."""
        return self.mixed_width + self.value_width + 2 * self.value_heads

    def matmul_parameters(self, hidden: int) -> int:
        """Return the weights of the projections.

        Examples
        --------
        >>> DeltaAttention(key_heads=1, value_heads=1, key_dim=2, value_dim=3).matmul_parameters(10)
        150
        """
        return hidden * (self.projected_width + self.value_width)

    def parameters(self, hidden: int) -> int:
        """Return all weights: projections, convolution, decay and step of each head, and the norm of a head."""
        own = self.mixed_width * self.taps + 2 * self.value_heads + self.value_dim
        return self.matmul_parameters(hidden) + own

    @property
    def flops(self) -> int:
        """Forward FLOPs per token that the rule itself needs: read, correct and update the state, 2 each."""
        return 6 * self.value_heads * self.key_dim * self.value_dim
