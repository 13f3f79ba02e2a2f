"""Writes detectors as Ultralytics exports them, with random weights, and a photograph: `detector.py DIR`.

`detector.onnx` has the layers of YOLOv8n; `detector-fp16.onnx` and `detector-int8.onnx` are made of it; `light.onnx` has
its outputs for next to no work. A bias is set so that some hundred boxes of the photograph pass the threshold.
"""

import sys
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from prepare import letterbox

CLASSES = 80
SIDE = 640
STRIDES = (8, 16, 32)
BOXES = sum((SIDE // it) ** 2 for it in STRIDES)
# Boxes that pass, before those that overlap are suppressed.
CANDIDATES = 100
THRESHOLD = 0.25


class Graph:
    """A graph under construction: its weights are the same at each time."""

    def __init__(self, dtype=np.float32):
        self.nodes, self.weights = [], []
        self.dtype = dtype
        self.random = np.random.default_rng(11)

    def constant(self, values):
        """The name of a constant."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def floats(self, values):
        """A constant of the type of the graph."""
        return self.constant(np.asarray(values, self.dtype))

    def integers(self, *values):
        """A constant of whole numbers."""
        return self.constant(np.array(values, np.int64))

    def node(self, operator, *inputs, outputs=1, **attributes):
        """The name of the output of a node, or a list of several."""
        names = [f"n{len(self.nodes)}_{it}" for it in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def plain(self, x, channels, to, bias, spread=1.0):
        """A convolution of 1 x 1 with a bias."""
        weight = self.random.normal(0, spread * channels**-0.5, (to, channels, 1, 1))
        return self.node("Conv", x, self.floats(weight), self.floats(np.full(to, bias)), kernel_shape=[1, 1])

    def conv(self, x, channels, to, size=1, stride=1):
        """Convolution, batch normalisation and SiLU, as they stand in a graph that was exported while it was trained."""
        weight = self.random.normal(0, (2.5 / (channels * size * size)) ** 0.5, (to, channels, size, size))
        pad = size // 2
        y = self.node(
            "Conv", x, self.floats(weight), kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4
        )
        normal = [self.floats(it) for it in (np.ones(to), self.random.normal(0, 0.1, to), np.zeros(to), np.ones(to))]
        y = self.node("BatchNormalization", y, *normal)
        return self.node("Mul", y, self.node("Sigmoid", y))

    def c2f(self, x, channels, to, count, adds):
        """The block of that name: what each of its parts gives is kept."""
        half = to // 2
        parts = self.node("Split", self.conv(x, channels, to), outputs=2, axis=1, num_outputs=2)
        for _ in range(count):
            y = self.conv(self.conv(parts[-1], half, half, 3), half, half, 3)
            parts.append(self.node("Add", parts[-1], y) if adds else y)
        return self.conv(self.node("Concat", *parts, axis=1), half * (2 + count), to)

    def pooled(self, x, channels):
        """Three poolings of 5 x 5 behind each other, all of them kept."""
        parts = [self.conv(x, channels, channels // 2)]
        for _ in range(3):
            parts.append(self.node("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
        return self.conv(self.node("Concat", *parts, axis=1), channels * 2, channels)

    def enlarged(self, x):
        """Twice the height and width."""
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        return self.node("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric")

    def flat(self, x, rows):
        """All cells behind each other."""
        return self.node("Reshape", x, self.integers(1, rows, -1))

    def model(self, output):
        """The file, with what Ultralytics says in it."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self.nodes.append(helper.make_node("Identity", [output], ["output0"]))
        ports = [
            helper.make_tensor_value_info("images", kind, [1, 3, SIDE, SIDE]),
            helper.make_tensor_value_info("output0", kind, [1, 4 + CLASSES, BOXES]),
        ]
        graph = helper.make_graph(self.nodes, "detector", ports[:1], ports[1:], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        helper.set_model_props(model, said())
        return model


def said():
    """What Ultralytics' exports say of themselves."""
    names = {it: f"thing {it}" for it in range(CLASSES)}
    sizes = {"stride": "32", "imgsz": str([SIDE, SIDE]), "batch": "1"}
    return {"task": "detect", "names": str(names), **sizes, "description": "random weights", "version": "8.3.0"}


def anchors():
    """The centres of the cells of all three grids, and what a step in them is in pixels."""
    cells = [np.stack(np.meshgrid(np.arange(it), np.arange(it)), 0).reshape(2, -1) for it in (80, 40, 20)]
    steps = np.concatenate([np.full(it.shape[1], step) for it, step in zip(cells, STRIDES)])
    return np.concatenate(cells, 1) + 0.5, steps


def detector(bias, dtype=np.float32):
    """The layers of YOLOv8n."""
    graph = Graph(dtype)
    x = graph.conv(graph.conv("images", 3, 16, 3, 2), 16, 32, 3, 2)
    x = graph.conv(graph.c2f(x, 32, 32, 1, True), 32, 64, 3, 2)
    fine = graph.c2f(x, 64, 64, 2, True)
    middle = graph.c2f(graph.conv(fine, 64, 128, 3, 2), 128, 128, 2, True)
    coarse = graph.pooled(graph.c2f(graph.conv(middle, 128, 256, 3, 2), 256, 256, 1, True), 256)
    up = graph.c2f(graph.node("Concat", graph.enlarged(coarse), middle, axis=1), 384, 128, 1, False)
    out_fine = graph.c2f(graph.node("Concat", graph.enlarged(up), fine, axis=1), 192, 64, 1, False)
    down = graph.node("Concat", graph.conv(out_fine, 64, 64, 3, 2), up, axis=1)
    out_middle = graph.c2f(down, 192, 128, 1, False)
    down = graph.node("Concat", graph.conv(out_middle, 128, 128, 3, 2), coarse, axis=1)
    out_coarse = graph.c2f(down, 384, 256, 1, False)
    sides, classes = [], []
    for x, channels in ((out_fine, 64), (out_middle, 128), (out_coarse, 256)):
        side = graph.conv(graph.conv(x, channels, 64, 3), 64, 64, 3)
        sides.append(graph.flat(graph.plain(side, 64, 64, 1.0), 64))
        kind = graph.conv(graph.conv(x, channels, 80, 3), 80, 80, 3)
        classes.append(graph.flat(graph.plain(kind, 80, CLASSES, bias, 12.0), CLASSES))
    # How far each side of a box is away, as a distribution over sixteen distances.
    shares = graph.node("Reshape", graph.node("Concat", *sides, axis=2), graph.integers(1, 4, 16, BOXES))
    shares = graph.node("Softmax", shares, axis=2)
    away = graph.node("Mul", shares, graph.floats(np.arange(16).reshape(1, 1, 16, 1)))
    away = graph.node("ReduceSum", away, graph.integers(2), keepdims=0)
    near, far = graph.node("Split", away, outputs=2, axis=1, num_outputs=2)
    centres, steps = anchors()
    centres = graph.floats(centres[None])
    first, last = graph.node("Sub", centres, near), graph.node("Add", centres, far)
    middle = graph.node("Mul", graph.node("Add", first, last), graph.floats(0.5))
    boxes = graph.node("Concat", middle, graph.node("Sub", last, first), axis=1)
    boxes = graph.node("Mul", boxes, graph.floats(steps[None, None]))
    scores = graph.node("Sigmoid", graph.node("Concat", *classes, axis=2))
    return graph.model(graph.node("Concat", boxes, scores, axis=1))


def light():
    """The same boxes for each image: what serving costs is then nearly all that a request costs."""
    graph = Graph()
    centres, steps = anchors()
    scores = np.zeros((CLASSES, BOXES))
    chosen = graph.random.choice(BOXES, CANDIDATES, replace=False)
    scores[graph.random.integers(0, CLASSES, CANDIDATES), chosen] = np.linspace(0.3, 0.9, CANDIDATES)
    rows = np.concatenate([centres * steps, np.full((2, BOXES), 60.0), scores])[None]
    nothing = graph.node("Mul", graph.node("ReduceMean", "images", keepdims=0), graph.floats(0.0))
    return graph.model(graph.node("Add", graph.floats(rows), nothing))


def photograph():
    """Waves of many lengths with some noise: at this quality as large as a photograph."""
    y, x = np.mgrid[0:1080, 0:1920].astype(np.float32)
    noise = np.random.default_rng(7).normal(0, 2.5, y.shape)

    def waves(channel):
        return sum(np.sin(x / it + channel) * np.cos(y / (it * 0.7) - channel) for it in (3, 11, 37, 160))

    channels = [waves(it) * 28 + 128 + noise for it in range(3)]
    image = np.clip(np.stack(channels, -1), 0, 255).astype(np.uint8)
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()


def scores(model, pixels):
    """What the graph says of the classes of all boxes."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"images": pixels})[0][0, 4:]


class Pixels(CalibrationDataReader):
    """The photograph, once."""

    def __init__(self, pixels):
        self.left = [{"images": pixels}]

    def get_next(self):
        """The next image."""
        return self.left.pop() if self.left else None


def main(folder):
    """Writes all files."""
    folder.mkdir(parents=True, exist_ok=True)
    photo = photograph()
    (folder / "photo.jpg").write_bytes(photo)
    pixels = letterbox(photo, SIDE)[0]
    found = np.sort(scores(detector(0.0), pixels).ravel())[-CANDIDATES]
    bias = float(np.log(THRESHOLD / (1 - THRESHOLD)) - np.log(found / (1 - found)))
    whole = detector(bias)
    save(whole, folder, "detector")
    save(detector(bias, np.float16), folder, "detector-fp16")
    save(light(), folder, "light")
    save(quantized(folder, whole, pixels), folder, "detector-int8")


def save(model, folder, name):
    """Writes a graph, and once more without what it says of itself: that one is served as it is, for tensors."""
    onnx.save(model, folder / f"{name}.onnx")
    del model.metadata_props[:]
    onnx.save(model, folder / f"{name}-plain.onnx")


def quantized(folder, whole, pixels):
    """The graph with convolutions of eight bits."""
    fused, small = folder / "fused.onnx", folder / "small.onnx"
    onnx.save(whole, fused)
    quant_pre_process(fused, fused, skip_symbolic_shape=True)
    quantize_static(
        fused,
        small,
        Pixels(pixels),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=["Conv"],
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    model = onnx.load(small)
    fused.unlink()
    small.unlink()
    del model.metadata_props[:]
    helper.set_model_props(model, said())
    return model


if __name__ == "__main__":
    main(Path(sys.argv[1]))
