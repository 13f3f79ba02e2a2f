"""Sends /invocations what users of SageMaker send: CSV, NumPy arrays and JSON, with `requests`.

Usage: invocations.py URL       of a server whose default model is `fraud`.
"""

import io
import sys

import numpy as np
import requests
from rows import FRAUD, ORDINARY

PROBABILITIES = [0.971, 2.29e-05]


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def main():
    url, session = sys.argv[1] + "/invocations", requests.Session()

    def invoke(body, content_type, accept=None):
        headers = {"Content-Type": content_type} | ({"Accept": accept} if accept else {})
        response = session.post(url, data=body, headers=headers, timeout=10)
        assert response.status_code == 200, (response.status_code, response.text)
        return response

    def close(values):
        np.testing.assert_allclose(np.asarray(values, float).ravel(), PROBABILITIES, rtol=5e-3)

    assert session.get(sys.argv[1] + "/ping", timeout=10).status_code == 200
    csv = f"{FRAUD}\n{ORDINARY}\n"
    rows = np.loadtxt(io.StringIO(csv), delimiter=",")

    response = invoke(csv, "text/csv")
    assert response.headers["Content-Type"].startswith("text/csv"), response.headers
    close(np.loadtxt(io.StringIO(response.text), delimiter=","))
    close(invoke(csv, "text/csv", "application/json").json()["predictions"])

    # Both widths of floats: the model's own, and what NumPy makes unless told otherwise.
    for array in (rows.astype(np.float32), rows):
        response = invoke(npy(array), "application/x-npy")
        probabilities = np.load(io.BytesIO(response.content))
        assert probabilities.dtype == np.float32 and probabilities.shape == (2, 1)
        close(probabilities)

    close(session.post(url, json={"instances": rows.tolist()}, timeout=10).json()["predictions"])
    close(session.post(url, json=rows.tolist(), timeout=10).json())

    response = session.post(url, data="1,2,x\n", headers={"Content-Type": "text/csv"}, timeout=10)
    assert response.status_code == 400 and response.json()["request_id"], response.text
    print("CSV, npy and JSON agree with the example of the model")


if __name__ == "__main__":
    main()
