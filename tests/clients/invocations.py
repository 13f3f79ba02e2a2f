"""Sends /invocations what users of SageMaker send: CSV, NumPy arrays and JSON, with `requests`.

Usage: invocations.py URL       of a server whose default model is `fraud`.
"""

import io
import sys

import numpy as np
import requests

# The example rows of model_repository/fraud/README.md.
FRAUD = """3459,-3.56776,3.4845,-0.488183,-3.94953,-2.58541,2.66459,-2.02788,-0.642994,-1.84692,2.2315,\
-2.0684,2.90866,2.46665,-1.37282,-1.03672,0.054394,-1.73791,1.6325,1.62341,2.30861,-1.50191,0.030167,\
1.39899,-0.16141,-1.00294,0.903519,0.676794,0.623659,515.72"""
ORDINARY = """78999,-1.68013,-0.933083,-1.18116,-0.126371,2.85293,-1.63381,0.299349,-1.15884,-1.5202,\
-1.24633,-2.80396,0.120442,-1.20692,1.09287,-0.334176,-0.189894,-0.914811,-0.860364,1.7099,0.121484,\
1.09822,0.074744,0.030066,0.34697,-0.339635,-0.388218,0.833292,0.277447,7.81"""
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
