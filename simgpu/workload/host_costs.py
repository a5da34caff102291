"""What the CPU needs to issue one op of a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCosts:
    """CPU time to issue GPU work.

    What was measured of each is in ``benchmarks/host_costs.csv``; ``benchmarks/host.py`` compares it with these, and
    with profiler traces of training.

    Parameters
    ----------
    forward_op_ns : int, nanoseconds
        One kernel issued by forward code: Python, dispatcher, autograd record and launch. Training code on an A100 node
        launches one every 20 us (median of 3,580: facebookresearch/HolisticTraceAnalysis
        tests/data/negative_queue_length_values_check). A loop over one tiny matmul, without modules or autograd, takes
        11-18 us on an H100 node (NVIDIA/dgxc-benchmarking microbenchmarks/cpu_overhead).
    backward_op_ns : int, nanoseconds
        One kernel issued by the autograd engine: the backward of one tiny matmul on A100 is 4 kernels in 136 us
        (pytorch/pytorch#157407), of which 27 us are the call of ``backward`` (pytorch/pytorch#44484).
    collective_ns : int, nanoseconds
        One collective or message: process group, events between the streams, NCCL's enqueue and launch. An all-reduce
        of DDP takes 42 us (median of 25, V100 node: facebookresearch/HolisticTraceAnalysis
        tests/data/ns_resolution_trace).
    launch_ns : int, nanoseconds
        A bare CUDA launch, as further kernels of one op need: 4.0 us (median of 5,240 in the first trace).
    cuda_graphs : bool
        The step is replayed from CUDA graphs: every kernel costs ``graph_node_ns`` instead.
    graph_node_ns : int, nanoseconds
        One kernel of a replayed graph: 80 small ones take 70 us (JuliaGPU/CUDA.jl docs/src/usage/graphs.md).
    launch_blocking : bool
        CUDA_LAUNCH_BLOCKING=1: the CPU waits for each kernel before it issues the next.

    Examples
    --------
    >>> HostCosts().forward_op_ns
    20000
    """

    forward_op_ns: int = 20_000
    backward_op_ns: int = 27_000
    collective_ns: int = 42_000
    launch_ns: int = 4_000
    cuda_graphs: bool = False
    graph_node_ns: int = 875
    launch_blocking: bool = False

    @property
    def free(self) -> bool:
        """Issuing costs nothing and waits for nothing: the GPU never waits for the CPU."""
        issued = (self.forward_op_ns, self.backward_op_ns, self.collective_ns, self.launch_ns)
        costs = (self.graph_node_ns,) if self.cuda_graphs else issued
        return not self.launch_blocking and not any(costs)
