"""Environments of peers, their processes, and what these use: Linux, by way of `/proc`."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path


class Unavailable(Exception):
    """A peer that does not install, start or answer: its text goes into the table."""


def environment(folder, requirements, say):
    """The folder of programs of a virtual environment with these packages, made once."""
    stamp = folder / "installed.txt"
    wanted = f"{sys.version}\n{requirements.read_text()}"
    if stamp.exists() and stamp.read_text() == wanted:
        return folder / "bin"
    say(f"installing {requirements.parent.name}")
    shutil.rmtree(folder, ignore_errors=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", folder], [*pip, "-r", requirements]):
        done = finished(command)
        if done.returncode != 0:
            raise Unavailable(f"does not install: {last_line(done)}")
    stamp.write_text(wanted)
    return folder / "bin"


def versions(programs, names):
    """The installed versions of packages, as `name version, …`."""
    script = "import sys, importlib.metadata as m\nfor n in sys.argv[1:]: print(n, m.version(n))"
    done = finished([programs / "python", "-c", script, *names])
    return ", ".join(done.stdout.strip().splitlines())


def finished(command):
    """A command that has been run, with what it printed."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unavailable(f"does not start: {error}") from error


def last_line(done):
    """What a command that failed said last; its exit status where it said nothing."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A running server. A context manager that ends it with all its descendants."""

    def __init__(self, command, log, env=None, cwd=None):
        self.started = time.monotonic()
        self.log = Path(log)
        try:
            with self.log.open("wb") as out:
                self.process = subprocess.Popen(
                    [str(it) for it in command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})},
                    cwd=cwd,
                    start_new_session=True,
                )
        except OSError as error:
            raise Unavailable(f"does not start: {error}") from error
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        family = tree(self.pid)
        send(family, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        # Children that have lost their parent are not found in the tree again.
        send(family | tree(self.pid), signal.SIGKILL)
        self.process.wait()

    def wait_until_right(self, ask, limit):
        """Asks until the answer is right; the seconds from the start to it."""
        problem = "no answer"
        while time.monotonic() - self.started < limit:
            if self.process.poll() is not None:
                raise Unavailable(f"ended with {self.process.returncode}: {self.last_words()}")
            try:
                problem = ask()
            except (OSError, ValueError, LookupError) as error:
                problem = f"{type(error).__name__}: {error}"
            if problem is None:
                return time.monotonic() - self.started
            time.sleep(0.02)
        raise Unavailable(f"not ready after {limit} s: {problem}")

    def workers_left(self, workers):
        """What is wrong while not all workers of uvicorn have started: the first one answers before the others."""
        started = self.log.read_text(errors="replace").count("Application startup complete")
        return None if started >= workers else f"{started} of {workers} workers have started"

    def last_words(self):
        """The last line of its output."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "no output"

    def memory(self):
        """Resident and proportional memory of the tree in MiB. Pages that processes share count for
        each of them in the first, and once in the second."""
        resident = proportional = 0
        for pid in tree(self.pid):
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            fields = dict(line.split(":", 1) for line in text.splitlines()[1:])
            resident += int(fields["Rss"].split()[0])
            proportional += int(fields["Pss"].split()[0])
        return resident / 1024, proportional / 1024


def send(family, number):
    """Sends a signal to those of a tree that still live."""
    for pid, began in family.items():
        # A number may belong to somebody else by now.
        if stat(pid)[1] == began:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def stat(pid):
    """The parent of a process, and when it began; `(None, None)` where it has ended."""
    try:
        # The name before the last parenthesis may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None, None
    return int(fields[1]), int(fields[19])


def tree(pid):
    """A process, if it lives, and all its descendants, each with when it began."""
    began, children = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            found = int(folder.name)
            parent, began[found] = stat(found)
            children.setdefault(parent, []).append(found)
    family, left = {}, [pid]
    while left:
        found = left.pop()
        if began.get(found) is not None:
            family[found] = began[found]
            left += children.get(found, [])
    return family
