"""Sends sequences with Triton's own Python client, over HTTP and over gRPC, request by request and in streams.

Usage: triton_sequences.py HTTP_HOST:PORT GRPC_HOST:PORT
of a server with the models sum (numbers for ids) and text (texts).
"""

import queue
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException


def given(module, value):
    port = module.InferInput("INPUT", [1, 1], "INT32")
    port.set_data_from_numpy(np.array([[value]], np.int32))
    return [port]


def send(module, client, model, sequence_id, value, start=False, end=False):
    return client.infer(model, given(module, value), sequence_id=sequence_id, sequence_start=start,
                        sequence_end=end)


def identifier(result):
    """What the model text was told of its sequence's id."""
    told = result.as_numpy("ID")[0, 0]
    return told.decode() if isinstance(told, bytes) else told


def check_sums(results, sequence_id, values):
    """The answers to a whole sequence."""
    sums = [int(it.as_numpy("OUTPUT")[0, 0]) for it in results]
    assert sums == list(np.cumsum(values)), sums
    ids = {int(it.as_numpy("SEEN")[0, 3]) for it in results}
    assert ids == {sequence_id}, ids


def whole(module, client, sequence_id, values):
    """Sends a whole sequence, each request after the answer to the one before."""
    last = len(values) - 1
    results = [send(module, client, "sum", sequence_id, value, start=at == 0, end=at == last)
               for at, value in enumerate(values)]
    check_sums(results, sequence_id, values)


def check_one_sequence(module, client, address):
    whole(module, client, 1001, [1, 2, 3, 4])


def check_large_id(module, client, address):
    whole(module, client, 2**62, [1, 2])


def check_many_sequences(module, client, address):
    """More than there are seats, all at once: each has its own sum."""
    def alone(number):
        # A client of Triton's belongs to the thread that made it.
        with module.InferenceServerClient(address) as own:
            whole(module, own, 1 + number, [number] * 20)

    with ThreadPoolExecutor(16) as pool:
        for job in [pool.submit(alone, it) for it in range(32)]:
            job.result()


def check_text_ids(module, client, address):
    result = send(module, client, "text", "robin", 5, start=True, end=True)
    assert result.as_numpy("OUTPUT")[0, 0] == 5
    assert identifier(result) == "robin"


def check_errors(module, client, address):
    wrong = [("sum", 7, False, "sequence_start"), ("sum", 0, True, "sequence_id"),
             ("sum", "seven", True, "UINT64"), ("text", 7, True, "BYTES")]
    status = {"tritonclient.http": "400", "tritonclient.grpc": "StatusCode.INVALID_ARGUMENT"}
    for model, sequence_id, start, part in wrong:
        try:
            send(module, client, model, sequence_id, 1, start=start)
        except InferenceServerException as error:
            assert error.status() == status[module.__name__] and part in error.message(), error
        else:
            raise AssertionError(f"{sequence_id!r} was not refused by {model}")


def streamed(address, requests):
    """The answers to requests in one stream, all sent before the first answer is read; by request id."""
    answers = queue.Queue()
    with tritonclient.grpc.InferenceServerClient(address) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for model, value, request_id, options in requests:
            client.async_stream_infer(model, given(tritonclient.grpc, value), request_id=request_id, **options)
        found = []
        for _ in requests:
            result, error = answers.get(timeout=30)
            assert error is None, error
            found.append((result.get_response().id, result))
        client.stop_stream()
    return found


def place(sequence_id, at, last):
    return {"sequence_id": sequence_id, "sequence_start": at == 0, "sequence_end": at == last}


def check_stream(address):
    """Two sequences side by side in one stream, of which nothing waits for an answer: each keeps its order."""
    steps, ids = 100, [21, 22]
    requests = [("sum", at, f"{number} {at}", place(number, at, steps - 1))
                for at in range(steps) for number in ids]
    found = streamed(address, requests)
    for number in ids:
        own = [(request_id, it) for request_id, it in found if request_id.startswith(f"{number} ")]
        assert [request_id for request_id, _ in own] == [f"{number} {at}" for at in range(steps)], own
        check_sums([it for _, it in own], number, range(steps))


def check_stream_of_texts(address):
    requests = [("text", at, str(at), place("robin", at, 4)) for at in range(5)]
    found = streamed(address, requests)
    assert [request_id for request_id, _ in found] == ["0", "1", "2", "3", "4"], found
    assert {identifier(it) for _, it in found} == {"robin"}


def check_stream_without_a_start(address):
    answers = queue.Queue()
    with tritonclient.grpc.InferenceServerClient(address) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        # The stream goes on after an error of a request.
        for start in (False, True):
            client.async_stream_infer("sum", given(tritonclient.grpc, 3), sequence_id=31,
                                      sequence_start=start, sequence_end=True)
        result, error = answers.get(timeout=30)
        assert result is None and "inference request for sequence 31 to model" in error.message(), error
        result, error = answers.get(timeout=30)
        assert error is None and result.as_numpy("OUTPUT")[0, 0] == 3, error
        client.stop_stream()


def main(http_address, grpc_address):
    for module, address in [(tritonclient.http, http_address), (tritonclient.grpc, grpc_address)]:
        with module.InferenceServerClient(address) as client:
            for check in [check_one_sequence, check_large_id, check_many_sequences, check_text_ids,
                          check_errors]:
                check(module, client, address)
                print(module.__name__, check.__name__, "passed")
    for check in [check_stream, check_stream_of_texts, check_stream_without_a_start]:
        check(grpc_address)
        print(check.__name__, "passed")


main(*sys.argv[1:])
