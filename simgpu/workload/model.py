"""A stack of transformer blocks: its FLOPs per token, beside its dimensions and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simgpu.workload.model_sizes import ModelSizes
from simgpu.workload.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(ModelSizes):
    """A decoder-only transformer, or the blocks of another one; its fields are those of `ModelSizes`.

    Examples
    --------
    >>> tiny = Model(name="tiny", family="llama", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
    ...              vocab=1000)
    >>> tiny.block_parameters, tiny.parameters
    (36992, 202048)
    """

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
        """Return more than what all layers keep of one micro-batch: 64 B per token and width, 12 per logit."""
        widths = self.hidden + self.qkv_width + self.heads * self.head_dim + self.ffn
        if self.experts is not None:
            widths += self.experts.active * (self.hidden + self.experts.ffn) + self.experts.shared_ffn
        return training.tokens * (64 * self.layers * widths + 12 * self.vocab)

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

        A window of w of them leaves w (2 k - w) / k, the band along the diagonal as the square is counted.

        Examples
        --------
        >>> Model(name="tiny", family="llama", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128,
        ...       vocab=1000).attention_flops(128)
        65536
        """
        windowed = len(self.window_layers or ())
        band = min(keys, self.sliding_window or keys)
        whole = self.layers - windowed - len(self.delta_layers)
        seen = whole * keys + windowed * (band * (2 * keys - band) // keys)
        linear = 0 if self.delta is None else len(self.delta_layers) * self.delta.flops
        return linear + 2 * seen * self.heads * (self.head_dim + self.value_dim)
