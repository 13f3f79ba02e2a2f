"""The server's side of the wire, for tests: it starts the real child, by the real boot."""

import json
import mmap
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np

RUNTIME = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(RUNTIME))

from muster_python import frames  # noqa: E402
from muster_python.mailbox import PART, _futex  # noqa: E402
from muster_python.tensors import BF16, BY_CONFIG, BY_WIRE, BYTES, join_bytes, kind_of, split_bytes  # noqa: E402

# The server's line of Python.
BOOT = """
import sys
sys.path[:] = [it for it in sys.path if it]
import json, os
d = json.load(open(int(os.environ.pop("MUSTER_RUNTIME")), "rb"))
exec(d["boot"])
"""

ABOUT = {"id": "", "parameters": {}, "correlation": None, "flags": 0, "timeout_us": 0}

# Nothing in these tests takes so long.
PATIENCE = 120


def modules():
    """The sources of the runtime, by the names of their modules."""
    found = {}
    for path in RUNTIME.rglob("*.py"):
        parts = path.relative_to(RUNTIME).with_suffix("").parts
        if parts[0] != "tests":
            found[".".join(parts).replace(".__init__", "")] = path.read_text()
    return found


class Process:
    """The process of one model. To be used with `with`."""

    def __init__(
        self,
        text,
        *,
        name="m",
        file="model.py",
        files=None,
        load_bytes=None,
        config=None,
        auto_complete=True,
        flavor="auto",
        options=None,
        python=sys.executable,
        environment=None,
        more=None,
    ):
        self._folder = tempfile.TemporaryDirectory()
        self.directory = pathlib.Path(self._folder.name) / name
        self.version_directory = self.directory / "1"
        self.version_directory.mkdir(parents=True)
        self.file = self.version_directory / file
        if text is not None:
            self.file.write_text(textwrap.dedent(text))
        if load_bytes is not None:
            self.file.write_bytes(load_bytes)
        for path, content in (files or {}).items():
            path = self.directory / path
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(textwrap.dedent(content))
        load = {
            "name": name,
            "version": 1,
            "file": str(self.file),
            "directory": str(self.directory),
            "version_directory": str(self.version_directory),
            "options": options or {},
            "config": None if config is None else json.dumps(config),
            "auto_complete": auto_complete,
            "flavor": flavor,
            **(more or {}),
        }
        self._lanes = []
        self.control, theirs = socket.socketpair()
        self.control.settimeout(PATIENCE)
        sources = modules()
        handed = {
            "boot": sources["muster_python.boot"],
            "modules": sources,
            "control": theirs.fileno(),
            "load": load,
        }
        memory = os.memfd_create("runtime")
        os.write(memory, json.dumps(handed).encode())
        os.lseek(memory, 0, os.SEEK_SET)
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [python, "-u", "-c", BOOT],
            env={"PATH": os.environ["PATH"], "MUSTER_RUNTIME": str(memory), **(environment or {})},
            pass_fds=(memory, theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        os.close(memory)
        theirs.close()
        self.loaded = frames.receive(self.control)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.control.close()
        for lane in self._lanes:
            lane.talk.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self._log.close()
            self._folder.cleanup()

    def completed(self):
        """The configuration as the model completes it."""
        if "Err" in self.loaded:
            raise AssertionError(self.loaded["Err"]["text"] + "\n" + self.log())
        return json.loads(self.loaded["Ok"]["completed"])

    def log(self):
        """What the process has written until now."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")

    def wait_for_log(self, text):
        """Waits until the log has that text."""
        until = time.monotonic() + PATIENCE
        while text not in self.log():
            if until < time.monotonic():
                raise AssertionError(f"'{text}' is not in the log:\n{self.log()}")
            time.sleep(0.005)

    def open(self, config=None, lane=0, half=1 << 20, device="Cpu", may_look=False):
        """A lane of it."""
        if config is None:
            config = self.completed()
        lane = Lane(self, config, lane, half, device, may_look)
        self._lanes.append(lane)
        return lane

    def ask_readiness(self):
        """Asks the model whether it can serve. The answer comes by the socket."""
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE)
        message = frames.encode("IsReady")
        socket.send_fds(self.control, [len(message).to_bytes(4, "little") + message], [theirs.fileno()])
        theirs.close()
        return ours

    def is_ready(self):
        """What the model says of whether it can serve."""
        with self.ask_readiness() as asked:
            return frames.receive(asked)[0]

    def end(self):
        """Lets the process go. Its exit status comes back."""
        self.control.close()
        return self.process.wait(PATIENCE)


class Lane:
    """The server's side of one lane."""

    def __init__(self, process, config, lane, half, device, may_look):
        self.lane, self._process, self._runs = lane, process, 0
        self._config = config
        files = [os.memfd_create(it, os.MFD_ALLOW_SEALING) for it in ("frames", "tensors")]
        for file, size in zip(files, (2 * PART, 2 * half)):
            os.ftruncate(file, size)
        self._frames, self._tensors = mmap.mmap(files[0], 2 * PART), mmap.mmap(files[1], 2 * half)
        self._words = memoryview(self._frames).cast("I")
        import ctypes

        self._futex = _futex(ctypes.CDLL(None))
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._frames))
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE)
        instance = {"name": f"{config['name']}_{lane}", "config": json.dumps(config)}
        message = frames.encode(
            {"Open": {"lane": lane, "device": device, "may_look": may_look, "instance": instance}}
        )
        sent = len(message).to_bytes(4, "little") + message
        talk, theirs_of_talk = socket.socketpair()
        talk.settimeout(PATIENCE)
        self.talk = Talk(talk)
        socket.send_fds(process.control, [sent], [theirs.fileno(), *files, theirs_of_talk.fileno()])
        theirs.close()
        theirs_of_talk.close()
        for file in files:
            os.close(file)
        self.opened = frames.receive(ours)[0]
        ours.close()

    def run(self, *calls, outputs=None):
        """One run of these calls: each a dictionary of inputs, or a `call`. One answer or refusal for each."""
        self.start(*calls, outputs=outputs)
        return self.finish()

    def start(self, *calls, outputs=None, streams=None):
        """Sends the run."""
        calls = [it if "inputs" in it else call(it) for it in calls]
        names = outputs or [it["name"] for it in self._config["output"]]
        placed, at = [], 0
        for name in calls[0]["inputs"]:
            arrays = [it["inputs"][name] for it in calls]
            kind = BF16 if isinstance(arrays[0], Bits) else kind_of(arrays[0])
            array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            data = join_bytes(array) if kind is BYTES else np.ascontiguousarray(array).tobytes()
            self._tensors[at : at + len(data)] = data
            placed.append({"name": name, "dtype": kind.wire, "dims": list(array.shape), "at": at, "len": len(data)})
            at = -(-(at + len(data)) // 64) * 64
        rows = [_rows(it, self._config) for it in calls]
        streams = self._process.loaded["Ok"].get("streams", False) if streams is None else streams
        sent = [
            {"rows": many, "outputs": it["outputs"] or names, "about": {**ABOUT, **it["about"]}, "streams": streams}
            for it, many in zip(calls, rows)
        ]
        self.send(
            {
                "run": self._runs,
                "inputs": placed,
                "outputs": names,
                "rows": sum(rows),
                "signature": 0,
                "ends_in": None,
                "wide": False,
                "calls": sent,
            }
        )

    def send(self, message):
        """Sends a frame."""
        frame = frames.encode(message)
        self._frames[128 : 132 + len(frame)] = len(frame).to_bytes(4, "little") + frame
        self._runs += 1
        self._words[0] = self._runs
        if self._words[PART // 4 + 16]:
            self._futex(self._address, 1, 1)

    def finish(self):
        """The answer to the run."""
        until = time.monotonic() + PATIENCE
        while self._words[PART // 4] & 0x7FFF_FFFF != self._runs:
            if self._process.process.poll() is not None or until < time.monotonic():
                raise AssertionError(f"no answer: {self._process.process.poll()}\n{self._process.log()}")
            time.sleep(0)
        if self._words[PART // 4 + 17] != self._runs:
            raise AssertionError("the frame was not taken")
        (length,) = struct.unpack_from("<I", self._frames, PART + 128)
        answer = frames.decode(self._frames[PART + 132 : PART + 132 + length])
        if answer["run"] != self._runs - 1:
            raise AssertionError(f"an answer to run {answer['run']}")
        if "Err" in answer["outputs"]:
            return Failed(answer["outputs"]["Err"])
        return [self._answer(it) for it in answer["each"]]

    def stop(self, run=None):
        """Nobody waits for that run any more."""
        run = self._runs - 1 if run is None else run
        frames.send(self._process.control, {"Stop": {"lane": self.lane, "run": run}})

    def end(self):
        """The server sends no more on it."""
        self._words[0] |= 0x8000_0000
        self._futex(self._address, 1, 1)

    def has_ended(self):
        return self._words[PART // 4] & 0x8000_0000 != 0

    def _answer(self, each):
        if "Err" in each:
            return Refused(each["Err"])
        if each["Ok"].get("again"):
            return AGAIN
        outputs = {it["name"]: self._array(it) for it in each["Ok"]["outputs"]}
        return Answered(outputs, each["Ok"]["parameters"])

    def _array(self, placed):
        at, end, kind = placed["at"], placed["at"] + placed["len"], BY_WIRE[placed["dtype"]]
        half = len(self._tensors) // 2
        if at % 64 or at < half or 2 * half < end:
            raise AssertionError(f"a tensor at {at}..{end}, of {half}..{2 * half}")
        data = self._tensors[at:end]
        if kind is BYTES:
            return split_bytes(data).reshape(placed["dims"])
        return np.frombuffer(data, kind.numpy).reshape(placed["dims"])


class Talk:
    """The server's end of a lane's talk."""

    def __init__(self, stream):
        self.stream, self._file = stream, stream.makefile("rb")

    def receive(self):
        """The next message: its name, what it says, and its tensors by name, or else the bytes behind it."""
        json_length, length = struct.unpack("<II", self._file.read(8))
        ((what, body),) = frames.decode(self._file.read(json_length)).items()
        data = self._file.read(length)
        said = body.get("inputs", body.get("outputs", [])) if isinstance(body, dict) else []
        if not said or isinstance(said[0], str):
            return what, body, data
        arrays, at = {}, 0
        for it in said:
            part, kind = data[at : at + it["len"]], BY_WIRE[it["dtype"]]
            array = split_bytes(part) if kind is BYTES else np.frombuffer(part, kind.numpy)
            arrays[it["name"]] = array.reshape(it["dims"])
            at += it["len"]
        if at != length:
            raise AssertionError(f"{length} bytes of tensors, of which {at} are told of")
        return what, body, arrays

    def close(self):
        """The server lets the talk go."""
        self._file.close()
        self.stream.close()

    def send(self, what, data=b"", **body):
        """Sends a message."""
        message = frames.encode({what: body})
        self.stream.sendall(struct.pack("<II", len(message), len(data)) + message + data)


# The outcome of a call whose request is to be run once more.
AGAIN = "again"


class Bits(np.ndarray):
    """16-bit numbers that are the bits of a tensor of BF16."""


class Answered(dict):
    """Outputs of a call by name."""

    def __init__(self, outputs, parameters):
        super().__init__(outputs)
        self.parameters = parameters


class Refused(dict):
    """The error of a call: `code` and `text`."""


class Failed(dict):
    """The error of a whole run: `kind` and `text`."""


def call(inputs, outputs=None, **about):
    """A call with more than inputs."""
    return {"inputs": inputs, "outputs": outputs, "about": about}


def _rows(it, config):
    batches = 0 < config.get("max_batch_size", 0)
    return len(next(iter(it["inputs"].values()))) if batches and it["inputs"] else 1


def port(name, data_type="TYPE_FP32", dims=(-1,), **more):
    """One input or output of a configuration."""
    if data_type not in BY_CONFIG:
        raise ValueError(data_type)
    return {"name": name, "data_type": data_type, "dims": list(dims), **more}


def config(inputs, outputs, max_batch_size=0, **more):
    """A configuration. Ports that are names are of any number of FP32."""
    ports = [[port(it) if isinstance(it, str) else it for it in some] for some in (inputs, outputs)]
    return {
        "name": "m",
        "backend": "python",
        "max_batch_size": max_batch_size,
        "input": ports[0],
        "output": ports[1],
        **more,
    }
