"""What a model of Triton's interface is told at its load, and what it says: configuration, arguments, modules, log."""

import json
import unittest

from fake_server import Process, config, port
from test_triton import floats

BOTH = config(["x"], ["y"])

COMPLETES = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        {body}
        return config

    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        return [pb_utils.InferenceResponse(
            [pb_utils.Tensor("y", it.inputs()[0].as_numpy())], parameters=self.args) for it in requests]
"""

WHOLE = COMPLETES.format(
    body="""
        config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_input({"name": "z", "data_type": "TYPE_FP32", "dims": [4], "optional": True})
        config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [4]})
        config.set_max_batch_size(4)
        config.set_dynamic_batching()"""
)


class AutoComplete(unittest.TestCase):
    def test_without_a_configuration_the_model_says_it_all(self):
        with Process(WHOLE) as process:
            completed = process.completed()
            self.assertEqual(completed["name"], "m")
            self.assertEqual(completed["backend"], "python")
            self.assertEqual(completed["max_batch_size"], 4)
            self.assertEqual(completed["dynamic_batching"], {})
            self.assertEqual([it["name"] for it in completed["input"]], ["x", "z"])
            self.assertTrue(completed["input"][1]["optional"])
            self.assertEqual(completed["output"][0], {"name": "y", "data_type": "TYPE_FP32", "dims": [4]})
            (answer,) = process.open().run({"x": floats(1, 2, 3, 4).reshape(1, 4)})
            self.assertEqual(answer["y"].shape, (1, 4))

    def test_what_is_configured_is_completed(self):
        given = {
            "name": "m",
            "max_batch_size": 2,
            "input": [{"name": "x"}],
            "parameters": {"k": {"string_value": "v"}},
        }
        with Process(WHOLE, config=given) as process:
            completed = process.completed()
            self.assertEqual(completed["max_batch_size"], 4)
            self.assertEqual(completed["input"][0], {"name": "x", "data_type": "TYPE_FP32", "dims": [4]})
            self.assertEqual(completed["parameters"], {"k": {"string_value": "v"}})

    def test_it_is_not_asked_where_completion_is_off_or_there_is_no_such_function(self):
        with Process(WHOLE, config=BOTH, auto_complete=False) as process:
            self.assertIsNone(process.loaded["Ok"]["completed"])
        plain = "class TritonPythonModel:\n    def execute(self, requests): pass\n"
        with Process(plain, config=BOTH) as process:
            self.assertIsNone(process.loaded["Ok"]["completed"])
            self.assertRegex(process.loaded["Ok"]["version"], r"^Python 3\.\d+\.\d+, numpy \d")
            self.assertFalse(process.loaded["Ok"]["keeps_state"])

    def test_sequences_keep_state(self):
        with Process(WHOLE, config={**BOTH, "sequence_batching": {}}, auto_complete=False) as process:
            self.assertTrue(process.loaded["Ok"]["keeps_state"])

    def refused(self, body, given=BOTH):
        with Process(COMPLETES.format(body=body), config=given) as process:
            return process.loaded["Err"]["text"]

    def test_what_contradicts_the_configuration_is_a_load_error(self):
        for body, part in (
            ("config.set_max_batch_size(-1)", "configuration specified max_batch_size 0, but"),
            (
                "config.add_input({'name': 'x', 'data_type': 'TYPE_INT8', 'dims': [-1]})",
                "expects datatype TYPE_FP32 for input 'x'",
            ),
            ("config.add_output({'name': 'y', 'data_type': 'TYPE_FP32', 'dims': [7]})", "specifies dims [-1]"),
            (
                "config.add_input({'name': 'n', 'dims': [-1]})",
                "input 'n' in auto-complete-config function for model 'm' is missing 'data_type'",
            ),
            ("config.add_output({'name': 'n', 'data_type': 'TYPE_FP32'})", "missing 'dims'"),
            ("config.add_output({'data_type': 'TYPE_FP32'})", "missing 'name'"),
            (
                "config.add_output({'name': 'n', 'data_type': 'TYPE_FP32', 'dims': [], 'optional': True})",
                "other than 'name', 'data_type', 'dims': 'optional'",
            ),
            ("config.set_model_transaction_policy({'what': 1})", "other than 'decoupled'"),
            ("return None", "must return a valid pb.ModelConfig object"),
            ("raise RuntimeError('no')", "RuntimeError: no"),
        ):
            with self.subTest(body):
                self.assertIn(part, self.refused(body))
        optional = config([port("x", optional=True)], ["y"])
        body = "config.add_input({'name': 'x', 'data_type': 'TYPE_FP32', 'dims': [-1], 'optional': False})"
        self.assertIn("specifies optional True", self.refused(body, optional))
        self.assertIn(
            "'sequence_batching'", self.refused("config.set_dynamic_batching()", {**BOTH, "sequence_batching": {}})
        )
        decoupled = {**BOTH, "model_transaction_policy": {"decoupled": False}}
        body = "config.set_model_transaction_policy({'decoupled': True})"
        self.assertIn("already set to 'False'", self.refused(body, decoupled))


class Arguments(unittest.TestCase):
    def test_initialize_gets_seven_texts(self):
        with Process(WHOLE, config=BOTH, auto_complete=False) as process:
            (answer,) = process.open(BOTH).run({"x": floats(1)})
            self.assertEqual(json.loads(answer.parameters.pop("model_config"))["name"], "m")
            self.assertEqual(
                answer.parameters,
                {
                    "model_instance_kind": "CPU",
                    "model_instance_name": "m_0",
                    "model_instance_device_id": "0",
                    "model_repository": str(process.directory),
                    "model_version": "1",
                    "model_name": "m",
                },
            )
            (answer,) = process.open(BOTH, lane=1, device={"Gpu": 3}).run({"x": floats(1)})
            self.assertEqual(answer.parameters["model_instance_kind"], "GPU")
            self.assertEqual(answer.parameters["model_instance_device_id"], "3")
            of_model = {**BOTH, "instance_group": [{"kind": "KIND_MODEL"}]}
            (answer,) = process.open(of_model, lane=2).run({"x": floats(1)})
            self.assertEqual(answer.parameters["model_instance_kind"], "MODEL")


class Requests(unittest.TestCase):
    def test_what_is_known_of_a_request_is_told(self):
        text = """
            import json
            import triton_python_backend_utils as pb_utils
            class TritonPythonModel:
                def execute(self, requests):
                    return [pb_utils.InferenceResponse([], parameters={"said": json.dumps([
                        it.request_id(), it.correlation_id(), it.flags(), it.timeout(), json.loads(it.parameters()),
                        sorted(it.requested_output_names()), it.is_cancelled(), it.trace().get_context()])})
                        for it in requests]
        """
        two = config(["x"], ["y", "z"], max_batch_size=4)
        with Process(text, config=two) as process:
            lane = process.open(two)
            about = {
                "id": "a",
                "parameters": {"k": 1, "b": True, "t": "ü"},
                "correlation": "c",
                "flags": 3,
                "timeout_us": 5,
            }
            first = {"inputs": {"x": floats(1)}, "outputs": ["y"], "about": about}
            second = {"inputs": {"x": floats(1)}, "outputs": None, "about": {"correlation": 7}}
            said = [json.loads(it.parameters["said"]) for it in lane.run(first, second)]
            self.assertEqual(said[0], ["a", "c", 3, 5, about["parameters"], ["y"], False, None])
            self.assertEqual(said[1], ["", 7, 0, 0, {}, ["y", "z"], False, None])
            (answer,) = lane.run({"x": floats(1)})
            self.assertEqual(json.loads(answer.parameters["said"])[1], 0)


class Surroundings(unittest.TestCase):
    def test_modules_beside_the_model_are_imported_in_both_ways(self):
        text = """
            import helper
            from . import helper as same_file
            from .inner.deep import value
            import shared
            import triton_python_backend_utils as pb_utils
            import c_python_backend_utils
            assert c_python_backend_utils.Tensor is pb_utils.Tensor
            class TritonPythonModel:
                def execute(self, requests):
                    it = {"sum": helper.value + same_file.value + value + shared.value, "dir": pb_utils.get_model_dir()}
                    return [pb_utils.InferenceResponse([], parameters=it) for _ in requests]
        """
        files = {"1/helper.py": "value = 1", "1/inner/deep.py": "value = 10", "shared.py": "value = 100"}
        with Process(text, config=BOTH, files=files) as process:
            (answer,) = process.open(BOTH).run({"x": floats(1)})
            self.assertEqual(answer.parameters, {"sum": 112, "dir": str(process.version_directory)})
            # A server that watches the directory sees no change.
            self.assertEqual(list(process.directory.rglob("__pycache__")), [])

    def test_nothing_is_imported_from_where_the_server_runs(self):
        text = """
            import json, os, sys
            import triton_python_backend_utils as pb_utils
            assert os.getcwd() not in sys.path and "" not in sys.path
            class TritonPythonModel:
                def execute(self, requests): pass
        """
        with Process(text, config=BOTH) as process:
            self.assertIn("Ok", process.loaded, process.log())

    def test_lines_of_the_log_begin_with_their_level(self):
        text = """
            import triton_python_backend_utils as pb_utils
            log = pb_utils.Logger
            log.log_info("one"); log.log_warn("two"); log.log_error("three\\nfour"); log.log_verbose("five")
            log.log("six", log.WARNING); log.log("seven")
            print("eight", "\\ud800")
            class TritonPythonModel:
                def execute(self, requests): pass
        """
        with Process(text, config=BOTH) as process:
            lines = [
                "INFO one",
                "WARN two",
                "ERROR three",
                "ERROR four",
                "DEBUG five",
                "WARN six",
                "INFO seven",
                "eight \\ud800",
            ]
            self.assertEqual(process.log().splitlines(), lines)

    def test_an_async_execute_is_waited_for(self):
        text = """
            import asyncio
            import triton_python_backend_utils as pb_utils
            class TritonPythonModel:
                lock = None
                async def execute(self, requests):
                    self.lock = self.lock or asyncio.Lock()
                    async with self.lock:
                        await asyncio.sleep(0)
                    outputs = [[pb_utils.Tensor("y", it.inputs()[0].as_numpy())] for it in requests]
                    return [pb_utils.InferenceResponse(it) for it in outputs]
        """
        with Process(text, config=BOTH) as process:
            lane = process.open(BOTH)
            for it in range(2):
                self.assertEqual(lane.run({"x": floats(it)})[0]["y"], floats(it))

    def test_helpers_for_types_and_configurations(self):
        import numpy as np
        import triton_python_backend_utils as pb_utils

        self.assertIs(pb_utils.triton_string_to_numpy("TYPE_FP16"), np.float16)
        self.assertIs(pb_utils.triton_to_numpy_type(13), np.object_)
        self.assertEqual(pb_utils.numpy_to_triton_type(np.float64), 12)
        self.assertEqual(pb_utils.numpy_to_triton_type(np.bytes_), 13)
        array = np.array([[b"a", b""], [b"\0", b"b"]], object)
        data = pb_utils.serialize_byte_tensor(array)
        self.assertEqual(list(pb_utils.deserialize_bytes_tensor(data)), [b"a", b"", b"\0", b"b"])
        self.assertEqual(pb_utils.get_output_config_by_name(BOTH, "y")["name"], "y")
        self.assertIsNone(pb_utils.get_input_config_by_name(BOTH, "y"))
        self.assertFalse(pb_utils.using_decoupled_model_transaction_policy(BOTH))
        with self.assertRaises(ValueError):
            pb_utils.deserialize_bytes_tensor(b"\5\0\0\0ab")


if __name__ == "__main__":
    unittest.main()
