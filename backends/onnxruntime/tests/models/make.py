"""Makes the models beside it. Needs `onnx` and `numpy`; run it after a change and commit what it writes."""

from pathlib import Path

import numpy
import onnx
from onnx import TensorProto as T
from onnx import helper as h

HERE = Path(__file__).parent

TYPES = {
    "BOOL": T.BOOL, "UINT8": T.UINT8, "UINT16": T.UINT16, "UINT32": T.UINT32, "UINT64": T.UINT64,
    "INT8": T.INT8, "INT16": T.INT16, "INT32": T.INT32, "INT64": T.INT64, "FP16": T.FLOAT16,
    "BF16": T.BFLOAT16, "FP32": T.FLOAT, "FP64": T.DOUBLE, "BYTES": T.STRING,
}


def value(name, dims, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, dims)


def save(name, nodes, inputs, outputs, initializers=(), opsets=(("", 17),), check=True, **kwargs):
    graph = h.make_graph(nodes, Path(name).stem, inputs, outputs, list(initializers))
    opsets = [h.make_opsetid(domain, version) for domain, version in opsets]
    model = h.make_model(graph, opset_imports=opsets, ir_version=9)
    if check:
        onnx.checker.check_model(model)
    (HERE / name).parent.mkdir(exist_ok=True)
    onnx.save(model, HERE / name, **kwargs)


def weights(name, shape, scale=0.05):
    array = numpy.random.default_rng(7).normal(0, scale, shape).astype(numpy.float32)
    return onnx.numpy_helper.from_array(array, name)


for name, dtype in TYPES.items():
    save(f"identity/{name}.onnx", [h.make_node("Identity", ["x"], ["y"])],
         [value("x", ["rows", "columns"], dtype)], [value("y", ["rows", "columns"], dtype)])

save("scalar.onnx", [h.make_node("Add", ["x", "x"], ["y"])], [value("x", [])], [value("y", [])])

save("sum_difference.onnx",
     [h.make_node("Add", ["a", "b"], ["sum"]), h.make_node("Sub", ["a", "b"], ["difference"])],
     [value("a", ["rows", 4]), value("b", ["rows", 4])],
     [value("sum", ["rows", 4]), value("difference", ["rows", 4])])

save("nonzero.onnx", [h.make_node("Cast", ["x"], ["y"], to=T.INT32)],
     [value("x", ["rows"], T.BOOL)], [value("y", ["rows"], T.INT32)])

save("quotient.onnx",
     [h.make_node("Div", ["a", "b"], ["quotient"]), h.make_node("Mod", ["a", "b"], ["rest"])],
     [value("a", ["rows", 2], T.INT64), value("b", ["rows", 2], T.INT64)],
     [value("quotient", ["rows", 2], T.INT64), value("rest", ["rows", 2], T.INT64)])

# A gigabyte that no weights stand behind: made and used up while the model is loaded.
save("filled.onnx",
     [h.make_node("ConstantOfShape", ["shape"], ["zeros"]),
      h.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0), h.make_node("Add", ["x", "sum"], ["y"])],
     [value("x", ["rows", 1])], [value("y", ["rows", 1])],
     [onnx.numpy_helper.from_array(numpy.array([1 << 28], numpy.int64), "shape")])

# As many floats as a request says, and their sum.
save("expanded.onnx",
     [h.make_node("Expand", ["x", "shape"], ["many"]), h.make_node("ReduceSum", ["many"], ["y"], keepdims=0)],
     [value("x", [1]), value("shape", [1], T.INT64)], [value("y", [])])

# As many copies of a text as a request says, and how many these are.
save("repeated.onnx",
     [h.make_node("Tile", ["x", "count"], ["many"]), h.make_node("Shape", ["many"], ["y"])],
     [value("x", ["rows"], T.STRING), value("count", [1], T.INT64)], [value("y", [1], T.INT64)])

save("matmul.onnx", [h.make_node("MatMul", ["a", "b"], ["c"])],
     [value("a", ["m", "k"]), value("b", ["k", "n"])], [value("c", ["m", "n"])])

save("gather.onnx", [h.make_node("Gather", ["table", "index"], ["y"])],
     [value("index", ["rows"], T.INT64)], [value("y", ["rows"])],
     [onnx.numpy_helper.from_array(numpy.array([10, 20, 30], numpy.float32), "table")])

# The output is the input itself.
save("passthrough.onnx", [h.make_node("Identity", ["x"], ["y"])],
     [value("x", ["rows"])], [value("x", ["rows"]), value("y", ["rows"])])

# The output is a weight.
save("constant.onnx", [h.make_node("Identity", ["x"], ["y"])],
     [value("x", ["rows"])], [value("y", ["rows"]), value("w", [2048])],
     [onnx.numpy_helper.from_array(numpy.arange(2048, dtype=numpy.float32), "w")])

# `bias` may be given, and is zero else.
save("optional.onnx", [h.make_node("Add", ["x", "bias"], ["y"])],
     [value("x", ["rows", 2]), value("bias", [2])], [value("y", ["rows", 2])],
     [onnx.numpy_helper.from_array(numpy.zeros(2, numpy.float32), "bias")])

# The mean of each channel of an image: much to read, little to do.
save("means.onnx", [h.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)],
     [value("x", ["rows", 3, 224, 224])], [value("y", ["rows", 3])])

# Multiplies a matrix of 64 × 64 by itself `count` times.
body = h.make_graph(
    [h.make_node("MatMul", ["before", "before"], ["product"]),
     h.make_node("Tanh", ["product"], ["after"]),
     h.make_node("Identity", ["go"], ["go_on"])],
    "body",
    [value("step", [], T.INT64), value("go", [], T.BOOL), value("before", [64, 64])],
    [value("go_on", [], T.BOOL), value("after", [64, 64])])
save("long.onnx",
     [h.make_node("Constant", [], ["yes"], value=h.make_tensor("", T.BOOL, [], [True])),
      h.make_node("Loop", ["count", "yes", "x"], ["y"], body=body)],
     [value("count", [], T.INT64), value("x", [64, 64])], [value("y", [64, 64])])

# One operator without inputs from outside, which ONNX Runtime runs as it makes a session: for hours.
save("endless.onnx",
     [h.make_node("ConstantOfShape", ["shape"], ["zeros"]),
      h.make_node("MaxPool", ["zeros"], ["pooled"], kernel_shape=[4001, 4001], pads=[2000] * 4),
      h.make_node("ReduceMax", ["pooled"], ["zero"], keepdims=0),
      h.make_node("Add", ["x", "zero"], ["y"])],
     [value("x", ["rows", 1])], [value("y", ["rows", 1])],
     [onnx.numpy_helper.from_array(numpy.array([1, 1, 4000, 4000], numpy.int64), "shape")])

save("external/model.onnx", [h.make_node("MatMul", ["x", "w"], ["y"])],
     [value("x", ["rows", 16])], [value("y", ["rows", 16])], [weights("w", (16, 16))],
     save_as_external_data=True, location="weights.bin", size_threshold=0)

save("mlp.onnx",
     [h.make_node("Gemm", ["x", "w1", "b1"], ["h1"]), h.make_node("Relu", ["h1"], ["r1"]),
      h.make_node("Gemm", ["r1", "w2", "b2"], ["h2"]), h.make_node("Relu", ["h2"], ["r2"]),
      h.make_node("Gemm", ["r2", "w3", "b3"], ["y"])],
     [value("x", ["rows", 30])], [value("y", ["rows", 2])],
     [weights("w1", (30, 64)), weights("b1", (64,)), weights("w2", (64, 64)), weights("b2", (64,)),
      weights("w3", (64, 2)), weights("b3", (2,))])

# A classifier as converters make it; no other operator is there, and so no version of ONNX's own ones.
strings = h.make_map_type_proto(T.STRING, h.make_tensor_type_proto(T.FLOAT, []))
save("zipmap.onnx",
     [h.make_node("ZipMap", ["x"], ["probabilities"], domain="ai.onnx.ml", classlabels_strings=["b", "a"])],
     [value("x", ["rows", 2])],
     [h.make_value_info("probabilities", h.make_sequence_type_proto(strings))],
     opsets=(("ai.onnx.ml", 3),))

# What cannot be served.
floats = h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, ["rows", 2]))
save("refused/sequence_output.onnx", [h.make_node("SequenceConstruct", ["x"], ["list"])],
     [value("x", ["rows", 2])], [h.make_value_info("list", floats)])
floats = h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, ["rows"]))
save("refused/sequence.onnx",
     [h.make_node("SequenceAt", ["list", "index"], ["y"])],
     [h.make_value_info("list", floats), value("index", [], T.INT64)], [value("y", ["rows"])])
maybe = h.make_optional_type_proto(h.make_tensor_type_proto(T.FLOAT, ["rows"]))
save("refused/optional.onnx", [h.make_node("Optional", ["x"], ["y"])],
     [value("x", ["rows"])], [h.make_value_info("y", maybe)])
save("refused/complex.onnx", [h.make_node("Identity", ["x"], ["y"])],
     [value("x", [2], T.COMPLEX64)], [value("y", [2], T.COMPLEX64)])
save("refused/float8.onnx", [h.make_node("Cast", ["x"], ["y"], to=T.FLOAT8E5M2)],
     [value("x", [2])], [value("y", [2], T.FLOAT8E5M2)], opsets=(("", 19),), check=False)
save("refused/int4.onnx", [h.make_node("Identity", ["x"], ["y"])],
     [value("x", [2], T.INT4)], [value("y", [2], T.INT4)], opsets=(("", 21),), check=False)
save("refused/opset.onnx", [h.make_node("Identity", ["x"], ["y"])],
     [value("x", [1])], [value("y", [1])], opsets=(("", 99),), check=False)
save("refused/custom_op.onnx", [h.make_node("Frobnicate", ["x"], ["y"], domain="com.example")],
     [value("x", [1])], [value("y", [1])], opsets=(("", 17), ("com.example", 1)), check=False)
