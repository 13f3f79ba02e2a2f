"""Requests that a model has run once more."""

import unittest

from fake_server import AGAIN, Process, config
from test_triton import floats, model

CONFIG = config(["x"], ["y"], sequence_batching={"iterative_sequence": True})
DECOUPLED = {**CONFIG, "model_transaction_policy": {"decoupled": True}}

AGAIN_FLAG = "pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE"

# As many runs as the input says; the flags of the request are in the answer.
COUNTS = model(
    f"""
self.runs = getattr(self, "runs", 0) + 1
if self.runs < x.as_numpy()[0]:
    request.set_release_flags({AGAIN_FLAG})
    return None
return pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([self.runs, request.flags()], np.float32))])
""",
    before="import numpy as np",
)

# A response in each of these runs. The senders of earlier runs are kept.
SENDS = f"""
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.runs, self.senders = 0, []

    def execute(self, requests):
        for request in requests:
            self.runs += 1
            sender = request.get_response_sender()
            self.senders.append(sender)
            y = pb_utils.Tensor("y", np.array([self.runs], np.float32))
            is_last = request.inputs()[0].as_numpy()[0] <= self.runs
            sender.send(pb_utils.InferenceResponse([y]), 1 if is_last else 0)
            if not is_last:
                request.set_release_flags({AGAIN_FLAG})
            if is_last and 1 < self.runs:
                try:
                    self.senders[0].send(pb_utils.InferenceResponse([y]))
                except pb_utils.TritonModelException as error:
                    print("the first sender:", error, flush=True)
"""


def given(x):
    return {"inputs": {"x": floats(x)}, "outputs": None, "about": {"flags": 1}}


class Default(unittest.TestCase):
    def test_a_request_is_run_again_until_it_is_answered(self):
        with Process(COUNTS, config=CONFIG) as process:
            lane = process.open(CONFIG)
            self.assertEqual(lane.run(given(3)), [AGAIN])
            self.assertEqual(lane.run(given(3)), [AGAIN])
            self.assertEqual(lane.run(given(3))[0]["y"].tolist(), [3, 1])

    def test_what_is_run_again_is_not_answered(self):
        answers = f"request.set_release_flags({AGAIN_FLAG}); "
        for more, text in (
            (
                "return pb_utils.InferenceResponse([x])",
                "Expected a None object in the execute function return list for reschduled request",
            ),
            (
                "request.get_response_sender().send(pb_utils.InferenceResponse([x]), 1); return None",
                "has been answered by its response sender",
            ),
        ):
            with self.subTest(text), Process(model(answers + more), config=CONFIG) as process:
                (refused,) = process.open(CONFIG).run(given(1))
                self.assertIn(text, refused["text"])

    def test_only_models_of_iterative_sequences_reschedule(self):
        others = config(["x"], ["y"], sequence_batching={})
        with Process(COUNTS, config=others) as process:
            failed = process.open(others).run(given(3))
            self.assertIn("needs sequence_batching { iterative_sequence: true }", failed["text"])


class Decoupled(unittest.TestCase):
    def test_each_run_sends_on_and_the_senders_of_earlier_runs_are_closed(self):
        with Process(SENDS, config=DECOUPLED) as process:
            lane = process.open(DECOUPLED)
            self.assertEqual(lane.run(given(2)), [AGAIN])
            what, body, arrays = lane.talk.receive()
            self.assertEqual((what, arrays["y"].tolist()), ("Part", [1]))
            self.assertEqual(lane.talk.receive()[:2], ("Again", {"call": [0, 0]}))
            self.assertEqual(lane.run(given(2))[0], {})
            what, body, arrays = lane.talk.receive()
            self.assertEqual((what, body["call"], body["last"], arrays["y"].tolist()), ("Part", [1, 0], True, [2]))
            process.wait_for_log("the first sender: Unable to send response. Response sender has been closed.")
