"""Embeddings with the `openai` client: numbers, base64, dimensions, token ids, and errors as its exceptions.

Usage: pipelines_openai.py URL       of a server with the embedders `st-6` and `pool-cls`, and the classifier `sst2`.
"""

import base64
import struct
import sys

import openai

TEXTS = ["I am super happy right now.", "How many rows does a batch hold?"]


def close(one, other):
    assert len(one) == len(other), (len(one), len(other))
    assert all(abs(a - b) < 1e-6 for a, b in zip(one, other)), (one[:4], other[:4])


def main():
    url = sys.argv[1]
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)

    listed = {it.id: it for it in client.models.list()}
    assert set(listed) == {"st-6", "pool-cls", "sst2"}, listed
    assert listed["st-6"].owned_by == "muster" and "sentence-embedding" in listed["st-6"].tasks
    assert listed["sst2"].tasks == ["text-classification"], listed["sst2"]

    # What the client asks for by itself is base64, which it reads.
    plain = client.embeddings.create(model="st-6", input=TEXTS)
    assert plain.object == "list" and plain.model == "st-6"
    assert [it.index for it in plain.data] == [0, 1]
    assert plain.usage.prompt_tokens == plain.usage.total_tokens > 8, plain.usage
    numbers = client.embeddings.create(model="st-6", input=TEXTS, encoding_format="float")
    packed = client.embeddings.create(model="st-6", input=TEXTS, encoding_format="base64")
    for one, two, three in zip(plain.data, numbers.data, packed.data):
        close(one.embedding, two.embedding)
        raw = base64.b64decode(three.embedding)
        close(one.embedding, struct.unpack(f"<{len(raw) // 4}f", raw))
    assert abs(sum(it * it for it in plain.data[0].embedding) - 1) < 1e-5

    one = client.embeddings.create(model="st-6", input=TEXTS[0], user="someone")
    close(one.data[0].embedding, plain.data[0].embedding)
    short = client.embeddings.create(model="st-6", input=TEXTS[0], dimensions=8)
    assert len(short.data[0].embedding) == 8
    assert abs(sum(it * it for it in short.data[0].embedding) - 1) < 1e-5
    other = client.embeddings.create(model="pool-cls", input=TEXTS[0])
    assert other.data[0].embedding != plain.data[0].embedding

    # Below the address of a model, whatever the body calls it.
    below = openai.OpenAI(base_url=url + "/v2/models/st-6/v1", api_key="none", max_retries=0)
    named = below.embeddings.create(model="text-embedding-3-small", input=TEXTS[0])
    close(named.data[0].embedding, plain.data[0].embedding)

    # Ids are those of the model's own tokenizer; special ones are added where none is there.
    ids = client.embeddings.create(model="st-6", input=[[37, 94], [45]])
    assert len(ids.data) == 2 and ids.usage.prompt_tokens == 7, ids.usage
    single = client.embeddings.create(model="st-6", input=[37, 94])
    close(single.data[0].embedding, ids.data[0].embedding)

    def fails(kind, code, parameter=None, **request):
        try:
            client.embeddings.create(**request)
        except kind as error:
            assert type(error) is kind and error.code == code, (error, error.code)
            assert parameter is None or error.param == parameter, (error, error.param)
            assert error.request_id, error
            return str(error)
        raise AssertionError(f"{request} was answered")

    bad = openai.BadRequestError
    assert "check_embedding_ctx_length=False" in fails(bad, None, "input", model="st-6", input=[9999999])
    fails(bad, None, model="st-6", input="")
    fails(bad, None, model="st-6", input=[])
    fails(bad, None, "encoding_format", model="st-6", input="a", encoding_format="int8")
    fails(bad, None, "dimensions", model="st-6", input="a", dimensions=100000)
    fails(bad, None, "input", model="st-6", input="a " * 9000, extra_body={"truncate": False})
    fails(bad, None, model="st-6", input=["a"] * 20)
    fails(openai.NotFoundError, "model_not_found", model="sst2", input="a")
    missing = fails(openai.NotFoundError, "model_not_found", model="text-embedding-3-small", input="a")
    assert "pool-cls, st-6" in missing, missing
    print("embeddings: numbers, base64, dimensions, ids and errors")


main()
