"""A decoder-only transformer: its dimensions, its parameters and its FLOPs per token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from simgpu.errors import ModelError

CHOICES = {
    "positions": ("rope", "learned"),
    "norm": ("rmsnorm", "layernorm"),
    "mlp": ("swiglu", "gelu", "relu"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Dimensions and features of one dense decoder-only transformer.

    Parameters
    ----------
    name, family : str
        What people call it, and whose layer layout it has (``llama``, ``gpt2``, ..., ``inline``).
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab : int
        Blocks, model width, query heads, key/value heads, width of one head, MLP width, vocabulary.
    positions : str
        ``rope``, or ``learned`` with a table of ``max_positions + position_offset`` rows (OPT adds 2).
    norm : str
        ``rmsnorm`` (one vector of weights) or ``layernorm`` (weights and biases).
    mlp : str
        ``swiglu`` (gate, up and down), ``gelu`` or ``relu`` (up and down).
    qkv_bias, output_bias, mlp_bias : bool
        Biases of the query/key/value projection, of the attention output, and of every MLP projection.
    qk_norm : bool
        RMSNorm over each query and key head before RoPE (Qwen3).
    parallel_residual : bool
        Attention and MLP read the same input and are summed (GPT-NeoX).
    tied_embeddings : bool
        The head multiplies with the embedding table.
    sliding_window : int or None, tokens
        Some layer attends to no more than this many tokens; sequences up to it are full attention.

    Raises
    ------
    ModelError
        Names every dimension that cannot be, all at once.

    Examples
    --------
    >>> tiny = Model(name="tiny", family="llama", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
    ...              vocab=1000)
    >>> tiny.block_parameters, tiny.parameters
    (36992, 202048)
    """

    name: str
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    positions: str = "rope"
    max_positions: int = 0
    position_offset: int = 0
    norm: str = "rmsnorm"
    mlp: str = "swiglu"
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    parallel_residual: bool = False
    tied_embeddings: bool = False
    sliding_window: int | None = None

    def __post_init__(self) -> None:
        problems = tuple(self._problems())
        if problems:
            raise ModelError("\n".join(f"model {self.name}: {problem}" for problem in problems))

    def _problems(self) -> Iterator[str]:
        bad = [
            f for f in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab") if not self._positive(f)
        ]
        yield from (f"{field} = {getattr(self, field)!r} must be a whole number of at least 1" for field in bad)
        for field, allowed in CHOICES.items():
            if getattr(self, field) not in allowed:
                yield f"{field} = {getattr(self, field)!r} is not known; allowed: {', '.join(allowed)}"
        flags = [f.name for f in fields(self) if f.type == "bool"]
        yield from (
            f"{flag} = {getattr(self, flag)!r} must be true or false"
            for flag in flags
            if not isinstance(getattr(self, flag), bool)
        )
        if not {"heads", "kv_heads"} & set(bad) and self.heads % self.kv_heads:
            yield f"heads = {self.heads} is not a multiple of kv_heads = {self.kv_heads}"
        if self.positions == "learned" and not self._positive("max_positions"):
            yield f"max_positions = {self.max_positions!r} must be at least 1 for learned positions"
        if not isinstance(self.position_offset, int) or self.position_offset < 0:
            yield f"position_offset = {self.position_offset!r} must be a whole number of at least 0"
        if self.sliding_window is not None and not self._positive("sliding_window"):
            yield f"sliding_window = {self.sliding_window!r} must be a whole number of at least 1, or absent"

    def _positive(self, field: str) -> bool:
        value = getattr(self, field)
        return isinstance(value, int) and not isinstance(value, bool) and value > 0

    @property
    def gated(self) -> bool:
        """True when the MLP has a gate beside its up projection."""
        return self.mlp == "swiglu"

    @property
    def qkv_width(self) -> int:
        """Outputs of the fused query/key/value projection, (a + 2g) d."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm of model width."""
        return self.hidden * (2 if self.norm == "layernorm" else 1)

    @property
    def block_matmul_parameters(self) -> int:
        """Weights of one block that take part in matrix products, biases and norms left out."""
        attention = self.hidden * self.qkv_width + self.heads * self.head_dim * self.hidden
        return attention + (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def block_parameters(self) -> int:
        """All parameters of one block."""
        count = self.block_matmul_parameters + 2 * self.norm_parameters
        if self.qkv_bias:
            count += self.qkv_width
        if self.output_bias:
            count += self.hidden
        if self.mlp_bias:
            count += (2 if self.gated else 1) * self.ffn + self.hidden
        if self.qk_norm:
            count += 2 * self.head_dim
        return count

    @property
    def position_rows(self) -> int:
        """Rows of the learned position table; 0 with rotary positions."""
        return self.max_positions + self.position_offset if self.positions == "learned" else 0

    @property
    def parameters(self) -> int:
        """Parameters of the whole model, tied embeddings counted once and without vocabulary padding."""
        embeddings = self.vocab * self.hidden * (1 if self.tied_embeddings else 2)
        return (
            embeddings + self.position_rows * self.hidden + self.layers * self.block_parameters + self.norm_parameters
        )

    @property
    def matmul_parameters(self) -> int:
        """Weights that take part in matrix products: the blocks' and the head's, tied or not."""
        return self.layers * self.block_matmul_parameters + self.vocab * self.hidden

    def model_flops_per_token(self, sequence_length: int) -> int:
        """FLOPs of forward and backward per token that the model itself needs, for MFU.

        Parameters
        ----------
        sequence_length : int, tokens

        Returns
        -------
        int, FLOPs per token

        Notes
        -----
        ``6 N + 12 L s a d``, N the weights in matrix products (head included, embedding look-up, norms and biases
        not). The attention term is the full square, although a causal kernel does half of it: the convention of
        PaLM (arXiv 2204.02311, appendix B) and of karpathy/nanoGPT model.py.

        Examples
        --------
        >>> Model(name="tiny", family="llama", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
        ...       vocab=1000).model_flops_per_token(128)
        1022976
        """
        return 6 * self.matmul_parameters + 12 * self._attention_products(sequence_length)

    def hardware_flops_per_token(self, sequence_length: int, recompute: str) -> int:
        """FLOPs per token with recomputed ones counted again, for HFU.

        Parameters
        ----------
        sequence_length : int, tokens
        recompute : str
            ``none``, ``selective`` (attention forward once more) or ``full`` (every block forward once more).

        Returns
        -------
        int, FLOPs per token

        Notes
        -----
        As Korthikanti et al. (arXiv 2205.05198) count, on top of `model_flops_per_token`: selective adds
        ``4 L s a d``, full adds ``2 N_blocks`` to that; the head is never recomputed. Flash attention's own
        recomputation inside its backward kernel is not counted.

        Examples
        --------
        >>> tiny = Model(name="tiny", family="llama", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
        ...              vocab=1000)
        >>> [tiny.hardware_flops_per_token(128, mode) for mode in ("none", "selective", "full")]
        [1022976, 1088512, 1235968]
        """
        flops = self.model_flops_per_token(sequence_length)
        if recompute in ("selective", "full"):
            flops += 4 * self._attention_products(sequence_length)
        if recompute == "full":
            flops += 2 * self.layers * self.block_matmul_parameters
        return flops

    def _attention_products(self, sequence_length: int) -> int:
        return self.layers * sequence_length * self.heads * self.head_dim
