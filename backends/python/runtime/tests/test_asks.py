"""What a model asks of the server: requests to other models, their loading, and metrics of its own."""

import asyncio
import gc
import json
import socket
import struct
import threading
import unittest

import numpy as np
from fake_server import PATIENCE, RUNTIME  # noqa: F401 (it makes the runtime importable)

import c_python_backend_utils  # noqa: F401
import triton_python_backend_utils as pb
from muster_python import metrics
from muster_python.talk import Talk, pack
from muster_python.tensors import kind_of


class Server:
    """The server's side of a talk, on a thread. `answer` is given each message and its bytes."""

    def __init__(self, answer):
        ours, theirs = socket.socketpair()
        self._stream, self._answer = ours, answer
        self.said = []
        self.talk = Talk(theirs.detach())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.talk.close()
        self._stream.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._stream.close()

    def _run(self):
        stream = self._stream.makefile("rb")
        while True:
            head = stream.read(8)
            if len(head) < 8:
                return
            json_length, length = struct.unpack("<II", head)
            message = json.loads(stream.read(json_length))
            data = stream.read(length)
            self.said.append(message)
            self._answer(self, message, data)

    def send(self, message, data=b""):
        text = json.dumps(message).encode()
        self._stream.sendall(struct.pack("<II", len(text), len(data)) + text + data)

    def part(self, ask, parameters=None, **outputs):
        said, segments = pack([(name, kind_of(it), it) for name, it in outputs.items()])
        body = {"ask": ask, "outputs": said, "parameters": parameters or {}}
        self.send({"Answered": body}, b"".join(segments))

    def end(self, ask, error=None, value=None):
        self.send({"Ended": {"ask": ask, "error": error, "value": value}})


def request(model="other", x=(1.0, 2.0), **more):
    inputs = [pb.Tensor("x", np.array(x, np.float32))]
    return pb.InferenceRequest(model_name=model, requested_output_names=["y"], inputs=inputs, **more)


def twice(server, message, data):
    """Answers each request with its numbers twice as large."""
    if "Infer" in message:
        server.part(message["Infer"]["ask"], {"n": 1}, y=np.frombuffer(data, np.float32) * 2)
        server.end(message["Infer"]["ask"])


class Bls(unittest.TestCase):
    def test_a_response_has_what_the_other_model_said(self):
        with Server(twice) as server, server.talk.runs([(3, 0), (3, 1)]):
            response = request(model_version=2, request_id="a", timeout=5, parameters={"p": True}).exec()
            self.assertFalse(response.has_error())
            output = pb.get_output_tensor_by_name(response, "y")
            self.assertEqual(output.as_numpy().tolist(), [2.0, 4.0])
            self.assertEqual(json.loads(response.parameters()), {"n": 1})
        said = server.said[0]["Infer"]
        expected = {"calls": [[3, 0], [3, 1]], "model": "other", "version": 2, "id": "a", "timeout_us": 5}
        expected.update(parameters={"p": True}, correlation=None, flags=0, decoupled=False, outputs=["y"])
        self.assertEqual(expected, {key: said[key] for key in expected})

    def test_outside_of_a_run_there_is_none(self):
        for asked in (lambda: request().exec(), lambda: asyncio.run(_await(lambda: request().async_exec()))):
            with self.assertRaisesRegex(pb.TritonModelException, "only supported during the 'execute' function."):
                asked()
            with Server(twice) as server, server.talk.runs([]):
                with self.assertRaisesRegex(pb.TritonModelException, "only supported during the 'execute'"):
                    asked()

    def test_errors_are_responses(self):
        def refuse(server, message, _):
            server.end(message["Infer"]["ask"], {"code": "NotFound", "text": "no such model"})

        with Server(refuse) as server, server.talk.runs([(0, 0)]):
            for response in (request().exec(), *request().exec(decoupled=True)):
                self.assertTrue(response.has_error())
                self.assertEqual(response.error().message(), "no such model")
                self.assertEqual(response.error().code(), pb.TritonError.NOT_FOUND)
                self.assertEqual(response.output_tensors(), [])

    def test_coroutines_ask_side_by_side(self):
        asked = []

        def answer_in_reverse(server, message, data):
            asked.append((message, data))
            if len(asked) == 3:
                for message, data in reversed(asked):
                    twice(server, message, data)

        async def all_of_them():
            requests = [request(x=[it]).async_exec() for it in (1, 2, 3)]
            return await asyncio.gather(*requests)

        with Server(answer_in_reverse) as server, server.talk.runs([(0, 0)]):
            responses = asyncio.run(all_of_them())
        self.assertEqual([it.output_tensors()[0].as_numpy().tolist() for it in responses], [[2], [4], [6]])

    def test_a_task_that_is_cancelled_cancels_the_request(self):
        cancelled = threading.Event()

        def note(_, message, __):
            if "Cancel" in message:
                cancelled.set()

        async def leave():
            task = asyncio.ensure_future(request().async_exec())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        with Server(note) as server, server.talk.runs([(0, 0)]):
            asyncio.run(leave())
            self.assertTrue(cancelled.wait(PATIENCE))

    def test_responses_of_a_decoupled_model_come_one_by_one(self):
        def three(server, message, _):
            ask = message["Infer"]["ask"]
            for at in range(3):
                server.part(ask, y=np.array([at], np.float32))
            server.end(ask, {"code": "Internal", "text": "the last"} if message["Infer"]["id"] else None)

        async def awaited():
            return [it async for it in await request().async_exec(decoupled=True)]

        with Server(three) as server, server.talk.runs([(0, 0)]):
            for responses in (request().exec(decoupled=True), asyncio.run(awaited())):
                self.assertEqual([it.output_tensors()[0].as_numpy().tolist() for it in responses], [[0], [1], [2]])
            *parts, last = request(request_id="fails").exec(decoupled=True)
            self.assertEqual((len(parts), last.error().message()), (3, "the last"))
            self.assertTrue(server.said[0]["Infer"]["decoupled"])

    def test_whoever_awaits_a_decoupled_model_lets_others_ask_until_the_first_response(self):
        asks, alone = [], []

        def answer(server, number):
            while asks:
                ask = asks.pop()
                server.part(ask, y=np.array([number], np.float32))
                server.end(ask)

        def both(server, message, _):
            asks.append(message["Infer"]["ask"])
            if len(asks) == 2:
                alone[-1].cancel()
                answer(server, 2)
            else:
                # Who holds others up is answered alone.
                alone.append(threading.Timer(2, answer, (server, 1)))
                alone[-1].start()

        async def one(later):
            await asyncio.sleep(later)
            return [it.output_tensors()[0].as_numpy()[0] for it in await request().async_exec(decoupled=True)]

        async def two():
            return await asyncio.gather(one(0), one(0.1))

        with Server(both) as server, server.talk.runs([(0, 0)]):
            self.assertEqual(asyncio.run(two()), [[2], [2]])

    def test_responses_that_nobody_wants_are_cancelled(self):
        cancelled = threading.Semaphore(0)

        def one(server, message, _):
            if "Cancel" in message:
                cancelled.release()
            else:
                server.part(message["Infer"]["ask"], y=np.array([1], np.float32))

        with Server(one) as server, server.talk.runs([(0, 0)]):
            responses = request().exec(decoupled=True)
            next(responses)
            responses.cancel()
            self.assertTrue(cancelled.acquire(timeout=PATIENCE))
            responses = request().exec(decoupled=True)
            next(responses)
            del responses
            gc.collect()
            self.assertTrue(cancelled.acquire(timeout=PATIENCE))

    def test_what_was_asked_for_a_run_that_nobody_waits_for_is_withdrawn(self):
        def leave(server, message, _):
            if "Infer" in message:
                server.talk.leave_runs(3)

        with Server(leave) as server, server.talk.runs([(3, 0), (3, 1)]):
            for _ in range(2):
                response = request().exec()
                self.assertEqual(response.error().code(), pb.TritonError.CANCELLED)
        # The second was not even sent.
        self.assertEqual([next(iter(it)) for it in server.said], ["Infer", "Cancel"])

    def test_what_is_no_request_is_refused_where_it_is_made(self):
        for wrong in (
            {"timeout": -1},
            {"timeout": "1"},
            {"correlation_id": -1},
            {"correlation_id": 1.5},
            {"flags": 1.5},
            {"model_version": "1"},
            {"request_id": 1},
            {"parameters": {"a": 1.5}},
            {"inputs": [None]},
            {"inputs": [1]},
            {"requested_output_names": [""]},
            {"model_name": None},
        ):
            given = {"model_name": "other", "requested_output_names": ["y"], "inputs": [], **wrong}
            with self.assertRaises((pb.TritonModelException, TypeError), msg=wrong):
                pb.InferenceRequest(**given)

    def test_elements_of_bytes_are_names(self):
        with Server(twice) as server, server.talk.runs([(0, 0)]):
            request(model=b"other").exec()
        self.assertEqual(server.said[0]["Infer"]["model"], "other")


class Control(unittest.TestCase):
    def test_models_are_loaded_and_unloaded_by_the_server(self):
        asked = []

        def done(server, message, data):
            asked.append((message["Control"]["verb"], data))
            server.end(message["Control"]["ask"], value=True)

        with Server(done) as server, server.talk.runs([]):
            pb.load_model("m")
            pb.load_model(model_name="m", config="{}", files={"file:1/a": b"abc", "file:1/b": bytearray(b"d")})
            pb.unload_model("m", unload_dependents=True)
            self.assertTrue(pb.is_model_ready("m", "3"))
            self.assertTrue(pb.is_model_ready(model_name="m"))
        files = [["file:1/a", 3], ["file:1/b", 1]]
        self.assertEqual(
            asked,
            [
                ({"Load": {"model": "m", "config": "", "files": []}}, b""),
                ({"Load": {"model": "m", "config": "{}", "files": files}}, b"abcd"),
                ({"Unload": {"model": "m", "dependents": True}}, b""),
                ({"IsReady": {"model": "m", "version": 3}}, b""),
                ({"IsReady": {"model": "m", "version": None}}, b""),
            ],
        )

    def test_what_the_server_does_not_do_is_an_exception(self):
        def refuse(server, message, _):
            server.end(message["Control"]["ask"], {"code": "Unavailable", "text": "not in this mode"})

        with Server(refuse) as server, server.talk.runs([]):
            for asked in (pb.load_model, pb.unload_model, pb.is_model_ready):
                with self.assertRaisesRegex(pb.TritonModelException, "not in this mode"):
                    asked("m")

    def test_without_an_instance_nobody_is_asked(self):
        for asked in (pb.load_model, pb.unload_model, pb.is_model_ready):
            with self.assertRaisesRegex(pb.TritonModelException, "finalize"):
                asked("m")
        with self.assertRaisesRegex(pb.TritonModelException, "finalize"):
            pb.MetricFamily("f", "a family", pb.MetricFamily.GAUGE)


class Metrics(unittest.TestCase):
    @staticmethod
    def done(server, message, _):
        if message["Metric"]["ask"] is not None:
            server.end(message["Metric"]["ask"], value=1.5)

    def verbs(self, server):
        return [it["Metric"]["verb"] for it in server.said]

    def test_changes_are_said_in_order_and_heard_at_the_end_of_a_run(self):
        with Server(self.done) as server, server.talk.runs([(0, 0)]):
            family = pb.MetricFamily(name="f", description="a family", kind=pb.MetricFamily.GAUGE)
            metric = family.Metric(labels={"b": "2", "a": "1"})
            metric.increment(2)
            metric.set(-1)
            self.assertEqual(metric.value(), 1.5)
            metric.increment(1)
            metrics.settle()
            expected = ["MakeFamily", "Make", {"Increment": 2.0}, {"Set": -1.0}, "Value", {"Increment": 1.0}, "Value"]
            self.assertEqual(self.verbs(server), expected)
            said = server.said[2]["Metric"]
            self.assertEqual((said["family"], said["description"], said["kind"]), ("f", "a family", "Gauge"))
            self.assertEqual(said["labels"], {"a": "1", "b": "2"})
            metrics.settle()
            self.assertEqual(len(server.said), len(expected))

    def test_what_nobody_has_is_dropped(self):
        with Server(self.done) as server, server.talk.runs([(0, 0)]):
            family = pb.MetricFamily("f", "a family", pb.MetricFamily.COUNTER)
            metric = family.Metric()
            del family
            gc.collect()
            metrics.settle()
            # A metric holds its family.
            self.assertEqual(self.verbs(server), ["MakeFamily", "Make"])
            del metric
            gc.collect()
            metrics.settle()
            self.assertEqual(self.verbs(server)[2:4], ["Drop", "DropFamily"])

    def test_what_a_kind_does_not_do_is_an_exception_and_is_not_said(self):
        numbers = {"increment": 1.0, "set": 1.0, "observe": 1.0}
        kinds = {"COUNTER": ["increment"], "GAUGE": ["increment", "set"], "HISTOGRAM": ["observe"]}
        with Server(self.done) as server, server.talk.runs([(0, 0)]):
            for kind, fine in kinds.items():
                family = pb.MetricFamily(kind.lower(), "a family", getattr(pb.MetricFamily, kind))
                if kind == "HISTOGRAM":
                    with self.assertRaisesRegex(pb.TritonModelException, "needs buckets"):
                        family.Metric()
                metric = family.Metric(buckets=[1, 2] if kind == "HISTOGRAM" else None)
                for verb, number in numbers.items():
                    if verb in fine:
                        getattr(metric, verb)(number)
                        with self.assertRaises(pb.TritonModelException):
                            getattr(metric, verb)(float("nan"))
                        continue
                    said = len(server.said)
                    with self.assertRaisesRegex(pb.TritonModelException, f"does not support {verb}"):
                        getattr(metric, verb)(number)
                    self.assertEqual(len(server.said), said)
                if kind == "COUNTER":
                    with self.assertRaisesRegex(pb.TritonModelException, "0 or more"):
                        metric.increment(-1)
                if kind == "HISTOGRAM":
                    with self.assertRaisesRegex(pb.TritonModelException, "does not support value"):
                        metric.value()

    def test_what_the_server_refuses_is_an_exception(self):
        def refuse(server, message, _):
            server.end(message["Metric"]["ask"], {"code": "AlreadyExists", "text": "another kind"})

        with Server(refuse) as server, server.talk.runs([]):
            with self.assertRaisesRegex(pb.TritonModelException, "another kind"):
                pb.MetricFamily("f", "a family", pb.MetricFamily.COUNTER)


async def _await(made):
    return await made()


if __name__ == "__main__":
    unittest.main()
