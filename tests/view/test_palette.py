"""Colours that can meet on one row are told apart by normal and by colour-blind eyes."""

from itertools import combinations

import pytest

from simgpu.metrics.activity import CLASSES as ACCOUNTING
from simgpu.view.palette import CLASSES, GANTT, Paint, memory_colours, tint

# Full dichromacy on linear RGB: Machado, Oliveira, Fernandes 2009 (IEEE TVCG 15(6)), table 1, severity 1.0.
EYES = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def oklab(colour: str, eye: str) -> tuple[float, ...]:
    """Ottosson's perceptual space; 0.02 is about the smallest difference a trained eye sees side by side."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    r, g, b = (min(1.0, max(0.0, sum(m * c for m, c in zip(row, linear, strict=True)))) for row in EYES[eye])
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def difference(a: Paint, b: Paint, eye: str) -> float:
    seen = [oklab(paint.colour, eye) for paint in (a, b)]
    return sum((x - y) ** 2 for x, y in zip(*seen, strict=True)) ** 0.5


ON_COMPUTE = {
    "forward",
    "recompute",
    "backward",
    "weight",
    "optimizer",
    *(key for key in GANTT if key.startswith("exposed.")),
}
ON_STREAMS = {key for key in GANTT if key.startswith("transfer.")}
IN_BREAKDOWN = {key for key, paint in CLASSES.items() if not paint.hatch}


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize(
    ("paints", "least"),
    [
        ([GANTT[key] for key in sorted(ON_COMPUTE)], 0.12),
        ([GANTT[key] for key in sorted(ON_STREAMS)], 0.06),
        ([CLASSES[key] for key in sorted(IN_BREAKDOWN)], 0.08),
    ],
    ids=["compute row", "stream rows", "breakdown"],
)
def test_what_meets_is_told_apart(paints, least, eye):
    worst = min((difference(a, b, eye), a.label, b.label) for a, b in combinations(paints, 2))
    assert worst[0] >= least, worst


def test_idleness_is_hatched_and_nothing_else_is():
    assert {key for key, paint in GANTT.items() if paint.hatch} == {"bubble", "straggler", "host", "rendezvous"}


def test_every_accounting_class_has_its_colour_everywhere_the_same():
    assert tuple(CLASSES) == ACCOUNTING
    shared = {key for key in CLASSES if key in GANTT}
    assert shared >= {"bubble", "straggler", "host", "exposed.dp"}
    assert all(CLASSES[key] is GANTT[key] for key in shared)
    assert CLASSES["compute.optimizer"].colour == GANTT["optimizer"].colour


def test_words_inside_are_readable():
    def luminance(colour):
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for paint in (*GANTT.values(), *CLASSES.values()):
        ground = tint(paint.colour, paint.opacity)
        light, dark = sorted((luminance(ground), luminance(paint.ink)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3.5, (paint.label, paint.ink, ground)


def test_memory_colours_are_distinct():
    names = ("weights", "gradients", "optimizer", "activations", "recomputed", "gathered", "buckets", "communication",
             "logits", "context", "odd", "odder")  # fmt: skip
    assert len(set(memory_colours(names).values())) == len(names)
