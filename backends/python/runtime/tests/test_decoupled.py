"""Models that answer a request by any number of responses, run by the real child."""

import time
import unittest

import numpy as np

from fake_server import PATIENCE, Failed, Process, config, port

DECOUPLED = config(["x"], ["y"], model_transaction_policy={"decoupled": True})
PLAIN = config(["x"], ["y"])

# A model whose `execute` has this body. `answer(n)` is a response with that number.
MODEL = """
import asyncio, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

def answer(number, **more):
    return pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([number], np.float32))], **more)

def error(text):
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(text, pb_utils.TritonError.NOT_FOUND))

def refused(work):
    try:
        work()
    except pb_utils.TritonModelException as error:
        print("refused:", error, flush=True)

class TritonPythonModel:
    {keyword} execute(self, requests):
        senders = [it.get_response_sender() for it in requests]
        numbers = [int(it.inputs()[0].as_numpy().ravel()[0]) for it in requests]
        sender, number = senders[0], numbers[0]
{body}
"""


def model(body, keyword="def"):
    lines = "\n".join(" " * 8 + it for it in body.strip().splitlines())
    return MODEL.replace("{body}", lines).replace("{keyword}", keyword)


def floats(*values):
    return np.array(values, np.float32)


class Decoupled(unittest.TestCase):
    def begin(self, text, number=3, config=DECOUPLED):
        """A process with a run of one request under way, and its lane."""
        process = self.enterContext(Process(text, config=config))
        self.assertEqual(process.loaded["Ok"]["streams"], config is DECOUPLED, process.log())
        lane = process.open(config)
        lane.start({"x": floats(number)})
        return process, lane

    def enterContext(self, manager):
        # Python's own is there from 3.11 on.
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def hears(self, lane, *expected):
        """The next messages, parts by their number."""
        expected = list(expected)
        while expected:
            what, body, tensors = lane.talk.receive()
            heard = float(tensors["y"][0]) if what == "Part" else body["error"]
            self.assertEqual(heard, expected.pop(0))
            if body.get("last"):
                self.assertIsNone(expected.pop(0))

    def test_responses_come_one_by_one_and_the_run_is_over_before_them(self):
        body = """
def send():
    go.wait()
    for it in range(number):
        sender.send(answer(it))
    sender.send(flags=FINAL)
    refused(lambda: sender.send(answer(1)))
go = threading.Event()
threading.Thread(target=send).start()
if number == 0:
    go.set()
self.go = go
"""
        text = model(body).replace("class Triton", "goes = []\nclass Triton").replace("self.go = go", "goes.append(go)")
        text = text.replace("if number == 0:", "if number == 0:\n            [it.set() for it in goes]")
        process, lane = self.begin(text)
        self.assertEqual(lane.finish(), [{}])
        # The second request has no response at all.
        self.assertEqual(lane.run({"x": floats(0)}), [{}])
        heard = [lane.talk.receive() for _ in range(5)]
        ends = [tuple(body["call"]) for what, body, _ in heard if what == "End" and body["error"] is None]
        self.assertEqual(sorted(ends), [(0, 0), (1, 0)])
        parts = [(body["call"], tensors["y"][0]) for what, body, tensors in heard if what == "Part"]
        self.assertEqual(parts, [([0, 0], 0), ([0, 0], 1), ([0, 0], 2)])
        process.wait_for_log("refused: Unable to send response. Response sender has been closed.")

    def test_requests_of_a_run_are_answered_each_by_itself(self):
        body = """
for it, sender in reversed(list(zip(numbers, senders))):
    sender.send(answer(it, parameters={"a": it}), flags=FINAL)
"""
        batches = {**DECOUPLED, "max_batch_size": 8}
        with Process(model(body.replace("(it, par", "([it], par")), config=batches) as process:
            lane = process.open(batches)
            self.assertEqual(lane.run({"x": floats([5])}, {"x": floats([6])}), [{}, {}], process.log())
            what, second, tensors = lane.talk.receive()
            self.assertEqual((what, second["call"], second["parameters"]), ("Part", [0, 1], {"a": 6}))
            self.assertTrue(second["last"])
            np.testing.assert_array_equal(tensors["y"], floats([6]).reshape(1, 1))
            self.assertEqual(lane.talk.receive()[1]["call"], [0, 0])

    def test_a_client_that_reads_nothing_is_waited_for(self):
        body = """
for it in range(18):
    sender.send(answer(it))
    print(f"sent {it}.", flush=True)
sender.send(flags=FINAL)
"""
        process, lane = self.begin(model(body))
        self.hears(lane, *range(16))
        process.wait_for_log("sent 15.")
        self.assertNotIn("sent 16.", process.log())
        lane.talk.send("Taken", call=[0, 0], parts=1)
        self.hears(lane, 16)
        self.assertNotIn("sent 17.", process.log())
        lane.talk.send("Taken", call=[0, 0], parts=3)
        self.hears(lane, 17, None)
        self.assertEqual(lane.finish(), [{}])

    def test_whoever_waits_with_few_large_parts_asks_to_be_told_which_were_read(self):
        body = """
large = np.zeros((1, 100_000), np.float32)
for it in range(4):
    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", large)]))
    print(f"sent {it}.", flush=True)
sender.send(flags=FINAL)
"""
        process, lane = self.begin(model(body))
        said = [lane.talk.receive()[:2] for _ in range(3)]
        self.assertEqual([it[0] for it in said], ["Part", "Part", "Full"])
        process.wait_for_log("sent 1.")
        self.assertNotIn("sent 2.", process.log())
        lane.talk.send("Taken", call=[0, 0], parts=1)
        self.assertEqual([lane.talk.receive()[0] for _ in range(2)], ["Part", "Full"])
        lane.talk.send("Taken", call=[0, 0], parts=2)
        self.assertEqual([lane.talk.receive()[0] for _ in range(2)], ["Part", "End"])
        self.assertEqual(lane.finish(), [{}])

    def test_a_client_that_leaves_is_told_to_the_model_which_may_go_on(self):
        body = """
sender.send(answer(0))
while not sender.is_cancelled():
    time.sleep(0.001)
assert requests[0].is_cancelled()
for it in range(100):
    sender.send(answer(it))
sender.send(flags=FINAL)
"""
        _, lane = self.begin(model(body))
        self.hears(lane, 0)
        lane.talk.send("Left", call=[0, 0])
        self.hears(lane, None)
        self.assertEqual(lane.finish(), [{}])

    def test_a_client_that_leaves_before_its_run_begins_here_is_told_to_the_model_too(self):
        body = """
while not sender.is_cancelled():
    time.sleep(0.001)
sender.send(answer(0))
sender.send(flags=FINAL)
"""
        _, lane = self.begin(model(body))
        lane.talk.send("Left", call=[0, 0])
        self.hears(lane, None)
        self.assertEqual(lane.finish(), [{}])
        # It is taken in before the run that it is about, or after it has begun.
        for run in range(1, 20):
            lane.talk.send("Left", call=[run, 0])
            lane.start({"x": floats(3)})
            self.hears(lane, None)
            self.assertEqual(lane.finish(), [{}])

    def test_an_error_ends_the_answer_and_what_follows_is_not_heard(self):
        body = """
sender.send(answer(1))
sender.send(error("no more"))
sender.send(answer(2))
sender.send(flags=FINAL)
"""
        _, lane = self.begin(model(body))
        self.hears(lane, 1, {"code": "NotFound", "text": "no more"})
        self.assertEqual(lane.finish(), [{}])

    def test_a_sender_that_is_dropped_ends_the_answer_with_an_error(self):
        _, lane = self.begin(model("sender.send(answer(1))"))
        self.assertEqual(lane.finish(), [{}])
        text = "'m_0' has dropped the response sender of a request without the final flag"
        self.hears(lane, 1, {"code": "Internal", "text": text})

    def test_an_exception_before_any_response_fails_the_run(self):
        for body, said in (
            ("raise ValueError('bad')", "message: ValueError: bad"),
            ("return [1]", "Python model 'm_0' is using the decoupled mode and the execute function must return None."),
        ):
            _, lane = self.begin(model(body))
            failed = lane.finish()
            self.assertIsInstance(failed, Failed)
            self.assertIn("Failed to process the request(s) for model 'm_0', ", failed["text"])
            self.assertIn(said, failed["text"])

    def test_an_exception_says_more_than_that_its_senders_were_dropped(self):
        gone = "del sender\nsenders.clear()\nrequests.clear()\ntime.sleep(0.1)\nraise ValueError('bad')"
        _, lane = self.begin(model(gone))
        failed = lane.finish()
        self.assertIsInstance(failed, Failed)
        self.assertIn("ValueError: bad", failed["text"])
        _, lane = self.begin(model(gone.replace("time.sleep(0.1)", "await asyncio.sleep(0.1)"), "async def"))
        self.assertEqual(lane.finish(), [{}])
        _, body, _ = lane.talk.receive()
        self.assertIn("ValueError: bad", body["error"]["text"])

    def test_an_exception_behind_a_response_comes_behind_it(self):
        _, lane = self.begin(model("sender.send(answer(1))\nraise ValueError('bad')"))
        self.hears(lane, 1)
        _, body, _ = lane.talk.receive()
        self.assertIn("ValueError: bad", body["error"]["text"])
        self.assertEqual(lane.finish(), [{}])

    def test_a_coroutine_is_not_waited_for(self):
        body = """
if number == 0:
    self.go.set()
    sender.send(flags=FINAL)
    return
if number == 9:
    raise ValueError("bad")
self.go = asyncio.Event()
await self.go.wait()
sender.send(answer(number), flags=FINAL)
"""
        _, lane = self.begin(model(body, "async def"))
        self.assertEqual(lane.finish(), [{}])
        self.assertEqual(lane.run({"x": floats(0)}), [{}])
        self.hears(lane, None, 3, None)
        self.assertEqual(lane.run({"x": floats(9)}), [{}])
        _, said, _ = lane.talk.receive()
        self.assertIn("ValueError: bad", said["error"]["text"])

    def test_an_output_of_another_type_ends_the_answer(self):
        integers = {**DECOUPLED, "output": [port("y", "TYPE_INT32")]}
        with Process(model("sender.send(answer(1), flags=FINAL)"), config=integers) as process:
            lane = process.open(integers)
            self.assertEqual(lane.run({"x": floats(1)}), [{}])
            self.assertIn("'y' of 'm_0' is FP32, expected INT32", lane.talk.receive()[1]["error"]["text"])

    def test_a_run_of_the_servers_own_is_not_heard(self):
        with Process(model("sender.send(answer(1), flags=FINAL)"), config=DECOUPLED) as process:
            lane = process.open(DECOUPLED)
            lane.start({"x": floats(1)}, streams=False)
            self.assertEqual(lane.finish(), [{}])

    def test_wrong_uses_of_a_sender_are_told(self):
        body = """
refused(lambda: sender.send(answer(1), flags=2))
refused(lambda: sender.send())
sender.send(flags=FINAL)
refused(lambda: sender.send(flags=FINAL))
"""
        process, lane = self.begin(model(body))
        self.hears(lane, None)
        for text in ("Unsupported flag provided.", "must be provided when the response flags", "has been closed."):
            process.wait_for_log(text)


class OneResponse(unittest.TestCase):
    def test_a_run_waits_for_the_response_of_a_sender(self):
        body = """
def send():
    time.sleep(0.05)
    sender.send(answer(number), flags=FINAL)
threading.Thread(target=send).start()
"""
        with Process(model(body), config=PLAIN) as process:
            (answer,) = process.open(PLAIN).run({"x": floats(4)})
            np.testing.assert_array_equal(answer["y"], floats(4))

    def test_a_sender_that_is_dropped_is_an_error(self):
        with Process(model("del sender, senders"), config=PLAIN) as process:
            began = time.monotonic()
            (refused,) = process.open(PLAIN).run({"x": floats(4)})
            self.assertIn("no response was sent by get_response_sender()", refused["text"])
            self.assertLess(time.monotonic() - began, PATIENCE)


if __name__ == "__main__":
    unittest.main()
