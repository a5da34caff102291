"""``perturb.links`` of a scenario, from the file to the step."""

import pytest

import simgpu
from simgpu.errors import ScenarioError

SCENARIO = {
    "model": "gpt2",
    "cluster": {"topology": "dgx-a100", "nodes": 2},
    "training": {"sequence_length": 512, "micro_batch_size": 2, "gradient_accumulation": 1, "precision": "bf16"},
    "parallel": {"data_parallel": "ddp"},
}


def step_ns(fold=True, **links):
    perturb = {"links": [{"link": link, "share": share} for link, share in links.items()]}
    (report,) = simgpu.run({**SCENARIO, "perturb": perturb}, fold=fold)
    return report.step_time_ns


def test_a_slow_port_slows_the_step_and_folding_changes_nothing():
    slow = {"node1/nic3<->pod0/leaf3": 0.1}
    assert step_ns(**slow) > step_ns()
    assert step_ns(fold=False, **slow) == step_ns(**slow)


def test_an_absent_port_slows_it_less_than_one_that_crawls():
    assert step_ns() < step_ns(**{"node1/nic3<->pod0/leaf3": 0}) < step_ns(**{"node1/nic3<->pod0/leaf3": 0.1})


def test_messages_name_the_line(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "model: gpt2\ncluster: {topology: dgx-a100}\n"
        "training: {sequence_length: 512, micro_batch_size: 2, gradient_accumulation: 1}\n"
        "perturb:\n  links:\n    - {link: node0/gpu0->nvswitch0, share: 0.5}\n"
        "    - {link: node0/gpu9->nvswitch0, share: 2}\n",
        encoding="utf-8",
    )
    with pytest.raises(ScenarioError) as error:
        simgpu.run(path)
    assert "s.yaml:7: perturb.links[1].share = 2: is above 1; allowed: 0 (none) to 1 (all)" in str(error.value)
    path.write_text(path.read_text(encoding="utf-8").replace("share: 2", "share: 0.2"), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        simgpu.run(path)
    assert "s.yaml:7: perturb.links[1].link = node0/gpu9->nvswitch0: no link of DGX A100 has this name" in str(
        error.value
    )
