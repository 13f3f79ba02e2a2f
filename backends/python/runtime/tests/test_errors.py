"""What becomes of a model that fails, and of one that does what it should not."""

import os
import signal
import unittest

from fake_server import Process, config, frames
from test_triton import floats, model

BOTH = config(["x"], ["y"])
BATCHES = config(["x"], ["y"], max_batch_size=8)

PREFIX = "Failed to process the request(s) for model 'm_0', message: "

# `execute` of these models does what the request's parameter `do` says.
DOES = model(
    """
do = json.loads(request.parameters()).get("do", "")
if do:
    return eval(do) if do.startswith("(") else exec(do, globals(), {"request": request, "x": x})
return pb_utils.InferenceResponse([pb_utils.Tensor("y", x.as_numpy())])
""",
    before="""
class Odd(Exception):
    def __str__(self): raise ValueError("no text")

class Deep(BaseException):
    pass

def error(code):
    return pb_utils.InferenceResponse(error=pb_utils.TritonError("not this one", code))
""",
)


class Execute(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = Process(DOES, config=BATCHES)
        cls.lane = cls.process.open(BATCHES)

    @classmethod
    def tearDownClass(cls):
        cls.process.__exit__()

    def do(self, *whats):
        """The outcome of a run of calls that do this."""
        calls = [{"inputs": {"x": floats(1)}, "outputs": None, "about": {"parameters": {"do": it}}} for it in whats]
        return self.lane.run(*calls)

    def check_alive(self):
        (answer,) = self.do("")
        self.assertEqual(answer["y"], floats(1))

    def check_failed(self, what, text, kind="Execute"):
        failed = self.do(what)
        self.assertEqual(failed["kind"], kind)
        self.assertEqual(failed["text"], PREFIX + text)
        self.check_alive()

    def test_an_exception_is_the_error_of_its_run_and_its_traceback_is_in_the_log(self):
        self.check_failed("raise ValueError('it was 3')", "ValueError: it was 3")
        self.process.wait_for_log("ERROR ValueError: it was 3")
        self.assertIn("model.py", self.process.log())
        self.assertNotIn("<muster>", self.process.log())

    def test_what_would_end_a_program_is_an_exception(self):
        self.check_failed("sys.exit('enough')", "SystemExit: enough")
        self.check_failed("raise KeyboardInterrupt", "KeyboardInterrupt")
        self.check_failed("raise Deep('down')", "Deep: down")

    def test_an_exception_without_a_text_has_the_name_of_its_type(self):
        self.check_failed("raise Odd", "Odd: (its text cannot be read: __str__ fails)")

    def test_a_long_text_is_cut_and_a_text_that_is_no_utf8_is_mended(self):
        failed = self.do("raise ValueError('z' * 10_000_000)")
        self.assertLessEqual(len(failed["text"]), 4096)
        self.check_failed(r"raise ValueError('a\ud800')", "ValueError: a?")

    def test_memory_that_is_lacking_is_said_to_be(self):
        self.check_failed("raise MemoryError('of 4 GB')", "MemoryError: of 4 GB", kind="OutOfMemory")
        self.check_failed(
            "raise RuntimeError('CUDA out of memory')", "RuntimeError: CUDA out of memory", kind="OutOfMemory"
        )

    def test_each_request_has_its_own_error_and_code(self):
        codes = ["Unknown", "Internal", "NotFound", "InvalidArg", "Unavailable", "Unsupported", "AlreadyExists"]
        names = ["UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS"]
        outcomes = self.do(*(f"(error(pb_utils.TritonError.{it}))" for it in names), "")
        self.assertEqual([it["code"] for it in outcomes[:-1]], codes)
        self.assertEqual(outcomes[0]["text"], "not this one")
        self.assertEqual(outcomes[-1]["y"], floats(1))
        (cancelled,) = self.do("(error(pb_utils.TritonError.CANCELLED))")
        self.assertEqual(cancelled["code"], "Cancelled")

    def test_an_answer_that_is_none_is_refused(self):
        refused, answer = self.do("(None)", "")
        self.assertEqual(refused["code"], "Internal")
        self.assertIn("returned None", refused["text"])
        self.assertEqual(answer["y"], floats(1))

    def test_an_answer_that_is_no_response_fails_the_run(self):
        self.check_failed(
            "(5)",
            "TritonModelException: Expected an 'InferenceResponse' object in the execute function return list, "
            "found type '<class 'int'>'.",
        )

    def test_parameters_have_types_that_can_be_sent(self):
        for value, text in (
            ("1.5", "Expect parameters values to have type bool/int/str, found type <class 'float'>"),
            ("2 ** 63", "parameter 'a' is 9223372036854775808, expected at most 64 bits"),
        ):
            self.check_failed(
                f"(pb_utils.InferenceResponse([], parameters={{'a': {value}}}))", "TritonModelException: " + text
            )
        failed = self.do(r"(pb_utils.InferenceResponse([], parameters={'a': '\ud800'}))")
        self.assertIn("not UTF-8", failed["text"])
        self.check_failed(
            "(pb_utils.InferenceResponse([], parameters={1: 2}))",
            "TritonModelException: Expect parameters keys to have type str, found type <class 'int'>",
        )
        self.check_failed(
            "(pb_utils.InferenceResponse([], parameters=[]))",
            "TritonModelException: Expect parameters to be a dictionary, got <class 'list'>",
        )
        (answer,) = self.do("(pb_utils.InferenceResponse([], parameters={'a': True, 'b': -2, 'c': 'ü'}))")
        self.assertEqual(answer.parameters, {"a": True, "b": -2, "c": "ü"})

    def test_what_is_not_there_yet_says_so(self):
        failed = self.do("(__import__('c_python_backend_utils').shared_memory.free_memory())")
        self.assertIn("TritonModelException: ", failed["text"])
        self.assertIn("is not supported", failed["text"])

    def test_one_that_closes_its_streams_goes_on(self):
        with Process(DOES, config=BATCHES) as process:
            lane = process.open(BATCHES)
            calls = [
                {
                    "inputs": {"x": floats(1)},
                    "outputs": None,
                    "about": {"parameters": {"do": "os.close(1); os.close(2)"}},
                }
            ]
            lane.run(*calls)
            failed = lane.run(
                {
                    "inputs": {"x": floats(1)},
                    "outputs": None,
                    "about": {"parameters": {"do": "raise ValueError('a')"}},
                }
            )
            self.assertIn("ValueError: a", failed["text"])
            (answer,) = lane.run({"x": floats(1)})
            self.assertEqual(answer["y"], floats(1))


class Returned(unittest.TestCase):
    """What `execute` returns as a whole."""

    def check(self, returned, text, before=""):
        with Process(
            f"import triton_python_backend_utils as pb_utils\n{before}\n"
            f"class TritonPythonModel:\n    def execute(self, requests): return {returned}\n",
            config=BATCHES,
        ) as process:
            failed = process.open(BATCHES).run({"x": floats(1)}, {"x": floats(2)})
            self.assertIn(text, failed["text"])

    def test_another_length_names_both(self):
        self.check(
            "[pb_utils.InferenceResponse()]",
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            "InferenceRequest(s) size is:2, and InferenceResponse(s) size is:1",
        )

    def test_another_type_is_named(self):
        self.check("{}", "Expected a list in the execute return, found type '<class 'dict'>'.")

    def test_none_is_no_list(self):
        self.check("None", "Expected a list in the execute return, found type '<class 'NoneType'>'.")


class Senders(unittest.TestCase):
    def run_model(self, body, *calls):
        text = f"""
import triton_python_backend_utils as pb_utils
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
class TritonPythonModel:
    def execute(self, requests):
        senders = [it.get_response_sender() for it in requests]
        response = lambda it: pb_utils.InferenceResponse([pb_utils.Tensor("y", it.inputs()[0].as_numpy())])
        {body}
"""
        with Process(text, config=BATCHES) as process:
            return process.open(BATCHES).run(*calls)

    def test_a_sender_answers_in_place_of_the_list(self):
        body = "for s, r in zip(senders, requests): s.send(response(r), FINAL)"
        for rest in ("; return None", "\n        return [None for it in requests]"):
            if rest.startswith(";"):
                answers = self.run_model(body + "\n        return None", {"x": floats(1)}, {"x": floats(2)})
            else:
                answers = self.run_model(body + rest, {"x": floats(1)}, {"x": floats(2)})
            self.assertEqual([float(it["y"][0]) for it in answers], [1, 2])

    def test_final_may_come_after_the_response(self):
        (answer,) = self.run_model(
            "senders[0].send(response(requests[0])); senders[0].send(flags=FINAL); return [None]", {"x": floats(1)}
        )
        self.assertEqual(answer["y"], floats(1))

    def test_what_a_sender_may_not_send_is_an_exception(self):
        for body, text in (
            ("senders[0].send(flags=FINAL)", "cannot send complete final before sending a response."),
            ("senders[0].send(response(requests[0]), 2)", "Unsupported flag provided."),
            ("senders[0].send()", "must be provided when the response flags is set to zero."),
        ):
            with self.subTest(body):
                failed = self.run_model(body, {"x": floats(1)})
                self.assertIn(text, failed["text"])

    def test_what_is_sent_before_an_exception_is_the_response(self):
        for body in (
            "[senders[0].send(response(requests[0])) for _ in range(2)]",
            "senders[0].send(response(requests[0]), FINAL); senders[0].send(flags=FINAL)",
        ):
            with self.subTest(body):
                answered, failed = self.run_model(body, {"x": floats(1)}, {"x": floats(2)})
                self.assertEqual(answered["y"], floats(1))
                self.assertIn("Unable to send response.", failed["text"])


class Ends(unittest.TestCase):
    def test_a_model_that_ends_its_process_ends_only_that(self):
        with Process(model("os._exit(3)"), config=BOTH) as process:
            lane = process.open(BOTH)
            lane.start({"x": floats(1)})
            self.assertEqual(process.process.wait(20), 3)

    def test_a_crash_says_where_it_was(self):
        text = model("import ctypes; ctypes.string_at(0)")
        with Process(text, config=BOTH) as process:
            process.open(BOTH).start({"x": floats(1)})
            self.assertEqual(process.process.wait(20), -signal.SIGSEGV)
            process.wait_for_log("model.py")

    def test_one_that_closes_all_files_ends_or_answers(self):
        with Process(
            model('os.closerange(0, 99); return pb_utils.InferenceResponse([pb_utils.Tensor("y", x.as_numpy())])'),
            config=BOTH,
        ) as process:
            (answer,) = process.open(BOTH).run({"x": floats(1)})
            self.assertEqual(answer["y"], floats(1))

    def test_finalize_may_fail(self):
        text = """
            class TritonPythonModel:
                def execute(self, requests): pass
                def finalize(self): raise ValueError("at the end")
        """
        with Process(text, config=BOTH) as process:
            process.open(BOTH)
            self.assertEqual(process.end(), 0)
            self.assertIn("ERROR finalize of 'm_0': ValueError: at the end", process.log())

    def test_threads_and_exit_handlers_hold_nothing_up(self):
        text = """
            import atexit, threading, time
            atexit.register(time.sleep, 60)
            threading.Thread(target=time.sleep, args=(60,)).start()
            class TritonPythonModel:
                def execute(self, requests): pass
        """
        with Process(text, config=BOTH) as process:
            process.open(BOTH)
            self.assertEqual(process.end(), 0)


class Load(unittest.TestCase):
    def check(self, text, *parts, **options):
        with Process(text, **{"config": BOTH, **options}) as process:
            error = process.loaded.get("Err", {})
            self.assertEqual(error.get("kind"), "Load", process.loaded)
            for part in parts:
                self.assertIn(part, error["text"])

    def test_a_syntax_error_has_its_file_and_line(self):
        self.check("\nclass TritonPythonModel\n", "SyntaxError", "model.py", "line 2")

    def test_a_module_that_is_missing_is_named_with_the_place(self):
        text = "class TritonPythonModel: pass\nimport no_such_module\n"
        self.check(text, "ModuleNotFoundError: No module named 'no_such_module'", 'model.py", line 2')
        self.check(text, "pip install -r", "requirements.txt", files={"requirements.txt": "no_such_module"})

    def test_an_exception_at_import_has_its_place(self):
        self.check("class TritonPythonModel: pass\nraise ValueError('early')", "ValueError: early", "line 2")
        self.check("class TritonPythonModel: pass\nimport sys\nsys.exit(4)", "SystemExit: 4", "line 3")

    def test_a_file_that_is_missing_or_no_model_says_so(self):
        self.check(None, "Python model file not found in '", "model.py'")
        self.check("a = 1", "defines no model", "TritonPythonModel", "predict")
        self.check("class TritonPythonModel: pass", "does not implement `execute` method")

    def test_a_model_that_closes_the_socket_to_the_server_ends_its_process(self):
        with self.assertRaises(frames.Closed):
            Process("import os\nos.closerange(3, 1024)\ndef predict(x: int) -> int: return x")

    def test_an_interpreter_without_numpy_gets_the_remedy(self):
        self.check(
            DOES,
            "has no numpy",
            "-m pip install numpy",
            environment={"PYTHONPATH": os.path.join(os.path.dirname(__file__), "no_numpy")},
        )

    def test_initialize_that_fails_is_the_error_of_its_lane_alone(self):
        text = """
            import triton_python_backend_utils as pb_utils
            class TritonPythonModel:
                def initialize(self, args):
                    if args["model_instance_name"] == "m_0": raise ValueError("no weights")
                def execute(self, requests):
                    outputs = [[pb_utils.Tensor("y", it.inputs()[0].as_numpy())] for it in requests]
                    return [pb_utils.InferenceResponse(it) for it in outputs]
        """
        with Process(text, config=BOTH) as process:
            opened = process.open(BOTH).opened
            self.assertIn("ValueError: no weights\nFile ", opened["Err"]["text"])
            self.assertIn("in initialize", opened["Err"]["text"])
            (answer,) = process.open(BOTH, lane=1).run({"x": floats(1)})
            self.assertEqual(answer["y"], floats(1))


class Cancel(unittest.TestCase):
    def test_a_run_that_nobody_waits_for_is_told(self):
        text = model("""
sys.stderr.write("begun\\n")
import time
until = time.monotonic() + 15
while not request.is_cancelled() and time.monotonic() < until:
    time.sleep(0.001)
sender = request.get_response_sender()
return pb_utils.InferenceResponse([], parameters={"cancelled": request.is_cancelled() and sender.is_cancelled()})
""")
        with Process(text, config=BOTH) as process:
            lane = process.open(BOTH)
            lane.start({"x": floats(1)})
            process.wait_for_log("begun")
            lane.stop()
            self.assertEqual(lane.finish()[0].parameters, {"cancelled": True})
            # The number may come before its run.
            lane.stop(run=1)
            self.assertEqual(lane.run({"x": floats(1)})[0].parameters, {"cancelled": True})

    def test_a_load_that_is_to_end_says_where_it_is(self):
        from muster_python import frames

        text = "class TritonPythonModel: pass\nimport time\nprint('begun', flush=True)\ntime.sleep(60)\n"
        process = Process.__new__(Process)
        receive, frames.receive = frames.receive, lambda stream: ({}, [])
        try:
            process.__init__(text, config=BOTH)
        finally:
            frames.receive = receive
        try:
            process.wait_for_log("begun")
            frames.send(process.control, "StopLoad")
            loaded = frames.receive(process.control)[0]
            self.assertIn("it has lasted too long", loaded["Err"]["text"])
            self.assertIn('model.py", line 4', loaded["Err"]["text"])
        finally:
            process.process.kill()
            process.__exit__()


if __name__ == "__main__":
    unittest.main()
