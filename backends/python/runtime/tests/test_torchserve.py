"""Archives of TorchServe. The answers are those that TorchServe 0.12 gives to the same handlers and bodies."""

import io
import json
import os
import tempfile
import unittest
import zipfile

import numpy as np

from fake_server import Process, call
from muster_python import model_archive

# Answers as its body says, or what it was given.
ECHO = """
from ts.utils.util import PredictionException

class Echo:
    def initialize(self, context):
        self.settings, self.directory = context.model_yaml_config, context.system_properties["model_dir"]

    def handle(self, data, context):
        return [self.answer(it, at, len(data), context) for at, it in enumerate(data)] if self.lists(data) else "no list"

    def lists(self, data):
        return all(it.get("body") != "no list" for it in data)

    def answer(self, it, at, count, context):
        body = it.get("body")
        if body == "memory":
            raise MemoryError
        if body == "fail":
            raise ValueError("mine")
        if body == "own":
            raise PredictionException("bad thing", 418)
        if body == "status":
            context.set_response_status(203, "Mine", at)
            context.set_response_header(at, "x-mine", "yes")
            context.set_response_content_type(at, "text/csv")
            return "a,b"
        if body == "given":
            kinds = {name: type(value).__name__ for name, value in it.items()}
            return {"kinds": kinds, "headers": context.get_all_request_header(at), "count": count}
        if body == "settings":
            return self.settings
        if body == "header":
            return context.get_request_header(at, "X-Mine")
        own = {"bytes": b"\\0abc", "text": "text", "number": 3.5, "none": None, "object": object()}
        return own.get(body) if isinstance(body, str) else body
"""

# A function, and what it keeps of the load.
FUNCTION = """
state = {}
def handle(data, context):
    if data is None:
        state["directory"] = context.system_properties["model_dir"]
        return None
    with open("words.txt") as file:
        return [[file.read(), bool(state["directory"])]] * len(data)
"""

# Made of the handler that TorchServe offers, with a network of its own.
OF_BASE = """
from ts.torch_handler.base_handler import BaseHandler
from ts.utils.util import load_label_mapping, map_class_to_label

class Mine(BaseHandler):
    def initialize(self, context):
        self.mapping = load_label_mapping("index_to_name.json")
        self.initialized = True

    def preprocess(self, data):
        return [it["body"] for it in data]

    def inference(self, data):
        return [[it / sum(row) for it in row] for row in data]

    def postprocess(self, data):
        return map_class_to_label(data, self.mapping)
"""

# Sends what it makes piece by piece.
PIECES = """
from ts.handler_utils.utils import send_intermediate_predict_response

def handle(data, context):
    if data is None:
        return
    for word in data[0]["body"].split():
        if word == "fail":
            raise ValueError("no such word")
        send_intermediate_predict_response([word], context.request_ids, "", 200, context)
    return ["end"]
"""


def manifest(**more):
    return json.dumps({"model": {"modelName": "m", "handler": "handler.py", "modelVersion": "1.0", **more}})


def archive(text, said=None, **files):
    """A `.mar` file, as torch-model-archiver makes them."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in {"handler.py": text, **files, "MAR-INF/MANIFEST.json": said or manifest()}.items():
            opened.writestr(name, content)
    return stream.getvalue()


class Handler(Process):
    """The process of an archive, with one lane."""

    def __init__(self, given, **options):
        self._kept = tempfile.TemporaryDirectory()
        packages = {"file": None, "install": False, "directory": self._kept.name}
        given = given if isinstance(given, bytes) else archive(given)
        super().__init__(None, file="m.mar", load_bytes=given, more={"requirements": packages}, **options)
        self.lane = None if "Err" in self.loaded else self.open()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._kept.cleanup()

    def start(self, *bodies, content_type="application/json", **parameters):
        """Sends a run with these bodies."""
        is_batched = self.completed().get("max_batch_size", 0) > 0
        if content_type:
            parameters["content_type"] = content_type
        calls = []
        for body in bodies:
            array = np.empty((1, 1) if is_batched else 1, object)
            array.fill(body if isinstance(body, bytes) else json.dumps(body).encode())
            calls.append(call({"body": array}, parameters=parameters))
        self.lane.start(*calls)

    def part(self):
        """The next part of an answer: which call it is of, the body, and what is said beside."""
        what, said, tensors = self.lane.talk.receive()
        self.assert_is(what, said)
        body = tensors["body"].reshape(-1)[0] if tensors else None
        return said, body

    def assert_is(self, what, said):
        if what not in ("Part", "End"):
            raise AssertionError((what, said))

    def ask(self, body, **options):
        """Status, content type and body of an answer."""
        self.start(body, **options)
        said, body = self.part()
        self.lane.finish()
        return said["parameters"]["status"], said["parameters"]["content_type"], body


def failure(status, text, kind="InternalServerException"):
    said = f'{{\n  "code": {status},\n  "type": "{kind}",\n  "message": "{text}"\n}}\n'
    return status, "application/json", said.encode()


class Answers(unittest.TestCase):
    def test_what_a_handler_returns_is_written_by_its_type(self):
        with Handler(ECHO) as handler:
            self.assertEqual(handler.ask("bytes"), (200, "application/octet-stream", b"\0abc"))
            self.assertEqual(handler.ask("text"), (200, "text/plain; charset=utf-8", b"text"))
            self.assertEqual(handler.ask("number"), (200, "application/json", b"3.5"))
            self.assertEqual(handler.ask("none")[2], b"null")
            self.assertEqual(handler.ask({"a": [1]})[2], b'{\n  "a": [\n    1\n  ]\n}')
            self.assertEqual(handler.ask("status"), (203, "text/csv", b"a,b"))
            handler.start("status")
            self.assertEqual(handler.part()[0]["parameters"]["headers"], '{"x-mine": "yes"}')

    def test_what_fails_has_the_statuses_and_words_of_torchserve(self):
        with Handler(ECHO) as handler:
            self.assertEqual(handler.ask("memory"), failure(507, "Out of resources"))
            self.assertEqual(handler.ask("fail"), failure(503, "Prediction failed"))
            self.assertEqual(handler.ask("own"), failure(418, "bad thing"))
            self.assertEqual(handler.ask("no list"), failure(503, "Invalid model predict output"))
            self.assertEqual(handler.ask("object"), failure(503, "Unsupported model output data type."))
            handler.wait_for_log("ValueError: mine")
        with Handler("def handle(data, context): return [1, 2]") as handler:
            self.assertEqual(handler.ask("x"), failure(503, "number of batch response mismatched"))

    def test_a_body_is_one_value_and_a_form_is_several(self):
        text = ECHO.replace('body = it.get("body")', 'body = it.get("body", "given") if "body" not in it else "given"')
        with Handler(text) as handler:

            def kinds(body, content_type):
                return json.loads(handler.ask(body, content_type=content_type)[2])["kinds"]

            self.assertEqual(kinds(b'{"a": 1}', "application/json"), {"body": "dict"})
            self.assertEqual(kinds(b"{bad", "application/json"), {"body": "bytearray"})
            self.assertEqual(kinds("é".encode(), "text/plain"), {"body": "str"})
            self.assertEqual(kinds(b"\xff", "text/plain"), {"body": "bytearray"})
            self.assertEqual(kinds(b"raw", None), {"body": "bytearray"})
            fields = kinds(b"a=1&b=two%20words", "application/x-www-form-urlencoded")
            self.assertEqual(fields, {"a": "bytearray", "b": "bytearray"})
            form = (
                b'--xx\r\nContent-Disposition: form-data; name="data"; filename="a.json"\r\n'
                b'Content-Type: application/json\r\n\r\n{"0": "a"}\r\n'
                b'--xx\r\nContent-Disposition: form-data; name="b"\r\n\r\n--x\r\n\r\n--xx--\r\n'
            )
            self.assertEqual(kinds(form, "multipart/form-data; boundary=xx"), {"data": "dict", "b": "bytearray"})
            status, _, body = handler.ask(form[:-20], content_type="multipart/form-data; boundary=xx")
            self.assertEqual((status, json.loads(body)["type"]), (400, "BadRequestException"))

    def test_all_headers_are_told(self):
        with Handler(ECHO) as handler:
            said = handler.ask("given", **{"x-mine": "3", "accept": "*/*"})[2]
            expected = {"body": {"content-type": "application/json"}, "Content-Type": "application/json"}
            expected.update({"x-mine": "3", "accept": "*/*", "explain": "False", "url_path": ""})
            self.assertEqual(json.loads(said)["headers"], expected)
            self.assertEqual(handler.ask("header", **{"x-mine": "3"})[2], b"3")

    def test_parts_are_sent_before_the_end(self):
        with Handler(PIECES) as handler:
            handler.start(b"a b", content_type="text/plain")
            parts = [handler.part() for _ in range(3)]
            self.assertEqual([body for _, body in parts], [b"a", b"b", b"end"])
            self.assertEqual([it["last"] for it, _ in parts], [False, False, True])
            handler.lane.finish()
            handler.start(b"a fail", content_type="text/plain")
            self.assertEqual(handler.part()[1], b"a")
            self.assertEqual(handler.part()[0]["error"]["text"], "Prediction failed")


class Loads(unittest.TestCase):
    def test_a_function_is_called_at_the_load_and_works_in_its_folder(self):
        for handler in ("handler.py", "handler:handle", "handler"):
            with Handler(archive(FUNCTION, manifest(handler=handler), **{"words.txt": "hi"})) as process:
                self.assertEqual(json.loads(process.ask("x")[2]), ["hi", True])

    def test_a_handler_may_be_made_of_torchserves(self):
        names = json.dumps({"0": ["n1", "cat"], "1": "dog"})
        with Handler(archive(OF_BASE, **{"index_to_name.json": names})) as handler:
            self.assertEqual(json.loads(handler.ask([1, 3])[2]), {"cat": 0.25, "dog": 0.75})

    def test_its_settings_are_those_of_the_model(self):
        settings = json.dumps({"batchSize": 4, "maxBatchDelay": 20, "responseTimeout": 60, "mine": [1], "minWorkers": 2})
        with Handler(archive(ECHO, manifest(configFile="c.json"), **{"c.json": settings})) as handler:
            completed = handler.completed()
            self.assertEqual(completed["max_batch_size"], 4)
            self.assertEqual(completed["dynamic_batching"], {"max_queue_delay_microseconds": 20_000})
            self.assertEqual(completed["parameters"]["EXECUTION_TIMEOUT_SECONDS"], {"string_value": "60"})
            handler.wait_for_log("not applied: minWorkers")
            handler.start("given", "settings")
            said = {it["call"][1]: json.loads(body) for it, body in (handler.part(), handler.part())}
            self.assertEqual((said[0]["count"], said[1]["mine"]), (2, [1]))
        # What the server's configuration says goes first.
        own = {"name": "m", "max_batch_size": 8}
        with Handler(archive(ECHO, manifest(configFile="c.json"), **{"c.json": settings}), config=own) as handler:
            self.assertEqual(handler.completed()["max_batch_size"], 8)
        with Handler(archive(ECHO, manifest(configFile="c.json"), **{"c.json": '{"batchSize": "4"}'})) as handler:
            self.assertIn("batchSize: '4', expected a whole number", handler.loaded["Err"]["text"])

    def test_a_folder_is_served_as_its_archive_is(self):
        files = {"1/handler.py": FUNCTION, "1/words.txt": "hi", "1/MAR-INF/MANIFEST.json": manifest()}
        with Process(None, file="MAR-INF/MANIFEST.json", files=files) as process:
            lane = process.open()
            array = np.array([b"x"], object)
            lane.start(call({"body": array}))
            self.assertEqual(json.loads(lane.talk.receive()[2]["body"][0]), ["hi", True])
            lane.finish()

    def test_what_is_no_archive_is_refused_with_the_reason(self):
        def refused(given):
            with Handler(given) as handler:
                return handler.loaded["Err"]["text"]

        self.assertIn("is no archive of TorchServe", refused(b"text"))
        self.assertIn("names no handler", refused(archive(ECHO, "{}")))
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as opened:
            opened.writestr("handler.py", "")
        self.assertIn("has no MAR-INF/MANIFEST.json", refused(stream.getvalue()))
        self.assertIn("would lie outside of it: '../x'", refused(archive(ECHO, **{"../x": ""})))
        self.assertIn("found none", refused(archive("x = 1")))
        two = "class A:\n    def handle(self, data, context): pass\nclass B(A): pass\n"
        self.assertIn("found A, B", refused(archive(two)))
        self.assertIn("-m pip install torchserve", refused(archive("", manifest(handler="image_classifier"))))
        wanted = {"requirements.txt": "no-such-package-here==1"}
        asked = archive(ECHO, manifest(requirementsFile="requirements.txt"), **wanted)
        self.assertIn("no-such-package-here==1", refused(asked))

    def test_a_file_larger_than_any_archive_is_refused_before_it_is_read(self):
        with tempfile.TemporaryDirectory() as directory:
            for begun, bytes in ((b"PK\3\4", 4 << 30), (archive(ECHO), 4 << 40)):
                path = os.path.join(directory, "m.mar")
                with open(path, "wb") as file:
                    file.truncate(bytes - len(begun))
                    file.seek(0, os.SEEK_END)
                    file.write(begun)
                with self.assertRaisesRegex(ValueError, "is no archive of TorchServe"):
                    model_archive.open_archive({"file": path}, directory)


if __name__ == "__main__":
    unittest.main()
