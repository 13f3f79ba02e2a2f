"""Scripts of SageMaker's TensorFlow Serving container: their handlers, and the model that they ask between them."""

import json
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from test_asks import Server

from muster_python import handlers

PAIR = """
import json
def input_handler(data, context):
    return made(data, context)
def output_handler(response, context):
    return told(response, context)
"""


def answering(status, body):
    """A server that answers each request with that."""

    def answer(server, message, data):
        array = np.empty(1, object)
        array[0] = body
        server.part(message["Infer"]["ask"], {"status": status}, body=array)
        server.end(message["Infer"]["ask"])
        server.data = data

    return Server(answer)


class Script:
    """The flavour over a script. To be used with `with`."""

    def __init__(self, text, **globals_of_script):
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "inference.py"
        file.write_text(text)
        load = {"file": str(file), "directory": self._folder.name, "version_directory": self._folder.name}
        load.update(name="inference.py", version=1, auto_complete=False, options={}, config=None)
        path = mock.patch("sys.path", list(handlers.script.os.sys.path))
        with path:
            model = handlers.load(load)
        for it in filter(None, [model._handler, *model._pair]):
            it.__globals__.update(globals_of_script)
        self._instance = model.instance({})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._instance.finalize()
        self._folder.cleanup()

    def invoke(self, body=b"ab", **parameters):
        """Body and parameters of the answer."""
        array = np.empty(1, object)
        array[0] = body
        body = SimpleNamespace(array=lambda: array)
        call = SimpleNamespace(inputs=[body], about={"id": "", "parameters": parameters})
        (answer,) = self._instance.execute(SimpleNamespace(calls=lambda: [call]))
        return answer.outputs[0][2].item(), answer.parameters


class Handlers(unittest.TestCase):
    def test_what_the_first_makes_is_asked_and_the_second_is_given_the_answer(self):
        for made, sent in [(b"x", b"x"), ("ä", "ä".encode()), ({"a": [1]}, b'{"a": [1]}')]:
            functions = {
                "made": lambda data, context, made=made: made,
                "told": lambda it, context: (f"{it.status_code} {it.ok} {it.json()} {it.text}", "text/x-own"),
            }
            server = answering(404, b'{"error": "no"}')
            with server, server.talk.runs([(1, 0)]), Script(PAIR, **functions) as script:
                body, said = script.invoke(around="half", custom_attributes="a=1, tfs-model-version=7,tfs-method=regress")
                self.assertEqual(body, b"404 False {'error': 'no'} " + b'{"error": "no"}')
                self.assertEqual(said, {"content_type": "text/x-own", "status": 200})
                asked = server.said[0]["Infer"]
                self.assertEqual((asked["model"], asked["version"], asked["rest"]), ("half", 7, "regress"))
                self.assertEqual(server.data[4:], sent)

    def test_the_body_is_a_stream_and_may_go_on_as_it_came(self):
        with answering(200, b"{}") as server, server.talk.runs([(1, 0)]):
            with Script(PAIR, made=lambda data, context: data, told=lambda it, context: (it.content, None)) as script:
                self.assertEqual(script.invoke(b"1\n2", around="m")[1]["content_type"], "application/json")
                self.assertEqual(server.data[4:], b"1\n2")

    def test_the_context_is_that_of_the_container(self):
        text = "def handler(data, context):\n    return json_of(context), 'text/plain'"

        def json_of(context):
            return json.dumps([*context, context.grpc_uri])

        with Script(text, json_of=json_of) as script:
            given = dict(around="half", rest_port=80, grpc_port=81, content_type="text/csv", accept="*/*")
            uri = "http://localhost:80/v1/models/half:predict"
            expected = [None, None, None, uri, 81, None, None, "text/csv", "*/*", 2, "localhost:81"]
            self.assertEqual(json.loads(script.invoke(**given)[0]), expected)
            given = dict(around="half", endpoint="key", rest_port=80, grpc_port=81, custom_attributes="tfs-model-name=x")
            self.assertEqual(json.loads(script.invoke(**given)[0])[:4], ["key", None, None, uri])

    def test_an_exception_is_answered_as_in_the_container(self):
        text = "def handler(data, context):\n    raise ValueError('Größe')"
        with Script(text) as script:
            body, said = script.invoke()
            self.assertEqual(json.loads(body), {"error": "Größe"})
            self.assertEqual(said, {"content_type": "application/json", "status": 500})
        with Script("def handler(data, context):\n    return 'only a body'") as script:
            self.assertEqual(script.invoke()[1]["status"], 500)
        with Script(PAIR, made=lambda *_: "", told=None) as script:
            self.assertIn("stand around none", script.invoke()[0].decode())

    def test_a_failed_answer_raises_where_the_script_asks_for_that(self):
        response = handlers.Response(b'{"error": "full"}', 503, "http://localhost/m")
        with self.assertRaisesRegex(OSError, '503 for url: http://localhost/m: {"error": "full"}'):
            response.raise_for_status()
        self.assertFalse(response)

    def test_half_a_pair_is_a_load_error(self):
        with self.assertRaisesRegex(TypeError, "both input_handler and output_handler"):
            Script("def input_handler(data, context): pass")


if __name__ == "__main__":
    unittest.main()
