"""Text, image and sound models with Triton's own Python client, over HTTP and gRPC: texts and files in, typed outputs and
`result`; and what is counted of each step of an ensemble.

Usage: pipelines_triton.py HTTP_HOST:PORT GRPC_HOST:PORT
of a server with the folders sst2, st-6, rerank, ner, vit, detr, speech and audio-classification, and the ensemble
sentiment of tokens, graph and labels, which does what sst2 does.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tritonclient.grpc
import tritonclient.http

FIXTURES = Path(__file__).parent.parent / "fixtures/pipelines"
PICTURES, SOUNDS = FIXTURES / "pictures", FIXTURES / "sounds"
TEXTS = ["I am super happy right now.", "What a sad day!", "The film was good, but the ending was bad."]


class Client:
    """A client of one protocol, with its module."""

    def __init__(self, module, address):
        self.module, self.client = module, module.InferenceServerClient(address)
        self.is_http = module is tritonclient.http

    def ask(self, model, inputs, outputs, parameters=None):
        def given(name, texts):
            array = np.array(texts, dtype=np.object_)
            port = self.module.InferInput(name, list(array.shape), "BYTES")
            port.set_data_from_numpy(array)
            return port

        wanted = [self.module.InferRequestedOutput(name) for name in outputs]
        inputs = [given(name, texts) for name, texts in inputs.items()]
        reply = self.client.infer(model, inputs, outputs=wanted, parameters=parameters)
        return [reply.as_numpy(name) for name in outputs]

    def ports(self, model):
        if self.is_http:
            metadata = self.client.get_model_metadata(model)
        else:
            metadata = self.client.get_model_metadata(model, as_json=True)
        # Over gRPC sizes are texts, as JSON has 64 bits in them.
        return {it["name"]: (it["datatype"], [int(size) for size in it["shape"]])
                for it in metadata["inputs"] + metadata["outputs"]}

    def executions(self, model):
        if self.is_http:
            statistics = self.client.get_inference_statistics(model)
        else:
            statistics = self.client.get_inference_statistics(model, as_json=True)
        only, = statistics["model_stats"]
        assert int(only["inference_stats"]["success"].get("count", 0)) > 0, only
        assert int(only["inference_stats"]["fail"].get("count", 0)) == 0, only
        return int(only.get("inference_count", 0)), int(only.get("execution_count", 0))


def rows(texts):
    return [[text] for text in texts]


def results(array):
    assert array.dtype == np.object_ and array.shape == (array.shape[0], 1), array
    return [json.loads(it) for it in array[:, 0]]


def check_classes(client):
    ports = client.ports("sst2")
    assert ports["text"] == ("BYTES", [-1, 1]) and ports["label"] == ("BYTES", [-1, -1]), ports
    assert ports["score"] == ("FP32", [-1, -1]) and ports["result"] == ("BYTES", [-1, 1]), ports
    label, score, result = client.ask("sst2", {"text": rows(TEXTS)}, ["label", "score", "result"])
    assert label.shape == score.shape == (3, 1) and score.dtype == np.float32, (label, score)
    for at, reply in enumerate(results(result)):
        assert reply["label"].encode() == label[at, 0], reply
        assert np.float32(reply["score"]) == score[at, 0], reply
    label, score = client.ask("sst2", {"text": rows(TEXTS)}, ["label", "score"], {"top_k": 2})
    assert label.shape == (3, 2) and np.allclose(score.sum(axis=1), 1), score


def check_vectors(client):
    embedding, = client.ask("st-6", {"text": rows(TEXTS)}, ["embedding"])
    assert embedding.shape == (3, 32) and embedding.dtype == np.float32, embedding
    assert np.allclose(np.linalg.norm(embedding, axis=1), 1, atol=1e-6), embedding
    score, = client.ask("rerank", {"query": rows(TEXTS[:1]), "texts": [TEXTS]}, ["score"])
    assert score.shape == (1, 3) and ((0 < score) & (score < 1)).all(), score


def check_entities(client):
    result, = client.ask("ner", {"text": rows(TEXTS)}, ["result"], {"aggregation_strategy": "simple"})
    for entities in results(result):
        assert all({"entity_group", "score", "word", "start", "end"} == set(it) for it in entities), entities


def check_pictures(client):
    ports = client.ports("detr")
    assert ports["image"] == ("BYTES", [-1, 1]) and ports["box"] == ("FP32", [-1, -1, 4]), ports
    files = [[(PICTURES / name).read_bytes()] for name in ("64x64.png", "96x64.png")]
    label, score = client.ask("vit", {"image": files}, ["label", "score"])
    assert label.shape == score.shape == (2, 5) and (np.diff(score) <= 0).all(), (label, score)
    outputs = ["box", "score", "class", "count", "size", "result"]
    box, score, number, count, size, result = client.ask("detr", {"image": files}, outputs)
    assert box.shape == (2, count.max(), 4) and score.shape == number.shape == box.shape[:2], box.shape
    assert size.tolist() == [[64, 64], [64, 96]], size
    for row, objects in enumerate(results(result)):
        assert len(objects) == count[row, 0], (objects, count)
        assert np.allclose([it["score"] for it in objects], score[row, : len(objects)]), objects
        assert (number[row, len(objects) :] == -1).all(), number


def check_sounds(client):
    ports = client.ports("speech")
    assert ports["audio"] == ("BYTES", [-1, 1]) and ports["text"] == ("BYTES", [-1, 1]), ports
    files = [[(SOUNDS / name).read_bytes()] for name in ("s16.wav", "s16.flac", "mono.mp3", "mono.ogg")]
    text, result = client.ask("speech", {"audio": files}, ["text", "result"])
    assert text.shape == (4, 1) and [it["text"].encode() for it in results(result)] == text[:, 0].tolist(), (text, result)
    alone = [client.ask("speech", {"audio": [file]}, ["text"])[0][0, 0] for file in files]
    assert alone == text[:, 0].tolist(), (alone, text)
    label, score = client.ask("audio-classification", {"audio": files}, ["label", "score"])
    assert label.shape == score.shape == (4, 4) and (np.diff(score) <= 0).all(), (label, score)


def check_ensemble(client):
    steps = ["tokens", "graph", "labels"]
    client.ask("sentiment", {"text": rows(TEXTS[:1])}, ["label"])
    before = {name: client.executions(name) for name in [*steps, "sentiment"]}
    inputs, outputs = {"text": rows(TEXTS)}, ["label", "score"]
    by_steps, by_folder = (client.ask(model, inputs, outputs) for model in ("sentiment", "sst2"))
    assert (by_steps[0] == by_folder[0]).all(), (by_steps, by_folder)
    assert np.allclose(by_steps[1], by_folder[1], atol=1e-6), (by_steps, by_folder)
    for name, (inferences, executions) in before.items():
        now = client.executions(name)
        assert now[0] == inferences + 3 and now[1] > executions, (name, before, now)
    # A step is a model by itself.
    ids, mask = client.ask("tokens", {"text": rows(TEXTS[:2])}, ["input_ids", "attention_mask"])
    assert ids.dtype == mask.dtype == np.int64 and ids.shape == mask.shape, (ids, mask)


def main():
    http, grpc = sys.argv[1:]
    for module, address in ((tritonclient.http, http), (tritonclient.grpc, grpc)):
        client = Client(module, address)
        checks = (check_classes, check_vectors, check_entities, check_pictures, check_sounds, check_ensemble)
        for check in checks:
            check(client)
    print("text, image and sound models and their steps answer over HTTP and gRPC")


main()
