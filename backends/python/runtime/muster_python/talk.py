"""What this process and the server say to each other beside runs: parts of answers, and what the model asks of the
server.

A frame is two lengths, then so many bytes of JSON, then so many bytes of tensors. Any thread may send. One thread reads,
from the first time on that an answer is to come; it never waits for anybody who sends.
"""

import collections
import contextlib
import contextvars
import io
import itertools
import queue
import select
import socket
import struct
import threading
from typing import NamedTuple

from muster_python import faults, frames
from muster_python.packed import pack, unpack

_HEAD = struct.Struct("<II")

# Parts of a call that its client has not read, and their bytes; a single part may be larger. The server's bounds.
_MOST_PARTS = 16
_MOST_BYTES = 1 << 20

# The server says by itself that parts were read once there are so many. Whoever waits with fewer asks for it.
_TOLD_PARTS = _MOST_PARTS // 2

# Frames that are shorter are sent in one piece.
_SHORT = 64 << 10

# Most requests to other models at once, as the server has it.
_MOST_ASKS = 256

_LEFT = {"code": "Cancelled", "text": "nobody waits for the answer any more"}
_GONE = {"code": "Unavailable", "text": "the server has let the model go"}


class Failed(Exception):
    """The server's answer to an ask that it has not done: `code` is one of the wire's, `text` says why."""

    def __init__(self, error):
        super().__init__(error["text"])
        self.code, self.text = error["code"], error["text"]


class Part(NamedTuple):
    """One part of an answer: outputs are of `Input`."""

    outputs: list
    parameters: dict


class _Running(NamedTuple):
    talk: "Talk"
    calls: list


_running = contextvars.ContextVar("muster_running", default=None)

# The talks of this process, one of each instance.
_talks = []


def running():
    """The talk of the instance whose code runs here, and the calls that it runs for: pairs of a run and a place in it.

    Threads that a model has made by itself belong to all calls that are open. `None` where there is no instance.
    """
    found = _running.get()
    if found is not None:
        return found.talk, found.calls
    open_ones = [(it, it.open_calls()) for it in list(_talks)]
    return next((it for it in open_ones if it[1]), open_ones[0] if open_ones else None)


class Talk:
    """The talk of one instance. `file` is the number of its socket."""

    def __init__(self, file):
        self._stream = socket.socket(fileno=file)
        # Held while a frame is written.
        self._writing = threading.Lock()
        # Guards what follows. Nobody who holds it writes.
        self._lock = threading.Lock()
        self._streams, self._asks = {}, {}
        self._run_calls = []
        # Nobody waits for runs of numbers up to this one.
        self._left = -1
        # The last run whose calls are known, and calls of later ones that nobody waits for: the server may say so first.
        self._begun, self._left_early = -1, set()
        self._has_reader = self._has_ended = False
        self._numbers = itertools.count()
        self._places = threading.Semaphore(_MOST_ASKS)
        # Calls that nobody can end any more.
        self._dropped = queue.SimpleQueue()
        _talks.append(self)

    def close(self):
        """The lane has ended. What is open may be answered until the server closes the talk."""
        with contextlib.suppress(ValueError):
            _talks.remove(self)

    @contextlib.contextmanager
    def runs(self, calls=()):
        """For a block that is the model's code, and runs for these calls."""
        calls = list(calls)
        token = _running.set(_Running(self, calls))
        self._run_calls = calls
        try:
            yield
        finally:
            self._run_calls = []
            _running.reset(token)

    def open_calls(self):
        """The calls of the run that is made, and those whose answers have not ended."""
        with self._lock:
            streams = list(self._streams)
        return [*self._run_calls, *(it for it in streams if it not in self._run_calls)]

    def begin(self, run, are_streams):
        """The answers to the calls of a run: of those that are given in parts, and `None` for the others."""
        streams = [Stream(self, (run, at)) if it else None for at, it in enumerate(are_streams)]
        with self._lock:
            for stream in filter(None, streams):
                self._streams[stream.call] = stream
                stream.has_left = self._has_ended or stream.call in self._left_early
            self._begun = run
            self._left_early = {it for it in self._left_early if run < it[0]}
        if any(streams):
            self._read()
        return streams

    def ask(self, verb, body, segments=()):
        """Asks the server: `Infer`, `Control` or `Metric`. The bytes of tensors or files lie in `segments`.

        Waits while too many requests to other models are under way. Returns at once besides.
        """
        if verb == "Infer":
            self._places.acquire()
        answers = Answers(self, next(self._numbers), verb, body.get("calls", ()))
        self._read()
        with self._lock:
            self._asks[answers.number] = answers
            has_ended, is_left = self._has_ended, self._is_left(answers.calls)
        if has_ended:
            self._end(answers.number, _GONE, None)
        elif is_left:
            self._end(answers.number, _LEFT, None)
        else:
            self._send({verb: {**body, "ask": answers.number}}, segments)
            with self._lock:
                answers.is_sent = True
                is_withdrawn = answers.is_withdrawn
            # Before the server knew of it: it would have taken no notice.
            if is_withdrawn:
                self._send({"Cancel": {"ask": answers.number}})
        return answers

    def tell(self, verb, body):
        """Tells the server something that is not answered."""
        self._send({verb: body})

    def leave_runs(self, run):
        """Nobody waits for that run, and those before it, any more."""
        with self._lock:
            self._left = max(self._left, run)
        self._withdraw()

    def _withdraw(self):
        """Withdraws what was asked for calls that nobody waits for any more."""
        with self._lock:
            asks = [it for it in self._asks.values() if self._is_left(it.calls)]
        for answers in asks:
            answers.drop()

    def _is_left(self, calls):
        """Does nobody wait for any of these calls? To be asked with the lock."""

        def one(call):
            stream = self._streams.get(call)
            # A call that is answered in parts may be open long after its run.
            return call[0] <= self._left if stream is None else stream.has_left

        return bool(calls) and all(map(one, calls))

    def _send(self, message, segments=()):
        """Sends one frame. Blocks while the server reads nothing."""
        json = frames.encode(message)
        length = sum(map(len, segments))
        start = _HEAD.pack(len(json), length) + json
        try:
            with self._writing:
                if len(start) + length < _SHORT:
                    self._stream.sendall(b"".join([start, *segments]))
                    return
                self._stream.sendall(start)
                for segment in segments:
                    self._stream.sendall(segment)
        except OSError:
            # The server is gone. The reader says so to those who wait.
            pass

    def _read(self):
        """Begins to read, if nobody reads yet."""
        with self._lock:
            begins, self._has_reader = not self._has_reader, True
        if begins:
            for name, work in (("talk", self._listen), ("talk-dropped", self._end_dropped)):
                threading.Thread(target=work, name=name, daemon=True).start()

    def _listen(self):
        """Reads until the server says no more."""
        stream = io.BufferedReader(_Waiting(self._stream), _SHORT)
        try:
            while True:
                json, length = _HEAD.unpack(_exactly(stream, _HEAD.size))
                self._take(frames.decode(_exactly(stream, json)), _exactly(stream, length))
        except (frames.Closed, OSError):
            pass
        except BaseException as error:
            faults.log(error, "what the server says cannot be read")
        with self._lock:
            self._has_ended = True
            streams, asks = list(self._streams.values()), list(self._asks)
        for stream in streams:
            stream._leave()
        for number in asks:
            self._end(number, _GONE, None)

    def _take(self, message, data):
        ((what, body),) = message.items()
        if what in ("Taken", "Left"):
            call = tuple(body["call"])
            with self._lock:
                stream = self._streams.get(call)
                if stream is None and what == "Left" and self._begun < call[0]:
                    self._left_early.add(call)
            if stream is not None:
                stream._take(body["parts"]) if what == "Taken" else stream._leave()
            if what == "Left":
                self._withdraw()
        elif what == "Answered":
            with self._lock:
                answers = self._asks.get(body["ask"])
            if answers is not None:
                answers._take(Part(unpack(body["outputs"], data), body["parameters"]))
        elif what == "Ended":
            self._end(body["ask"], body["error"], body["value"])

    def _end(self, number, error, value):
        """An ask has ended."""
        with self._lock:
            answers = self._asks.pop(number, None)
        if answers is None:
            return
        if answers.verb == "Infer":
            self._places.release()
        answers._end(error, value)

    def _cancel(self, answers):
        """Nobody waits for the answers any more."""
        with self._lock:
            is_open = self._asks.pop(answers.number, None) is not None
            is_sent = answers.is_sent
            answers.is_withdrawn = is_open and answers.verb == "Infer"
        if is_open:
            if answers.verb == "Infer":
                self._places.release()
                if is_sent:
                    self._send({"Cancel": {"ask": answers.number}})
            answers._end({"code": "Cancelled", "text": "the request was cancelled"}, None)

    def _forget(self, call):
        with self._lock:
            self._streams.pop(call, None)

    def _end_dropped(self):
        """Ends the answers that nobody can end any more. Whoever drops a sender may hold any lock."""
        while True:
            stream, error = self._dropped.get()
            stream.end(error)


class Stream:
    """The answer to one call, part by part. Any thread may use it."""

    def __init__(self, talk, call):
        self._talk, self.call = talk, call
        # Held by whoever sends: parts go one behind the other, and the end behind all of them.
        self._order = threading.Lock()
        # Guards what follows.
        self._room = threading.Condition()
        self._unread, self._bytes = collections.deque(), 0
        # How often the server has said that parts were read.
        self._told = 0
        self.has_sent = self.has_ended = self.has_left = False

    def send(self, tensors, parameters, is_last=False):
        """Sends one part: tensors as name, kind and array. Blocks while the client has not read enough.

        False: the answer has ended. A part that nobody waits for is dropped. `is_last`: the answer ends with it.
        """
        said, segments = pack(tensors)
        length = sum(map(len, segments))
        with self._order:
            self._wait_for_room(length)
            with self._room:
                if self.has_ended:
                    return False
                is_heard = not self.has_left
                if is_heard:
                    self._unread.append(length)
                    self._bytes += length
                    self.has_sent = True
                    self.has_ended = is_last
            if is_heard:
                body = {"call": self.call, "outputs": said, "parameters": parameters, "last": is_last}
                self._talk._send({"Part": body}, segments)
        if is_last:
            self._talk._forget(self.call) if is_heard else self.end()
        return True

    def end(self, error=None):
        """No more. `error`: code and text. False: it has ended before."""
        with self._order:
            with self._room:
                if self.has_ended:
                    return False
                self.has_ended = True
            self._talk._send({"End": {"call": self.call, "error": error}})
        self._talk._forget(self.call)
        return True

    def go_round(self):
        """The request is run once more. What was sent before is read; the next run sends on."""
        with self._order:
            with self._room:
                if self.has_ended:
                    return
                self.has_ended = True
            self._talk._send({"Again": {"call": self.call}})
        self._talk._forget(self.call)

    def abandon(self):
        """Its run says how it ends."""
        self.has_ended = True
        self._talk._forget(self.call)

    def drop(self, error):
        """The same, for whoever may hold any lock: from `__del__`."""
        if not self.has_ended:
            self._talk._dropped.put((self, error))

    def _wait_for_room(self, length):
        """Blocks while the client has not read enough. For whoever sends next."""
        while True:
            with self._room:
                while self._must_wait(length) and _TOLD_PARTS <= len(self._unread):
                    self._room.wait()
                if not self._must_wait(length):
                    return
                told = self._told
            # Nobody who holds the lock writes: the reader of the talk takes it.
            self._talk._send({"Full": {"call": self.call}})
            with self._room:
                while self._must_wait(length) and self._told == told:
                    self._room.wait()

    def _must_wait(self, length):
        return self._is_full(length) and not self.has_left and not self.has_ended

    def _is_full(self, length):
        is_full = _MOST_PARTS <= len(self._unread) or _MOST_BYTES < self._bytes + length
        return is_full and bool(self._unread)

    def _take(self, parts):
        with self._room:
            for _ in range(min(parts, len(self._unread))):
                self._bytes -= self._unread.popleft()
            self._told += 1
            self._room.notify_all()

    def _leave(self):
        with self._room:
            self.has_left = True
            self._room.notify_all()


class Answers:
    """What comes of an ask: parts, then a value or an error. To be waited for by a thread or by a coroutine."""

    def __init__(self, talk, number, verb, calls):
        self._talk, self.number, self.verb = talk, number, verb
        # Those that it is asked for.
        self.calls = calls
        # Does the server know of it? Does nobody wait any more? Guarded by the talk's lock.
        self.is_sent = self.is_withdrawn = False
        # Guards what follows.
        self._news = threading.Condition()
        self._parts, self._waiters = collections.deque(), []
        self._end_of_it = None

    def __iter__(self):
        return self

    def __next__(self):
        """The next part. Blocking. `Failed`: instead of one, and once."""
        with self._news:
            while not self._parts and self._end_of_it is None:
                self._news.wait()
            part = self._next()
        if part is None:
            raise StopIteration
        return part

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            with self._news:
                if self._parts or self._end_of_it is not None:
                    part = self._next()
                    break
            await self.begin()
        if part is None:
            raise StopAsyncIteration
        return part

    async def begin(self):
        """Waits for a part, or for the end."""
        import asyncio

        with self._news:
            if self._parts or self._end_of_it is not None:
                return
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._waiters.append((loop, waiter))
        await waiter

    def value(self):
        """The value at the end. Blocking. `Failed` where there is none."""
        for _ in self:
            pass
        return self._end_of_it[1]

    def cancel(self):
        """Nobody waits any more."""
        self._talk._cancel(self)

    def drop(self):
        """The same, for whoever may hold any lock: from `__del__`."""
        if self._end_of_it is None:
            self._talk._dropped.put((self, None))

    def end(self, _error=None):
        """What is done with answers that were dropped."""
        self.cancel()

    def _next(self):
        if self._parts:
            return self._parts.popleft()
        error, value = self._end_of_it
        if error is not None:
            self._end_of_it = (None, value)
            raise Failed(error)
        return None

    def _take(self, part):
        with self._news:
            self._parts.append(part)
            self._tell()

    def _end(self, error, value):
        with self._news:
            if self._end_of_it is None:
                self._end_of_it = (error, value)
            self._tell()

    def _tell(self):
        self._news.notify_all()
        waiters, self._waiters = self._waiters, []
        for loop, waiter in waiters:
            # The loop may be closed: nobody waits then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, waiter)


def _wake(waiter):
    if not waiter.done():
        waiter.set_result(None)


class _Waiting(io.RawIOBase):
    """Reads what has come. Whoever sleeps in `recv` is woken as the other side reads, too: this one is not."""

    def __init__(self, stream):
        self._stream, self._has_come = stream, select.poll()
        self._has_come.register(stream, select.POLLIN)

    def readable(self):
        return True

    def readinto(self, buffer):
        self._has_come.poll()
        return self._stream.recv_into(buffer)


def _exactly(stream, length):
    """So many bytes of the stream."""
    data = stream.read(length) if length else b""
    if len(data) < length:
        raise frames.Closed
    return data
