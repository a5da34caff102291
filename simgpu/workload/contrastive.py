"""The contrastive loss of two towers: normalised features of all ranks against each other."""

from __future__ import annotations

from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.piece import Piece, blocking, ready
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Parameter, PassItem

FP32 = 4  # bytes; autocast normalises and sums in fp32
DP = "dp"


def contrastive_piece(shard: Shard, width: int) -> Piece:
    """Return the gather of both towers' features and the symmetric cross-entropy of their products.

    Parameters
    ----------
    shard : Shard
        Its training says how many pairs a rank has, whether features are gathered with gradients
        (``gather_with_grad``) and whether a rank compares only its own with all (``local_loss``); its splits over how
        many replicas.
    width : int
        Of the features.

    Notes
    -----
    b pairs on each of n ranks. Both all-gathers (n b width fp32 numbers each) are waited for before the loss, as
    everything behind needs them; with gradients their backward is a reduce-scatter of as much, without there is none.
    Every rank then makes the whole (n b) x (n b) matrix, or with ``local_loss`` two of b x (n b). Per logit the
    cross-entropies cast and take a fp32 log-softmax, backward its gradient, and cast back (E + 12 B, E + 16 B; the
    log-probabilities are kept).

    References
    ----------
    mlfoundations/open_clip src/open_clip/loss.py (gather_features, ClipLoss); pytorch/pytorch
    torch/distributed/nn/functional.py (_AllGather).

    Examples
    --------
    >>> from dataclasses import replace
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.splits import Splits
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=77, micro_batch_size=32, accumulation=1, gather_with_grad=True)
    >>> shard = Shard(model=bundled_model("clip-vit-b-32").text, tp=1, sequence_parallel=False, training=training,
    ...               splits=Splits(replicas=8))
    >>> [(x.kind, x.bytes) for x in contrastive_piece(shard, 512).backward if hasattr(x, "kind")]
    [('reduce_scatter', 524288), ('reduce_scatter', 524288)]
    """
    training, element, ranks = shard.training, shard.element, shard.splits.replicas
    own = training.micro_batch_size
    every = own * ranks
    rows, products = (own, 2) if training.local_loss else (every, 1)
    features, logits = FP32 * own * width, 2 * rows * every
    scale = Parameter(name="logit_scale", elements=1, total=1, replicated=True)
    towers = ("image", "text")

    def exchanged(kind: str, what: str) -> tuple[PassItem, ...]:
        return tuple(item for tower in towers for item in blocking(kind, ranks * features, f"{tower}.{what}", DP))

    def product(name: str, m: int, n: int, k: int, layout: str) -> tuple[Gemm, ...]:
        one = Gemm(name=name, m=m, n=n, k=k, dtype=training.precision, layout=layout)
        return (one,) * products

    return Piece(
        parameters=(scale,),
        forward=(
            MemoryBound(name="features.normalise", bytes=2 * 3 * features, pattern="norm", kernels=2),
            *(exchanged("all_gather", "features") if ranks > 1 else ()),
            *product("similarity", rows, every, width, "tn"),
            MemoryBound(name="contrastive_loss", bytes=logits * (element + 3 * FP32), pattern="softmax", kernels=4),
        ),
        backward=(
            MemoryBound(
                name="contrastive_loss.backward", bytes=logits * (element + 4 * FP32), pattern="softmax", kernels=4
            ),
            *product("similarity.dgrad", rows, width, every, "nn"),
            *product("similarity.other_dgrad", every, width, rows, "nt"),
            ready(scale),
            *(exchanged("reduce_scatter", "feature_gradients") if ranks > 1 and training.gather_with_grad else ()),
            MemoryBound(name="features.normalise.backward", bytes=2 * 5 * features, pattern="norm", kernels=2),
        ),
        saved_bytes=2 * (ranks + 1) * features,
    )


def contrastive_logits_bytes(shard: Shard) -> int:
    """Return the log-probabilities that the loss keeps until its backward.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=77, micro_batch_size=32, accumulation=1)
    >>> contrastive_logits_bytes(Shard(model=bundled_model("clip-vit-b-32").text, tp=1, sequence_parallel=False,
    ...                                training=training))
    8192
    """
    every = shard.training.micro_batch_size * shard.splits.replicas
    return 2 * FP32 * (shard.training.micro_batch_size if shard.training.local_loss else every) * every
