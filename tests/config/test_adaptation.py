"""What is frozen, and what LoRA adapts: as people write it, and what they are told when it fits nothing."""

import pytest

from simgpu.config import load_cases
from simgpu.errors import ScenarioError


def load(**training):
    base = {"sequence_length": 64, "micro_batch_size": 1}
    (case,) = load_cases({"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "training": {**base, **training}})
    return case.training


@pytest.mark.parametrize("targets", ["all-linear", ["all-linear"], ["down_proj", "o_proj"], "o_proj"])
def test_one_projection_needs_no_list(targets):
    assert load(lora={"rank": 8, "targets": targets}).lora.targets == (
        (targets,) if isinstance(targets, str) else tuple(targets)
    )


@pytest.mark.parametrize("share", [0.25, "0.25", "25e-2"])
def test_a_share_may_be_quoted(share):
    assert load(frozen=share) == load(frozen=0.25)


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"lora": {"rank": 8, "targets": []}},
         "training.lora.targets = []: is an empty list: nothing would be trained; allowed: q_proj, k_proj, v_proj, "
         "o_proj, gate_proj, up_proj, down_proj, all-linear; fix: name a projection, or leave targets out for all-lin"),
        ({"lora": {"rank": 8, "targets": ["q_prj"]}}, "names no projection: q_prj; allowed: q_proj, k_proj"),
        ({"lora": {"rank": 8, "targets": ["q_prj"]}}, "; fix: did you mean q_proj"),
        ({"lora": {"rank": 8, "modules_to_save": "lm_heads"}},
         "training.lora.modules_to_save = lm_heads: names no module that can be trained whole: lm_heads; allowed: "
         "embed_tokens, lm_head; fix: did you mean lm_head?"),
        ({"lora": {"r": 8}}, "training.lora.r = 8: is not a field of SimGPU; fix: use training.lora.rank"),
        ({"lora": {"rank": 8, "target_modules": ["q_proj"]}}, "fix: use training.lora.targets"),
        ({"frozen": -1}, "is negative; allowed: a share of the layers such as 0.5, or names such as [embedding, norm]"),
        ({"frozen": "1.5"}, "leaves nothing to train; allowed: a share of the layers from 0 to below 1"),
        ({"frozen": "nothing"}, "names no weight of gpt2: nothing"),
    ],
)  # fmt: skip
def test_what_fits_nothing_is_answered(training, words):
    with pytest.raises(ScenarioError) as caught:
        load(**training)
    (issue,) = caught.value.issues
    assert words in str(issue)
