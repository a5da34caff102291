"""Clusters of the bundled topologies, built once."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from simgpu.hardware.cluster import Cluster, build_cluster
from simgpu.io.yaml_file import read_yaml

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
NAMES = ("dgx-a100", "dgx-h100", "dgx-1v", "4x-rtx4090-pcie", "8x-a100-single-nic")


def description(name: str) -> dict[str, Any]:
    """Content of a bundled topology file, fresh."""
    return read_yaml(TOPOLOGIES / f"{name}.yaml").data


@cache
def bundled(name: str, nodes: int = 1, gpus: int | None = None) -> Cluster:
    return build_cluster(description(name), nodes=nodes, gpus=gpus, source=f"{name}.yaml")


def with_fabric(name: str, nodes: int, fabric: Mapping[str, Any]) -> Cluster:
    return build_cluster(description(name), nodes=nodes, gpus=None, fabric=fabric)
