"""The process of a model: it loads the model, and does what the server says on the control socket.

The main thread loads the model and runs the first lane, as libraries expect. A thread of its own reads the control
socket. Further lanes have threads of their own.
"""

import faulthandler
import os
import queue
import socket
import sys
import threading
import time

from muster_python import faults, frames
from muster_python.readiness import Readiness

# The instances have so many seconds to finalize once the server has let the process go.
_LAST_SECONDS = 10


def main(control, load):
    """Loads a model and runs its instances, until the server closes the control socket."""
    # Where native code crashes, the log shows the line of Python that called it.
    faulthandler.enable()
    # A model's directory stays as it is: a server that watches it would take new files for a new model.
    sys.dont_write_bytecode = True
    sys.argv = [load["file"]]
    for output in (sys.stdout, sys.stderr):
        # A line is one write, and to print fails for no text.
        output.reconfigure(line_buffering=True, write_through=False, errors="backslashreplace")
    stream = socket.socket(fileno=control)
    stream.setblocking(True)
    Child(stream, load).run()


class Child:
    """What the threads of the process share."""

    def __init__(self, control, load):
        self._control, self._load = control, load
        self._model = None
        self._readiness = Readiness()
        # Lanes for the main thread.
        self._for_main = queue.SimpleQueue()
        # Guards what follows.
        self._lock = threading.Lock()
        self._lanes = {}
        self._main_has_lane = False
        self._has_answered = False

    def run(self):
        """To be called on the main thread. Ends the process."""
        threading.Thread(target=self._listen, name="control", daemon=True).start()
        try:
            self._answer({"Ok": self._load_model()})
        except BaseException as error:
            faults.log(error, f"model '{self._load['name']}' cannot be loaded")
            self._answer(faults.load_fault(error))
        while True:
            self._run(self._for_main.get())
            with self._lock:
                self._main_has_lane = False

    def _load_model(self):
        """What the model says of itself."""
        try:
            import numpy
        except ImportError as error:
            raise ImportError(
                f"{sys.executable} has no numpy that works ({error}), and models in Python need it: "
                f"{sys.executable} -m pip install numpy"
            ) from error
        from muster_python import source

        self._model = source.flavor(self._load).load(self._load)
        return {
            "completed": None,
            "answers_each": True,
            "keeps_state": False,
            "allows_trial_runs": False,
            "version": f"Python {sys.version.split()[0]}, numpy {numpy.__version__}",
            "notes": [],
            **self._model.loaded,
        }

    def _answer(self, answer):
        """Answers the load, once. What cannot be sent is no answer."""
        with self._lock:
            if self._has_answered:
                return
            try:
                frames.send(self._control, answer)
            except OSError as error:
                # The model has closed the socket: only the end of the process says so.
                faults.log(error, f"the load of model '{self._load['name']}' cannot be answered")
                _exit(1)
            self._has_answered = True

    def _listen(self):
        """Does what the server says, until it says no more."""
        try:
            while True:
                message, files = frames.receive(self._control)
                self._do(message, files)
        except (frames.Closed, OSError):
            self._end()
        except BaseException as error:
            faults.log(error, "what the server says cannot be read")
        finally:
            _exit(1)

    def _do(self, message, files):
        if message == "StopLoad":
            self._stop_load()
        elif message == "TrimMemory":
            _trim_memory()
        elif message == "IsReady":
            self._ask_readiness(socket.socket(fileno=files[0]))
        elif "Stop" in message:
            with self._lock:
                lane = self._lanes.get(message["Stop"]["lane"])
            if lane is not None:
                lane.stop(message["Stop"]["run"])
        elif "Open" in message:
            self._open(message["Open"], files)
        else:
            raise ValueError(f"an unknown message: {next(iter(message))}")

    def _open(self, message, files):
        """Begins a lane: on the main thread, if it has nothing to do."""
        from muster_python.lane import Lane

        lane = Lane(self._model, message, files)
        with self._lock:
            self._lanes[lane.number] = lane
            is_first, self._main_has_lane = not self._main_has_lane, True
        if is_first:
            self._for_main.put(lane)
        else:
            threading.Thread(target=self._run, args=(lane,), name=lane.name, daemon=True).start()

    def _ask_readiness(self, stream):
        """Has the instance of the first lane that has one say whether it can serve. Returns at once."""
        with self._lock:
            instances = [it.instance for it in self._lanes.values() if it.instance is not None]
        if instances:
            self._readiness.ask(instances[0], stream)
        else:
            # Without an answer.
            stream.close()

    def _run(self, lane):
        """Runs a lane to its end. Blocking."""
        try:
            lane.run()
        finally:
            with self._lock:
                if self._lanes.get(lane.number) is lane:
                    del self._lanes[lane.number]

    def _stop_load(self):
        """The load, or the making of an instance, has lasted too long. It cannot be ended; say where it is."""
        frame = sys._current_frames().get(threading.main_thread().ident)
        places = []
        while frame is not None and len(places) < 4:
            if not frame.f_code.co_filename.startswith("<"):
                places.append(
                    f'File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'
                )
            frame = frame.f_back
        text = "\n".join(["it has lasted too long, and is here now:", *reversed(places)])
        self._answer({"Err": {"kind": "Load", "text": text}})
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.refuse(text)

    def _end(self):
        """The server is gone, or lets the process go: instances finalize, then the process ends."""
        until = time.monotonic() + _LAST_SECONDS
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.hang_up()
        while time.monotonic() < until:
            with self._lock:
                if not self._lanes:
                    _exit(0)
            time.sleep(0.002)
        faults.say("WARN", f"finalize of '{self._load['name']}' lasts longer than {_LAST_SECONDS} s: it is ended")


def _trim_memory():
    """Gives memory back that nothing uses."""
    import ctypes
    import gc

    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _exit(code):
    """Ends the process, whatever its threads and what the model has asked for at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            # The model may have closed it.
            pass
    os._exit(code)
