"""Networks for images as PyTorch's modules: ResNet-18, a U-Net, and a detector with the blocks of YOLO's later
versions; and their files as TorchScript, as ONNX, and as ONNX with convolutions of eight bits."""

import onnx
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import nn
from torch.nn import functional as F


def conv(channels, to, size=3, stride=1, active=nn.ReLU):
    """Convolution, batch normalisation, activation."""
    return nn.Sequential(nn.Conv2d(channels, to, size, stride, size // 2, bias=False), nn.BatchNorm2d(to), active())


class Residual(nn.Module):
    """The block of ResNet-18."""

    def __init__(self, channels, to, stride):
        super().__init__()
        self.first, self.second = conv(channels, to, 3, stride), conv(to, to, 3, 1, nn.Identity)
        self.beside = conv(channels, to, 1, stride, nn.Identity) if stride > 1 or channels != to else nn.Identity()

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.beside(x))


class ResNet18(nn.Module):
    """A thousand classes."""

    def __init__(self):
        super().__init__()
        widths = (64, 64, 128, 256, 512)
        blocks = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        for at, (channels, to) in enumerate(zip(widths, widths[1:])):
            blocks += [Residual(channels, to, 1 + (at > 0)), Residual(to, to, 1)]
        self.body, self.classes = nn.Sequential(*blocks), nn.Linear(512, 1000)

    def forward(self, images):
        return self.classes(self.body(images).mean((2, 3)))


class UNet(nn.Module):
    """Two classes for each pixel."""

    def __init__(self, wide=32, depth=4):
        super().__init__()
        widths = [wide * 2**it for it in range(depth + 1)]
        self.down = nn.ModuleList(double(channels, to) for channels, to in zip([3, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * it, it, 2, 2) for it in widths[-2::-1])
        self.joined = nn.ModuleList(double(2 * it, it) for it in widths[-2::-1])
        self.classes = nn.Conv2d(wide, 2, 1)

    def forward(self, images):
        kept, x = [], images
        for at, block in enumerate(self.down):
            x = block(x if at == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, joined, beside in zip(self.up, self.joined, kept[-2::-1]):
            x = joined(torch.cat([beside, up(x)], 1))
        return self.classes(x)


def double(channels, to):
    """Two convolutions."""
    return nn.Sequential(conv(channels, to), conv(to, to))


class Parts(nn.Module):
    """Half of the channels goes through further blocks, and all that these give is kept."""

    def __init__(self, channels, to, count):
        super().__init__()
        self.first, self.last = conv(channels, to, 1, 1, nn.SiLU), conv(to * (2 + count) // 2, to, 1, 1, nn.SiLU)
        half = to // 2
        self.blocks = nn.ModuleList(
            nn.Sequential(conv(half, half, 3, 1, nn.SiLU), conv(half, half, 3, 1, nn.SiLU)) for _ in range(count))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """Boxes and classes of the cells of three grids, as raw numbers: [1, 144, cells]."""

    def __init__(self, outputs=144):
        super().__init__()
        widths = (16, 32, 64, 128, 256)
        self.first = conv(3, 16, 3, 2, nn.SiLU)
        self.stages = nn.ModuleList(
            nn.Sequential(conv(channels, to, 3, 2, nn.SiLU), Parts(to, to, 2))
            for channels, to in zip(widths, widths[1:]))
        self.heads = nn.ModuleList(
            nn.Sequential(conv(it, 64, 3, 1, nn.SiLU), conv(64, 64, 3, 1, nn.SiLU), nn.Conv2d(64, outputs, 1))
            for it in widths[-3:])

    def forward(self, images):
        x, grids = self.first(images), []
        for stage in self.stages:
            x = stage(x)
            grids.append(x)
        return torch.cat([head(it).flatten(2) for head, it in zip(self.heads, grids[-3:])], 2)


# With the side of their images.
ALL = {"resnet-18": (ResNet18, 224), "u-net": (UNet, 256), "detector": (Detector, 416)}


def output(module, side):
    """The sizes of the output."""
    with torch.inference_mode():
        return tuple(module().eval()(torch.zeros(1, 3, side, side)).shape)


class Pixels(CalibrationDataReader):
    """Some random images."""

    def __init__(self, side, count=4):
        chance = torch.Generator().manual_seed(1)
        self.left = [{"images": torch.rand(1, 3, side, side, generator=chance).numpy()} for _ in range(count)]

    def get_next(self):
        return self.left.pop() if self.left else None


def write(module, side, folder):
    """The three files of a network, each in a folder of its form."""
    torch.manual_seed(0)
    network = module().eval()
    sample = torch.rand(1, 3, side, side)
    with torch.inference_mode():
        torch.jit.trace(network, sample).save(folder / "torchscript/model.pt")
        # Evaluated, but with batch normalisation as it was trained with: folding it is the optimiser's work.
        torch.onnx.export(
            network, (sample,), folder / "onnx/model.onnx", input_names=["images"], output_names=["output"],
            dynamo=False, opset_version=17, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    fused = folder / "fused.onnx"
    quant_pre_process(folder / "onnx/model.onnx", fused, skip_symbolic_shape=True)
    quantize_static(
        fused, folder / "int8/model.onnx", Pixels(side), quant_format=QuantFormat.QDQ, op_types_to_quantize=["Conv"],
        weight_type=QuantType.QInt8, per_channel=True)
    fused.unlink()
    onnx.checker.check_model(folder / "int8/model.onnx")
