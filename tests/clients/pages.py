"""Runs the blocks of pages as a reader would: in their order, in one shell, and compares what they print.

    python3 tests/clients/pages.py --muster PROGRAM PAGE..

A page is a Markdown file. What its fences say:

    ```sh                run in the shell; must end with status 0
    ```sh background     a server: the one before it is stopped, and the page goes on as soon as this one is ready
    ```sh elsewhere      not run: it needs Docker, a cluster, an account, the network or another language
    ```python            run with this interpreter
    ```text              right after a block that ran: what it printed; `..` stands for any text
    ```python needs=X    run only where there is a Python package, or a program, X

Fences in other languages are not run. Each page runs in a copy of the tracked files of its own, where `muster` is on the
PATH, and in a network of its own, so that the standard ports are free; where the system allows no such network, the
ports must be free, and pages of other runs of this program are waited for.
"""

import argparse
import contextlib
import ctypes
import fcntl
import http.client
import importlib.util
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\S*)[ ]?([^\n]*)\n(.*?)^```$", re.M | re.S)
READY = ("http://127.0.0.1:8000/v2/health/ready", "http://127.0.0.1:8080/ping")
RUN = ("sh", "python")
PATIENCE = 120
# A server is a group of processes of its own, so that what it started ends with it.
STOP = 'if [ -n "$server" ]; then kill -- -$server; while kill -0 -- -$server; do sleep 0.05; done; server=; fi'


class Wrong(Exception):
    """A block that did not do what its page says."""


def main():
    """Runs one page after the other; ends with 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--muster", type=Path, required=True, help="the program")
    parser.add_argument("pages", nargs="+", type=Path)
    options = parser.parse_args()
    if not own_network():
        wait_for_others()
    wrong = 0
    for page in options.pages:
        try:
            ran, left = run_page(page.resolve(), options.muster.resolve())
            print(f"{page}: {ran} blocks ran, {left} did not", flush=True)
        except Wrong as problem:
            print(f"{page}: {problem}", flush=True)
            wrong += 1
    sys.exit(1 if wrong else 0)


def own_network():
    """Takes this process into a network of its own, where only the loopback device is. Without leave to do so, the
    network stays as it is: `False`."""
    user_and_net = 0x10000000 | 0x40000000
    identity = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(user_and_net) != 0:
        return False
    for file, text in [
        ("setgroups", "deny"),
        ("uid_map", f"{identity[0]} {identity[0]} 1"),
        ("gid_map", f"{identity[1]} {identity[1]} 1"),
    ]:
        Path("/proc/self", file).write_text(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        # SIOCSIFFLAGS, with IFF_UP | IFF_RUNNING: `ip link set lo up`.
        fcntl.ioctl(device, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
    return True


def wait_for_others():
    """Waits until no other run of this program uses the ports; then they are this one's, until it ends."""
    lock = os.open(Path(tempfile.gettempdir(), "muster-pages.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(lock, fcntl.LOCK_EX)


def run_page(page, muster):
    """Runs the blocks of one page. Returns how many ran, and how many did not."""
    text = page.read_text()
    ran, left = 0, 0
    with tempfile.TemporaryDirectory(prefix="page-") as work, Shell(Path(work), muster) as shell:
        printed, end = None, 0
        for fence in FENCE.finditer(text):
            if text[end:fence.start()].strip():
                printed = None
            end = fence.end()
            language, words, block = fence[1], fence[2].split(), fence[3]
            line = text.count("\n", 0, fence.start()) + 2
            try:
                if language == "text" and printed is not None:
                    compare(block, printed)
                    continue
                printed = shell.run(language, words, block)
            except Wrong as problem:
                raise Wrong(f"line {line}: {problem}") from None
            ran += printed is not None
            left += printed is None and language in RUN
    return ran, left


def compare(expected, printed):
    """Fails where a block printed something else than its page says. Blanks at the ends of lines do not count."""
    lines = [it.rstrip() for it in expected.strip().splitlines()]
    pattern = r"\n".join(".*".join(re.escape(part) for part in it.split("..")) for it in lines)
    found = "\n".join(it.rstrip() for it in printed.strip().splitlines())
    if not re.fullmatch(pattern, found, re.S):
        raise Wrong(f"printed\n{found}\nwhere the page says\n{expected}")


class Shell:
    """One shell that runs the blocks of a page, and the server that stands in its background."""

    def __init__(self, work, muster):
        self.home = work / "muster"
        copy_of_checkout(self.home)
        programs = work / "bin"
        programs.mkdir()
        (programs / "muster").symlink_to(muster)
        # No link: by its own path an interpreter finds the packages of its environment.
        (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (programs / "python3").chmod(0o755)
        release = self.home / "target/release"
        release.mkdir(parents=True)
        (release / "muster").symlink_to(muster)
        self.log = work / "server.log"
        self.out = work / "out"
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(work)}
        # A page says nothing of a server that sends its lines elsewhere, or of threads of a test machine.
        for name in [it for it in environment if it.startswith("MUSTER_")]:
            del environment[name]
        self.bash = subprocess.Popen(
            ["bash"], cwd=self.home, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )
        self.tell("exec 3>&1 >/dev/null 2>&1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The servers are in the shell's session.
        if self.bash.poll() is None:
            self.tell(STOP)
            self.bash.stdin.close()
            self.bash.wait()
        # What a block has left running is in the shell's session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.bash.pid, signal.SIGKILL)

    def run(self, language, words, block):
        """What a block printed; `None` for one that is not to be run here."""
        missing = [it for it in words if it.startswith("needs=") and not is_there(it[6:])]
        if language not in RUN or "elsewhere" in words or missing:
            return None
        script = self.home.parent / "block"
        script.write_text(block)
        if language == "python":
            return self.waited(f"python3 {script}")
        if "background" in words:
            return self.background(script)
        return self.waited(f". {script}")

    def background(self, script):
        """Starts a server and waits until it is ready."""
        self.waited(STOP)
        # Nobody calls a server that is stopped: the time in which it would still take requests is not waited for.
        # The shell around it outlives it: what nobody waits for is there until the machine's first process looks.
        before = "trap exit TERM; export MUSTER_DRAIN_DELAY_SECS=0"
        self.tell(f"set -m; ({before}; . {script}) >{self.log} 2>&1 & server=$!; set +m")
        begun = time.monotonic()
        while not any(answers(it) for it in READY):
            self.server_lives(begun)
            time.sleep(0.05)
        return ""

    def server_lives(self, begun):
        """Fails where the server has ended, or takes too long."""
        alive = self.waited("if kill -0 $server; then echo alive; fi").strip() == "alive"
        if not alive or time.monotonic() - begun > PATIENCE:
            raise Wrong(f"the server did not become ready:\n{self.log.read_text()[-3000:]}")

    def waited(self, command):
        """Runs a command to its end: what it printed."""
        # Errors of programs are shown with what they print; only what they print is compared.
        self.tell(f"failed=0; trap 'failed=$?' ERR; {{ {command}\n}} >{self.out} 2>{self.out}.err; trap - ERR; echo $failed >&3")
        status = self.bash.stdout.readline().strip()
        printed = self.out.read_text()
        if status != "0":
            problem = Path(f"{self.out}.err").read_text()
            log = self.log.read_text()[-2000:] if self.log.exists() else ""
            raise Wrong(f"ended with {status or 'the shell'}\n{printed}{problem}\n{log}")
        return printed

    def tell(self, line):
        """Hands the shell a line."""
        self.bash.stdin.write(line + "\n")
        self.bash.stdin.flush()


def copy_of_checkout(folder):
    """The files that a fresh clone has, those that are not committed yet among them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "model_repository", "tests/fixtures",
         "deploy", "docs", "examples"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def is_there(name):
    """Whether there is such a Python package or such a program."""
    return bool(importlib.util.find_spec(name) or shutil.which(name))


def answers(address):
    """Whether a server there is ready, with TLS or without it."""
    unverified = ssl._create_unverified_context()
    for it in (address, address.replace("http://", "https://")):
        try:
            with urllib.request.urlopen(it, timeout=5, context=unverified) as reply:
                return reply.status == 200
        except (http.client.HTTPException, OSError):
            pass
    return False


if __name__ == "__main__":
    main()
