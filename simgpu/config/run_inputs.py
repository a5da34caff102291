"""Inputs of measured runs, whose machines may hold another GPU than the bundled topology of their kind."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

from simgpu.config.inputs import Inputs
from simgpu.io.yaml_file import YamlFile


@dataclass(slots=True, kw_only=True)
class RunInputs(Inputs):
    """Reads models and clusters; every GPU of a topology is replaced.

    Parameters
    ----------
    gpu_model : str
        Name in the catalogue of GPUs; empty leaves the topology's own.
    """

    gpu_model: str = ""

    def _read_topology(self, asked: str) -> YamlFile:
        file = Inputs._read_topology(self, asked)
        if not self.gpu_model:
            return file
        data = deepcopy(file.data)
        for device in data["devices"].values():
            if device["kind"] == "gpu":
                device["model"] = self.gpu_model
        return replace(file, data=data)
