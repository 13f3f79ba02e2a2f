"""A lane: one instance of the model, and the runs that the server sends to it, one after the other."""

import gc
import json
import socket
import time
from typing import NamedTuple

from muster_python import faults, frames
from muster_python.mailbox import LONGEST, Mailbox
from muster_python.talk import Talk
from muster_python.tensors import BY_CONFIG, Arena, TooLarge


class Call:
    """One request of a run: what an instance is given."""

    __slots__ = ("inputs", "outputs", "rows", "about", "is_cancelled")

    def __init__(self, inputs, outputs, rows, about, is_cancelled):
        # Of `Input`, those that the client has sent.
        self.inputs = inputs
        # Names of those that are asked for.
        self.outputs = outputs
        self.rows = rows
        # What is known of the request beside its tensors, as the wire says it.
        self.about = about
        # A function: does nobody wait for it any more?
        self.is_cancelled = is_cancelled


class Run:
    """The calls of one run, and their inputs as the server has laid them: one below the other."""

    __slots__ = ("inputs", "_calls", "_is_cancelled")

    def __init__(self, inputs, calls, is_cancelled):
        # Of `Input`, with the rows of all calls.
        self.inputs = inputs
        self._calls, self._is_cancelled = calls, is_cancelled

    def calls(self):
        """Each call, with its own rows of the inputs."""
        if len(self._calls) == 1:
            return [self._call(self.inputs, self._calls[0])]
        made, start = [], 0
        for call in self._calls:
            end = start + call["rows"]
            made.append(self._call([it.rows(start, end) for it in self.inputs], call))
            start = end
        return made

    def rows(self):
        """How many rows each call has."""
        return [it["rows"] for it in self._calls]

    def _call(self, inputs, call):
        return Call(inputs, call["outputs"], call["rows"], call["about"], self._is_cancelled)


class Answer(NamedTuple):
    """What an instance gives for a call: outputs as name, kind and array, and parameters."""

    outputs: list
    parameters: dict = {}


class Refusal(NamedTuple):
    """An error for one call, with one of the wire's codes."""

    code: str
    text: str


class RunFailed(Exception):
    """An error for all calls of a run. Its text is what clients read."""


class Lane:
    """One instance and its runs. `message` is the server's, `files` came along with it."""

    def __init__(self, model, message, files):
        self.number = message["lane"]
        self.name = message["instance"]["name"]
        self._model, self._info = model, message
        answers, frames_file, tensors_file, talk = files
        self._answers = socket.socket(fileno=answers)
        self._mailbox = Mailbox(frames_file, message["may_look"])
        self._arena = Arena(tensors_file)
        self._talk = Talk(talk)
        # The last run that nobody waits for.
        self._stopped = -1
        self._kinds = _output_kinds(message["instance"]["config"])

    def run(self):
        """Makes the instance, and runs it until the server ends the lane. Never raises."""
        try:
            instance = self._open()
            if instance is None:
                return
            try:
                self._serve(instance)
            finally:
                self._finalize(instance)
        except BaseException as error:
            faults.log(error, f"the lane of '{self.name}' ends")
        finally:
            self._talk.close()
            self._mailbox.end()

    def stop(self, run):
        """Nobody waits for that run any more. It may not have begun."""
        self._stopped = max(self._stopped, run)
        self._talk.leave_runs(run)

    def hang_up(self):
        """The server is gone: no run comes any more."""
        self._mailbox.hang_up()

    def refuse(self, text):
        """Answers that the instance is not made, if it is not made yet."""
        answer = {"Err": {"kind": "Load", "text": text}}
        try:
            frames.send(self._answers, answer)
        except OSError:
            # It has been answered.
            pass

    def _open(self):
        """The instance. `None` if it could not be made; the server has been told why."""
        try:
            with self._talk.runs():
                instance, answer = self._model.instance(self._info), {"Ok": None}
            # Modules and weights stay: the collector of garbage need not look at them in runs.
            gc.freeze()
        except BaseException as error:
            faults.log(error, f"'{self.name}' cannot be made")
            instance, answer = None, faults.load_fault(error)
        with self._answers as stream:
            frames.send(stream, answer)
        return instance

    def _finalize(self, instance):
        try:
            instance.finalize()
        except BaseException as error:
            faults.log(error, f"finalize of '{self.name}'")

    def _serve(self, instance):
        """One frame, one run, one frame back."""
        while True:
            frame = self._mailbox.receive()
            if frame is None:
                return
            execute = frames.decode(frame)
            began = time.perf_counter_ns()
            outputs, each = self._execute(instance, execute)
            took = time.perf_counter_ns() - began
            answer = {
                "run": execute["run"],
                "took": {"secs": took // 1_000_000_000, "nanos": took % 1_000_000_000},
                "wide": False,
                "outputs": outputs,
                "each": each,
            }
            frame = frames.encode(answer)
            if LONGEST < len(frame):
                text = f"its answer has {len(frame)} bytes beside its tensors, expected at most {LONGEST}"
                answer.update(outputs=faults.run_fault(RunFailed(), text), each=[])
                frame = frames.encode(answer)
            self._mailbox.send(frame)

    def _execute(self, instance, execute):
        """Outcome of the whole run, and of each of its calls."""
        number, calls = execute["run"], execute["calls"]
        try:
            inputs = self._arena.inputs(execute["inputs"])
            run = Run(inputs, calls, lambda: number <= self._stopped)
            with self._talk.runs((number, it) for it in range(len(calls))):
                answers = instance.execute(run)
            self._arena.begin_outputs()
            return {"Ok": []}, [self._outcome(it, call["outputs"]) for it, call in zip(answers, calls)]
        except RunFailed as error:
            return faults.run_fault(error.__cause__ or error, str(error)), []
        except BaseException as error:
            faults.log(error, f"a run of '{self.name}'")
            return faults.run_fault(error), []

    def _outcome(self, answer, asked):
        """What the server is told of one call, of which these outputs are asked for."""
        if isinstance(answer, Refusal):
            return _refused(answer.code, answer.text)
        try:
            outputs = {it[0]: self._put(*it) for it in answer.outputs if it[0] in asked}
        except (TooLarge, _Unlike) as error:
            return _refused("Internal", str(error))
        except Exception as error:
            return _refused("Internal", f"an output cannot be sent: {faults.describe(error)}")
        return {"Ok": {"outputs": list(outputs.values()), "parameters": answer.parameters}}

    def _put(self, name, kind, array):
        """Where an output lies now. It has to be of the type that the configuration says."""
        expected = self._kinds.get(name, kind)
        if kind is not expected:
            raise _Unlike(
                f"output '{name}' of '{self.name}' is {kind.name}, expected {expected.name} as its configuration says"
            )
        return self._arena.put(name, kind, array)


class _Unlike(Exception):
    """An output that is not what the configuration says."""


def _refused(code, text):
    return {"Err": {"code": code, "text": faults.readable(text)}}


def _output_kinds(config):
    """The kinds of outputs by name, as far as the configuration says them."""
    outputs = json.loads(config).get("output", [])
    return {it["name"]: BY_CONFIG[it["data_type"]] for it in outputs if it.get("data_type") in BY_CONFIG}
