"""Makes the environments of Python packages that the tests of clients run in.

    python3 tests/clients/environment.py FOLDER LIST..

LIST is a file of this folder, `requirements-aws.txt`; its packages come into `FOLDER/clients-aws.venv`, whose
interpreter is printed. What is there already, of the same list, is left as it is. Tests of this and other runs may want
the same environment: one of them makes it, the others wait.
"""

import fcntl
import pathlib
import subprocess
import sys

LISTS = pathlib.Path(__file__).parent


def run(*command):
    done = subprocess.run([str(it) for it in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(it) for it in command)}:\n{done.stdout}")


def environment(folder, name):
    """The interpreter of an environment with the packages of that list."""
    wanted = (LISTS / name).read_text()
    stem = folder / name.replace("requirements", "clients").removesuffix(".txt")
    venv, installed = stem.with_suffix(".venv"), stem.with_suffix(".installed")
    interpreter = venv / "bin/python"
    with open(stem.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if interpreter.exists() and installed.exists() and installed.read_text() == wanted:
            return interpreter
        run(sys.executable, "-m", "venv", "--clear", "--without-pip", venv)
        # By the pip that is there, and without the bytecode of thousands of modules that no test imports: both take
        # longer than all the rest. What a test imports, the interpreter keeps. requirements-tfs.txt names all that is
        # wanted of what its packages ask for.
        rest = ["--no-deps"] if name == "requirements-tfs.txt" else []
        pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--no-compile"]
        run(*pip, "--disable-pip-version-check", "--root-user-action=ignore", *rest, "-r", LISTS / name)
        installed.write_text(wanted)
    return interpreter


def main():
    folder = pathlib.Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        print(environment(folder, name), flush=True)


if __name__ == "__main__":
    main()
