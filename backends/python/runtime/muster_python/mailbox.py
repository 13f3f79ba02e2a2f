"""The frames of a lane's runs, in memory that the server and this process share.

Each side has a part: counters, then room for one frame. A side writes its frame, then counts it. The other side looks
at the counter, and sleeps on it: it is a futex. A run is one frame from the server and one frame back.
"""

import ctypes
import mmap
import os
import platform
import threading
import time

# Where a frame begins in a part, behind the counters.
_FRAME = 128

# The longest frame of a run, or of an answer to one.
LONGEST = 512 << 10

# Bytes of one part: counters, the length of a frame and the frame, in whole pages.
PART = -(-(_FRAME + 4 + LONGEST) // 4096) * 4096

# Frames are counted in these bits. The other bit says that the side sends no more.
_COUNT = 0x7FFF_FFFF
_ENDED = 0x8000_0000

# Places of the counters, in words of four bytes: those of the server's part, then those of this process's part.
_THEIR_SENT = 0
_THEIR_LENGTH = _FRAME // 4
_OWN_SENT = PART // 4
_OWN_SLEEPS = PART // 4 + 16
_OWN_TAKEN = PART // 4 + 17

_FUTEX_WAIT, _FUTEX_WAKE = 0, 1

# Frames that come so soon one after the other are looked for, and for so long, in nanoseconds.
_SOON = 60_000


def _futex(library):
    """The system call `futex(address, operation, value)`, which Python's library does not have."""
    machine = platform.machine()
    numbers = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
    if machine not in numbers:
        raise OSError(f"the number of the system call futex on {machine} is not known")
    call = library.syscall
    call.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32) + (ctypes.c_void_p,) * 2
    call.restype = ctypes.c_long
    number = numbers[machine]
    return lambda address, operation, value: call(number, address, operation, value, None, None)


class Broken(Exception):
    """The server has sent what no server of this version sends."""


class Mailbox:
    """One lane's frames. `file` is the memory's file, which is closed; the memory stays."""

    def __init__(self, file, may_look):
        try:
            size = os.fstat(file).st_size
            if size != 2 * PART:
                raise Broken(
                    f"the memory of frames has {size} bytes, expected {2 * PART}: another version's server"
                )
            self._memory = mmap.mmap(file, size)
        finally:
            os.close(file)
        self._words = memoryview(self._memory).cast("I")
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._their_address, self._own_address = start, start + PART
        # To wait lets other threads of the model run. To wake takes less time than letting them.
        self._wait, self._wake = _futex(ctypes.CDLL(None)), _futex(ctypes.PyDLL(None))
        self._received, self._sent = 0, 0
        self._barrier = threading.Lock()
        self._may_look = may_look and 1 < len(os.sched_getaffinity(0))
        # Time of the last frame, and mean time from one to the next, in nanoseconds.
        self._last, self._pause = 0, 4 * _SOON

    def receive(self):
        """The bytes of the next frame. Blocks until there is one. `None` once the server sends no more."""
        words, received = self._words, self._received
        awaited = (received + 1) & _COUNT
        if words[_THEIR_SENT] == received and self._may_look and self._pause <= _SOON:
            self._look(received)
        while True:
            sent = words[_THEIR_SENT]
            if sent & _COUNT == awaited:
                break
            if sent & _ENDED:
                return None
            if sent != received:
                raise Broken(f"frame {sent}, where {awaited} is waited for")
            self._sleep(received)
        length = words[_THEIR_LENGTH]
        if LONGEST < length:
            raise Broken(f"a frame of {length} bytes, expected at most {LONGEST}")
        frame = self._memory[_FRAME + 4 : _FRAME + 4 + length]
        self._received = words[_OWN_TAKEN] = awaited
        if self._may_look:
            now = time.perf_counter_ns()
            self._pause += (min(now - self._last, 4 * _SOON) - self._pause) / 4
            self._last = now
        return frame

    def send(self, frame):
        """Sends one frame, of at most `LONGEST` bytes. The frame before it has been taken by then."""
        start = PART + _FRAME
        self._memory[start : start + 4 + len(frame)] = len(frame).to_bytes(4, "little") + frame
        self._sent = (self._sent + 1) & _COUNT
        # No processor writes the counter before the frame. The server's side waits on the counter, so it is woken
        # always: without a barrier behind the counter nobody knows whether it sleeps.
        for _ in range(2):
            with self._barrier:
                pass
        self._words[_OWN_SENT] = self._sent
        self._wake(self._own_address, _FUTEX_WAKE, 1)

    def end(self):
        """Tells the server that this side sends no more."""
        self._words[_OWN_SENT] = self._sent | _ENDED
        self._wake(self._own_address, _FUTEX_WAKE, 1)

    def hang_up(self):
        """Ends `receive`, on behalf of a server that is gone. Any thread may call it."""
        self._words[_THEIR_SENT] |= _ENDED
        self._wake(self._their_address, _FUTEX_WAKE, 1)

    def _look(self, received):
        """Looks for the next frame for a moment: to sleep and to be woken takes longer."""
        until = time.perf_counter_ns() + _SOON
        while self._words[_THEIR_SENT] == received and time.perf_counter_ns() < until:
            # Whoever is to send the frame may have no other processor.
            os.sched_yield()

    def _sleep(self, received):
        """Sleeps until there may be a frame. The system looks at the counter once more before it lets us sleep."""
        self._words[_OWN_SLEEPS] = 1
        self._wait(self._their_address, _FUTEX_WAIT, received)
        self._words[_OWN_SLEEPS] = 0
