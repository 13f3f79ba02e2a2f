"""The other side of `speed.rs`: makes the models of the bench, and times the libraries that wrote them.

    peer.py FOLDER

Writes `small.ubj`, `large.ubj` (XGBoost), `small.txt`, `large.txt` (LightGBM) and `rows.bin` (float32) into the folder,
prints a line, and then answers each line `<library> <model> <rows>` with microseconds of processor time for a call.
Calls go by ctypes straight to the libraries, on one thread, a different block of rows each. ONNX Runtime (`onnx`, the
same XGBoost models by onnxmltools) and treelite's GTIL (`gtil`) are called from Python; a library that is not installed
answers `none`. `load` in the place of a library is XGBoost reading `<model>.ubj`; its rows are not looked at.
"""

import ctypes
import json
import sys
import time
from pathlib import Path

import lightgbm
import numpy as np
import xgboost

FEATURES, ROWS = 30, 4096
SIZES = {"small": (100, 6), "large": (1000, 8)}
FOLDER = Path(sys.argv[1])


def make():
    random = np.random.default_rng(7)
    rows = random.standard_normal((ROWS, FEATURES)).astype(np.float32)
    trained = random.standard_normal((20_000, FEATURES)).astype(np.float32)
    labels = (trained[:, 0] * trained[:, 1] + np.sin(3 * trained[:, 2]) + trained[:, 3:9].sum(axis=1) * 0.3 > 0).astype(int)
    boosters = {}
    for name, (trees, depth) in SIZES.items():
        settings = {"objective": "binary:logistic", "max_depth": depth, "eta": 0.1, "nthread": 1}
        booster = xgboost.train(settings, xgboost.DMatrix(trained, labels), trees)
        booster.save_model(FOLDER / f"{name}.ubj")
        boosters["xgboost", name] = booster
        settings = {"objective": "binary", "max_depth": depth, "num_leaves": 2**depth, "num_threads": 1, "verbose": -1}
        booster = lightgbm.train(settings, lightgbm.Dataset(trained, labels), trees)
        booster.save_model(FOLDER / f"{name}.txt")
        boosters["lightgbm", name] = booster
    rows.tofile(FOLDER / "rows.bin")
    return rows, boosters


def of_xgboost(booster, rows):
    library, handle = xgboost.core._LIB, booster.handle
    booster.set_param({"nthread": 1})
    config = json.dumps({
        "training": False, "type": 0, "iteration_begin": 0, "iteration_end": 0, "strict_shape": False,
        "cache_id": 0, "missing": float("nan")}).encode()
    shape, dims, out = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64(), ctypes.POINTER(ctypes.c_float)()

    def call(at, count):
        part = rows[at:at + count]
        text = json.dumps({"data": [part.ctypes.data, True], "shape": list(part.shape), "typestr": "<f4", "version": 3})
        begin = time.thread_time_ns()
        failed = library.XGBoosterPredictFromDense(
            handle, text.encode(), config, None, ctypes.byref(shape), ctypes.byref(dims), ctypes.byref(out))
        took = time.thread_time_ns() - begin
        assert not failed
        return took

    return call


def of_lightgbm(booster, rows):
    library, handle = lightgbm.basic._LIB, booster._handle
    wide = rows.astype(np.float64)
    out, length = (ctypes.c_double * 4096)(), ctypes.c_int64()
    fast = ctypes.c_void_p()
    one = ctypes.c_int(1)
    library.LGBM_BoosterPredictForMatSingleRowFastInit(
        handle, 0, 0, -1, one, ctypes.c_int32(FEATURES), b"num_threads=1", ctypes.byref(fast))

    def call(at, count):
        data = wide[at:at + count].ctypes.data_as(ctypes.c_void_p)
        begin = time.thread_time_ns()
        if count == 1:
            failed = library.LGBM_BoosterPredictForMatSingleRowFast(fast, data, ctypes.byref(length), out)
        else:
            failed = library.LGBM_BoosterPredictForMat(
                handle, data, 1, ctypes.c_int32(count), ctypes.c_int32(FEATURES), 1, 0, 0, -1, b"num_threads=1",
                ctypes.byref(length), out)
        took = time.thread_time_ns() - begin
        assert not failed
        return took

    return call


def of_onnx(booster, rows):
    import onnxmltools
    import onnxruntime
    from onnxmltools.convert.common.data_types import FloatTensorType

    graph = onnxmltools.convert_xgboost(booster, initial_types=[("x", FloatTensorType([None, FEATURES]))])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options)
    probabilities = [session.get_outputs()[-1].name]

    def call(at, count):
        part = {"x": rows[at:at + count]}
        begin = time.thread_time_ns()
        session.run(probabilities, part)
        return time.thread_time_ns() - begin

    return call


def of_gtil(booster, rows):
    import treelite

    model = treelite.frontend.from_xgboost(booster)

    def call(at, count):
        part = rows[at:at + count]
        begin = time.thread_time_ns()
        treelite.gtil.predict(model, part, nthread=1)
        return time.thread_time_ns() - begin

    return call


def of_loading(model):
    def call(_at, _count):
        begin = time.thread_time_ns()
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(FOLDER / f"{model}.ubj")
        return time.thread_time_ns() - begin

    return call


def others(boosters, rows):
    """Calls of the libraries that convert models of XGBoost, as far as they are installed."""
    for name, make in (("onnx", of_onnx), ("gtil", of_gtil)):
        for model in SIZES:
            try:
                yield (name, model), make(boosters["xgboost", model], rows)
            except ImportError:
                pass


def main():
    rows, boosters = make()
    calls = {key: (of_xgboost if key[0] == "xgboost" else of_lightgbm)(it, rows) for key, it in boosters.items()}
    calls.update(others(boosters, rows))
    calls.update({("load", model): of_loading(model) for model in SIZES})
    print(f"XGBoost {xgboost.__version__}, LightGBM {lightgbm.__version__}", flush=True)
    for line in sys.stdin:
        library, model, count = line.split()
        if (library, model) not in calls:
            print("none", flush=True)
            continue
        call, count = calls[library, model], int(count)
        turns = 5 if library == "load" else 200 if count == 1 else 20
        times = [call((at * count) % (ROWS - count), count) for at in range(turns)]
        # The tenth part of the fastest: what others do on the processor does not count.
        print(sorted(times)[len(times) // 10] / 1e3, flush=True)


if __name__ == "__main__":
    main()
