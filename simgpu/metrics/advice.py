"""What a changed scenario would give: simulated advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A lever that was tried, beside the run itself.

    Parameters
    ----------
    lever : str
        Short and stable, such as ``recompute``.
    settings : mapping of str to object
        Fields of the scenario to set, by dotted path; None to take one out.
    option : str
        What the framework calls it.
    step_time_ns : int
    tokens_per_s_gain : float
        Tokens per second over the run's own, less one; of a synthetic model the same of steps per second.
    peak_memory_bytes : int
        Of the fullest rank.
    batch_factor : float
        Global batch over the run's own: above 1 training sees other batches.

    Examples
    --------
    >>> one = Advice(lever="recompute", settings={"training.recompute": "full", "training.recompute_layers": None},
    ...              option="gradient_checkpointing: true", step_time_ns=1, tokens_per_s_gain=-0.2,
    ...              peak_memory_bytes=1, batch_factor=1.0)
    >>> one.yaml
    'training.recompute: full'
    """

    lever: str
    settings: Mapping[str, Any]
    option: str
    step_time_ns: int
    tokens_per_s_gain: float
    peak_memory_bytes: int
    batch_factor: float

    @property
    def yaml(self) -> str:
        """The settings as the scenario has them; what is taken out is not named."""
        return ", ".join(f"{path}: {_word(value)}" for path, value in self.settings.items() if value is not None)


def advice_to_json(advice: Iterable[Advice]) -> list[dict[str, Any]]:
    """Return plain data.

    Parameters
    ----------
    advice : iterable of Advice

    Returns
    -------
    list of dict
    """
    return [
        {
            "lever": one.lever,
            "settings": dict(one.settings),
            "option": one.option,
            "step_time_ns": one.step_time_ns,
            "tokens_per_s_gain": one.tokens_per_s_gain,
            "peak_memory_bytes": one.peak_memory_bytes,
            "batch_factor": one.batch_factor,
        }
        for one in advice
    ]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
