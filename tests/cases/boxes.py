"""Machines of the reporters that tests change; those of the table of cases are files of topologies/."""

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
