import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.dtypes import DType
from simgpu.errors import ModelError
from simgpu.workload.bundled import bundled_config, bundled_model
from simgpu.workload.convolution import Convolution, Images, batch_norm
from simgpu.workload.families import model_units
from simgpu.workload.huggingface import model_from_huggingface
from simgpu.workload.op import Gemm
from simgpu.workload.resnet import ResNet
from simgpu.workload.training import Training


def batch(size=32, **changes):
    return Training(sequence_length=1, micro_batch_size=size, accumulation=1, **changes)


def ops(items, kind):
    return {item.name: item for item in items if isinstance(item, kind)}


def test_convolution_is_an_implicit_product():
    images = Images(batch=8, size=56, channels=64, element=2)
    convolution = Convolution(name="c", images=images, channels=128, kernel=3, stride=2, dtype=DType.FP16)
    forward, dgrad, wgrad = convolution.gemms()
    assert (forward.m, forward.n, forward.k) == (8 * 28 * 28, 128, 64 * 9)
    assert forward.flops == dgrad.flops == wgrad.flops == 2 * 8 * 28**2 * 128 * 64 * 9
    # pixels are read once, not once per window
    stored = 8 * 56**2 * 64 + 128 * 64 * 9 + 8 * 28**2 * 128
    assert forward.bytes == dgrad.bytes == wgrad.bytes == 2 * stored
    assert convolution.output == Images(batch=8, size=28, channels=128, element=2)


def test_odd_maps_round_up():
    images = Images(batch=1, size=7, channels=3, element=2)
    assert Convolution(name="c", images=images, channels=1, kernel=3, stride=2).output.size == 4


def test_batch_norm_bytes():
    images = Images(batch=2, size=4, channels=8, element=2)
    piece = batch_norm("bn", images, relu=True)
    assert [(op.name, op.bytes) for op in piece.forward] == [("bn", 3 * 512), ("bn.relu", 2 * 512)]
    assert sum(op.bytes for op in piece.backward[:-1]) == (3 + 5) * 512
    assert piece.saved_bytes == 512
    assert [op.name for op in batch_norm("bn", images, relu=False).forward] == ["bn"]


def test_parameters_are_torchvisions_in_its_order():
    names = [name for name, _ in bundled_model("resnet-18").named_parameters]
    assert names[:9] == [
        "conv1.weight",
        "bn1.weight",
        "bn1.bias",
        "layer1.0.conv1.weight",
        "layer1.0.bn1.weight",
        "layer1.0.bn1.bias",
        "layer1.0.conv2.weight",
        "layer1.0.bn2.weight",
        "layer1.0.bn2.bias",
    ]
    strided = [name.removeprefix("layer2.0.") for name in names if name.startswith("layer2.0.")]
    assert strided[-3:] == ["downsample.0.weight", "downsample.1.weight", "downsample.1.bias"]
    assert names[-2:] == ["fc.weight", "fc.bias"]
    assert len(names) == 62
    bottleneck = [name for name, _ in bundled_model("resnet-50").named_parameters]
    assert len(bottleneck) == 161
    assert bottleneck[3:12] == [f"layer1.0.{part}{i}.{end}" for i in (1, 2, 3) for part, end in
                                (("conv", "weight"), ("bn", "weight"), ("bn", "bias"))]  # fmt: skip


def test_running_statistics_are_no_parameters():
    units = model_units(bundled_model("resnet-50"), batch()).units
    # 26,560 channels of 53 norms: mean and variance in fp32, a count in int64
    assert sum(unit.buffer_bytes for unit in units) == 2 * 4 * 26_560 + 8 * 53


@pytest.mark.parametrize(
    ("name", "gmacs"), [("resnet-18", 1.814), ("resnet-34", 3.664), ("resnet-50", 4.089), ("resnet-152", 11.514)]
)
def test_forward_flops_are_torchvisions(name, gmacs):
    # _ops of the weights in pytorch/vision torchvision/models/resnet.py, in 1e9 multiply-adds per image
    units = model_units(bundled_model(name), batch(1)).units
    forward = sum(op.flops for unit in units for op in ops(unit.forward, Gemm).values())
    assert forward / 2e9 == pytest.approx(gmacs, rel=2e-3)


def test_the_image_has_no_gradient():
    units = model_units(bundled_model("resnet-50"), batch())
    assert "conv1.dgrad" not in ops(units.embedding.backward, Gemm)
    assert "layer1.0.conv1.dgrad" in ops(units.layers[0].units[0].backward, Gemm)


def test_strides_are_on_the_wide_kernels():
    block = model_units(bundled_model("resnet-50"), batch(1)).layers[3].units[0]
    sizes = {name: op.m for name, op in ops(block.forward, Gemm).items()}
    assert sizes == {
        "layer2.0.conv1": 56**2,
        "layer2.0.conv2": 28**2,
        "layer2.0.conv3": 28**2,
        "layer2.0.downsample.0": 28**2,
    }


def test_refusals():
    config = bundled_config("resnet-50")
    for changes, words in (
        ({"hidden_sizes": [256, 512, 1024, 1024]}, "hidden_sizes"),
        ({"downsample_in_bottleneck": True}, "downsample_in_bottleneck"),
        ({"layer_type": "wide"}, "layer_type = 'wide'"),
        ({"depths": "3463"}, "depths = '3463'"),
        ({"depths": [3, 0]}, r"depths\[1\] = 0"),
    ):
        changed = {**config, **changes}
        if "depths" in changes:
            del changed["hidden_sizes"]
        with pytest.raises(ModelError, match=words):
            model_from_huggingface(changed, name="r")
    with pytest.raises(ModelError, match="block = 'wide'"):
        ResNet(name="r", family="resnet", block="wide", depths=())


@pytest.mark.parametrize(
    ("topology", "size", "images_per_s"),
    [
        # NVIDIA/DeepLearningExamples PyTorch/Classification/ConvNets/resnet50v1.5: one GPU, AMP, channels last
        ("dgx-a100", 256, 2470),
        ("dgx-1v", 256, 1156),
        # sandeepkumar-skb/pytorch_experiments torchvision_exp: 110.93 ms
        ("dgx-1v", 128, 1154),
    ],
)
def test_published_throughput(topology, size, images_per_s):
    # nothing is fitted to these; a tenth is what the rates of GEMMs and copies leave open for convolutions
    scenario = {
        "model": "resnet-50",
        "cluster": {"topology": topology, "nodes": 1, "gpus": 1},
        "training": {"micro_batch_size": size, "precision": "fp16", "optimizer": "sgd"},
    }
    (case,) = load_cases(scenario)
    assert simulate(case).tokens_per_s == pytest.approx(images_per_s, rel=0.1)
