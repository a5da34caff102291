"""A stack of transformer blocks: its dimensions, its parameters and its FLOPs per token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simgpu.errors import ModelError
from simgpu.workload.architecture import Architecture
from simgpu.workload.experts import Experts
from simgpu.workload.latent import LatentAttention
from simgpu.workload.model_check import GATED, model_problems
from simgpu.workload.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(Architecture):
    """Dimensions and features of a decoder-only transformer, or of the blocks of another one.

    Parameters
    ----------
    name, family : str
        What people call it, and whose layer layout it has (``llama``, ``gpt2``, ..., ``inline``).
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab : int
        Blocks, model width, query heads, key/value heads, width of one head, MLP width, vocabulary.
    positions : str
        ``rope``, ``learned`` with a table of ``max_positions + position_offset`` rows (OPT adds 2), or ``relative``:
        a bias on attention scores, whose table the family counts (T5).
    norm : str
        ``rmsnorm`` (one vector of weights) or ``layernorm`` (weights and biases).
    mlp : str
        ``swiglu`` or ``geglu`` (gate, up and down), ``gelu`` or ``relu`` (up and down).
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
    causal, post_norm : bool
        Tokens see only those before them; each norm follows its residual instead of leading the branch (BERT).
    experts : Experts or None
        What takes the place of the MLP, except in ``dense_layers`` (indices).
    latent : LatentAttention or None
        Multi-head latent attention; ``head_dim`` is then that of queries and keys.

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
    causal: bool = True
    post_norm: bool = False
    experts: Experts | None = None
    dense_layers: tuple[int, ...] = ()
    latent: LatentAttention | None = None

    def __post_init__(self) -> None:
        problems = tuple(model_problems(self))
        if problems:
            raise ModelError("\n".join(f"model {self.name}: {problem}" for problem in problems))

    @property
    def gated(self) -> bool:
        """True when the MLP has a gate beside its up projection."""
        return self.mlp in GATED

    @property
    def value_dim(self) -> int:
        """Width of a value head."""
        return self.head_dim if self.latent is None else self.latent.value_dim

    @property
    def expert_layers(self) -> int:
        """Blocks with experts."""
        return 0 if self.experts is None else self.layers - len(self.dense_layers)

    @property
    def qkv_width(self) -> int:
        """Outputs of the fused query/key/value projection, (a + 2g) d."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm of model width."""
        return self.hidden * (2 if self.norm == "layernorm" else 1)

    @property
    def attention_matmul_parameters(self) -> int:
        """Weights of one block's attention that take part in matrix products."""
        if self.latent is not None:
            return self.latent.matmul_parameters(self.hidden, self.heads)
        return self.hidden * self.qkv_width + self.heads * self.head_dim * self.hidden

    @property
    def block_matmul_parameters(self) -> int:
        """Weights of one block with an MLP that take part in matrix products, biases and norms left out."""
        return self.attention_matmul_parameters + (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def attention_parameters(self) -> int:
        """All parameters of one block that are not those of its MLP or experts."""
        count = self.attention_matmul_parameters + 2 * self.norm_parameters
        if self.qkv_bias:
            count += self.qkv_width
        if self.output_bias:
            count += self.hidden
        if self.qk_norm:
            count += 2 * self.head_dim
        return count + (0 if self.latent is None else self.latent.norm_parameters)

    @property
    def block_parameters(self) -> int:
        """All parameters of one block with an MLP."""
        count = self.attention_parameters + self.block_matmul_parameters - self.attention_matmul_parameters
        if self.mlp_bias:
            count += (2 if self.gated else 1) * self.ffn + self.hidden
        return count

    @property
    def expert_block_parameters(self) -> int:
        """All parameters of one block with experts; 0 for a model without."""
        return 0 if self.experts is None else self.attention_parameters + self.experts.matmul_parameters(self.hidden)

    @property
    def blocks_parameters(self) -> int:
        """All parameters of the blocks."""
        sparse = self.expert_layers
        return (self.layers - sparse) * self.block_parameters + sparse * self.expert_block_parameters

    @property
    def blocks_matmul_parameters(self) -> int:
        """Weights of all blocks that one token meets in matrix products."""
        sparse = self.expert_layers
        met = 0
        if self.experts is not None:
            met = self.attention_matmul_parameters + self.experts.active_matmul_parameters(self.hidden)
        return (self.layers - sparse) * self.block_matmul_parameters + sparse * met

    @property
    def position_rows(self) -> int:
        """Rows of the learned position table; 0 with rotary positions."""
        return self.max_positions + self.position_offset if self.positions == "learned" else 0

    @property
    def parameters(self) -> int:
        """Parameters of the whole model, tied embeddings counted once and without vocabulary padding."""
        embeddings = self.vocab * self.hidden * (1 if self.tied_embeddings else 2)
        return embeddings + self.position_rows * self.hidden + self.blocks_parameters + self.norm_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters without the experts that one token does not visit."""
        if self.experts is None:
            return self.parameters
        own = self.experts
        idle = (own.count - own.active) * own.matrices * self.hidden * own.ffn
        return self.parameters - self.expert_layers * idle

    @property
    def matmul_parameters(self) -> int:
        """Weights that one token meets in matrix products: the blocks' and the head's, tied or not."""
        return self.blocks_matmul_parameters + self.vocab * self.hidden

    @property
    def tensor_ways(self) -> int:
        """Tensor-parallel ranks share out whole heads."""
        return self.heads

    @property
    def dimensions(self) -> Mapping[str, int]:
        """Every size of the description."""
        names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "max_positions")
        found = {name: getattr(self, name) for name in names}
        if (own := self.experts) is not None:
            found |= {"experts": own.count, "expert_ffn": own.ffn, "shared_ffn": own.shared_ffn}
        return found

    def activation_bound_bytes(self, training: Training) -> int:
        """Return more than what all layers keep of one micro-batch: 64 B per token and width, 8 per logit."""
        widths = self.hidden + self.qkv_width + self.heads * self.head_dim + self.ffn
        if self.experts is not None:
            widths += self.experts.active * (self.hidden + self.experts.ffn) + self.experts.shared_ffn
        return training.tokens * (64 * self.layers * widths + 8 * self.vocab)

    def model_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch that the model itself needs."""
        return training.tokens * self.model_flops_per_token(training.sequence_length)

    def hardware_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch, recomputation included."""
        return training.tokens * self.hardware_flops_per_token(training.sequence_length, training.recompute)

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
        not, experts that a token does not visit not). The attention term is the full square, although a causal kernel
        does half of it: the convention of PaLM (arXiv 2204.02311, appendix B) and of karpathy/nanoGPT model.py. With
        value heads of another width than d it is ``6 L s a (d + value)``.

        Examples
        --------
        >>> Model(name="tiny", family="llama", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
        ...       vocab=1000).model_flops_per_token(128)
        1022976
        """
        return 6 * self.matmul_parameters + 3 * self.attention_flops(sequence_length)

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
        return self.model_flops_per_token(sequence_length) + self.repeated_flops_per_token(sequence_length, recompute)

    def repeated_flops_per_token(self, sequence_length: int, recompute: str) -> int:
        """Return the FLOPs per token that recomputation repeats.

        Examples
        --------
        >>> Model(name="tiny", family="llama", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
        ...       vocab=1000).repeated_flops_per_token(128, "selective")
        65536
        """
        repeated = self.attention_flops(sequence_length) if recompute in ("selective", "full") else 0
        return repeated + (2 * self.blocks_matmul_parameters if recompute == "full" else 0)

    def attention_flops(self, keys: int) -> int:
        """Return the forward FLOPs of all attention cores per token that sees ``keys`` tokens.

        Examples
        --------
        >>> Model(name="tiny", family="llama", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
        ...       vocab=1000).attention_flops(128)
        65536
        """
        return 2 * self.layers * keys * self.heads * (self.head_dim + self.value_dim)
