"""Sends sequences with Triton's own Python client, over HTTP.

Usage: triton_sequences.py HOST:PORT      of a server with the models sum (numbers for ids) and text (texts).
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def send(client, model, sequence_id, value, start=False, end=False):
    port = triton.InferInput("INPUT", [1, 1], "INT32")
    port.set_data_from_numpy(np.array([[value]], np.int32))
    return client.infer(model, [port], sequence_id=sequence_id, sequence_start=start,
                        sequence_end=end)


def total(client, sequence_id, values):
    """Sends a whole sequence; the last sum."""
    last = len(values) - 1
    results = [send(client, "sum", sequence_id, value, start=at == 0, end=at == last)
               for at, value in enumerate(values)]
    sums = [int(it.as_numpy("OUTPUT")[0, 0]) for it in results]
    assert sums == list(np.cumsum(values)), sums
    ids = {int(it.as_numpy("SEEN")[0, 3]) for it in results}
    assert ids == {sequence_id}, ids
    return sums[-1]


def check_one_sequence(client):
    assert total(client, 1001, [1, 2, 3, 4]) == 10


def check_many_sequences(client):
    """More than there are seats, all at once: each has its own sum."""
    def alone(number):
        # A client of Triton's belongs to the thread that made it.
        with triton.InferenceServerClient(sys.argv[1]) as own:
            return total(own, 1 + number, [number] * 20)

    with ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit(alone, it) for it in range(32)]
        assert [it.result() for it in jobs] == [20 * it for it in range(32)]


def check_text_ids(client):
    result = send(client, "text", "robin", 5, start=True, end=True)
    assert result.as_numpy("OUTPUT")[0, 0] == 5
    identifier = result.as_numpy("ID")[0, 0]
    assert (identifier.decode() if isinstance(identifier, bytes) else identifier) == "robin"


def check_errors(client):
    wrong = [("sum", 7, False, "sequence_start"), ("sum", 0, True, "sequence_id"),
             ("sum", "seven", True, "UINT64"), ("text", 7, True, "BYTES")]
    for model, sequence_id, start, part in wrong:
        try:
            send(client, model, sequence_id, 1, start=start)
        except InferenceServerException as error:
            assert error.status() == "400" and part in error.message(), error
        else:
            raise AssertionError(f"{sequence_id!r} was not refused by {model}")


def main():
    client = triton.InferenceServerClient(sys.argv[1])
    for check in [check_one_sequence, check_many_sequences, check_text_ids, check_errors]:
        check(client)
        print(check.__name__, "passed")
    client.close()


if __name__ == "__main__":
    main()
