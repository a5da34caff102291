"""Which GPU of the catalogue a name means, as people, drivers and tables write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from simgpu.config.near import near_names
from simgpu.errors import Issue, ScenarioError
from simgpu.hardware.gpu import Gpu, gpu, gpu_names

# Product names that NVIDIA's driver reports (nvidia-smi) and that do not say the form.
_DRIVER_NAMES: Final = {"h100 80gb hbm3": "H100-SXM5-80GB", "h100 nvl": "H100-NVL-94GB", "h100 pcie": "H100-PCIe-80GB"}
_NOT_THE_MODEL: Final = frozenset({"nvidia", "amd", "tesla", "geforce", "instinct", "gpu"})
_UNSTATED: Final = re.compile(r"unstated|unknown|assumed|implied|unclear|-class|\?", re.IGNORECASE)


def gpus_named(name: str) -> tuple[str, ...]:
    """Return the catalogue's GPUs that a name fits.

    Parameters
    ----------
    name : str
        Upper or lower case; words in any order, remarks in parentheses. A word of letters fits a longer one that
        goes on with digits (``sxm`` is SXM5), a number fits one with GB behind it.

    Returns
    -------
    tuple of str
        Empty when none fits, several when the name leaves it open.

    Examples
    --------
    >>> gpus_named("h100-sxm-80gb"), gpus_named("NVIDIA H100 80GB HBM3"), gpus_named("A100-80GB-PCIe")
    (('H100-SXM5-80GB',), ('H100-SXM5-80GB',), ('A100-PCIe-80GB',))
    >>> gpus_named("A100 80GB")
    ('A100-SXM4-80GB', 'A100-PCIe-80GB')
    """
    words = [word for word in _words(re.sub(r"\(.*?\)", " ", name)) if word not in _NOT_THE_MODEL]
    if not words:
        return ()
    driver = _DRIVER_NAMES.get(" ".join(words))
    if driver is not None:
        return (driver,)
    known = gpu_names()
    same = tuple(entry for entry in known if "".join(_words(entry)) == "".join(words))
    return same or tuple(entry for entry in known if all(_fits(word, _words(entry)) for word in words))


def is_other_gpu(name: str, own: Sequence[str]) -> bool:
    """Whether a driver's name of a GPU is that of none of some GPUs of the catalogue.

    Parameters
    ----------
    name : str
    own : sequence of str
        As the catalogue has them.

    Returns
    -------
    bool
        False for a name that may be one of them, or that names no model.

    Examples
    --------
    >>> own = ["A100-SXM4-80GB"]
    >>> [is_other_gpu(name, own) for name in ("NVIDIA A100-SXM4-80GB", "NVIDIA A100", "NVIDIA H100 80GB HBM3", "GPU")]
    [False, False, True, False]
    """
    return bool(found := gpus_named(name)) and name not in own and not set(found) & set(own)


def find_gpu(name: str, *, field: str = "--gpu") -> Gpu:
    """Look a GPU up by a name that need not be the catalogue's own.

    Parameters
    ----------
    name : str
    field : str
        What messages call the place of the name.

    Returns
    -------
    Gpu

    Raises
    ------
    ScenarioError
        When none or more than one fits; says which come close.

    Examples
    --------
    >>> find_gpu("rtx4090").name
    'RTX-4090'
    >>> find_gpu("h100-sxm")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: --gpu = h100-sxm: may be several GPUs; fix: name one: H100-SXM5-80GB, ...
    """
    found = gpus_named(name)
    if len(found) == 1:
        return gpu(found[0])
    if found:
        issue = Issue(field=field, value=name, problem="may be several GPUs", fix=f"name one: {', '.join(found)}")
    else:
        near = near_names(name, gpu_names(), most=3)
        issue = Issue(
            field=field, value=name, problem="is no GPU that SimGPU knows", allowed=", ".join(gpu_names()),
            fix=f"did you mean {' or '.join(near)}?" if near else None,
        )  # fmt: skip
    raise ScenarioError([issue])


def measured_gpu(name: str) -> Gpu | str:
    """Look the GPU of a measured row up; never guess.

    Parameters
    ----------
    name : str

    Returns
    -------
    Gpu
        Or, as text, why there is none.

    Examples
    --------
    >>> measured_gpu("A100 (implied, not printed)"), measured_gpu("Gaudi 2")
    ("gpu is unstated: 'A100 (implied, not printed)'", "gpu is not in simgpu/data/gpus.csv: 'Gaudi 2'")
    """
    if not name or _UNSTATED.search(name):
        return f"gpu is unstated: {name!r}"
    found = gpus_named(name)
    if not found:
        return f"gpu is not in simgpu/data/gpus.csv: {name!r}"
    if len(found) > 1:
        return f"gpu {name!r} may be {' or '.join(found)}"
    return gpu(found[0])


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"(\d+) ?gb\b", r"\1gb", name.lower()))


def _fits(word: str, entry: list[str]) -> bool:
    return any(
        have == word
        or have == f"{word}gb"
        or (word.isalpha() and have.startswith(word) and have[len(word) :].isdigit())
        for have in entry
    )
