"""What is done before a model's code is: its environment, its variables."""

import os
import pathlib
import sys
import tempfile
import unittest

from fake_server import Process

TELLS = """
import os

class Model:
    def predict(self, name: str) -> str:
        return os.environ.get(name, "none")
"""


class Environment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "bin").mkdir()

    def write(self, name, text):
        (self.root / "bin" / name).write_text(text)

    def start(self):
        return Process(TELLS, more={"unpacked": str(self.root)})

    def test_condas_script_is_run_once(self):
        self.write("conda-unpack", "#!/nowhere/python\nopen('runs', 'a').write('x')\nprint('made whole')\n")
        for _ in range(2):
            with self.start() as process:
                self.assertIn("Ok", process.loaded)
        self.assertEqual((self.root / "runs").read_text(), "x")

    def test_a_script_that_fails_is_a_failed_load_with_its_words(self):
        self.write("conda-unpack", "raise SystemExit('no room left')\n")
        with self.start() as process:
            self.assertIn("no room left", process.loaded["Err"]["text"])
            self.assertIn("conda-unpack failed", process.loaded["Err"]["text"])

    def test_variables_of_activate_are_the_models(self):
        self.write("activate", "export GREETING='two\nlines'\nexport PATH=\"/first:$PATH\"\necho noise\n")
        with self.start() as process:
            self.assertIn("Ok", process.loaded)
            lane = process.open()
            for name, expected in (("GREETING", "two\nlines"), ("PATH", "/first:" + os.environ["PATH"])):
                (answer,) = lane.run({"name": _text(name)})
                self.assertEqual(_read(answer["output"]), expected)

    def test_where_activate_fails_the_model_is_loaded_and_the_log_says_so(self):
        self.write("activate", "echo broken >&2\nexit 3\n")
        with self.start() as process:
            self.assertIn("Ok", process.loaded)
            self.assertIn("WARN the variables of", process.log())
            self.assertIn("broken", process.log())


class OldPython(unittest.TestCase):
    def test_a_python_that_is_too_old_is_told_with_the_remedy(self):
        # A start of the interpreter that makes it say so of itself.
        with tempfile.TemporaryDirectory() as folder:
            text = "import sys\nsys.version_info = (3, 8, 1, 'final', 0)\n"
            pathlib.Path(folder, "sitecustomize.py").write_text(text)
            with Process(TELLS, environment={"PYTHONPATH": folder}) as process:
                text = process.loaded["Err"]["text"]
        self.assertIn(f"{sys.executable} is Python 3.8.1, and models need 3.9 or later", text)

    def test_output_and_failures_of_its_start_do_no_harm(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "sitecustomize.py").write_text("print('hello')\nraise ValueError('x')\n")
            with Process(TELLS, environment={"PYTHONPATH": folder}) as process:
                self.assertIn("Ok", process.loaded)
                self.assertIn("hello", process.log())


def _text(value):
    import numpy as np

    return np.array([value.encode()], object)


def _read(array):
    return array.flat[0].decode()


if __name__ == "__main__":
    unittest.main()
