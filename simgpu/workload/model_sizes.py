"""A stack of transformer blocks: its dimensions and its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.errors import ModelError
from simgpu.workload.architecture import Architecture
from simgpu.workload.delta import DeltaAttention
from simgpu.workload.experts import Experts
from simgpu.workload.latent import LatentAttention
from simgpu.workload.model_check import GATED, model_problems
from simgpu.workload.scales import NONE, Scales


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes(Architecture):
    """Dimensions and features of a decoder-only transformer, or of the blocks of another one.

    Parameters
    ----------
    name, family : str
        What people call it, and whose layer layout it has (``llama``, ``gpt2``, ..., ``inline``).
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab : int
        Blocks, model width, query heads, key/value heads, width of one head, MLP width, vocabulary.
    positions : str
        ``rope``, ``learned`` with a table of ``max_positions + position_offset`` rows (OPT adds 2), ``none`` (or ALiBi,
        which attention adds to its scores itself), or ``relative``: a bias on attention scores, whose table the family
        counts (T5).
    norm : str
        ``rmsnorm`` (one vector of weights) or ``layernorm`` (weights and biases).
    mlp : str
        ``swiglu`` or ``geglu`` (gate, up and down), ``gelu`` or ``relu`` (up and down).
    qkv_bias, output_bias, mlp_bias : bool
        Biases of the query/key/value projection, of the attention output, and of every MLP projection.
    qk_norm : bool
        RMSNorm over each query and key head before RoPE (Qwen3).
    joint_qk_norm : bool
        That norm is over all heads of the queries, and of the keys, together (OLMo 2).
    parallel_residual, shared_norm : bool
        Attention and MLP read the same input and are summed (GPT-NeoX), behind one norm (GPT-J).
    branch_norms : bool
        A second norm, behind attention and behind the MLP (Gemma 2).
    tied_embeddings : bool
        The head multiplies with the embedding table.
    sliding_window : int or None, tokens
        Some layer attends to no more than this many tokens; sequences up to it are full attention.
    window_layers : tuple of int or None
        Which blocks these are, indices; None where nobody says, and longer sequences are refused.
    causal, post_norm : bool
        Tokens see only those before them; each norm follows its residual instead of leading the branch (BERT).
    experts : Experts or None
        What takes the place of the MLP, except in ``dense_layers`` (indices).
    latent : LatentAttention or None
        Multi-head latent attention; ``head_dim`` is then that of queries and keys.
    output_gate : bool
        Attention's output is multiplied with a gate, which the query projection makes too (Qwen3-Next).
    delta : DeltaAttention or None
        Linear attention in ``delta_layers`` (indices) instead.
    scales : Scales
        Which tensors are multiplied with a number, or capped softly (Gemma 2, Cohere, Granite).

    Raises
    ------
    ModelError
        Names every dimension that cannot be, all at once.
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
    joint_qk_norm: bool = False
    parallel_residual: bool = False
    shared_norm: bool = False
    branch_norms: bool = False
    tied_embeddings: bool = False
    sliding_window: int | None = None
    window_layers: tuple[int, ...] | None = None
    causal: bool = True
    post_norm: bool = False
    experts: Experts | None = None
    dense_layers: tuple[int, ...] = ()
    latent: LatentAttention | None = None
    output_gate: bool = False
    delta: DeltaAttention | None = None
    delta_layers: tuple[int, ...] = ()
    scales: Scales = NONE

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
        """Outputs of the fused query/key/value projection, (a + 2g) d, a twice with a gate."""
        return (self.heads * (2 if self.output_gate else 1) + 2 * self.kv_heads) * self.head_dim

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm of model width."""
        return self.hidden * (2 if self.norm == "layernorm" else 1)

    @property
    def norm_count(self) -> int:
        """Norms of model width in one block."""
        return (1 if self.shared_norm else 2) * (2 if self.branch_norms else 1)

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
        count = self.attention_matmul_parameters + self.norm_count * self.norm_parameters
        if self.qkv_bias:
            count += self.qkv_width
        if self.output_bias:
            count += self.hidden
        if self.qk_norm:
            count += (self.heads + self.kv_heads if self.joint_qk_norm else 2) * self.head_dim
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
        sparse, linear = self.expert_layers, 0
        if self.delta is not None:  # in the place of the attention of those layers
            norms = self.norm_count * self.norm_parameters
            linear = len(self.delta_layers) * (self.delta.parameters(self.hidden) + norms - self.attention_parameters)
        return linear + (self.layers - sparse) * self.block_parameters + sparse * self.expert_block_parameters

    @property
    def blocks_matmul_parameters(self) -> int:
        """Weights of all blocks that one token meets in matrix products."""
        sparse = self.expert_layers
        met = 0
        if self.experts is not None:
            met = self.attention_matmul_parameters + self.experts.active_matmul_parameters(self.hidden)
        linear = 0
        if self.delta is not None:
            each = self.delta.matmul_parameters(self.hidden) - self.attention_matmul_parameters
            linear = len(self.delta_layers) * each
        return linear + (self.layers - sparse) * self.block_matmul_parameters + sparse * met

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
