"""What the `openai` client raises where a server refuses it for who it is, or for how many others wait.

Usage: pipelines_openai_refusals.py URL_WITH_TOKENS TOKEN URL_THAT_IS_FULL       of servers with the embedder `st-6`.
"""

import sys

import openai


def refused(kind, url, token):
    client = openai.OpenAI(base_url=url + "/v1", api_key=token, max_retries=0)
    try:
        client.embeddings.create(model="st-6", input="a text")
    except kind as error:
        assert type(error) is kind, error
        return error
    raise AssertionError(f"{url} has answered")


def main():
    guarded, token, full = sys.argv[1:]
    error = refused(openai.AuthenticationError, guarded, "another")
    assert (error.status_code, error.code) == (401, "invalid_api_key"), error
    client = openai.OpenAI(base_url=guarded + "/v1", api_key=token, max_retries=0)
    assert len(client.embeddings.create(model="st-6", input="a text").data) == 1

    error = refused(openai.RateLimitError, full, "none")
    assert (error.status_code, error.code) == (429, "rate_limit_exceeded"), error
    # What the client waits for before it tries again.
    assert 1 <= int(error.response.headers["retry-after"]) <= 3, error.response.headers
    print("refusals: a wrong token, and a full queue")


main()
