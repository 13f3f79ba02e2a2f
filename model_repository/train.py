"""Makes the sample models: data, training, ONNX graph, and the figures in each model's README.

    pip install -r requirements.txt
    python train.py [fraud] [digits] [listing_price]

Seeds are fixed and sums run on one thread: a second run on the same machine writes the same bytes.
Each graph is run in ONNX Runtime on the held-out part; the figures are those of the graph, not of
the Python object that it came from.
"""

import os

# One thread, so that sums are made in one order; set before numpy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import hashlib
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn import datasets, metrics
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor

HERE = Path(__file__).parent
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


# ---- Graphs -------------------------------------------------------------------------------------


def port(name, dtype, *dims):
    """An input or output; the batch dimension comes first and has a name instead of a size."""
    return helper.make_tensor_value_info(name, dtype, ["batch", *dims])


def constants(**arrays):
    """Initializers: weights in float32, everything else as it is."""
    narrowed = {
        name: array.astype(np.float32) if array.dtype == np.float64 else array
        for name, array in ((name, np.asarray(array)) for name, array in arrays.items())
    }
    return [numpy_helper.from_array(array, name) for name, array in narrowed.items()]


def save(name, nodes, inputs, outputs, initializers=()):
    """Checks the graph, writes it as version 1 and opens it."""
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="train.py")
    model.ir_version = 8  # the one that came with opset 17
    onnx.checker.check_model(model, full_check=True)
    path = HERE / name / "1" / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    print(f"{path.relative_to(HERE)}: {path.stat().st_size:,} bytes, sha256 {digest}…")
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def report(name, text):
    """Puts the measured figures between the two marks in the model's README."""
    path = HERE / name / "README.md"
    begin, end = "<!-- written by train.py -->\n", "<!-- end -->"
    head, rest = path.read_text().split(begin)
    tail = rest.split(end)[1]
    path.write_text(head + begin + text.strip() + "\n" + end + tail)
    print(f"{path.relative_to(HERE)}:\n{text.strip()}\n")


# ---- fraud --------------------------------------------------------------------------------------

TRANSACTIONS, FRAUDS = 284_807, 492


def transactions():
    """Card payments shaped like the public set: Time, V1..V28, Amount; 0.17 % fraud.

    Eight hidden factors decide the risk, through products and thresholds. Each of V1..V28 shows one
    or two of them through heavy-tailed noise, so that no column gives the answer away. One fraud in
    twenty could be anybody: no model finds those.
    """
    rng = np.random.default_rng(284_807)
    hour = np.concatenate([rng.normal(15, 4.5, TRANSACTIONS * 4 // 5),
                           rng.uniform(0, 24, TRANSACTIONS - TRANSACTIONS * 4 // 5)]) % 24
    time = np.sort(hour * 3600 + 86_400 * rng.integers(0, 2, TRANSACTIONS)).round()
    amount = np.exp(rng.normal(3.1, 1.6, TRANSACTIONS)).clip(0, 25_691.16).round(2)
    hidden = rng.normal(size=(TRANSACTIONS, 8))

    night = np.cos((time / 3600 - 3) * np.pi / 12).clip(0)
    size = (np.log1p(amount) - 3.2) / 1.5
    stolen_card = 2.4 * hidden[:, 0] * hidden[:, 1] + 1.6 * hidden[:, 2] * size
    takeover = 2.6 * np.maximum(hidden[:, 3] - 0.5, 0) * np.maximum(hidden[:, 4] + 0.5, 0)
    testing = 1.8 * np.abs(hidden[:, 5]) * (size < -0.5) + 1.5 * night * hidden[:, 6]
    log_odds = stolen_card + takeover + testing - 0.5 * hidden[:, 7] ** 2
    # Adding Gumbel noise and taking the largest is drawing without replacement by these odds.
    by_odds = np.argsort(8 * log_odds + rng.gumbel(size=TRANSACTIONS))
    anybody = rng.choice(by_odds[:-FRAUDS], FRAUDS // 20, replace=False)
    fraud = np.zeros(TRANSACTIONS, dtype=np.int64)
    fraud[by_odds[-(FRAUDS - len(anybody)):]] = 1
    fraud[anybody] = 1

    shown = np.zeros((8, 28))
    shown[np.arange(28) % 8, np.arange(28)] = rng.choice([-1.0, 1.0], 28)
    shown[rng.integers(0, 8, 28), np.arange(28)] += rng.normal(0, 0.35, 28)
    noise = rng.standard_t(5, size=(TRANSACTIONS, 28))
    scale = np.linspace(1.95, 0.33, 28)
    v = (hidden @ shown + 0.15 * noise) * scale
    rows = np.column_stack([time, v.round(6), amount]).astype(np.float32)
    return rows, fraud


def tree_ensemble(classifier):
    """The trees of a fitted classifier as one TreeEnsembleRegressor that adds up log-odds.

    Thresholds are rounded down to float32: for a float32 `x`, `x <= threshold` then has the same
    answer as with the float64 that it was fitted with. A NaN goes where the training sent it.
    """
    nodes, targets = [], []
    for tree, (predictor,) in enumerate(classifier._predictors):
        for index, node in enumerate(predictor.nodes):
            below = np.float32(node["num_threshold"])
            if below > node["num_threshold"]:
                below = np.nextafter(below, np.float32(-np.inf))
            leaf = bool(node["is_leaf"])
            nodes.append({
                "nodes_treeids": tree,
                "nodes_nodeids": index,
                "nodes_featureids": 0 if leaf else int(node["feature_idx"]),
                "nodes_modes": "LEAF" if leaf else "BRANCH_LEQ",
                "nodes_values": 0.0 if leaf else float(below),
                "nodes_truenodeids": 0 if leaf else int(node["left"]),
                "nodes_falsenodeids": 0 if leaf else int(node["right"]),
                "nodes_missing_value_tracks_true": 0 if leaf else int(node["missing_go_to_left"]),
            })
            if leaf:
                targets.append({"target_treeids": tree, "target_nodeids": index, "target_ids": 0,
                                "target_weights": float(node["value"])})
    columns = {key: [it[key] for it in table] for table in (nodes, targets) for key in table[0]}
    return helper.make_node(
        "TreeEnsembleRegressor", ["input"], ["log_odds"], domain="ai.onnx.ml", n_targets=1,
        base_values=[float(classifier._baseline_prediction.item())], **columns)


def fraud():
    rows, label = transactions()
    split = train_test_split(rows, label, test_size=0.25, stratify=label, random_state=0)
    train_rows, test_rows, train_label, test_label = split
    classifier = HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=200, max_leaf_nodes=24, min_samples_leaf=40,
        l2_regularization=5.0, early_stopping=False, random_state=0)
    classifier.fit(train_rows, train_label)

    session = save(
        "fraud",
        [tree_ensemble(classifier), helper.make_node("Sigmoid", ["log_odds"], ["probability"])],
        [port("input", FLOAT, 30)], [port("probability", FLOAT, 1)])
    (probability,) = session.run(None, {"input": test_rows})
    probability = probability[:, 0]
    np.testing.assert_allclose(probability, classifier.predict_proba(test_rows)[:, 1], atol=1e-5)

    def at(threshold):
        flagged = probability >= threshold
        precision = metrics.precision_score(test_label, flagged)
        recall = metrics.recall_score(test_label, flagged)
        return f"| at {threshold}: flagged / precision / recall | " \
               f"{flagged.sum():,} / {precision:.3f} / {recall:.3f} |"

    def example(index):
        row = ",".join(f"{it:.6g}" for it in test_rows[index])
        (answer,) = session.run(None, {"input": np.array([row.split(",")], dtype=np.float32)})
        return f"{row}\n  → {answer[0, 0]:.3g}"

    caught = (probability * test_label).argmax()
    honest = np.flatnonzero(test_label == 0)[0]
    report("fraud", f"""
| held out | {len(test_label):,} rows, {test_label.sum()} of them fraud |
|---|---|
| ROC-AUC | {metrics.roc_auc_score(test_label, probability):.4f} |
| average precision | {metrics.average_precision_score(test_label, probability):.4f} |
{at(0.5)}
{at(0.1)}
| trees / leaves | {classifier.n_iter_} / {sum(it.get_n_leaf_nodes() for (it,) in classifier._predictors):,} |

A fraud that it catches and an ordinary payment, as CSV rows, and the probability of each:

```text
{example(caught)}
{example(honest)}
```
""")


# ---- digits -------------------------------------------------------------------------------------


def columns(image):
    """The 3×3 neighbourhood of each pixel: `[n, c, 8, 8]` → `[n, c * 9, 64]`, zeros outside."""
    n, c, height, width = image.shape
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * 9, height * width)


def scatter(gradient, c):
    """The reverse of `columns`: each pixel gets the sum of the gradients of its appearances."""
    n = len(gradient)
    windows = gradient.reshape(n, c, 3, 3, 8, 8)
    padded = np.zeros((n, c, 10, 10), dtype=np.float32)
    for y in range(3):
        for x in range(3):
            padded[:, :, y:y + 8, x:x + 8] += windows[:, :, y, x]
    return padded[:, :, 1:9, 1:9]


def step(w, image, label):
    """Loss gradients of one mini-batch for every weight in `w`: forward, then backward."""
    n = len(image)
    columns1 = columns(image)
    conv1 = np.maximum(w["conv1"].reshape(16, 9) @ columns1 + w["bias1"][:, None], 0)
    columns2 = columns(conv1.reshape(n, 16, 8, 8))
    conv2 = np.maximum(w["conv2"].reshape(32, 144) @ columns2 + w["bias2"][:, None], 0)
    blocks = conv2.reshape(n, 32, 4, 2, 4, 2)
    pooled = blocks.max(axis=(3, 5), keepdims=True)
    flat = pooled.reshape(n, 512)
    dense = np.maximum(flat @ w["dense3"] + w["bias3"], 0)
    logits = dense @ w["dense4"] + w["bias4"]

    exponent = np.exp(logits - logits.max(axis=1, keepdims=True))
    by_logits = exponent / exponent.sum(axis=1, keepdims=True)
    by_logits[np.arange(n), label] -= 1
    by_logits /= n
    by_dense = by_logits @ w["dense4"].T * (dense > 0)
    by_pooled = (by_dense @ w["dense3"].T).reshape(pooled.shape)
    by_conv2 = (by_pooled * (blocks == pooled)).reshape(conv2.shape) * (conv2 > 0)
    by_columns2 = w["conv2"].reshape(32, 144).T @ by_conv2
    by_conv1 = scatter(by_columns2, 16).reshape(conv1.shape) * (conv1 > 0)
    return {
        "conv1": np.einsum("nop,nip->oi", by_conv1, columns1, optimize=True).reshape(16, 1, 3, 3),
        "bias1": by_conv1.sum(axis=(0, 2)),
        "conv2": np.einsum("nop,nip->oi", by_conv2, columns2, optimize=True).reshape(32, 16, 3, 3),
        "bias2": by_conv2.sum(axis=(0, 2)),
        "dense3": flat.T @ by_dense, "bias3": by_dense.sum(axis=0),
        "dense4": dense.T @ by_logits, "bias4": by_logits.sum(axis=0),
    }


def train_network(image, label, epochs=30, batch=64):
    """Adam with a falling rate; every image is moved by up to one pixel each time it is shown."""
    rng = np.random.default_rng(8)
    shapes = {"conv1": (16, 1, 3, 3), "bias1": (16,), "conv2": (32, 16, 3, 3), "bias2": (32,),
              "dense3": (512, 64), "bias3": (64,), "dense4": (64, 10), "bias4": (10,)}
    fan_in = {"conv1": 9, "conv2": 144, "dense3": 512, "dense4": 64}
    w = {name: (rng.normal(size=shape) * np.sqrt(2 / fan_in[name]) if name in fan_in
                else np.zeros(shape)).astype(np.float32) for name, shape in shapes.items()}
    mean = {name: np.zeros_like(it) for name, it in w.items()}
    square = {name: np.zeros_like(it) for name, it in w.items()}
    steps, total = 0, epochs * -(-len(image) // batch)
    for _ in range(epochs):
        order = rng.permutation(len(image))
        for begin in range(0, len(order), batch):
            chosen = order[begin:begin + batch]
            y, x = rng.integers(-1, 2, 2)
            moved = np.pad(image[chosen], ((0, 0), (0, 0), (1, 1), (1, 1)))[
                :, :, 1 + y:9 + y, 1 + x:9 + x]
            gradients = step(w, moved, label[chosen])
            rate = 2e-3 * (1 - steps / total)
            steps += 1
            for name, gradient in gradients.items():
                mean[name] += 0.1 * (gradient - mean[name])
                square[name] += 0.001 * (gradient * gradient - square[name])
                unbiased = np.sqrt(square[name] / (1 - 0.999 ** steps)) + 1e-8
                w[name] -= (rate * mean[name] / (1 - 0.9 ** steps) / unbiased).astype(np.float32)
    return w


def digits():
    bunch = datasets.load_digits()
    image = bunch.images[:, None].astype(np.float32)
    split = train_test_split(image, bunch.target, test_size=0.25, stratify=bunch.target,
                             random_state=0)
    train_image, test_image, train_label, test_label = split
    w = train_network(train_image / 16, train_label)

    node = helper.make_node
    convolution = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    session = save(
        "digits",
        [
            node("Mul", ["image", "sixteenth"], ["scaled"]),
            node("Conv", ["scaled", "conv1", "bias1"], ["convolved1"], **convolution),
            node("Relu", ["convolved1"], ["relu1"]),
            node("Conv", ["relu1", "conv2", "bias2"], ["convolved2"], **convolution),
            node("Relu", ["convolved2"], ["relu2"]),
            node("MaxPool", ["relu2"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Flatten", ["pooled"], ["flat"]),
            node("Gemm", ["flat", "dense3", "bias3"], ["hidden"]),
            node("Relu", ["hidden"], ["relu3"]),
            node("Gemm", ["relu3", "dense4", "bias4"], ["logits"]),
            node("Softmax", ["logits"], ["probabilities"], axis=1),
        ],
        [port("image", FLOAT, 1, 8, 8)], [port("probabilities", FLOAT, 10)],
        constants(sixteenth=np.float32(1 / 16), **w))
    (probabilities,) = session.run(None, {"image": test_image})
    answer = probabilities.argmax(axis=1)
    worst = metrics.recall_score(test_label, answer, average=None)
    report("digits", f"""
| held out | {len(test_label)} of {len(image):,} images |
|---|---|
| accuracy | {metrics.accuracy_score(test_label, answer):.4f} ({(answer != test_label).sum()} wrong) |
| recall of the worst digit | {worst.min():.4f} (digit {worst.argmin()}) |
| log loss | {metrics.log_loss(test_label, probabilities):.4f} |
| weights | {sum(it.size for it in w.values()):,} |

A {test_label[0]}, which gets {probabilities[0, test_label[0]]:.4f}:

```json
{{"inputs": [{{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data":
{test_image[0].astype(int).ravel().tolist()}}}]}}
```
""")


# ---- listing_price ------------------------------------------------------------------------------

NEIGHBOURHOODS = ["Harbour", "Old Town", "Hillside", "Riverside", "University", "Station",
                  "Garden City", "Mill Quarter", "Lakeside", "Airport", "North End", "Weststadt"]
BANDS = ["budget", "standard", "premium", "luxury"]
MOST_ROOMS = 8


def listings(count=24_000):
    """Nightly prices of invented flats; what they depend on is not additive and 15 % is chance."""
    rng = np.random.default_rng(12)
    where = rng.choice(len(NEIGHBOURHOODS), count, p=rng.dirichlet(np.full(12, 5.0)))
    rooms = 1 + rng.binomial(MOST_ROOMS - 1, 0.22, count)
    area = 14 + rooms * rng.gamma(9, 2.2, count)
    bathrooms = 1 + rng.binomial(2, np.minimum(rooms / 16, 1))
    kilometres = rng.gamma(2.0, 1.0 + 0.5 * (where % 4)) + 0.2
    rating = 5 - rng.gamma(1.5, 0.25, count).clip(0, 4)
    demand = rng.normal(0, 0.3, 12)
    log_price = (
        2.9 + demand[where] + 0.62 * np.log(area / 20) + 0.12 * (bathrooms - 1)
        + 0.05 * rooms - 0.22 * np.log(kilometres) * (where % 3 != 2)
        + 0.35 * np.maximum(rating - 4.2, 0) - 0.4 * (rooms / area > 0.08)
        + rng.normal(0, 0.15, count))
    features = np.column_stack([area.round(1), bathrooms, kilometres.round(2), rating.round(2)])
    return where, rooms, features.astype(np.float32), np.exp(log_price).round(2)


def listing_price():
    where, rooms, features, price = listings()
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    one_hot = np.column_stack([np.eye(12)[where], np.eye(MOST_ROOMS)[rooms - 1],
                               (features - mean) / deviation])
    train, test = train_test_split(np.arange(len(price)), test_size=0.25, random_state=0)
    network = MLPRegressor(hidden_layer_sizes=(48,), alpha=1e-4, learning_rate_init=3e-3,
                           batch_size=128, max_iter=200, tol=1e-4, random_state=0)
    network.fit(one_hot[train], np.log(price[train]))
    (first, second), (bias1, bias2) = network.coefs_, network.intercepts_
    # A one-hot vector times a matrix is a row of it: the first layer becomes two look-ups and one
    # product. A neighbourhood never seen gets the mean of those that were.
    by_where = np.vstack([first[:12], first[:12].mean(axis=0)])
    by_rooms = first[12:12 + MOST_ROOMS]
    by_features = first[12 + MOST_ROOMS:] / deviation[:, None]
    edges = np.quantile(price[train], [0.25, 0.5, 0.75]).round().astype(np.float32)

    node, ml = helper.make_node, {"domain": "ai.onnx.ml"}
    session = save(
        "listing_price",
        [
            node("LabelEncoder", ["neighbourhood"], ["where"], keys_strings=NEIGHBOURHOODS,
                 values_int64s=list(range(12)), default_int64=12, **ml),
            node("Gather", ["by_where", "where"], ["where_part"], axis=0),
            node("Clip", ["rooms", "one", "most"], ["clipped"]),
            node("Sub", ["clipped", "one"], ["room_index"]),
            node("Gather", ["by_rooms", "room_index"], ["rooms_part"], axis=0),
            node("Add", ["where_part", "rooms_part"], ["looked_up"]),
            node("Squeeze", ["looked_up", "axis1"], ["row_part"]),
            node("Gemm", ["features", "by_features", "bias1"], ["features_part"]),
            node("Add", ["row_part", "features_part"], ["hidden"]),
            node("Relu", ["hidden"], ["relu"]),
            node("Gemm", ["relu", "second", "bias2"], ["log_price"]),
            node("Exp", ["log_price"], ["price"]),
            node("GreaterOrEqual", ["price", "edges"], ["above"]),
            node("Cast", ["above"], ["counted"], to=INT64),
            node("ReduceSum", ["counted", "axis1"], ["bucket"], keepdims=1),
            node("LabelEncoder", ["bucket"], ["band"], keys_int64s=list(range(4)),
                 values_strings=BANDS, default_string=BANDS[-1], **ml),
        ],
        [port("neighbourhood", STRING, 1), port("rooms", INT64, 1), port("features", FLOAT, 4)],
        [port("price", FLOAT, 1), port("band", STRING, 1), port("bucket", INT64, 1)],
        constants(by_where=by_where, by_rooms=by_rooms, by_features=by_features,
                  bias1=bias1 - mean @ by_features, second=second, bias2=bias2, edges=edges,
                  one=np.int64(1), most=np.int64(MOST_ROOMS), axis1=np.array([1])))
    names = np.array(NEIGHBOURHOODS, dtype=object)[where]
    answer, band, bucket = session.run(None, {
        "neighbourhood": names[test, None], "rooms": rooms[test, None].astype(np.int64),
        "features": features[test]})
    assert (band[:, 0] == np.array(BANDS, dtype=object)[bucket[:, 0]]).all()
    np.testing.assert_allclose(answer[:, 0], np.exp(network.predict(one_hot[test])), rtol=1e-4)
    error = np.abs(answer[:, 0] - price[test]) / price[test]
    truth = (price[test, None] >= edges).sum(axis=1)
    shown = ", ".join(f"{it:g}" for it in features[test[0]])
    report("listing_price", f"""
| held out | {len(test):,} of {len(price):,} listings |
|---|---|
| R² | {metrics.r2_score(price[test], answer[:, 0]):.4f} |
| median / mean relative error | {np.median(error):.3f} / {error.mean():.3f} |
| the right band | {(bucket[:, 0] == truth).mean():.4f} |
| edges of the bands | {", ".join(f"{it:g}" for it in edges)} |

A listing of {price[test[0]]:.2f}; the answer is {answer[0, 0]:.2f}, `{band[0, 0]}`, {bucket[0, 0]}:

```json
{{"inputs": [
  {{"name": "neighbourhood", "datatype": "BYTES", "shape": [1, 1], "data": ["{names[test[0]]}"]}},
  {{"name": "rooms", "datatype": "INT64", "shape": [1, 1], "data": [{rooms[test[0]]}]}},
  {{"name": "features", "datatype": "FP32", "shape": [1, 4], "data": [{shown}]}}]}}
```
""")


if __name__ == "__main__":
    makers = {"fraud": fraud, "digits": digits, "listing_price": listing_price}
    for name in sys.argv[1:] or makers:
        makers[name]()
