"""Embedders and the ranker of Haystack's integration with Hugging Face, against a server in the place of theirs.

Usage: pipelines_haystack.py URL       of a server with the models `st-6` and `rerank`.
"""

import sys

from haystack import Document
from haystack_integrations.components.embedders.huggingface_api import (
    HuggingFaceAPIDocumentEmbedder,
    HuggingFaceAPITextEmbedder,
)
from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker

TEXTS = ["A batch holds as many rows as the model takes.", "Ada Lovelace lives in London."]


def main():
    url = sys.argv[1]
    where = {"api_type": "text_embeddings_inference", "api_params": {"url": f"{url}/v2/models/st-6"}}
    one = HuggingFaceAPITextEmbedder(**where, normalize=True, token=None).run(text=TEXTS[0])["embedding"]
    assert len(one) == 32 and abs(sum(it * it for it in one) - 1) < 1e-5, one
    embedder = HuggingFaceAPIDocumentEmbedder(**where, normalize=True, token=None, progress_bar=False)
    documents = embedder.run(documents=[Document(content=it) for it in TEXTS])["documents"]
    assert all(len(it.embedding) == 32 for it in documents)
    assert all(abs(a - b) < 1e-6 for a, b in zip(documents[0].embedding, one))

    ranker = HuggingFaceTEIRanker(url=url, top_k=1, token=None)
    best = ranker.run(query="Where does Ada live?", documents=[Document(content=it) for it in TEXTS])["documents"]
    assert len(best) == 1 and 0 < best[0].score < 1, best
    raw = HuggingFaceTEIRanker(url=url, top_k=2, raw_scores=True, token=None)
    both = raw.run(query="Where does Ada live?", documents=[Document(content=it) for it in TEXTS])["documents"]
    assert both[0].content == best[0].content and both[0].score >= both[1].score, both
    print("Haystack finds what it expects")


if __name__ == "__main__":
    main()
