"""Gradients grouped into buckets that are reduced together."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.parallel.data_parallel.stage_weights import Gradient

Bucket = tuple[Gradient, ...]


def buckets_by_bytes(
    gradients: Sequence[Gradient], bytes_per_element: int, limits_bytes: Sequence[int]
) -> tuple[Bucket, ...]:
    """PyTorch DDP's rule: a bucket closes with the gradient that reaches its limit; the last limit repeats.

    Megatron's rule is the same, with one limit (``buckets_by_bytes(gradients, 1, (limit_elements,))``).

    References
    ----------
    PyTorch torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size;
    NVIDIA/Megatron-LM core/distributed/param_and_grad_buffer.py.

    Examples
    --------
    >>> g = [Gradient(unit=0, name=n, elements=e) for n, e in (("c", 10), ("b", 30), ("a", 5))]
    >>> [[x.name for x in bucket] for bucket in buckets_by_bytes(g, 4, [40, 100])]
    [['c'], ['b'], ['a']]
    """
    buckets: list[Bucket] = []
    current: list[Gradient] = []
    size = 0
    for gradient in gradients:
        current.append(gradient)
        size += gradient.elements * bytes_per_element
        if size >= limits_bytes[min(len(buckets), len(limits_bytes) - 1)]:
            buckets.append(tuple(current))
            current, size = [], 0
    return (*buckets, tuple(current)) if current else tuple(buckets)


def buckets_by_elements(gradients: Sequence[Gradient], limit_elements: int) -> tuple[Bucket, ...]:
    """DeepSpeed's rule: a bucket is reduced before the gradient that would overflow it; a larger one goes alone.

    References
    ----------
    DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py, reduce_independent_p_g_buckets_and_remove_grads.

    Examples
    --------
    >>> g = [Gradient(unit=0, name=n, elements=e) for n, e in (("c", 10), ("b", 30), ("a", 5))]
    >>> [[x.name for x in bucket] for bucket in buckets_by_elements(g, 35)]
    [['c'], ['b', 'a']]
    """
    buckets: list[Bucket] = []
    current: list[Gradient] = []
    size = 0
    for gradient in gradients:
        if current and size + gradient.elements > limit_elements:
            buckets.append(tuple(current))
            current, size = [], 0
        current.append(gradient)
        size += gradient.elements
    return (*buckets, tuple(current)) if current else tuple(buckets)


def split_elements(elements: int, limit_elements: int) -> tuple[int, ...]:
    """Cut a flat buffer into pieces of at most ``limit_elements``.

    Examples
    --------
    >>> split_elements(12, 5)
    (5, 5, 2)
    """
    whole, rest = divmod(elements, limit_elements)
    return (limit_elements,) * whole + ((rest,) if rest else ())
