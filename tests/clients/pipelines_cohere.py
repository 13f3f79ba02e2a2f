"""Rankings with the `cohere` client in both of its versions, and embeddings and rankings with `litellm`.

Usage: pipelines_cohere.py URL       of a server with the models `rerank`, `st-6` and `sst2`.
"""

import os
import sys

import cohere

# It would ask another server for prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm  # noqa: E402

QUERY = "Where does Ada live?"
DOCUMENTS = ["A batch holds as many rows as the model takes.", "Ada Lovelace lives in London.", "The film was good."]


def pairs(results):
    def of(it, name):
        return it[name] if isinstance(it, dict) else getattr(it, name)

    return [(of(it, "index"), round(of(it, "relevance_score"), 6)) for it in results]


def main():
    url = sys.argv[1]
    second = cohere.ClientV2(api_key="none", base_url=url)
    ranked = second.rerank(model="rerank", query=QUERY, documents=DOCUMENTS)
    assert sorted(it.index for it in ranked.results) == [0, 1, 2], ranked
    scores = [it.relevance_score for it in ranked.results]
    assert scores == sorted(scores, reverse=True) and all(0 < it < 1 for it in scores), scores
    assert ranked.id and ranked.meta.api_version.version == "2", ranked
    assert ranked.meta.billed_units.search_units == 1
    best = second.rerank(model="rerank", query=QUERY, documents=DOCUMENTS, top_n=1, max_tokens_per_doc=64)
    assert pairs(best.results) == pairs(ranked.results)[:1], best

    first = cohere.Client(api_key="none", base_url=url)
    older = first.rerank(
        model="rerank",
        query=QUERY,
        documents=[{"text": it} for it in DOCUMENTS],
        top_n=2,
        return_documents=True,
    )
    assert pairs(older.results) == pairs(ranked.results)[:2], older
    assert all(it.document.text == DOCUMENTS[it.index] for it in older.results), older

    # An embedder ranks by cosine, and says so.
    vectors = second.rerank(model="st-6", query=QUERY, documents=[DOCUMENTS[0], QUERY])
    assert vectors.results[0].index == 1 and "cosine" in vectors.meta.warnings[0], vectors

    for documents, model, status in [([], "rerank", 400), (DOCUMENTS, "sst2", 404)]:
        try:
            second.rerank(model=model, query=QUERY, documents=documents)
            raise AssertionError("it was taken")
        except cohere.core.ApiError as error:
            assert error.status_code == status and error.body["message"], error

    embedded = litellm.embedding(
        model="openai/st-6", api_base=url + "/v1", api_key="none", input=DOCUMENTS, encoding_format="float"
    )
    assert len(embedded.data) == 3 and len(embedded.data[0]["embedding"]) == 32, embedded
    assert embedded.usage.prompt_tokens > 10, embedded.usage
    for provider, base in [("cohere", url), ("jina_ai", url), ("infinity", url)]:
        given = litellm.rerank(
            model=f"{provider}/rerank",
            api_base=base,
            api_key="none",
            query=QUERY,
            documents=DOCUMENTS,
            top_n=3,
            return_documents=False,
        )
        assert pairs(given.results) == pairs(ranked.results), (provider, given)
    print("cohere and litellm find what they expect")


if __name__ == "__main__":
    main()
