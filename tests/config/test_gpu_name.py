import pytest

from simgpu.config.gpu_name import find_gpu, gpus_named, measured_gpu
from simgpu.errors import ScenarioError
from simgpu.hardware.gpu import gpu_names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100-sxm-80gb", "H100-SXM5-80GB"),
        ("H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("a100 40 gb sxm", "A100-SXM4-40GB"),
        ("A100-80GB-PCIe", "A100-PCIe-80GB"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("rtx4090", "RTX-4090"),
        ("H200", "H200-SXM5-141GB"),
        ("B200", "B200-SXM-180GB"),
        ("gb200", "GB200"),
        ("L40", "L40"),
        ("H100-80GB SXM5 (700 W)", "H100-SXM5-80GB"),
    ],
)
def test_names_as_people_and_drivers_write_them(name, expected):
    assert gpus_named(name) == (expected,)
    assert find_gpu(name).name == expected


@pytest.mark.parametrize("name", gpu_names())
def test_every_name_of_the_catalogue_means_itself(name):
    assert gpus_named(name) == (name,)


@pytest.mark.parametrize("name", ["", "()", "h10", "h100nvlx", "tpu", "nvidia", "é"])
def test_what_is_no_gpu(name):
    assert gpus_named(name) == ()
    with pytest.raises(ScenarioError, match="is no GPU that SimGPU knows"):
        find_gpu(name)


def test_an_open_name_is_answered_with_what_it_may_mean():
    with pytest.raises(ScenarioError, match="may be several GPUs; fix: name one: A100-SXM4-80GB, A100-PCIe-80GB"):
        find_gpu("a100-80gb")
    assert measured_gpu("A100 80GB") == "gpu 'A100 80GB' may be A100-SXM4-80GB or A100-PCIe-80GB"


def test_a_wrong_name_is_answered_with_near_ones():
    with pytest.raises(ScenarioError, match="fix: did you mean H100-PCIe-80GB"):
        find_gpu("h100-pcei-80gb")
