"""Step times in the logs of training programs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, mode
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.log_lines import log_lines

_NUMBER: Final = r"(?<!-)(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
_BATCH: Final = re.compile(r"\bglobal[ _]batch[ _]size\s*[:=]\s*([0-9]{1,9})(?![0-9.,KMB])", re.IGNORECASE)
"""Sequences of a step, of Megatron and NeMo; abbreviated ones are left (picotron's are tokens)."""
_SHORT: Final = rf"{_NUMBER[:-1]}[KMB]?)"  # with a suffix, as nanotron and picotron print it
_SUFFIXES: Final = {"K": 1e3, "M": 1e6, "B": 1e9}
_FORMS: Final[Mapping[str, tuple[str, float, str]]] = {  # a pattern, what it is multiplied by, and what it then is
    "Megatron's elapsed time per iteration": (rf"elapsed time per iteration \(ms\):\s*{_NUMBER}", 1e-3, "step_s"),
    "DeepSpeed's iter time": (rf"\biter time \(s\):\s*{_NUMBER}", 1.0, "step_s"),
    "NeMo's train_step_timing": (rf"\btrain_step_timing in s\W{{1,2}}{_NUMBER}", 1.0, "step_s"),
    "nanotron's elapsed time per iteration": (rf"\belapsed_time_per_iteration_ms:\s*{_SHORT}", 1e-3, "step_s"),
    "a step time": (rf"\bstep[ _]time\b[^0-9\n]{{0,12}}{_NUMBER}\s*s(?:ec|econds)?\b", 1.0, "step_s"),
    "a step time in ms": (rf"(?<!iter )\b(?:step[ _])?time\b[^0-9\n]{{0,12}}{_NUMBER}\s*ms\b", 1e-3, "step_s"),
    "torchtitan's tps": (rf"\btps:\s*{_NUMBER}", 1.0, "tokens_per_s_per_gpu"),
    "tokens per second of a GPU": (
        r"\b(?:tokens/s/GPU|tokens_per_sec(?:ond)?_per_gpu|tokens/train_per_sec_per_gpu|"
        rf"throughput/device/tokens_per_sec(?:ond)?)['\"]?\s?[:=]\s*{_SHORT}",
        1.0,
        "tokens_per_s_per_gpu",
    ),
    "samples per second": (
        rf"(?:(?<!RunningAvg)SamplesPerSec|samples[_/ ]per[_ ]second)\W{{1,4}}{_NUMBER}",
        1.0,
        "samples_per_s",
    ),
    "a progress bar": (rf"[\[ ,]{_NUMBER}s/it\b", 1.0, "step_s"),
    "a progress bar of it/s": (rf"[\[ ,]{_NUMBER}it/s\b", -1.0, "step_s"),  # its reciprocal
}
_STEPS: Final = re.compile(rf"steps[_/ ]per[_ ]second\W{{1,4}}{_NUMBER}", re.IGNORECASE)
_ROUNDED: Final = 0.0005  # Transformers writes three decimals
_SOUND: Final = (1e-9, 1e12)
"""Between which every such figure of a real step lies, in whatever unit."""
_SHOWN: Final = 40  # characters of a value
_WARM_UP: Final = 0.1  # share of the first steps that is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLog:
    """What a log says about steps.

    Parameters
    ----------
    source : str
    form : str
        How it says it, for people.
    quantity : str
        ``step_s``, ``samples_per_s`` or ``tokens_per_s_per_gpu``.
    value : float
        Median of the values, without the first tenth of them (at least one where there are several): the warm-up.
    count : int
        Values behind it.
    global_batch_size : int, optional
        Sequences a step, where the log states it: the most frequent value, or samples over steps per second.
    """

    source: str
    form: str
    quantity: str
    value: float
    count: int
    global_batch_size: int | None = None

    def step_s(self, *, sequences: int, tokens_per_gpu: float) -> float:
        """Seconds per step of a run of so many sequences, and so many tokens of each GPU, a step.

        Examples
        --------
        >>> log = StepLog(source="x", form="", quantity="samples_per_s", value=8.0, count=3)
        >>> log.step_s(sequences=32, tokens_per_gpu=4096)
        4.0
        """
        if self.quantity == "samples_per_s":
            return sequences / self.value
        return tokens_per_gpu / self.value if self.quantity == "tokens_per_s_per_gpu" else self.value


def read_training_log(path: Path) -> StepLog:
    r"""Read how long steps took, in the first of the known forms that a log has.

    Megatron's ``elapsed time per iteration (ms)``, DeepSpeed's ``iter time`` and ``SamplesPerSec``, torchtitan's
    ``tps``, NeMo's ``train_step_timing``, the tokens per second of a GPU of nanotron, picotron, torchtune and Composer,
    Hugging Face's ``train_samples_per_second``, a ``step time`` with its unit, and tqdm's ``s/it``. LitGPT's
    ``iter time`` is none of them: it is that of a micro-batch.

    Parameters
    ----------
    path : Path
        Text, plain or ``.gz``.

    Returns
    -------
    StepLog

    Raises
    ------
    ScenarioError
        When the file cannot be read, or says nothing of the kind, or only with values that no step has.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.log"
    ...     _ = path.write_text("iter 10: loss 3.2, time 561.94ms\niter 11: loss 3.1, time 560.00ms\n")
    ...     read_training_log(path).value
    0.56
    """
    patterns = {form: re.compile(pattern, re.IGNORECASE) for form, (pattern, _, _) in _FORMS.items()}
    found: dict[str, list[float]] = {}
    batches: list[int] = []
    steps_per_s: list[float] = []
    unsound = ""
    for line in log_lines(path):
        batches += (int(size) for size in _BATCH.findall(line))
        steps_per_s += (float(rate.replace(",", "")) for rate in _STEPS.findall(line))
        for form, pattern in patterns.items():
            for text in pattern.findall(line):
                digits = text.replace(",", "")
                scale = _SUFFIXES.get(digits[-1].upper())
                value = float(digits[:-1]) * scale if scale else float(digits)
                if _SOUND[0] <= value <= _SOUND[1]:
                    found.setdefault(form, []).append(value)
                else:
                    unsound = unsound or f", only {form} of {text[:_SHOWN]}"
    for form, (_, factor, quantity) in _FORMS.items():
        values = found.get(form)
        if values:
            kept = values[max(1, round(len(values) * _WARM_UP)) if len(values) > 1 else 0 :]
            value = median(1 / kept_one if factor < 0 else kept_one * factor for kept_one in kept)
            if quantity == "samples_per_s" and not batches and len(steps_per_s) == len(values):
                batches += _between(kept[-1], steps_per_s[-1])
            return StepLog(
                source=path.name,
                form=form,
                quantity=quantity,
                value=value,
                count=len(kept),
                global_batch_size=mode(batches) if batches else None,
            )
    problem = f"does not say how long a step takes{unsound}"
    raise ScenarioError([Issue(field="", problem=problem, allowed=", ".join(_FORMS), file=str(path))])


def _between(samples_per_s: float, steps_per_s: float) -> list[int]:
    """Return the one number of sequences that two rates leave a step, as they are rounded; none where several do."""
    if steps_per_s <= _ROUNDED:
        return []
    least = math.ceil((samples_per_s - _ROUNDED) / (steps_per_s + _ROUNDED))
    most = math.floor((samples_per_s + _ROUNDED) / (steps_per_s - _ROUNDED))
    return [least] if least == most > 0 else []
