"""The platform's side of a multi-model endpoint, with `requests`: loads, lists, asks and unloads models under traffic.

Usage: multi_model.py URL MODELS       of an endpoint whose models' root is MODELS. Below it lie <key>/model for the
keys a, b and c, each model_repository/fraud in another layout, and broken/model, which does not load.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import requests

from invocations import FRAUD, PROBABILITIES, npy

URL, MODELS = sys.argv[1], sys.argv[2].rstrip("/")
CSV = {"Content-Type": "text/csv"}
# What AWS's containers have in errors below /models, besides ours.
OF_CONTAINERS = {"code", "type", "message"}
LOCAL = threading.local()


def call(method, path, status, **arguments):
    """A request on the connection of this thread, whose reply must have that status, or one of those."""
    if not hasattr(LOCAL, "session"):
        LOCAL.session = requests.Session()
    response = LOCAL.session.request(method, URL + path, timeout=30, **arguments)
    allowed = status if isinstance(status, tuple) else (status,)
    assert response.status_code in allowed, (method, path, response.status_code, response.text)
    if 400 <= response.status_code:
        keys = set(response.json())
        assert {"error", "request_id"} <= keys <= {"error", "request_id"} | OF_CONTAINERS, response.text
    return response


def load(key, status=200, human=None):
    headers = {"X-Amzn-SageMaker-Target-Model": human} if human else {}
    body = {"model_name": key, "url": f"{MODELS}/{key}/model"}
    return call("POST", "/models", status, json=body, headers=headers)


def invoke(key, status=200):
    return call("POST", f"/models/{key}/invoke", status, data=FRAUD, headers=CSV)


def right(response):
    return np.allclose(float(response.text), PROBABILITIES[0], rtol=5e-3)


def check_life_of_a_model():
    assert call("GET", "/ping", 200).content == b""
    assert call("GET", "/models", 200).json() == {"models": []}
    call("POST", "/invocations", 400, data=FRAUD, headers=CSV)
    invoke("a", 404)
    load("a", human="team/fraud.tar.gz")
    load("a", 409)
    shown = {"modelName": "a", "modelUrl": f"{MODELS}/a/model"}
    assert call("GET", "/models/a", 200).json() == shown
    assert call("GET", "/models", 200).json() == {"models": [shown]}
    assert right(invoke("a"))
    # The same bodies as /invocations takes.
    row = np.array([FRAUD.split(",")], dtype=np.float32)
    response = call("POST", "/models/a/invoke", 200, data=npy(row), headers={"Content-Type": "application/x-npy"})
    assert response.headers["Content-Type"] == "application/x-npy", response.headers
    call("POST", "/models/a/invoke", 400, data="x,y\n", headers=CSV)
    call("POST", "/models/a/invoke", 415, data="x", headers={"Content-Type": "text/html"})
    # By the name that people use, as local runs ask, and as the only one.
    named = CSV | {"X-Amzn-SageMaker-Target-Model": "team/fraud.tar.gz"}
    assert right(call("POST", "/invocations", 200, data=FRAUD, headers=named))
    assert right(call("POST", "/invocations", 200, data=FRAUD, headers=CSV))
    call("DELETE", "/models/a", 200)
    call("DELETE", "/models/a", 404)
    call("GET", "/models/a", 404)
    invoke("a", 404)


def check_refusals():
    load("broken", 400)
    invoke("broken", 404)
    call("POST", "/models", 400, data="{")
    call("POST", "/models", 400, json={"model_name": "a"})
    call("POST", "/models", 400, json={"model_name": "a", "url": "/etc"})
    call("POST", "/models", 400, json={"model_name": "a", "url": f"{MODELS}/../x"})
    call("GET", "/models?limit=none", 400)
    call("GET", "/models?next_page_token=none", 400)
    assert call("PUT", "/models", 405).headers["Allow"] == "GET, POST"
    assert call("POST", "/models/a", 405).headers["Allow"] == "GET, DELETE"
    assert call("GET", "/ping", 200).content == b""


def check_pages():
    for key in "abc":
        load(key)
    keys, query = [], {"limit": 2}
    while True:
        page = call("GET", "/models", 200, params=query).json()
        keys += [it["modelName"] for it in page["models"]]
        if "nextPageToken" not in page:
            break
        query = {"limit": 2, "next_page_token": page["nextPageToken"]}
    assert keys == ["a", "b", "c"], keys
    for key in "abc":
        call("DELETE", f"/models/{key}", 200)


def check_churn_under_traffic():
    """Models come and go while others are asked. Who stays never fails, who goes answers or is not loaded."""
    load("a")
    stop, answers = threading.Event(), []

    def traffic(key, allowed):
        while not stop.is_set():
            response = invoke(key, allowed)
            assert response.status_code == 404 or right(response), response.text
            answers.append((key, response.status_code))

    with ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(traffic, "a", 200), clients.submit(traffic, "b", (200, 404))]
        asked.append(clients.submit(traffic, "c", (200, 404)))
        try:
            for _ in range(20):
                for key in "bc":
                    load(key)
                    assert right(invoke(key))
                for key in "bc":
                    call("DELETE", f"/models/{key}", 200)
                assert [it["modelName"] for it in call("GET", "/models", 200).json()["models"]] == ["a"]
        finally:
            stop.set()
        for it in asked:
            it.result()
    assert ("a", 200) in answers and ("b", 200) in answers and ("b", 404) in answers, len(answers)
    call("DELETE", "/models/a", 200)
    return len(answers)


def main():
    check_life_of_a_model()
    check_refusals()
    check_pages()
    answers = check_churn_under_traffic()
    print(f"a multi-model endpoint is as the platform wants it; {answers} answers while models came and went")


main()
