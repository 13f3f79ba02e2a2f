"""Frames over a Unix socket: a length, then so many bytes of JSON. Open files may come along with one."""

import array
import json
import socket

# Bytes of the length before a frame.
HEAD = 4

# The longest frame that the server takes.
LONGEST = 256 << 20

# Most open files that one frame brings along.
_FILES = 4

# Text as it is, without escapes: the other side need not copy it.
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_decoder = json.JSONDecoder()


class Closed(Exception):
    """The other side has ended."""


def encode(message):
    """The bytes of a message, without their length."""
    return _encoder.encode(message).encode("utf-8", "replace")


def decode(frame):
    """The message of these bytes."""
    return _decoder.decode(frame.decode("utf-8"))


def send(stream, message):
    """Sends one frame. Blocks while the socket is full."""
    frame = encode(message)
    if LONGEST < len(frame):
        raise ValueError(f"a message of {len(frame)} bytes, expected at most {LONGEST}")
    stream.sendall(len(frame).to_bytes(HEAD, "little") + frame)


def receive(stream):
    """The next message, and the numbers of the files that came along. Blocks until it is here.

    Raises `Closed` if the other side has ended.
    """
    files = array.array("i")
    space = socket.CMSG_SPACE(_FILES * files.itemsize)
    head, ancillary, _, _ = stream.recvmsg(HEAD, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    head += _exactly(stream, HEAD - len(head)) if head else b""
    if not head:
        raise Closed
    length = int.from_bytes(head, "little")
    if LONGEST < length:
        raise ValueError(f"a frame of {length} bytes, expected at most {LONGEST}")
    return decode(_exactly(stream, length)), list(files)


def _exactly(stream, length):
    """So many bytes of the stream."""
    parts = []
    while 0 < length:
        part = stream.recv(min(length, 1 << 20))
        if not part:
            raise Closed
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
