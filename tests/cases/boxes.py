"""Machines of the reporters, where none of the bundled topologies is theirs."""

GPT2_LARGE = {
    "model_type": "gpt2", "n_embd": 1280, "n_layer": 36, "n_head": 20, "n_positions": 1024, "vocab_size": 50257,
    "activation_function": "gelu_new", "tie_word_embeddings": True,
}  # fmt: skip

# Row 1: four A100 joined by four NVLinks a pair, as the reported 1.4 GB all-reduce says (2 GPUs 20 ms = 70 GB/s, 4 GPUs
# 9 ms = 230), and one 200 Gb/s HCA that gets 11.7 GB/s (1.4 GB between two nodes in 120 ms): a PCIe 3.0 slot.
A100_ONE_HCA = """
name: 4 x A100, one HCA
devices:
  gpu: {kind: gpu, count: 4, model: A100-SXM4-40GB}
  pcie: {kind: pcie_switch, count: 2}
  cpu: {kind: cpu}
  memory: {kind: memory}
  nic: {kind: nic, type: IB HDR 200G}
links:
  - {from: gpu 0, to: gpu 1-3, type: NVLink3 link (A100), count: 4}
  - {from: gpu 1, to: gpu 2-3, type: NVLink3 link (A100), count: 4}
  - {from: gpu 2, to: gpu 3, type: NVLink3 link (A100), count: 4}
  - {from: gpu 0-1, to: pcie 0, type: PCIe 4.0 x16}
  - {from: gpu 2-3, to: pcie 1, type: PCIe 4.0 x16}
  - {from: nic 0, to: pcie 0, type: PCIe 3.0 x16}
  - {from: pcie, to: cpu 0, type: PCIe 4.0 x16}
  - {from: cpu 0, to: memory 0, type: "DDR4-3200, 8 channels"}
fabric: {kind: fat_tree, nodes_per_leaf: 32, oversubscription: 1}
"""

# Row 5: one GPU a node on 1 Gb/s, with 10 ms of delay one way (5 ms at each end).
THROTTLED = """
name: one GPU on 1 Gb/s and 10 ms
devices:
  gpu: {kind: gpu, model: A100-SXM4-40GB}
  cpu: {kind: cpu}
  memory: {kind: memory}
  nic: {kind: nic, type: TCP 10GbE (NCCL socket)}
links:
  - {from: gpu 0, to: cpu 0, type: PCIe 4.0 x16}
  - {from: cpu 0, to: memory 0, type: "DDR4-3200, 8 channels"}
  - {from: nic 0, to: cpu 0, type: PCIe 4.0 x16, bandwidth_gb_per_s: 0.125, latency_us: 5000}
"""

# Row 13: four cards a box and 625 Mbit/s between the boxes.
FOUR_ON_625_MBIT = """
name: 4 x RTX 2080 Ti
devices:
  gpu: {kind: gpu, count: 4, model: RTX-2080Ti}
  cpu: {kind: cpu}
  memory: {kind: memory}
  nic: {kind: nic, type: TCP 10GbE (NCCL socket)}
links:
  - {from: gpu, to: cpu 0, type: PCIe 3.0 x16}
  - {from: nic 0, to: cpu 0, type: PCIe 3.0 x16}
  - {from: cpu 0, to: memory 0, type: "DDR4-2400, 4 channels"}
fabric: {kind: fat_tree, nodes_per_leaf: 1, oversubscription: 14.08}
"""  # 14.08: the port's 1.1 GB/s over 625 Mbit/s

# Row 91: cards 0 and 1 share a PCIe switch (PIX), 2 sits on the other socket (SYS from both).
PIX_AND_SYS = """
name: RTX 4090 behind one switch and on two sockets
devices:
  gpu: {kind: gpu, count: 3, model: RTX-4090}
  pcie: {kind: pcie_switch}
  cpu: {kind: cpu, count: 2}
  memory: {kind: memory, count: 2}
links:
  - {from: gpu 0-1, to: pcie 0, type: PCIe 4.0 x16}
  - {from: pcie 0, to: cpu 0, type: PCIe 4.0 x16}
  - {from: gpu 2, to: cpu 1, type: PCIe 4.0 x16}
  - {from: cpu 0, to: cpu 1, type: AMD Infinity Fabric socket link}
  - {from: cpu, to: memory, type: "DDR4-3200, 8 channels"}
"""


def pair(model, *, bridge=""):
    """Two cards on one socket, with or without an NVLink bridge."""
    generation = "PCIe 4.0 x16" if "3090" in model else "PCIe 3.0 x16"
    bridged = f"\n  - {{from: gpu 0, to: gpu 1, type: {bridge}}}" if bridge else ""
    return f"""
name: 2 x {model}
devices:
  gpu: {{kind: gpu, count: 2, model: {model}}}
  cpu: {{kind: cpu}}
  memory: {{kind: memory}}
links:
  - {{from: gpu, to: cpu 0, type: {generation}}}
  - {{from: cpu 0, to: memory 0, type: "DDR4-2400, 4 channels"}}{bridged}
"""
