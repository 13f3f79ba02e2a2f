"""Talks to /invocations-bidirectional-stream with `websockets`, as the platform does for its clients.

Usage: websocket_client.py ADDRESS LIMIT      `host:port` of the SageMaker port of a server with a model `INPUT0` ->
                                              `OUTPUT0` of four numbers, which takes messages of up to LIMIT bytes.
"""

import json
import struct
import sys
import threading

from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

ROWS = [[float(4 * row + column) for column in range(4)] for row in range(3)]


def npy(rows):
    """A NumPy array of 32-bit floats, without NumPy."""
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 4), }" % len(rows)
    head = head.ljust(117) + "\n"
    values = struct.pack("<%df" % (4 * len(rows)), *(it for row in rows for it in row))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values


def main():
    address, limit = sys.argv[1], int(sys.argv[2])
    url = f"ws://{address}/invocations-bidirectional-stream"

    with connect(url) as socket:
        socket.send(json.dumps({"instances": ROWS}))
        assert json.loads(socket.recv(10)) == {"predictions": ROWS}
        # Text and bytes come back as what they were sent.
        socket.send("1,2,3,4\n")
        assert socket.recv(10) == "1.0,2.0,3.0,4.0\n"
        socket.send(npy(ROWS))
        reply = socket.recv(10)
        assert reply.startswith(b"\x93NUMPY") and reply[-48:] == npy(ROWS)[-48:], reply
        # A message in fragments is one request.
        socket.send(iter(['{"instances":', " [[1, 2,", " 3, 4]]}"]))
        assert json.loads(socket.recv(10)) == {"predictions": [[1.0, 2.0, 3.0, 4.0]]}
        # The platform asks like that once in a minute.
        assert socket.ping(b"there?").wait(10)
        socket.send("[[1]]")
        error = json.loads(socket.recv(10))
        assert "INPUT0" in error["error"] and error["request_id"], error
        socket.send("[[4, 3, 2, 1]]")
        assert json.loads(socket.recv(10)) == [[4.0, 3.0, 2.0, 1.0]]
    assert socket.protocol.close_code == 1000, socket.protocol.close_code

    # Sent by one thread and taken by another, as fast as it goes.
    with connect(f"{url}?accept=text/csv") as socket:
        count = 2000
        sender = threading.Thread(
            target=lambda: [socket.send(f"[[{it}, 0, 0, 0]]") for it in range(count)]
        )
        sender.start()
        for it in range(count):
            assert socket.recv(10) == f"{it}.0,0.0,0.0,0.0\n"
        sender.join()

    # A large message and a large answer.
    many = ROWS * 2000
    with connect(url, max_size=None) as socket:
        for body in (npy(many), npy(many)):
            socket.send(body)
        for _ in range(2):
            assert socket.recv(30)[-16 * len(many) :] == npy(many)[-16 * len(many) :]

    with connect(url) as socket:
        socket.send(b" " * (limit + 1))
        try:
            socket.recv(10)
            raise AssertionError("a message that is too large was answered")
        except ConnectionClosedError as closed:
            assert closed.rcvd.code == 1009 and str(limit) in closed.rcvd.reason, closed

    try:
        connect(f"ws://{address}/ping")
        raise AssertionError("/ping is no WebSocket")
    except InvalidStatus as refused:
        assert refused.response.status_code == 200, refused
    print("everything was as it should be")


main()
