"""Constants of NCCL's tuning model, by version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from simgpu.hardware.table import read_table

_CURRENT: Final = "2.30"
# A single older version in the table is the last one that had the figure; the tables before 2.15 were laid out anew.
_LAID_OUT: Final = (2, 15)
_Key = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What ``simgpu/data/nccl_constants.csv`` holds for one version.

    Parameters
    ----------
    rows : mapping
        Figures by group, algorithm, protocol, hardware and nodes, as the file spells them.
    """

    rows: Mapping[_Key, float]

    def base_us(self, algo: str, proto: str) -> float:
        """Give the latency of an algorithm before its first step.

        Examples
        --------
        >>> constants((2, 30)).base_us("Ring", "LL"), constants((2, 12)).base_us("Ring", "LL")
        (6.6, 3.6)
        """
        return self.rows["base_latency", algo, proto, "", ""]

    def step_us(self, algo: str, proto: str, hardware: str) -> float:
        """Give the latency of one step over NVLINK, PCI or NET.

        Examples
        --------
        >>> constants((2, 30)).step_us("Ring", "Simple", "NET"), constants((2, 12)).step_us("Ring", "Simple", "NET")
        (14.0, 9.6)
        """
        return self.rows["hw_latency", algo, proto, hardware, ""]

    def by_nodes(self, group: str, row: str, nodes: int) -> float:
        """Give the bandwidth cap, GB/s, of an architecture on so many nodes (columns 1, 2, and 3 or more).

        Examples
        --------
        >>> constants((2, 30)).by_nodes("per_channel_max_tree", "Ampere", 2)
        23.6
        """
        return self.rows[group, "", "", row, "1" if nodes == 1 else "2" if nodes == 2 else ">=4 (3+)"]

    def ratio(self, group: str, algo: str, proto: str, hardware: str = "", nodes: str = "") -> float:
        """Give a factor.

        Examples
        --------
        >>> constants((2, 30)).ratio("bw_factor", "Ring", "LL128")
        0.92
        """
        return self.rows[group, algo, proto, hardware, nodes]

    def tree_correction(self, proto: str, bytes: int) -> float:
        """Give the share of its bandwidth that a tree reaches at a size.

        Examples
        --------
        >>> constants((2, 30)).tree_correction("Simple", 300_000)
        0.5
        """
        power = max(64, 1 << (max(1, bytes).bit_length() - 1))
        return self.rows.get(("tree_correction", "Tree", proto, f"bytes_from_{power}", ""), 1.0)


@cache
def constants(version: tuple[int, int]) -> Constants:
    """Look the constants of a version up.

    Parameters
    ----------
    version : tuple of int
        Major and minor.

    Returns
    -------
    Constants

    Examples
    --------
    >>> constants((2, 21)).step_us("Tree", "Simple", "NVLINK"), constants((2, 22)).step_us("Tree", "Simple", "NVLINK")
    (28.0, 4.0)
    """
    found: dict[_Key, float] = {}
    # Rows of older versions stand after the current ones and replace them, from new to old.
    for row in read_table("nccl_constants.csv"):
        if not _holds(row["version"], version):
            continue
        try:
            value = float(row["value"])
        except ValueError:  # a formula, for people
            continue
        group, algo, proto = row["group"], row["algo"], row["proto"]
        hardware = row["hw_or_arch"]
        if group == "ll_max_bw" or group.startswith("per_channel_max"):
            algo, proto, hardware = "", "", hardware.split()[0]
        found[group, algo, proto, hardware, row["nodes"]] = value
    return Constants(rows=found)


def _holds(text: str, version: tuple[int, int]) -> bool:
    if text == _CURRENT:
        return True
    numbers = [(int(major), int(minor)) for major, minor in re.findall(r"(\d+)\.(\d+)", text)]
    if not numbers:  # rows of other libraries and of whole machines
        return False
    if text.startswith("<="):
        return version <= numbers[0]
    low, high = numbers if len(numbers) == 2 else (_LAID_OUT, numbers[0])
    return (low <= version or low == (2, 7)) and version <= high
