"""NCCL's topology XML with questions about it: its GPUs and what model they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.config.gpu_name import find_gpu
from simgpu.config.import_parts import gpus_where, model_of_device
from simgpu.hardware.gpu import Gpu, gpu, gpu_names
from simgpu.io.import_file import refusal

_AMD_ARCH: Final[Mapping[str, str]] = {"942": "gfx942", "950": "gfx950"}
_TWO_DIES: Final = "910"  # MI200: gfx90a


@dataclass(slots=True)
class Tree:
    """A topology as `simgpu.io.nccl_xml.read_nccl_xml` reads it.

    Parameters
    ----------
    source : str
    data : mapping
    """

    source: str
    data: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def slots(self, kind: str) -> list[dict[str, Any]]:
        """All entries of a kind, in the order of the file."""
        found: list[dict[str, Any]] = []

        def walk(entries: list[dict[str, Any]]) -> None:
            for entry in entries:
                if entry["kind"] == kind:
                    found.append(entry)
                walk(entry.get("children", []))

        for cpu in self.data["cpus"]:
            walk(cpu["children"])
        return found

    def gpus(self) -> list[dict[str, Any]]:
        """GPUs by rank, device or order in the file; those without a rank are left out where others have one."""
        every = self.slots("gpu")
        ranked = [entry for entry in every if entry["rank"] is not None]
        if ranked and len(ranked) < len(every):
            self.notes.append(f"{len(every) - len(ranked)} GPUs without a rank are left out, as NCCL does")
        chosen = ranked or every
        return sorted(chosen, key=lambda e: (e["rank"] if e["rank"] is not None else -1, e["dev"] or 0))


def model_of(tree: Tree, gpus: list[dict[str, Any]], named: str | None) -> Gpu:
    """Find the model of the GPUs: named, by device id, or the only one with such links.

    Parameters
    ----------
    tree : Tree
    gpus : list of dict
        Of the tree.
    named : str or None
        As the user says.

    Returns
    -------
    Gpu

    Raises
    ------
    ScenarioError
        When neither the file nor the user says it, or they contradict each other.
    """
    amd = sorted({entry["gcn"] for entry in gpus if entry["gcn"]})
    if amd:
        arch = _AMD_ARCH.get(amd[0])
        known = [name for name in gpu_names() if arch and gpu(name).compute_capability == arch]
        if not known:
            why = "has no figures of them"
            if amd == [_TWO_DIES]:
                why = "has them only as MI250X, a module of two such dies"
            problem = f"is RCCL's, of GPUs with gcn {', '.join(amd)}, and SimGPU {why}"
            raise refusal(tree.source, problem)
        if named is None and len(known) > 1:
            raise refusal(tree.source, f"has gcn {amd[0]}, which is {' or '.join(known)}", fix="give --gpu MODEL")
        model = find_gpu(named or known[0])
        if model.name not in known:
            raise refusal(tree.source, f"has gcn {amd[0]}, so no {model.name}", fix=f"give --gpu {' or '.join(known)}")
        return model
    found = {model_of_device(entry["device"]) for entry in gpus if entry["device"]}
    own = next(iter(found)) if len(found) == 1 else None
    if named is not None:
        model = find_gpu(named)
        if own is not None and own != model.name:
            tree.notes.append(f"the file's device id is that of {own}; --gpu makes it {model.name}")
        return model
    if own is not None:
        return gpu(own)
    capabilities = {entry["sm"] for entry in gpus if entry["sm"] is not None}
    if len(capabilities) == 1:
        sm = str(next(iter(capabilities)))
        most = max(sum(link["count"] for link in entry["links"] or []) for entry in gpus)
        switched = any(link["to"] == "nvswitch" for entry in gpus for link in entry["links"] or [])
        choices = gpus_where(links=most, switched=switched, capability=f"{sm[:-1]}.{sm[-1]}")
        if len(choices) == 1:
            return gpu(choices[0])
        shown = ", ".join(choices) if choices else f"any of {len(gpu_names())} names, none of which has sm {sm}"
        problem = f"says of its GPUs only sm {sm}, no model"
    else:
        problem, shown = "does not say of which model its GPUs are", "any of simgpu/data/gpus.csv"
    raise refusal(tree.source, problem, fix=f"give --gpu MODEL ({shown})")
