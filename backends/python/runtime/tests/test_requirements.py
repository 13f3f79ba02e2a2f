"""The packages that a script asks for: pip brings them from a list of files that the test writes, without a network."""

import itertools
import pathlib
import tempfile
import unittest
import zipfile

from fake_server import Process

USES = """
import muster_wheel

class Model:
    def predict(self, x: str) -> str:
        return muster_wheel.WORD
"""


def pip_wheel():
    """pip, as it comes with Python: it runs from its wheel."""
    try:
        import ensurepip
    except ImportError:
        return None
    folders = [pathlib.Path(ensurepip.__file__).parent / "_bundled", pathlib.Path("/usr/share/python-wheels")]
    return next(itertools.chain(*(it.glob("pip-*.whl") for it in folders)), None)


PIP = pip_wheel()


def write_wheel(folder, name, version, text):
    """A wheel with one module."""
    path = pathlib.Path(folder) / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


class Requirements(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.index, self.kept = self.root / "index", self.root / "kept"
        self.code = self.root / "code"
        for it in (self.index, self.kept, self.code):
            it.mkdir()
        write_wheel(self.index, "muster_wheel", "1.2", "WORD = 'from the wheel'\n")

    def start(self, lines, install=True):
        (self.code / "requirements.txt").write_text(lines)
        given = {
            "file": str(self.code / "requirements.txt"),
            "install": install,
            "directory": str(self.kept),
        }
        environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)}
        if PIP is not None:
            environment["PYTHONPATH"] = str(PIP)
        return Process(USES, more={"requirements": given}, environment=environment)

    def installed(self):
        return sorted(it.name for it in self.kept.iterdir() if it.is_dir())

    @unittest.skipIf(PIP is None, "Python has no wheel of pip")
    def test_what_is_missing_is_installed_once(self):
        lines = "numpy  # is there\n--prefer-binary\nmuster_wheel>=1\nnothing ; python_version < '3'\n"
        with self.start(lines) as process:
            self.assertIn("Ok", process.loaded, process.loaded)
        (first,) = self.installed()
        # numpy is not there a second time.
        self.assertFalse((self.kept / first / "numpy").exists())
        self.assertGreater(int((self.kept / f"{first}.lock").read_text()), 0)
        # Without an index: it is not asked again.
        (self.index / "muster_wheel-1.2-py3-none-any.whl").unlink()
        with self.start(lines) as process:
            self.assertIn("Ok", process.loaded, process.loaded)
        self.assertEqual(self.installed(), [first])

    @unittest.skipIf(PIP is None, "Python has no wheel of pip")
    def test_another_list_is_another_installation(self):
        for lines in ("muster_wheel\n", "-r more.txt\n"):
            (self.code / "more.txt").write_text("muster_wheel == 1.2\n")
            with self.start(lines) as process:
                self.assertIn("Ok", process.loaded, process.loaded)
        self.assertEqual(len(self.installed()), 2)

    @unittest.skipIf(PIP is None, "Python has no wheel of pip")
    def test_what_pip_says_is_the_error_of_the_load(self):
        with self.start("muster_wheel==9\n") as process:
            text = process.loaded["Err"]["text"]
        self.assertIn("pip cannot install what '", text)
        self.assertIn("No matching distribution found for muster_wheel==9", text)
        self.assertEqual(self.installed(), [])

    def test_never_names_what_is_missing_and_the_command(self):
        with self.start("numpy\nmuster_wheel>=1\nnumpy>999\nhttps://nowhere/x.whl\n", install=False) as process:
            text = process.loaded["Err"]["text"]
        self.assertIn("requirements.txt' asks for: muster_wheel>=1, numpy>999. Install it, by ", text)
        self.assertIn("-m pip install -r '", text)
        self.assertIn("--install-requirements=missing", text)

    def test_where_packages_come_along_the_list_is_passed_over(self):
        (self.code / "lib").mkdir()
        with self.start("nothing_of_that_name\n", install=False) as process:
            self.assertIn("No module named 'muster_wheel'", process.loaded["Err"]["text"])


if __name__ == "__main__":
    unittest.main()
