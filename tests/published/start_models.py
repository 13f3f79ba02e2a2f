"""Sets of ONNX models with random weights, for start.py: `write(SET, FOLDER)` makes a repository of them."""

import math

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

MIB = 1 << 20


class Graph:
    """A graph that grows node by node. Names are numbers."""

    def __init__(self, seed):
        self.chance, self.nodes, self.weights = numpy.random.default_rng(seed), [], []

    def weight(self, *shape):
        """A weight with random numbers."""
        name = f"w{len(self.weights)}"
        values = self.chance.standard_normal(shape, numpy.float32) / numpy.float32(math.sqrt(shape[0]))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, values):
        """Whole numbers, as shapes and axes are."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(numpy.array(values, numpy.int64), name))
        return name

    def node(self, operator, *inputs, **attributes):
        """A node, and the name of its output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def dense(self, x, wide, to):
        """A product with a matrix, and a sum."""
        return self.node("Add", self.node("MatMul", x, self.weight(wide, to)), self.weight(to))

    def save(self, folder, dtype, shape, output):
        """The file of version 1. `x` is the input, `y` the output."""
        nodes = [*self.nodes, helper.make_node("Identity", [output], ["y"])]
        ports = [helper.make_tensor_value_info("x", dtype, ["rows", *shape])]
        answers = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph(nodes, "g", ports, answers, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (folder / "1").mkdir(parents=True)
        onnx.save(model, folder / "1/model.onnx")


def layers(folder, seed, size):
    """Four products of matrices, one after the other."""
    graph, wide = Graph(seed), max(8, int(math.sqrt(size / 4 / 4)))
    x = "x"
    for _ in range(4):
        x = graph.node("Relu", graph.dense(x, wide, wide))
    graph.save(folder, TensorProto.FLOAT, [wide], x)


def images(folder, seed, size):
    """Nine convolutions for images of 32 × 32 or 64 × 64, as wide as their bytes allow."""
    graph, wide = Graph(seed), max(4, int(math.sqrt(size / 4 / 9 / 8)))
    side = 64 if seed % 2 else 32
    x, channels = "x", 3
    for at in range(9):
        stride = [2, 2] if at % 3 == 0 else [1, 1]
        kernel = graph.weight(wide, channels, 3, 3)
        x = graph.node("Relu", graph.node("Conv", x, kernel, pads=[1, 1, 1, 1], strides=stride))
        channels = wide
    x = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    graph.save(folder, TensorProto.FLOAT, [3, side, side], graph.dense(x, wide, 10))


def texts(folder, seed, size):
    """An encoder of up to six layers for 32 tokens, with a table of 4,000 words."""
    graph, heads, count = Graph(seed), 4, 2 + seed % 5
    # size / 4 = 12 wide² count + 4000 wide
    a, b, c = 12 * count, 4000, -size / 4
    wide = max(8, int((math.sqrt(b * b - 4 * a * c) - b) / (2 * a)) // 8 * 8)
    x = graph.node("Gather", graph.weight(4000, wide), "x")
    split = graph.constant([0, 0, heads, wide // heads])
    joined = graph.constant([0, 0, wide])
    scale = graph.weight(1)
    for _ in range(count):
        parts = []
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            part = graph.node("Reshape", graph.dense(x, wide, wide), split)
            parts.append(graph.node("Transpose", part, perm=order))
        scores = graph.node("Mul", graph.node("MatMul", parts[0], parts[1]), scale)
        mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), parts[2])
        mixed = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        x = norm(graph, graph.node("Add", x, graph.dense(mixed, wide, wide)), wide)
        inner = graph.node("Relu", graph.dense(x, wide, 4 * wide))
        x = norm(graph, graph.node("Add", x, graph.dense(inner, 4 * wide, wide)), wide)
    graph.save(folder, TensorProto.INT64, [32], graph.node("ReduceMean", x, axes=[1], keepdims=0))


def norm(graph, x, wide):
    """The norm of a layer."""
    return graph.node("LayerNormalization", x, graph.weight(wide), graph.weight(wide))


def tables(folder, seed, size):
    """Rows of a table, and two small products, as recommenders have."""
    graph, wide = Graph(seed), 32
    x = graph.node("Gather", graph.weight(max(4000, size // 4 // wide), wide), "x")
    x = graph.node("ReduceMean", x, axes=[1], keepdims=0)
    x = graph.dense(graph.node("Relu", graph.dense(x, wide, 64)), 64, 1)
    graph.save(folder, TensorProto.INT64, [8], x)


def small(folder, models):
    """So many models `y = Abs(x)`."""
    for index in range(models):
        graph = Graph(index)
        graph.save(folder / f"m{index}", TensorProto.FLOAT, [4], graph.node("Abs", "x"))


def mixed(folder, models):
    """Four kinds of 0.1 to 100 MB. As many have less than 3 MB as have more."""
    kinds = [layers, images, texts, tables]
    for index in range(models):
        kind, step = kinds[index % len(kinds)], index / max(1, models - 1)
        kind(folder / f"{kind.__name__}{index}", index, int(1e5 * 1000**step))


def large(folder, models):
    """So many models of 160 MiB."""
    for index in range(models):
        layers(folder / f"m{index}", index, 160 * MIB)


SETS = {"small": small, "mixed": mixed, "large": large}
