"""A lane: one instance of the model, and the runs that the server sends to it, one after the other."""

import contextlib
import gc
import json
import socket
import time
from typing import NamedTuple

from muster_python import faults, frames, metrics
from muster_python.mailbox import LONGEST, Mailbox
from muster_python.talk import Talk
from muster_python.tensors import BY_CONFIG, Arena, TooLarge


class Call:
    """One request of a run: what an instance is given."""

    __slots__ = ("inputs", "outputs", "rows", "about", "is_cancelled", "streams", "_stream", "_checked")

    def __init__(self, inputs, outputs, rows, about, is_cancelled, stream, checked):
        # Of `Input`, those that the client has sent.
        self.inputs = inputs
        # Names of those that are asked for.
        self.outputs = outputs
        self.rows = rows
        # What is known of the request beside its tensors, as the wire says it.
        self.about = about
        # A function: does nobody wait for it any more?
        self.is_cancelled = is_cancelled
        # May it be answered in parts, now or after its run? Then whoever returns `None` for it does so.
        self.streams = stream is not None
        self._stream, self._checked = stream, checked

    def send(self, answer, is_last=False):
        """One part of the answer. Blocks while the client has not read enough. False: the answer has ended.

        A part that cannot be sent ends the answer, with an error.
        """
        try:
            outputs = self._checked(answer.outputs, self.outputs)
        except Unlike as error:
            self.end(Refusal("Internal", str(error)))
            return True
        return self._stream.send(outputs, answer.parameters, is_last)

    def send_each(self, answers, text_of=faults.describe):
        """Sends what a generator gives as parts while somebody waits. Were there any? The answer has not ended then.

        What fails behind the first part ends the answer, with an error of that text. Before it, it is raised.
        """
        has_begun = False
        try:
            with contextlib.closing(answers):
                for it in answers:
                    if self.is_cancelled() or not self.send(it):
                        break
                    has_begun = True
        except BaseException as error:
            if not has_begun:
                raise
            # The client has its status and the first parts.
            faults.log(error, "the rest of an answer")
            self.end(Refusal("Internal", text_of(error)))
        return has_begun

    def end(self, refusal=None):
        """No more, or an error. Not for whoever may hold any lock. False: the answer has ended before."""
        return self._stream.end(None if refusal is None else _error(refusal))

    def drop(self, refusal):
        """The same for `__del__`."""
        self._stream.drop(_error(refusal))

    def has_ended(self):
        return self._stream.has_ended


class Run:
    """The calls of one run, and their inputs as the server has laid them: one below the other."""

    __slots__ = ("inputs", "_calls", "_make")

    def __init__(self, inputs, calls, make):
        # Of `Input`, with the rows of all calls.
        self.inputs = inputs
        self._calls, self._make = calls, make

    def calls(self):
        """Each call, with its own rows of the inputs."""
        if len(self._calls) == 1:
            return [self._make(0, self.inputs)]
        made, start = [], 0
        for index, call in enumerate(self._calls):
            end = start + call["rows"]
            made.append(self._make(index, [it.rows(start, end) for it in self.inputs]))
            start = end
        return made

    def rows(self):
        """How many rows each call has."""
        return [it["rows"] for it in self._calls]

    def streams(self):
        """Are its calls answered in parts?"""
        return any(it.get("streams") for it in self._calls)


class Answer(NamedTuple):
    """What an instance gives for a call: outputs as name, kind and array, and parameters."""

    outputs: list
    parameters: dict = {}


# What an instance gives for a call whose request is to be run once more.
AGAIN = Answer([])


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
        # `None` until it is made.
        self.instance = None
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
                self.instance = None
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
        # Whoever hears that it is made may ask it.
        self.instance = instance
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
        streams = self._talk.begin(number, [it.get("streams", False) for it in calls])

        def make(at, inputs):
            call, stream = calls[at], streams[at]
            is_cancelled = (lambda: number <= self._stopped) if stream is None else (lambda: stream.has_left)
            return Call(inputs, call["outputs"], call["rows"], call["about"], is_cancelled, stream, self._checked)

        try:
            run = Run(self._arena.inputs(execute["inputs"]), calls, make)
            with self._talk.runs((number, it) for it in range(len(calls))):
                try:
                    answers = instance.execute(run)
                finally:
                    metrics.settle()
            self._arena.begin_outputs()
            outcomes = [self._outcome(*it) for it in zip(answers, calls, streams)]
            return {"Ok": []}, outcomes
        except RunFailed as error:
            fault = faults.run_fault(error.__cause__ or error, str(error))
        except BaseException as error:
            faults.log(error, f"a run of '{self.name}'")
            fault = faults.run_fault(error)
        return _fail(fault, streams)

    def _outcome(self, answer, call, stream):
        """What the server is told of one call."""
        if stream is not None:
            return self._stream_outcome(answer, call, stream)
        if isinstance(answer, Refusal):
            return {"Err": _error(answer)}
        if answer is AGAIN:
            return _ROUND
        if answer is None:
            # A run of the server's own, whose parts nobody hears.
            return _BEGUN
        try:
            checked = self._checked(answer.outputs, call["outputs"])
            outputs = [self._arena.put(*it) for it in checked]
        except Exception as error:
            return {"Err": _error(_unsent(error))}
        return {"Ok": {"outputs": outputs, "parameters": answer.parameters}}

    def _stream_outcome(self, answer, call, stream):
        """The same of a call that is answered in parts: `None` says that it is, anything else is all of its answer."""
        if answer is AGAIN:
            stream.go_round()
            return _ROUND
        if isinstance(answer, Refusal):
            stream.end(_error(answer))
        elif answer is not None:
            try:
                stream.send(self._checked(answer.outputs, call["outputs"]), answer.parameters, is_last=True)
            except Exception as error:
                stream.end(_error(_unsent(error)))
        return _BEGUN

    def _checked(self, outputs, asked):
        """Those outputs that are asked for. Each has to be of the type that the configuration says."""
        for name, kind, _ in outputs:
            expected = self._kinds.get(name, kind)
            if name in asked and kind is not expected:
                raise Unlike(
                    f"output '{name}' of '{self.name}' is {kind.name}, expected {expected.name} as its configuration "
                    "says"
                )
        return list({it[0]: it for it in outputs if it[0] in asked}.values())


class Unlike(Exception):
    """An output that is not what the configuration says."""


# A call is answered in parts, or its answer is of no use.
_BEGUN = {"Ok": {"outputs": [], "parameters": {}}}

# A request is run once more.
_ROUND = {"Ok": {"outputs": [], "parameters": {}, "again": True}}


def _error(refusal):
    """An error of a call, as the wire has it."""
    return {"code": refusal.code, "text": faults.readable(refusal.text)}


def _unsent(error):
    """What is told of outputs that cannot be sent."""
    is_said = isinstance(error, (TooLarge, Unlike))
    return Refusal("Internal", str(error) if is_said else f"an output cannot be sent: {faults.describe(error)}")


def _fail(fault, streams):
    """The outcome of a run that has failed. Where a part was sent, each call ends by itself: the error comes behind."""
    streams = [it for it in streams if it is not None]
    if not any(it.has_sent or it.has_ended for it in streams):
        for stream in streams:
            stream.abandon()
        return fault, []
    for stream in streams:
        stream.end({"code": "Internal", "text": fault["Err"]["text"]})
    return {"Ok": []}, [_BEGUN] * len(streams)


def _output_kinds(config):
    """The kinds of outputs by name, as far as the configuration says them."""
    outputs = json.loads(config).get("output", [])
    return {it["name"]: BY_CONFIG[it["data_type"]] for it in outputs if it.get("data_type") in BY_CONFIG}
