"""Models of Triton's interface, run by the real child."""

import json
import unittest

import numpy as np

from fake_server import Bits, Process, call, config, port
from muster_python.tensors import BF16, KINDS

ADD_SUB = """
    import json
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def initialize(self, args):
            self.args = args

        def execute(self, requests):
            responses = []
            for request in requests:
                a = pb_utils.get_input_tensor_by_name(request, "a").as_numpy()
                b = pb_utils.get_input_tensor_by_name(request, "b").as_numpy()
                outputs = [pb_utils.Tensor("sum", a + b), pb_utils.Tensor("difference", a - b)]
                responses.append(pb_utils.InferenceResponse(outputs))
            return responses
"""
ADD_SUB_CONFIG = config(["a", "b"], ["sum", "difference"])


def model(body, before=""):
    """A model whose `execute` has this body, per request."""
    lines = "\n".join(" " * 16 + it for it in body.strip().splitlines())
    return f"""
import json, os, sys
import numpy as np
import triton_python_backend_utils as pb_utils
{before}

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            def one(x=(request.inputs() or [None])[0]):
{lines}
            responses.append(one())
        return responses
"""


def floats(*values):
    return np.array(values, np.float32)


class Wire(unittest.TestCase):
    def test_what_is_asked_for_comes_back(self):
        with Process(ADD_SUB, config=ADD_SUB_CONFIG) as process:
            lane = process.open(ADD_SUB_CONFIG)
            self.assertEqual(lane.opened, {"Ok": None})
            for it in range(3):
                (answer,) = lane.run({"a": floats(1, 2), "b": floats(it, 5)})
                np.testing.assert_array_equal(answer["sum"], floats(1 + it, 7))
                np.testing.assert_array_equal(answer["difference"], floats(1 - it, -3))
            (answer,) = lane.run(call({"a": floats(1), "b": floats(2)}, outputs=["sum"]))
            self.assertEqual(list(answer), ["sum"])
            self.assertEqual(process.end(), 0)

    def test_requests_of_a_batch_have_their_own_rows(self):
        batches = config(["a", "b"], ["sum", "difference"], max_batch_size=8)
        with Process(ADD_SUB, config=batches) as process:
            lane = process.open(batches)
            calls = [
                {"a": np.full((rows, 2), rows, np.float32), "b": np.ones((rows, 2), np.float32)}
                for rows in (1, 3, 2)
            ]
            answers = lane.run(*calls)
            for rows, answer in zip((1, 3, 2), answers):
                np.testing.assert_array_equal(answer["sum"], np.full((rows, 2), rows + 1))

    def test_lanes_run_side_by_side_and_end_one_by_one(self):
        text = """
            import threading
            import triton_python_backend_utils as pb_utils
            both = threading.Barrier(2, timeout=15)

            class TritonPythonModel:
                def initialize(self, args):
                    self.name = args["model_instance_name"]

                def execute(self, requests):
                    both.wait()
                    return [pb_utils.InferenceResponse([], parameters={"name": self.name}) for _ in requests]

                def finalize(self):
                    print("end of", self.name)
        """
        with Process(text, config=config(["x"], ["y"])) as process:
            lanes = [process.open(config(["x"], ["y"]), lane=it) for it in range(2)]
            for lane in lanes:
                lane.start({"x": floats(1)})
            names = [lane.finish()[0].parameters["name"] for lane in lanes]
            self.assertEqual(names, ["m_0", "m_1"])
            lanes[1].end()
            process.wait_for_log("end of m_1")
            self.assertNotIn("end of m_0", process.log())
            self.assertEqual(process.end(), 0)
            process.wait_for_log("end of m_0")

    def test_a_lane_that_looks_for_frames_answers_too(self):
        with Process(ADD_SUB, config=ADD_SUB_CONFIG) as process:
            lane = process.open(ADD_SUB_CONFIG, may_look=True)
            for _ in range(50):
                (answer,) = lane.run({"a": floats(1), "b": floats(2)})
            self.assertEqual(answer["sum"], floats(3))

    def test_memory_is_trimmed_on_the_way(self):
        from muster_python import frames

        with Process(ADD_SUB, config=ADD_SUB_CONFIG) as process:
            lane = process.open(ADD_SUB_CONFIG)
            frames.send(process.control, "TrimMemory")
            self.assertEqual(lane.run({"a": floats(1), "b": floats(2)})[0]["sum"], floats(3))


class Tensors(unittest.TestCase):
    def test_each_type_comes_back_as_it_went(self):
        text = model("""
outputs = [pb_utils.Tensor("y" + it.name(), it.as_numpy()) for it in request.inputs()]
said = {it.name(): [it.triton_dtype(), it.shape()] for it in request.inputs()}
return pb_utils.InferenceResponse(outputs, parameters={"said": json.dumps(said)})
""")
        values = {
            "BOOL": [True, False, True],
            "STRING": np.array([b"", b"a\0b\0", b"\xff\xfe"], object),
            "FP16": [1.5, -0.0, 1e-7],
        }
        kinds = [it for it in KINDS if it is not BF16]
        both = config([port(it.name, it.config) for it in kinds], [port("y" + it.name, it.config) for it in kinds])
        with Process(text, config=both) as process:
            lane = process.open(both)
            for change in (
                lambda it: it,
                lambda it: it[:0],
                lambda it: it.reshape(1, -1),
                lambda it: it[0:1].reshape(()),
            ):
                given = {it.name: change(np.array(values.get(it.name, [0, 1, 100]), it.numpy)) for it in kinds}
                (answer,) = lane.run(given)
                said = json.loads(answer.parameters["said"])
                for kind in kinds:
                    array = given[kind.name]
                    with self.subTest(kind=kind.name, shape=array.shape):
                        np.testing.assert_array_equal(answer["y" + kind.name], array)
                        self.assertEqual(answer["y" + kind.name].dtype, array.dtype)
                        self.assertEqual(said[kind.name], [kind.number, list(array.shape)])

    def test_bf16_goes_by_dlpack(self):
        text = model("""
try:
    x.as_numpy()
except pb_utils.TritonModelException as error:
    assert "BF16" in str(error)
class Other:
    def __dlpack__(self, stream=None): return x.to_dlpack()
    def __dlpack_device__(self): return x.__dlpack_device__()
y, z = pb_utils.Tensor.from_dlpack("y", x.to_dlpack()), pb_utils.Tensor.from_dlpack("z", Other())
assert y.triton_dtype() == 14 and y.shape() == [3]
return pb_utils.InferenceResponse([y, z])
""")
        both = config([port("x", "TYPE_BF16")], [port("y", "TYPE_BF16"), port("z", "TYPE_BF16")])
        with Process(text, config=both) as process:
            bits = np.array([0x3F80, 0x4000, 0xFF80], np.uint16)
            (answer,) = process.open(both).run({"x": bits.view(Bits)})
            np.testing.assert_array_equal(answer["y"], bits)
            np.testing.assert_array_equal(answer["z"], bits)

    def test_dlpack_of_numbers_and_of_bytes(self):
        text = model("""
y = pb_utils.Tensor.from_dlpack("y", x)
z = pb_utils.Tensor.from_dlpack("z", np.from_dlpack(x) * 2)
said = []
for wrong in (lambda: pb_utils.Tensor("t", np.array([b"a"], object)).to_dlpack(),
              lambda: pb_utils.Tensor.from_dlpack("t", np.ones((2, 3), np.float32).T),
              lambda: pb_utils.Tensor.from_dlpack("t", 5),
              lambda: pb_utils.Tensor.from_dlpack("", x)):
    try:
        wrong()
    except pb_utils.TritonModelException as error:
        said.append(str(error))
return pb_utils.InferenceResponse([y, z], parameters={"said": json.dumps(said)})
""")
        both = config(["x"], ["y", "z"])
        with Process(text, config=both) as process:
            (answer,) = process.open(both).run({"x": floats(1, 2)})
            np.testing.assert_array_equal(answer["z"], floats(2, 4))
            said = json.loads(answer.parameters["said"])
            for part, text in zip(("string tensors", "not contiguous", "DLPack capsule", "empty string"), said):
                self.assertIn(part, text)
            self.assertEqual(len(said), 4)

    def test_outputs_that_are_not_contiguous_are_copied_in_order(self):
        text = model('return pb_utils.InferenceResponse([pb_utils.Tensor("y", x.as_numpy().T[::-1])])')
        both = config([port("x", dims=[-1, -1])], [port("y", dims=[-1, -1])])
        with Process(text, config=both) as process:
            x = np.arange(6, dtype=np.float32).reshape(2, 3)
            np.testing.assert_array_equal(process.open(both).run({"x": x})[0]["y"], x.T[::-1])

    def test_texts_and_arrays_of_s_are_bytes(self):
        text = model("""
return pb_utils.InferenceResponse([
    pb_utils.Tensor("y", np.array(["grün", b"\\xff", 5], object)), pb_utils.Tensor("z", np.array([b"ab", b"c"]))])
""")
        both = config(["x"], [port("y", "TYPE_STRING"), port("z", "TYPE_STRING")])
        with Process(text, config=both) as process:
            (answer,) = process.open(both).run({"x": floats(1)})
            self.assertEqual(list(answer["y"]), ["grün".encode(), b"\xff", b"5"])
            self.assertEqual(list(answer["z"]), [b"ab", b"c"])

    def test_names_may_be_of_any_letters(self):
        text = model('return pb_utils.InferenceResponse([pb_utils.Tensor("größe", x.as_numpy())])')
        both = config(["länge"], ["größe"])
        with Process(text, config=both) as process:
            self.assertEqual(process.open(both).run({"länge": floats(1)})[0]["größe"], floats(1))

    def test_an_optional_input_that_was_left_out_is_none(self):
        text = model(
            """
other = pb_utils.get_input_tensor_by_name(request, "other")
return pb_utils.InferenceResponse([x], parameters={"other": str(other)})
""".replace("[x]", '[pb_utils.Tensor("y", x.as_numpy())]')
        )
        both = config(["x", port("other", optional=True)], ["y"])
        with Process(text, config=both) as process:
            self.assertEqual(process.open(both).run({"x": floats(1)})[0].parameters["other"], "None")

    def test_inputs_that_a_model_keeps_stay_as_they_were(self):
        text = model(
            """
kept.append((x.as_numpy(), x.as_numpy().copy()))
same = all((a == b).all() for a, b in kept)
x.as_numpy().flags.writeable or 1 / 0
said = {"same": bool(same), "kept": len(kept)}
return pb_utils.InferenceResponse([pb_utils.Tensor("y", x.as_numpy())], parameters=said)
""",
            before="kept = []",
        )
        for kind in ("TYPE_FP32", "TYPE_STRING"):
            both = config([port("x", kind)], [port("y", kind)])
            with self.subTest(kind), Process(text, config=both) as process:
                lane = process.open(both)
                for it in range(20):
                    x = (
                        np.array([str(it).encode()] * 9, object)
                        if kind == "TYPE_STRING"
                        else np.full(9, it, np.float32)
                    )
                    (answer,) = lane.run({"x": x})
                    self.assertEqual(answer.parameters, {"same": True, "kept": it + 1})

    def test_outputs_that_do_not_fit_are_an_error_of_their_call(self):
        text = model(
            'return pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros(int(x.as_numpy()[0]), np.float32))])'
        )
        with Process(text, config=config(["x"], ["y"])) as process:
            lane = process.open(config(["x"], ["y"]), half=4096)
            (refused,) = lane.run({"x": floats(1025)})
            self.assertEqual(refused["code"], "Internal")
            for part in ("output 'y' has 4100 bytes", "4096", "--worker-arena-bytes"):
                self.assertIn(part, refused["text"])
            self.assertEqual(len(lane.run({"x": floats(1024)})[0]["y"]), 1024)

    def test_an_output_of_another_type_than_configured_names_both(self):
        text = model('return pb_utils.InferenceResponse([pb_utils.Tensor("y", x.as_numpy().astype("int64"))])')
        with Process(text, config=config(["x"], ["y"])) as process:
            (refused,) = process.open(config(["x"], ["y"])).run({"x": floats(1)})
            self.assertEqual(refused["code"], "Internal")
            self.assertIn("output 'y' of 'm_0' is INT64, expected FP32", refused["text"])

    def test_arrays_that_no_tensor_can_be_are_refused(self):
        text = model("""
said = []
for wrong in (np.array(["a"]), np.zeros(1, complex), np.zeros(1, ">f4")):
    try:
        pb_utils.Tensor("t", wrong)
    except pb_utils.TritonModelException as error:
        said.append(str(error))
return pb_utils.InferenceResponse([], parameters={"said": json.dumps(said)})
""")
        with Process(text, config=config(["x"], [])) as process:
            said = json.loads(process.open(config(["x"], ["y"])).run({"x": floats(1)})[0].parameters["said"])
            self.assertEqual(len(said), 3)
            self.assertIn("use dtype=object", said[0])


if __name__ == "__main__":
    unittest.main()
