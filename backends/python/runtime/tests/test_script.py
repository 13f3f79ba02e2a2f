"""SageMaker's scripts."""

import io
import json
import unittest

import numpy as np

from fake_server import Process, call

ECHO = """
    import json
    def model_fn(model_dir): return {"dir": model_dir}
    def predict_fn(data, model): return data * 2
"""


class Script(Process):
    """The process of a script, with one lane."""

    def __init__(self, text, **options):
        super().__init__(text, file="inference.py", **options)
        self.lane = None if "Err" in self.loaded else self.open()

    def invoke(self, body, content_type="application/json", **parameters):
        """The body of the answer, and its parameters; or the refusal."""
        body = body.encode() if isinstance(body, str) else body
        array = np.empty(1, object)
        array[0] = body
        if content_type is not None:
            parameters["content_type"] = content_type
        self.lane.start(call({"body": array}, parameters=parameters))
        parts, said, error = self.parts()
        # A run that fails as a whole says nothing beside.
        failed = self.lane.finish()
        return error or (b"".join(parts), said) if failed == [{}] else failed

    def parts(self):
        """The pieces of the next body, the parameters, and the error at the end."""
        pieces, said, body = [], {}, {}
        while "error" not in body and not body.get("last"):
            what, body, tensors = self.lane.talk.receive()
            if what == "Part":
                pieces.append(tensors["body"][0])
                said.update(body["parameters"])
        return pieces, said, body.get("error")


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


class Functions(unittest.TestCase):
    def test_a_body_goes_in_and_a_body_comes_out(self):
        with Script(ECHO) as script:
            completed = script.completed()
            self.assertEqual(completed["input"], [{"name": "body", "data_type": "TYPE_STRING", "dims": [1]}])
            self.assertEqual(completed["output"], completed["input"])
            self.assertEqual(script.loaded["Ok"]["notes"], [["muster_script", "body"]])
            as_json = {"content_type": "application/json", "status": 200}
            self.assertEqual(script.invoke("[1, 2.5]"), (b"[2.0, 5.0]", as_json))
            self.assertEqual(script.invoke("1,2\n3,4", "text/csv; charset=utf-8"), (b"[[2, 4], [6, 8]]", as_json))
            body, parameters = script.invoke("[[1, 2]]", accept="text/csv")
            self.assertEqual((body, parameters["content_type"]), (b"2,4\n", "text/csv"))
            body, parameters = script.invoke(npy(np.array([1])), "application/x-npy", accept="application/x-npy")
            self.assertEqual(np.load(io.BytesIO(body)).tolist(), [2])
            self.assertEqual(script.invoke("[1]", accept="text/html, */*")[1], as_json)

    def test_types_that_nobody_reads_or_writes_have_a_status(self):
        with Script(ECHO) as script:
            body, parameters = script.invoke("<a/>", "text/xml")
            self.assertEqual(parameters["status"], 415)
            self.assertIn(b"content type text/xml is not supported", body)
            body, parameters = script.invoke("[1]", accept="image/png")
            self.assertEqual(parameters["status"], 406)
            self.assertIn(b"image/png", body)
            self.assertEqual(script.invoke("[1]", None)[1]["status"], 415)

    def test_pickled_objects_are_not_read(self):
        with Script(ECHO) as script:
            self.assertEqual(script.invoke(npy(np.array([{}])), "application/x-npy")["code"], "Internal")

    def test_all_functions_are_called_in_their_order_and_context_is_the_last(self):
        text = """
            import json
            said = []
            def pre_model_fn(model_dir): said.append("pre")
            def model_fn(model_dir, context): said.append("model " + context.system_properties["server_name"])
            def model_warmup_fn(model_dir, model): said.append("warm")
            def input_fn(data, content_type): return [type(data).__name__, data, content_type]
            def predict_fn(data, model): return data + said
            def output_fn(prediction, accept, context):
                attributes = context.get_request_header(0, "x-amzn-sagemaker-custom-attributes")
                context.set_response_header(0, "X-Mine", "1")
                context.set_response_status(202, "so far", 0)
                context.metrics.add_time("t", 5)
                return json.dumps(prediction + [attributes, context.get_all_request_header(0)["x-other"]])
        """
        with Script(text) as script:
            body, parameters = script.invoke("[1]", custom_attributes="k=v", **{"X-Other": "o"})
            expected = ["str", "[1]", "application/json", "pre", "model muster", "warm", "k=v", "o"]
            self.assertEqual(json.loads(body), expected)
            self.assertEqual(
                parameters, {"content_type": "application/json", "status": 202, "headers": '{"X-Mine": "1"}'}
            )

    def test_what_a_body_is_given_as(self):
        text = """
            def model_fn(model_dir): pass
            def transform_fn(model, data, content_type, accept):
                return f"{type(data).__name__} {data!r} {content_type} {accept}"
        """
        for body, content_type, expected in (
            ("é", "text/plain", "str 'é' text/plain"),
            ("é".encode("latin-1"), "text/csv; charset=latin-1", "str 'é' text/csv; charset=latin-1"),
            (b"\xff", "text/plain", "bytes b'\\xff' text/plain"),
            ("{}", "application/jsonlines", "str '{}' application/jsonlines"),
            ("a", "application/octet-stream", "bytes b'a' application/octet-stream"),
            ("a", None, "bytes b'a' None"),
        ):
            with Script(text) as script:
                self.assertEqual(script.invoke(body, content_type)[0].decode(), expected + " application/json")
        with Script(text, environment={"SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": "text/csv"}) as script:
            self.assertTrue(script.invoke("a", "text/plain", accept="*/*")[0].endswith(b" text/csv"))

    def test_results_of_all_kinds_are_bodies(self):
        text = """
            def model_fn(model_dir): pass
            def parts():
                yield "a"
                yield b"b"
            async def async_parts():
                yield "c"
            async def later(): return "d"
            async def transform_fn(model, data, content_type, accept):
                return eval(data)
        """
        with Script(text) as script:
            for what, expected in (
                ("'ü'", "ü".encode()),
                ("bytearray(b'x')", b"x"),
                ("memoryview(b'xy')[1:]", b"y"),
                ("('t', 'text/plain')", b"t"),
                ("parts()", b"ab"),
            ):
                self.assertEqual(script.invoke(what)[0], expected)
            self.assertEqual(script.invoke("('t', 'text/plain')")[1]["content_type"], "text/plain")
            self.assertIn("<class 'dict'>, expected str, bytes", script.invoke("{}")["text"])

    def test_generators_are_sent_piece_by_piece(self):
        text = """
            import time
            def model_fn(model_dir): pass
            async def parts(data):
                yield data
                yield "!"
            def transform_fn(model, data, content_type, accept, context):
                context.set_response_content_type(0, "text/plain")
                context.set_response_header(0, "a", "b")
                if data == "none": return iter_of()
                return fails(context) if data == "fails" else waits(context) if data == "waits" else parts(data)
            def iter_of():
                yield from ()
            def fails(context):
                yield "some"
                raise ValueError("no more")
            def waits(context):
                try:
                    while True:
                        yield "more"
                finally:
                    print("closed", flush=True)
        """
        with Script(text) as script:
            text = {"content_type": "text/plain"}

            def start(data):
                script.lane.start(call({"body": np.array([data.encode()], object)}, parameters=text))
                return script.parts()

            said = {"content_type": "text/plain", "status": 200, "headers": '{"a": "b"}'}
            self.assertEqual(start("a"), ([b"a", b"!"], said, None))
            self.assertEqual(script.lane.finish(), [{}])
            self.assertEqual(start("none"), ([b""], said, None))
            self.assertEqual(script.lane.finish(), [{}])
            error = {"code": "Internal", "text": "no more"}
            self.assertEqual(start("fails"), ([b"some"], said, error))
            self.assertEqual(script.lane.finish(), [{}])
            # One that nobody reads waits, and ends when its client leaves.
            script.lane.start(call({"body": np.array([b"waits"], object)}, parameters=text))
            for _ in range(16):
                self.assertEqual(script.lane.talk.receive()[0], "Part")
            script.lane.talk.send("Left", call=[3, 0])
            self.assertEqual(script.lane.talk.receive()[0], "End")
            self.assertEqual(script.lane.finish(), [{}])
            self.assertIn("closed", script.log())


class Errors(unittest.TestCase):
    def test_a_script_s_own_errors_have_their_status(self):
        text = """
            from sagemaker_inference import errors, content_types, decoder, encoder
            from sagemaker_inference.errors import BaseInferenceToolkitError
            from mms.service import PredictionException
            class Mine(BaseInferenceToolkitError):
                def __init__(self): super().__init__(429, "too many", "slow down")
            def model_fn(model_dir): pass
            def transform_fn(model, data, content_type, accept):
                if data == "array":
                    return encoder.encode(decoder.decode("[1]", content_types.JSON) + 1, "application/json")
                raise eval(data)
        """
        with Script(text) as script:
            plain = {"content_type": "text/plain; charset=utf-8"}
            self.assertEqual(script.invoke("Mine()"), (b"too many", {**plain, "status": 429}))
            self.assertEqual(script.invoke("PredictionException('bad', 422)"), (b"bad", {**plain, "status": 422}))
            self.assertEqual(script.invoke("errors.GenericInferenceToolkitError(404)")[0], b"Invalid Request")
            self.assertEqual(script.invoke("ValueError('no')"), {"code": "Internal", "text": "no"})
            self.assertEqual(script.invoke("SystemExit(3)"), {"code": "Internal", "text": "3"})
            self.assertEqual(script.invoke("array")[0], b"[2]")
            failed = script.lane.run({"body": np.array([b"MemoryError()"], object)})
            self.assertEqual(failed["kind"], "OutOfMemory")

    def test_what_is_wrong_with_a_script_is_a_load_error(self):
        for text, part in (
            ("def model_fn(): pass", "model_fn takes 0 arguments, expected model_fn(model_dir), or one more"),
            ("def model_fn(a): pass\ndef output_fn(a, b, c, d): pass", "output_fn takes 4 arguments"),
            (
                "def transform_fn(a, b, c, d): pass\ndef input_fn(a, b): pass",
                "transform_fn, which does what input_fn",
            ),
        ):
            with self.subTest(text), Script(text) as script:
                self.assertIn(part, script.loaded["Err"]["text"])
        with Script("def predict_fn(a, b): pass") as script:
            self.assertIn("defines no model_fn(model_dir)", script.lane.opened["Err"]["text"])
        with Script("def model_fn(a): raise OSError('no weights')") as script:
            self.assertIn("OSError: no weights\nFile ", script.lane.opened["Err"]["text"])

    def test_modules_beside_it_come_before_others(self):
        text = """
            import colorsys, packed
            def model_fn(model_dir): pass
            def transform_fn(model, data, content_type, accept): return colorsys.mine + packed.mine
        """
        files = {"1/colorsys.py": "mine = 'a'", "1/lib/packed.py": "mine = 'b'"}
        with Script(text, files=files) as script:
            self.assertEqual(script.invoke("1")[0], b"ab")


class Defaults(unittest.TestCase):
    def test_a_body_that_cannot_be_read_is_an_exception_as_in_the_toolkit(self):
        # Of sagemaker-inference 1.10.1, which answers 500 and the traceback behind the text.
        with Script(ECHO) as script:
            for body, text in (
                ("{bad", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
                ("", "Expecting value: line 1 column 1 (char 0)"),
                ("[[1], [2, 3]]", "setting an array element with a sequence"),
            ):
                refused = script.invoke(body)
                self.assertEqual(refused["code"], "Internal")
                self.assertTrue(refused["text"].startswith(text), refused)

    def test_a_toolkit_that_is_named_goes_before_what_the_model_is(self):
        text = """
            def model_fn(model_dir): return lambda inputs: inputs
        """
        with Script(text, more={"script_flavor": "auto"}) as script:
            self.assertEqual(script.invoke('{"inputs": [1]}')[0], b"[1]")
        with Script(text, more={"script_flavor": "sagemaker"}) as script:
            self.assertIn("defines no predict_fn", script.invoke("[1]")["text"])
        own = {"SCRIPT_FLAVOR": "huggingface"}
        with Script(text, more={"script_flavor": "sagemaker"}, options=own) as script:
            self.assertEqual(script.invoke('{"inputs": [1]}')[0], b"[1]")

    def test_a_model_with_predict_gets_rows(self):
        text = """
            class Tree:
                def predict(self, rows): return [f"{rows.dtype} {rows.shape} {row.sum()}" for row in rows]
            def model_fn(model_dir): return Tree()
        """
        with Script(text) as script:
            self.assertEqual(json.loads(script.invoke("1,2", "text/csv")[0]), ["float32 (1, 2) 3.0"])
            self.assertEqual(json.loads(script.invoke("[[1], [2]]")[0])[1], "float32 (2, 1) 2.0")
            self.assertEqual(
                json.loads(script.invoke(npy(np.ones(2)), "application/x-npy")[0]), ["float64 (1, 2) 2.0"]
            )

    def test_a_function_gets_inputs_and_parameters(self):
        text = """
            def model_fn(model_dir):
                def pipe(inputs, **parameters):
                    if inputs == "fail": raise ValueError("not that")
                    return [{"got": inputs, **parameters}]
                return pipe
        """
        with Script(text) as script:
            body, parameters = script.invoke('{"inputs": "hi", "parameters": {"n": 1}}')
            self.assertEqual(body, b'[{"got":"hi","n":1}]')
            self.assertEqual(script.invoke('{"a": 1}')[0], b'[{"got":{"a":1}}]')
            self.assertEqual(script.invoke("inputs\nx\ny\n", "text/csv")[0], b'[{"got":["x","y"]}]')
            body, parameters = script.invoke('{"inputs": "fail"}')
            self.assertEqual(parameters["status"], 400)
            self.assertEqual(
                json.loads(body), {"code": 400, "type": "InternalServerException", "message": "not that"}
            )

    def test_a_booster_gets_a_matrix(self):
        try:
            import xgboost
        except ImportError:
            self.skipTest("without xgboost")
        rows = np.array([[0, 1], [1, 0], [1, 1], [0, 0]] * 8, np.float32)
        booster = xgboost.train({"max_depth": 2}, xgboost.DMatrix(rows, rows[:, 0]), 3)
        booster.set_param({"nthread": 1})
        text = """
            import os, xgboost
            def model_fn(model_dir):
                booster = xgboost.Booster()
                booster.load_model(os.path.join(model_dir, "model.json"))
                return booster
        """
        with Script(text, files={"model.json": bytes(booster.save_raw("json")).decode()}) as script:
            expected = booster.predict(xgboost.DMatrix(np.array([[1, np.nan]], np.float32))).tolist()
            self.assertEqual(json.loads(script.invoke("1,", "text/csv")[0]), expected)
            self.assertEqual(json.loads(script.invoke("0 0:1", "text/libsvm")[0]), expected)
            self.assertEqual(script.invoke("a", "image/png")[1]["status"], 415)


if __name__ == "__main__":
    unittest.main()
