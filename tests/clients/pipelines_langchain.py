"""Embeddings with `langchain-openai` and with the endpoint embeddings of `langchain-huggingface`.

Usage: pipelines_langchain.py URL       of a server with the embedders `st-6` and `pool-cls`.
"""

import asyncio
import sys

from langchain_huggingface import HuggingFaceEndpointEmbeddings
from langchain_openai import OpenAIEmbeddings

TEXTS = ["I am super happy right now.", "How many rows does a batch hold?"]


def close(one, other):
    assert len(one) == len(other) == 32, (len(one), len(other))
    assert all(abs(a - b) < 1e-6 for a, b in zip(one, other)), (one[:4], other[:4])


def main():
    url = sys.argv[1]
    # Without the flag LangChain sends ids of OpenAI's tokenizer, which are none of the model's.
    openai = OpenAIEmbeddings(
        model="st-6", base_url=url + "/v1", api_key="none", check_embedding_ctx_length=False
    )
    vectors = openai.embed_documents(TEXTS)
    close(openai.embed_query(TEXTS[0]), vectors[0])
    close(asyncio.run(openai.aembed_documents(TEXTS))[1], vectors[1])

    address = url + "/v2/models/st-6/embed"
    endpoint = HuggingFaceEndpointEmbeddings(model=address, huggingfacehub_api_token="none")
    for one, other in zip(endpoint.embed_documents(TEXTS), vectors, strict=True):
        close(one, other)
    close(endpoint.embed_query(TEXTS[1]), vectors[1])
    plain = HuggingFaceEndpointEmbeddings(
        model=address,
        huggingfacehub_api_token="none",
        model_kwargs={"normalize": False, "truncate": True},
    )
    assert plain.embed_query(TEXTS[0]) != vectors[0]
    print("the same vectors by both")


main()
