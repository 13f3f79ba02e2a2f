"""What is done in a process before the code of its model is: its environment is made whole, and its variables are set.

All of it is code that came with the model, so that it is run here and not by the server.
"""

import fcntl
import os
import socket
import subprocess
import sys

from muster_python import faults, frames

# What makes an environment of conda's whole at the place where it was unpacked, and what says that this is done.
_UNPACK, _IS_WHOLE = "bin/conda-unpack", ".muster-is-whole"

# A script that sets variables has so many seconds.
_ACTIVATION = 30


def prepare(control, load):
    """Prepares the process, or tells the server why it cannot be, and ends with the server."""
    try:
        _prepare(load)
    except BaseException as error:
        refuse(control, faults.load_fault(error))


def refuse(control, fault):
    """Answers the load with an error. Ends the process once the server has read it."""
    stream = socket.socket(fileno=control)
    stream.setblocking(True)
    frames.send(stream, fault)
    while stream.recv(4096):
        pass
    os._exit(1)


def _prepare(load):
    root = load.get("unpacked")
    if root is not None:
        _make_whole(root)
        _activate(root)
    elif sys.prefix != sys.base_prefix:
        _put_first(os.path.join(sys.prefix, "bin"))
    packages = load.get("requirements")
    if packages is None:
        return
    from muster_python import model_archive, requirements

    model_archive.open_archive(load, packages["directory"])
    file = packages["file"] or model_archive.requirements(load)
    if file is not None:
        requirements.prepare({**packages, "file": file})


def _make_whole(root):
    """Runs conda's script, once for all processes."""
    script, done = os.path.join(root, _UNPACK), os.path.join(root, _IS_WHOLE)
    if not os.path.isfile(script) or os.path.exists(done):
        return
    with open(script, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(done):
            return
        # Its first line may name an interpreter that is at another place.
        ran = subprocess.run(
            [sys.executable, script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=root,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"{script} failed: {last_lines(ran.stdout)}")
        with open(done, "w"):
            pass


def _activate(root):
    """Takes over the variables that `bin/activate` sets, as a shell without any others says them."""
    script = os.path.join(root, "bin/activate")
    # A shell that knows `source`, where there is one.
    shell = next((it for it in ("/bin/bash", "/usr/bin/bash") if os.path.exists(it)), "/bin/sh")
    if not os.path.isfile(script) or not os.path.exists(shell):
        _put_first(os.path.join(root, "bin"))
        return
    try:
        ran = subprocess.run(
            [shell, "-c", '. "$0" >&2 && printf "muster\\0" && exec env -0', script],
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_ACTIVATION,
        )
        said = ran.stdout.split(b"\0")
        if ran.returncode != 0 or said[0] != b"muster":
            raise RuntimeError(last_lines(ran.stderr))
    except Exception as error:
        faults.say("WARN", f"the variables of {script} are not set: {faults.describe(error)}")
        _put_first(os.path.join(root, "bin"))
        return
    for variable in said[1:]:
        name, _, value = variable.partition(b"=")
        # What a shell sets for itself.
        if name and name not in (b"_", b"SHLVL", b"PWD", b"OLDPWD", b"PS1", b"HOME"):
            os.environb[name] = value


def _put_first(folder):
    """Programs of that folder go before others of the same name."""
    os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", os.defpath)


def last_lines(output, count=8):
    """The last lines of what a program has written."""
    return "\n".join(output.decode("utf-8", "replace").strip().splitlines()[-count:])
