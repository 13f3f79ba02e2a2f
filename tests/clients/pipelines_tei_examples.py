"""Sends the requests of Text Embeddings Inference's OpenAPI document and of its load script, with `requests`, and looks
at the shapes of the replies.

Usage: pipelines_tei_examples.py URL       of a server with `st-6`, `sst2` and `splade-max`.
"""

import sys

import requests

# The load script's text, as long as a paragraph.
PARAGRAPH = " ".join(["Text embeddings are vectors that stand for texts."] * 40)


def main():
    url, session = sys.argv[1], requests.Session()

    def post(path, body, status=200):
        response = session.post(url + path, json=body, timeout=30)
        assert response.status_code == status, (path, body, response.status_code, response.text)
        return response

    def vector(value):
        assert isinstance(value, list) and len(value) == 32, value
        assert all(isinstance(it, float) for it in value), value

    # /embed
    for body in [
        {"inputs": "What is Deep Learning?"},
        {"inputs": ["What is Deep Learning?"]},
        {"inputs": "What is Deep Learning?", "normalize": True, "prompt_name": None, "truncate": False},
        {"inputs": [1, 5, 9, 40], "truncation_direction": "Right"},
        {"inputs": [[1, 5], [9]], "truncation_direction": "Left"},
        {"inputs": PARAGRAPH, "truncate": True},
    ]:
        response = post("/embed", body)
        for it in response.json():
            vector(it)
        for name in ("x-compute-type", "x-compute-time", "x-compute-characters", "x-compute-tokens", "x-total-time",
                     "x-tokenization-time", "x-queue-time", "x-inference-time"):
            assert name in response.headers, (name, response.headers)
    [cut] = post("/embed", {"inputs": "What is Deep Learning?", "dimensions": 16}).json()
    assert len(cut) == 16

    # /embed_all: a vector for each token, special ones included
    body = {"inputs": ["What is Deep Learning?", "a"], "truncate": False}
    tokens = post("/v2/models/st-6/tokenize", {"inputs": body["inputs"]}).json()
    for text, of_text in zip(post("/embed_all", body).json(), tokens, strict=True):
        assert len(text) == len(of_text)
        for it in text:
            vector(it)

    # /embed_sparse
    [entries] = post("/embed_sparse", {"inputs": "What is Deep Learning?", "truncate": False}).json()
    assert all(set(it) == {"index", "value"} and it["value"] > 0 for it in entries), entries

    # /predict: a text, a pair, a batch of both
    def classes(value):
        assert {it["label"] for it in value} == {"NEGATIVE", "POSITIVE"}, value
        assert value[0]["score"] >= value[1]["score"], value

    predict = "/v2/models/sst2/predict"
    classes(post(predict, {"inputs": "What is Deep Learning?", "raw_scores": False, "truncate": False}).json())
    classes(post(predict, {"inputs": ["What is Deep Learning?", "Deep Learning is..."]}).json())
    batch = post(predict, {"inputs": [["What is Deep Learning?"], ["a", "b"]], "raw_scores": True}).json()
    assert len(batch) == 2
    for it in batch:
        classes(it)

    # /similarity
    inputs = {"source_sentence": "What is Deep Learning?", "sentences": ["What is Machine Learning?", "a"]}
    body = {"inputs": inputs, "parameters": {"truncate": False, "truncation_direction": "right"}}
    scores = post("/v2/models/st-6/similarity", body).json()
    assert len(scores) == 2 and all(-1 <= it <= 1.00001 for it in scores), scores

    # /rerank
    texts = ["Deep Learning is not...", "Deep learning is..."]
    body = {"query": "What is Deep Learning?", "texts": texts, "raw_scores": False, "truncation_direction": "Right"}
    for more in ({"return_text": False, "truncate": False}, {"return_text": True, "truncate": True}):
        ranks = post("/v2/models/st-6/rerank", body | more).json()
        assert [it["score"] for it in ranks] == sorted((it["score"] for it in ranks), reverse=True), ranks
        assert sorted(it["index"] for it in ranks) == [0, 1], ranks
        for it in ranks:
            assert it.get("text") == (texts[it["index"]] if more["return_text"] else None), it

    # /tokenize and /decode
    [tokens] = post("/v2/models/st-6/tokenize", {"inputs": "deep learning", "add_special_tokens": True}).json()
    assert all(set(it) == {"id", "text", "special", "start", "stop"} for it in tokens), tokens
    assert tokens[0]["special"] and tokens[0]["start"] is None
    ids = [it["id"] for it in tokens]
    for ids in (ids, [ids]):
        [text] = post("/v2/models/st-6/decode", {"ids": ids, "skip_special_tokens": True}).json()
        assert isinstance(text, str) and "[CLS]" not in text, text

    # /v1/embeddings
    body = {"input": "What is Deep Learning?", "model": "text-embeddings-inference", "encoding_format": "float"}
    reply = post("/v2/models/st-6/v1/embeddings", body).json()
    assert reply["object"] == "list" and reply["data"][0]["object"] == "embedding", reply
    vector(reply["data"][0]["embedding"])
    assert set(reply["usage"]) == {"prompt_tokens", "total_tokens"}, reply["usage"]

    # /vertex: bodies of the model's task
    reply = post("/v2/models/st-6/vertex", {"instances": [{"inputs": "a"}, {"inputs": ["b", "c"]}]}).json()
    assert [len(it) for it in reply["predictions"]] == [1, 2], reply

    # /info, /health
    info = session.get(url + "/v2/models/sst2/info", timeout=10).json()
    for name in ("model_id", "model_sha", "model_dtype", "served_model_name", "model_type", "max_concurrent_requests",
                 "max_input_length", "max_batch_tokens", "max_batch_requests", "max_client_batch_size",
                 "auto_truncate", "tokenization_workers", "version", "sha", "docker_label"):
        assert name in info, (name, info)
    assert info["model_type"]["classifier"]["id2label"] == {"0": "NEGATIVE", "1": "POSITIVE"}, info
    assert session.get(url + "/health", timeout=10).status_code == 200

    # Errors: a sentence and a type
    def fails(path, body, status, kind):
        error = post(path, body, status).json()
        assert set(error) == {"error", "error_type"} and error["error_type"] == kind, error

    fails("/embed", {}, 422, "Validation")
    fails("/embed", {"inputs": []}, 400, "Empty")
    fails("/embed", {"inputs": ["a"] * 20}, 422, "Validation")
    fails("/embed", {"inputs": PARAGRAPH, "truncate": False}, 422, "Validation")
    fails("/embed", {"inputs": "a", "prompt_name": "none"}, 422, "Validation")
    fails("/embed", {"inputs": "a", "dimensions": 0}, 422, "Validation")
    fails("/v2/models/sst2/embed", {"inputs": "a"}, 424, "Backend")
    print("every route has its shape, and every error its type")


main()
