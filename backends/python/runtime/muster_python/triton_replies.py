"""What a request's senders send: its one response, or any number of them where the model is decoupled."""

import threading

from muster_python.lane import Answer, Refusal
from muster_python.triton_request import CODES
from muster_python.triton_tensor import TritonModelException


def outcome(response):
    """A response as the lane takes it: an answer or a refusal."""
    if response._error is not None:
        return Refusal(CODES[response._error.code()], response._error.message())
    outputs = [(it._name, it._kind, it._elements()) for it in response._output_tensors]
    return Answer(outputs, response._parameters)


class Reply:
    """What all requests have that have come."""

    def __init__(self, iterates):
        self._iterates = iterates
        # Is the request to be run once more? Said in its run.
        self.is_rescheduled = self._has_run = False
        self.has_sender = False

    def reschedule(self, again):
        if again and not self._iterates:
            raise TritonModelException(
                "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE needs sequence_batching { iterative_sequence: true } in the "
                "model's configuration"
            )
        if self._has_run:
            raise TritonModelException("release flags are for execute, before it returns")
        self.is_rescheduled = again


class OneReply(Reply):
    """The response of a request in default mode."""

    def __init__(self, iterates):
        super().__init__(iterates)
        # Guards what follows. Whoever has it may be interrupted by the collector of garbage, and take it again.
        self._news = threading.Condition()
        self.response = None
        self._is_closed = self._is_dropped = False

    def send(self, response, is_final):
        with self._news:
            if response is not None and self.response is not None:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send more than one response."
                )
            if response is None and self.response is None:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send complete final before sending a "
                    "response."
                )
            if self._is_closed:
                raise TritonModelException(_CLOSED)
            self.response = response or self.response
            self._is_closed = is_final
            self._news.notify_all()

    def close(self):
        """Senders send no more."""
        with self._news:
            self._is_closed = self._has_run = True

    def drop(self):
        """Nobody has a sender any more."""
        with self._news:
            self._is_dropped = True
            self._news.notify_all()

    def wait(self):
        """The response, once it has come. `None` where none comes any more. Blocking."""
        with self._news:
            while self.response is None and self.has_sender and not self._is_dropped:
                self._news.wait()
            return self.response


class ManyReplies(Reply):
    """The responses of a request to a decoupled model, which may come at any time."""

    def __init__(self, call, name, iterates):
        super().__init__(iterates)
        self._call, self._name = call, name
        # Guards what follows.
        self._lock = threading.Lock()
        self._is_closed = self._is_dropped = False
        # Does `execute` go on? What it fails with says more than that a sender was dropped by it.
        self._is_in_run = True

    def send(self, response, is_final):
        with self._lock:
            if self._is_closed:
                raise TritonModelException(_CLOSED)
            self._is_closed = is_final
        if not self._call.streams:
            # A run of the server's own: nobody reads what comes of it.
            return
        told = None if response is None else outcome(response)
        if isinstance(told, Refusal):
            # What follows it is not heard.
            self._call.end(told)
            return
        if told is not None:
            self._call.send(told, is_final)
        elif is_final:
            self._call.end()

    def has_run(self):
        """`execute` has returned. The senders of a request that is run once more send nothing then."""
        with self._lock:
            self._has_run = True
            self._is_closed = self._is_closed or self.is_rescheduled

    def leave_run(self):
        """`execute` has ended, its coroutine too, without an exception."""
        self._is_in_run = False
        if self._is_dropped:
            self.drop()

    def fail(self, text):
        """`execute` has failed, after it has returned."""
        if self._call.streams:
            self._call.end(Refusal("Internal", text))

    def drop(self):
        """Nobody has a sender any more. Called by the collector of garbage."""
        self._is_dropped = True
        if self._call.streams and not self._is_closed and not self._is_in_run:
            text = f"'{self._name}' has dropped the response sender of a request without the final flag"
            self._call.drop(Refusal("Internal", text))


_CLOSED = "Unable to send response. Response sender has been closed."
