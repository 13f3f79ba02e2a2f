"""Whether a model says that it can serve."""

import unittest

from fake_server import Process, config
from muster_python import frames
from muster_python.readiness import _MOST_WAITING
from test_triton import floats

CONFIG = config(["x"], ["y"])


def says(body, kind="def"):
    """A model whose `is_ready` has that body. It runs beside `execute`, which waits until `told` is set."""
    return f"""
import threading
import triton_python_backend_utils as pb_utils

told = threading.Event()

class TritonPythonModel:
    asked = 0

    {kind} is_ready(self):
        {body}

    def execute(self, requests):
        told.wait(30)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", it.inputs()[0].as_numpy())]) for it in requests]
"""


class Readiness(unittest.TestCase):
    def answer(self, body, kind="def"):
        with Process(says(body, kind), config=CONFIG) as process:
            self.assertTrue(process.loaded["Ok"]["tells_readiness"])
            process.open(CONFIG)
            return process.is_ready()

    def check_failed(self, body, text):
        answer = self.answer(body)
        self.assertIn(text, answer["Err"]["text"])

    def test_it_says_yes_or_no_in_a_function_or_a_coroutine(self):
        self.assertEqual(self.answer("return True"), {"Ok": True})
        self.assertEqual(self.answer("return False"), {"Ok": False})
        self.assertEqual(self.answer("return False", "async def"), {"Ok": False})

    def test_what_is_no_truth_value_and_an_exception_are_errors(self):
        self.check_failed("return 1", "is_ready() must return a boolean value, found type <class 'int'>")
        self.check_failed("raise ValueError('the base is gone')", "ValueError: the base is gone")

    def test_it_is_asked_while_a_run_is_made(self):
        with Process(says("told.set(); return True"), config=CONFIG) as process:
            lane = process.open(CONFIG)
            lane.start({"inputs": {"x": floats(1)}, "outputs": None, "about": {}})
            self.assertEqual(process.is_ready(), {"Ok": True})
            self.assertEqual(lane.finish()[0]["y"], floats(1))

    def test_those_who_ask_while_it_is_asked_hear_the_same_answer(self):
        body = "self.asked += 1; told.wait(30); return self.asked == 1"
        with Process(says(body).replace("told.wait(30)\n", "told.set()\n"), config=CONFIG) as process:
            lane = process.open(CONFIG)
            first, *others = [process.ask_readiness() for _ in range(1 + _MOST_WAITING)]
            # The last question has been heard: it is one too many.
            with first, self.assertRaises(frames.Closed):
                frames.receive(first)
            lane.start({"inputs": {"x": floats(1)}, "outputs": None, "about": {}})
            for asked in others:
                with asked:
                    self.assertEqual(frames.receive(asked)[0], {"Ok": True})
            self.assertEqual(lane.finish()[0]["y"], floats(1))
            # By then it was answered: it is asked again.
            self.assertEqual(process.is_ready(), {"Ok": False})

    def test_a_model_without_it_does_not_say(self):
        without = says("return True").replace("is_ready", "other")
        with Process(without, config=CONFIG) as process:
            self.assertFalse(process.loaded["Ok"]["tells_readiness"])
