"""The packages that a script asks for, in the `requirements.txt` beside it: which are missing, and how pip brings them.

What pip brings lies in a directory that the server names, once for each content of the file and each interpreter.
"""

import hashlib
import importlib
import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import sysconfig

from muster_python import faults, kept
from muster_python.environment import last_lines

# Lines of pip that stand in the error of a load.
_LINES = 8

# Options of pip in such a file whose value may be a path.
_PATHS = ("-c", "--constraint", "-f", "--find-links", "-r", "--requirement")


def prepare(given):
    """Makes the packages of a script importable. `given`: the file, whether pip may be run, and where for."""
    file = given["file"]
    if os.path.isdir(os.path.join(os.path.dirname(file), "lib")):
        return
    options, wanted = _read(file)
    missing = [it for it in wanted if _is_missing(it, given["install"])]
    if not missing:
        return
    if not given["install"]:
        raise ModuleNotFoundError(
            f"{sys.executable} lacks what '{file}' asks for: {', '.join(missing)}. Install it, by "
            f"{sys.executable} -m pip install -r '{file}', or start the server with --install-requirements=missing"
        )
    lines = "\n".join(options + missing) + "\n"
    target = _installed(given["directory"], file, lines)
    sys.path.insert(0, target)
    # For programs that the script starts.
    paths = [target, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def _read(file):
    """The options for pip in a file, and its requirements. Files that it names are read in its place."""
    with open(file, encoding="utf-8-sig") as opened:
        text = opened.read().replace("\\\n", " ")
    options, wanted = [], []
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not line:
            continue
        if not line.startswith("-") or line.startswith(("-e", "--editable")):
            wanted.append(line)
            continue
        name, value = (re.split(r"[=\s]+", line, maxsplit=1) + [""])[:2]
        # What it names lies beside it; what pip reads lies elsewhere.
        path = os.path.join(os.path.dirname(file), value)
        if name in ("-r", "--requirement"):
            more = _read(path)
            options += more[0]
            wanted += more[1]
        elif name in _PATHS and os.path.exists(path):
            options.append(f"{name} {shlex.quote(os.path.abspath(path))}")
        else:
            options.append(line)
    return options, wanted


def _is_missing(line, installs):
    """Is it not installed, or not in the version that is asked for? Of an address, nobody can tell."""
    requirement = _requirement()
    # Digests, and options of one package.
    words = re.split(r"\s--", line, maxsplit=1)[0].strip()
    try:
        asked = requirement(words)
    except Exception:
        return installs
    if asked.marker is not None and not asked.marker.evaluate({"extra": ""}):
        return False
    try:
        version = importlib.metadata.version(asked.name)
    except importlib.metadata.PackageNotFoundError:
        return True
    return not asked.specifier.contains(version, prereleases=True)


def _requirement():
    """The class that reads a requirement: that of `packaging`, or of pip."""
    for package in ("packaging", "pip._vendor.packaging", "setuptools._vendor.packaging"):
        try:
            return importlib.import_module(f"{package}.requirements").Requirement
        except ImportError:
            continue
    return _Plain


class _Plain:
    """A requirement where nothing else reads one: a name, and whether it is there in that very version."""

    marker = None

    def __init__(self, text):
        found = re.fullmatch(r"([A-Za-z0-9][\w.-]*)\s*(\[[^]]*\])?\s*(.*)", text.partition(";")[0].strip())
        if found is None or found[3].startswith("@") or "/" in text:
            raise ValueError(text)
        self.name, self._version = found[1], re.fullmatch(r"===?\s*([^*,\s]+)", found[3])
        self.specifier = self

    def contains(self, version, prereleases=True):
        return self._version is None or self._version[1] == version


def _installed(directory, file, lines):
    """The directory with the packages of these lines."""
    interpreter = (sys.executable, sys.version, sysconfig.get_platform())
    digest = hashlib.sha256(repr((interpreter, lines)).encode()).hexdigest()
    return kept.directory(directory, digest, lambda part: _install(part, file, lines))


def _install(part, file, lines):
    """Runs pip."""
    list_of = part + ".txt"
    with open(list_of, "w", encoding="utf-8") as opened:
        opened.write(lines)
    pip = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    faults.say("INFO", f"pip installs what '{file}' asks for, once, into {part.removesuffix('.part')}")
    ran = subprocess.run(
        [*pip, "--target", part, "-r", list_of],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=os.path.dirname(file),
    )
    os.remove(list_of)
    if ran.returncode != 0:
        raise RuntimeError(f"pip cannot install what '{file}' asks for:\n{last_lines(ran.stdout, _LINES)}")
