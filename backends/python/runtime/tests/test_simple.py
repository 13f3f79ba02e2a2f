"""Plain models: a class with `predict`, or a function."""

import json
import unittest

import numpy as np

from fake_server import Answered, Process, config, port
from test_triton import floats


ANY = config(["x"], ["output"])


def texts(*values):
    return np.array([it if isinstance(it, bytes) else it.encode() for it in values], object)


class Signatures(unittest.TestCase):
    def completed(self, text, **options):
        with Process(text, **options) as process:
            return process.completed()

    def refused(self, text, **options):
        with Process(text, **options) as process:
            return process.loaded["Err"]["text"]

    def test_names_and_types_are_those_of_the_arguments_and_of_the_result(self):
        completed = self.completed(
            """
            import numpy as np
            from typing import Annotated, Optional
            from muster_python import Tensor
            Pair = Annotated[np.ndarray, "UINT8", [2]]
            def predict(a: Tensor["FP32", -1], b: Tensor["INT64", -1, 4], c: Pair, d: str,
                        e: bytes, f: int, g: float, h: bool, i: list, j: dict, k: Optional[int], l: str = "x",
                        ) -> Tensor["FP64", 3]: ...
        """.replace("i: list,", "i: list[str],")
        )
        self.assertEqual(completed["max_batch_size"], 0)
        self.assertEqual(completed["backend"], "python")
        ports = [
            (it["name"], it["data_type"][5:], it["dims"], it.get("optional", False)) for it in completed["input"]
        ]
        self.assertEqual(
            ports,
            [
                ("a", "FP32", [-1], False),
                ("b", "INT64", [-1, 4], False),
                ("c", "UINT8", [2], False),
                ("d", "STRING", [1], False),
                ("e", "STRING", [1], False),
                ("f", "INT64", [1], False),
                ("g", "FP64", [1], False),
                ("h", "BOOL", [1], False),
                ("i", "STRING", [-1], False),
                ("j", "STRING", [1], False),
                ("k", "INT64", [1], True),
                ("l", "STRING", [1], True),
            ],
        )
        self.assertEqual(completed["output"], [{"name": "output", "data_type": "TYPE_FP64", "dims": [3]}])

    def test_an_array_without_a_shape_may_have_any(self):
        text = "from muster_python import Tensor\ndef predict(x, n: Tensor['INT8', -1, 2] = None): return x\n"
        with Process(text) as process:
            self.assertEqual(
                process.loaded["Ok"]["spec"],
                {
                    "inputs": [
                        {"name": "x", "dtype": "Fp32", "dims": [], "any_rank": True, "optional": False},
                        {"name": "n", "dtype": "Int8", "dims": [None, 2], "any_rank": False, "optional": True},
                    ],
                    "outputs": [
                        {"name": "output", "dtype": "Fp32", "dims": [], "any_rank": True, "optional": False}
                    ],
                },
            )
            self.assertNotIn("input", process.completed())
            self.assertNotIn("output", process.completed())
            lane = process.open(ANY)
            for x in (floats(1, 2).reshape(1, 2, 1), floats(1).reshape(())):
                np.testing.assert_array_equal(lane.run({"x": x})[0]["output"], x)

    def test_a_batched_one_has_rows(self):
        completed = self.completed("""
            from __future__ import annotations
            from muster_python import Tensor, batched
            class Model:
                @batched
                def predict(self, x: Tensor["FP32", -1, 4], t: list[str]) -> Tensor["FP32", -1]: ...
        """)
        self.assertEqual(completed["max_batch_size"], 64)
        self.assertEqual(completed["dynamic_batching"], {})
        self.assertEqual([it["dims"] for it in completed["input"]], [[4], [1]])
        self.assertEqual(completed["output"][0]["dims"], [1])

    def test_what_cannot_be_a_signature_is_a_load_error(self):
        for text, part in (
            ("def predict(x: set): ...", "'x' of predict is <class 'set'>, expected an array"),
            ("def predict(*x): ...", "'*x'"),
            (
                "from muster_python import Tensor\ndef predict(x: Tensor['FP31', 1]): ...",
                "'FP31' is no type of tensors",
            ),
            (
                "import muster_python\n@muster_python.batched\ndef predict(x: str): ...",
                "has to be -1 (of texts or numbers: list[str]",
            ),
            ("class Model: pass", "has no method predict"),
            ("def predict(x) -> None: ...", "returns None"),
        ):
            with self.subTest(text):
                self.assertIn(part, self.refused(text))
        self.assertIn("@muster_python.batched", self.refused("def predict(x): ...", config={"max_batch_size": 4}))
        given = {"input": [{"name": "x", "data_type": "TYPE_INT8", "dims": [1]}]}
        self.assertIn("TYPE_INT8 for input 'x'", self.refused("def predict(x: str) -> str: ...", config=given))


class Runs(unittest.TestCase):
    def test_five_lines_are_a_model(self):
        with Process("def predict(x):\n    return x * 2\n") as process:
            (answer,) = process.open(ANY).run({"x": floats(1, 2)})
            np.testing.assert_array_equal(answer["output"], floats(2, 4))

    def test_values_go_in_and_out_as_python_has_them(self):
        text = """
            from dataclasses import dataclass
            from typing import Optional
            import numpy as np

            @dataclass
            class Out:
                text: str
                words: list[str]
                number: int
                share: float
                told: dict
                yes: bool
                raw: bytes

            def predict(text: str, words: list[str], n: int, told: dict, raw: bytes,
                        more: Optional[float] = 0.5) -> Out:
                return Out(text[::-1], words[::-1], n + 1, more, {"was": told, "x": np.arange(2)}, n > 1, raw)
        """
        with Process(text) as process:
            lane = process.open()
            given = {
                "text": texts("grün"),
                "words": texts("a", "b"),
                "n": np.array([2]),
                "told": texts('{"k": [1]}'),
                "raw": texts(b"\0\xff"),
            }
            (answer,) = lane.run(given)
            self.assertEqual([it.decode() for it in answer["text"]], ["nürg"])
            self.assertEqual(list(answer["words"]), [b"b", b"a"])
            self.assertEqual(list(answer["number"]), [3])
            self.assertEqual(list(answer["share"]), [0.5])
            self.assertEqual(json.loads(answer["told"][0]), {"was": {"k": [1]}, "x": [0, 1]})
            self.assertEqual(list(answer["yes"]), [True])
            self.assertEqual(list(answer["raw"]), [b"\0\xff"])
            (answer,) = lane.run({**given, "more": np.array([1.5])})
            self.assertEqual(list(answer["share"]), [1.5])
            for name, array, part in (
                ("text", texts(b"\xff"), "input 'text': expected text of UTF-8"),
                ("told", texts("{"), "input 'told': expected JSON"),
                ("n", np.array([1, 2]), "input 'n': 2 elements, expected one"),
            ):
                (refused,) = lane.run({**given, name: array})
                self.assertEqual(refused["code"], "InvalidArg")
                self.assertIn(part, refused["text"])
            del given["n"]
            self.assertIn("input 'n' is missing", lane.run(given)[0]["text"])

    def test_a_batched_one_gets_the_rows_of_all_requests_and_each_request_its_own(self):
        text = """
            from muster_python import InvalidInput, Tensor, batched
            class Model:
                def __init__(self, directory, options):
                    self.factor = float(options["factor"]) if directory.is_dir() else 1 / 0
                @batched
                def predict(self, x: Tensor["FP32", -1, 2], names: list[str]) -> tuple[Tensor["FP32", -1], list[str]]:
                    if (x < 0).any(): raise InvalidInput("x is below zero")
                    assert len(x) == len(names)
                    return x.sum(axis=1) * self.factor, [f"{it} of {len(x)}" for it in names]
        """
        with Process(text, options={"factor": "10"}) as process:
            lane = process.open()
            first = {"x": np.ones((1, 2), np.float32), "names": texts("a").reshape(1, 1)}
            second = {"x": np.full((2, 2), 3, np.float32), "names": texts("b", "c").reshape(2, 1)}
            one, two = lane.run(first, second)
            np.testing.assert_array_equal(one["output_0"], [[20]])
            np.testing.assert_array_equal(two["output_0"], [[60], [60]])
            self.assertEqual(two["output_1"].tolist(), [[b"b of 3"], [b"c of 3"]])
            wrong = {**second, "x": -second["x"]}
            one, refused = lane.run(first, wrong)
            self.assertEqual(one["output_1"].tolist(), [[b"a of 1"]])
            self.assertEqual(refused, {"code": "InvalidArg", "text": "x is below zero"})

    def test_rows_that_are_lost_are_an_error_that_says_so(self):
        text = """
            import numpy as np, muster_python
            @muster_python.batched
            def predict(x: np.ndarray) -> np.ndarray: return x[:1]
        """
        with Process(text) as process:
            failed = process.open().run({"x": floats(1).reshape(1, 1)}, {"x": floats(2).reshape(1, 1)})
            self.assertIn("output 'output' has shape [1, 1], expected 2 rows", failed["text"])

    def test_what_would_end_a_program_is_an_error_of_its_run(self):
        text = """
            import sys, muster_python
            @muster_python.batched
            def predict(x): return x if x[0, 0] else sys.exit("enough")
        """
        with Process(text) as process:
            lane = process.open()
            self.assertEqual(lane.run({"x": floats(0).reshape(1, 1)})["text"], "SystemExit: enough")
            self.assertEqual(lane.run({"x": floats(1).reshape(1, 1)})[0]["output"], floats(1))

    def test_failures_are_their_request_s_and_types_are_those_of_the_annotation(self):
        text = """
            import numpy as np
            from muster_python import Tensor
            def predict(x) -> Tensor["INT32", -1]:
                return np.array([1], "int64") if x[0] == 0 else np.array([1.5]) if x[0] == 1 else 1 / 0
        """
        with Process(text) as process:
            lane = process.open(config(["x"], [port("output", "TYPE_INT32")]))
            (answer,) = lane.run({"x": floats(0)})
            self.assertIsInstance(answer, Answered)
            self.assertEqual(answer["output"].dtype, np.int32)
            (refused,) = lane.run({"x": floats(1)})
            self.assertIn("output 'output': an array of float64, expected INT32", refused["text"])
            (refused,) = lane.run({"x": floats(2)})
            self.assertEqual(refused, {"code": "Internal", "text": "ZeroDivisionError: division by zero"})

    def test_an_async_one_is_waited_for_and_closed(self):
        text = """
            class Model:
                async def predict(self, x): return x
                def close(self): print("closed")
        """
        with Process(text) as process:
            self.assertEqual(process.open(ANY).run({"x": floats(1)})[0]["output"], floats(1))
            process.end()
            self.assertIn("closed", process.log())


class WithoutServer(unittest.TestCase):
    def test_models_of_both_kinds_are_run(self):
        import triton_python_backend_utils as pb_utils
        from muster_python import InvalidInput, testing

        def predict(x: np.ndarray, n: int = 2) -> np.ndarray:
            if n < 0:
                raise InvalidInput("n is below zero")
            return x * n

        np.testing.assert_array_equal(testing.run(predict, {"x": floats(1)})["output"], floats(2))

        def count(n: int):
            yield from (np.full(2, it, np.float32) for it in range(n))

        parts = testing.run(count, {"n": np.array([2])})
        np.testing.assert_array_equal([it["output"] for it in parts], [[0, 0], [1, 1]])
        with self.assertRaisesRegex(testing.Refused, "below zero"):
            testing.run(predict, {"x": floats(1), "n": np.array([-1])})

        class TritonPythonModel:
            def execute(self, requests):
                return [
                    pb_utils.InferenceResponse([pb_utils.Tensor("y", it.inputs()[0].as_numpy())]) for it in requests
                ]

        np.testing.assert_array_equal(testing.run(TritonPythonModel, {"x": floats(1)})["y"], floats(1))


class Streams(unittest.TestCase):
    def test_a_predict_that_yields_gives_a_part_for_each_result(self):
        text = """
            from typing import Iterator
            from muster_python import InvalidInput
            def predict(number: int) -> Iterator[str]:
                if number < 0: raise InvalidInput("negative")
                for it in range(number): yield str(it)
                if number == 1: raise ValueError("no more")
        """
        again = text.replace("def predict", "async def predict")
        for it in (text, again):
            with Process(it) as process:
                completed = process.completed()
                self.assertEqual(completed["model_transaction_policy"], {"decoupled": True})
                self.assertEqual(completed["output"], [port("output", "TYPE_STRING", [1])])
                self.assertTrue(process.loaded["Ok"]["streams"])
                lane = process.open()
                for run, (number, expected) in enumerate(
                    [(2, [b"0", b"1", None]), (0, [None]), (1, [b"0", "ValueError: no more"]), (-1, ["negative"])]
                ):
                    self.assertEqual(lane.run({"number": np.array([number])}), [{}])
                    for what in expected:
                        heard, body, tensors = lane.talk.receive()
                        self.assertEqual(body["call"], [run, 0])
                        error = body.get("error")
                        said = tensors["output"][0] if heard == "Part" else error and error["text"]
                        self.assertEqual(said, what)

    def test_what_yields_can_be_neither_batched_nor_plain(self):
        text = """
            import muster_python
            {decorator}
            def predict(x: muster_python.Tensor["FP32", -1]): yield x
        """
        with Process(text.replace("{decorator}", "@muster_python.batched")) as process:
            self.assertIn("predict is batched and yields its results", process.loaded["Err"]["text"])
        plain = config(["x"], ["output"], model_transaction_policy={"decoupled": False})
        with Process(text.replace("{decorator}", ""), config=plain) as process:
            self.assertIn("already set to 'False'", process.loaded["Err"]["text"])
        with Process(text.replace("{decorator}", ""), config=ANY, auto_complete=False) as process:
            self.assertIn("add model_transaction_policy", process.loaded["Err"]["text"])


if __name__ == "__main__":
    unittest.main()
