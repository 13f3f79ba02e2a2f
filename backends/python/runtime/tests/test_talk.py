"""What a model's process and the server say to each other beside runs, by the real child."""

import unittest

import numpy as np

from fake_server import Process, config

# A model that asks the server, as the runtime's own modules do.
ASKS = """
    import threading
    import numpy as np
    import triton_python_backend_utils as pb_utils
    from muster_python import talk, tensors

    FP32 = tensors.BY_WIRE["Fp32"]

    class TritonPythonModel:
        def execute(self, requests):
            return [self.answer(it) for it in requests]

        def answer(self, request):
            found = []
            body = BODY
            def ask():
                {body}
            if IN_THREAD:
                thread = threading.Thread(target=ask)
                thread.start()
                thread.join()
            else:
                ask()
            return pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array(found, np.float32))])
"""
CONFIG = config(["x"], ["y"])


def asks(body, in_thread=False):
    """A model whose `execute` appends numbers to `found` so."""
    text = ASKS.replace("            body = BODY\n", "").replace("IN_THREAD", str(in_thread))
    lines = body.strip().splitlines()
    return text.replace("{body}", "\n".join([lines[0], *(" " * 16 + it for it in lines[1:])]))


INFER = """
its, calls = talk.running()
said, segments = talk.pack([("x", FP32, request.inputs()[0].as_numpy())])
answers = its.ask("Infer", {"calls": calls, "model": "other", "inputs": said}, segments)
for part in answers:
    found.append(part.outputs[0].array().sum())
"""


class Asks(unittest.TestCase):
    def test_a_request_to_another_model_is_answered_in_parts(self):
        for in_thread in (False, True):
            with Process(asks(INFER, in_thread), config=CONFIG) as process:
                lane = process.open(CONFIG)
                for run in range(2):
                    lane.start({"x": np.array([1, 2], np.float32)})
                    what, body, tensors = lane.talk.receive()
                    self.assertEqual((what, body["model"], body["calls"]), ("Infer", "other", [[run, 0]]))
                    np.testing.assert_array_equal(tensors["x"], np.array([1, 2], np.float32))
                    for it in range(2):
                        part = np.full(3, it, np.float32)
                        said = [{"name": "y", "dtype": "Fp32", "dims": [3], "len": 12}]
                        lane.talk.send("Answered", part.tobytes(), ask=body["ask"], outputs=said, parameters={})
                    lane.talk.send("Ended", ask=body["ask"], error=None, value=None)
                    (answer,) = lane.finish()
                    np.testing.assert_array_equal(answer["y"], np.array([0, 3], np.float32))

    def test_an_error_and_a_server_that_goes_end_what_waits(self):
        body = """
for _ in range(2):
    try:
        its, calls = talk.running()
        its.ask("Control", {"verb": {"Unload": {"model": "m", "dependents": False}}}).value()
    except talk.Failed as error:
        found.append(len(error.text))
        print(error.code, error, flush=True)
"""
        with Process(asks(body), config=CONFIG) as process:
            lane = process.open(CONFIG)
            lane.start({"x": np.array([1], np.float32)})
            _, said, _ = lane.talk.receive()
            lane.talk.send("Ended", ask=said["ask"], error={"code": "NotFound", "text": "none"}, value=None)
            lane.talk.receive()
            lane.talk.close()
            (answer,) = lane.finish()
            self.assertEqual(answer["y"][0], 4)
            self.assertIn("NotFound none", process.log())
            self.assertIn("Unavailable the server has let the model go", process.log())

    def test_coroutines_wait_beside_each_other(self):
        body = """
import asyncio
its, calls = talk.running()
async def one(number):
    answers = its.ask("Metric", {"number": number})
    async for _ in answers:
        pass
    return answers.value()
async def all():
    return await asyncio.gather(one(0), one(1))
found.extend(asyncio.run(all()))
"""
        with Process(asks(body), config=CONFIG) as process:
            lane = process.open(CONFIG)
            lane.start({"x": np.array([1], np.float32)})
            said = [lane.talk.receive()[1] for _ in range(2)]
            for it in reversed(said):
                lane.talk.send("Ended", ask=it["ask"], error=None, value=it["number"] + 5.0)
            (answer,) = lane.finish()
            np.testing.assert_array_equal(answer["y"], np.array([5, 6], np.float32))


if __name__ == "__main__":
    unittest.main()
