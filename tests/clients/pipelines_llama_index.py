"""Embeddings and rankings with LlamaIndex: text-embeddings-inference, openai-like; tei, cohere and jina rerankers.

Usage: pipelines_llama_index.py URL       of a server with the models `st-6` and `rerank`.
"""

import sys

from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.cohere_rerank import CohereRerank
from llama_index.postprocessor.jinaai_rerank import JinaRerank
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference as TeiRerank

QUERY = "Where does Ada live?"
DOCUMENTS = ["A batch holds as many rows as the model takes.", "Ada Lovelace lives in London.", "The film was good."]


def close(one, other):
    assert len(one) == len(other), (len(one), len(other))
    assert all(abs(a - b) < 1e-6 for a, b in zip(one, other)), (one[:4], other[:4])


def ranked(reranker):
    nodes = [NodeWithScore(node=TextNode(text=it, id_=str(at)), score=0.0) for at, it in enumerate(DOCUMENTS)]
    found = reranker.postprocess_nodes(nodes, query_bundle=QueryBundle(QUERY))
    return [(it.node.node_id, round(it.score, 5)) for it in found]


def main():
    url = sys.argv[1]
    tei = TextEmbeddingsInference(model_name="st-6", base_url=url, text_instruction=" ", query_instruction=" ")
    texts = tei.get_text_embedding_batch(DOCUMENTS)
    assert len(texts) == 3 and len(texts[0]) == 32
    openai = OpenAILikeEmbedding(model_name="st-6", api_base=url + "/v1", api_key="none", embed_batch_size=2)
    for text, vector in zip(DOCUMENTS, openai.get_text_embedding_batch(DOCUMENTS)):
        close(vector, openai.get_query_embedding(text))
    close(tei.get_query_embedding(QUERY), tei.get_text_embedding(QUERY))

    cohere = ranked(CohereRerank(api_key="none", model="rerank", base_url=url, top_n=2))
    assert len(cohere) == 2 and cohere[0][1] >= cohere[1][1], cohere
    jina = ranked(JinaRerank(api_key="none", model="rerank", base_url=url + "/v1", top_n=2))
    assert jina == cohere, (jina, cohere)
    tei = ranked(TeiRerank(model_name="rerank", base_url=url, top_n=2))
    assert tei == cohere, (tei, cohere)
    print("LlamaIndex finds what it expects")


if __name__ == "__main__":
    main()
