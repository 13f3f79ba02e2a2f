"""What a fitted estimator takes and gives, found out by looking at it: one input of numbers, or one for each column where
some columns hold texts; the class and the probabilities, or what `predict` gives."""

import functools
from typing import Any, NamedTuple

import numpy as np

from muster_python import faults
from muster_python.estimator_columns import first_texts, takes_texts, texts_of
from muster_python.tensors import BY_CONFIG, BYTES, kind_of

_INT64, _FP64, _BOOL = BY_CONFIG["TYPE_INT64"], BY_CONFIG["TYPE_FP64"], BY_CONFIG["TYPE_BOOL"]

# The names that the server's engine for trees has, too.
_INPUT, _OUTPUT, _LABEL, _PROBABILITIES = "input__0", "output__0", "label", "probabilities"

# Methods of estimators that give an array for rows. Outputs may be called so.
_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples", "transform")


class _Output(NamedTuple):
    """One output: the method that gives it, its type, and the sizes of a row. `None`: any."""

    name: str
    method: str
    kind: Any
    dims: Any

    def spec(self):
        any_rank = self.dims is None
        dims = [] if any_rank else [None, *self.dims]
        return _port(self.name, self.kind, dims, any_rank)


class _Input(NamedTuple):
    """One input."""

    name: str
    kind: Any
    dims: list

    def spec(self):
        return _port(self.name, self.kind, self.dims)


class Ports:
    """Inputs and outputs of an estimator. A configuration may say other types, and further outputs."""

    def __init__(self, estimator, config):
        self._estimator = estimator
        names = getattr(estimator, "feature_names_in_", None)
        # Names of all features, where the estimator was trained on a table.
        self._names = None if names is None else [str(it) for it in names]
        self._frame = _frame_maker()
        self._inputs = self._made_inputs(config["input"])
        self._by_column = self._names is not None and self._inputs[0].name in self._names
        if self._by_column and self._frame is None:
            raise ImportError("the estimator was trained on a table with columns of texts, which takes pandas")
        self._outputs = self._made_outputs(config["output"])

    def spec(self):
        """As the wire has it."""
        spec = {
            "inputs": [it.spec() for it in self._inputs],
            "outputs": [it.spec() for it in self._outputs],
            "rows": "Independent",
        }
        if self._names is not None and not self._by_column:
            spec["columns"] = {self._inputs[0].name: self._names}
        classes = _classes(self._estimator)
        if classes is not None:
            scores = [it.name for it in self._outputs if it.method == "predict_proba"]
            spec["labels"] = {name: [str(it) for it in classes] for name in scores}
        return spec

    def answer(self, inputs, wanted):
        """Inputs → the outputs of these names, each with its name, its kind and an array."""
        rows = self._rows({it.name: it.array() for it in inputs})
        outputs = []
        for it in self._outputs:
            if it.name in wanted:
                values = np.asarray(getattr(self._estimator, it.method)(rows))
                outputs.append((it.name, it.kind, _cast(it, values)))
        return outputs

    def _rows(self, arrays):
        """What the methods are given."""
        if not self._by_column:
            (only,) = self._inputs
            array = arrays[only.name]
            if only.kind is BYTES:
                return _texts(array)
            return array if self._names is None or self._frame is None else self._frame(array, columns=self._names)
        columns, rows = {}, None
        for it in self._inputs:
            array = arrays[it.name]
            column = _texts(array) if it.kind is BYTES else array.ravel()
            if rows is not None and len(column) != rows:
                raise ValueError(f"input '{it.name}' has {len(column)} rows, expected {rows} as the inputs before it")
            columns[it.name], rows = column, len(column)
        return self._frame(columns)

    def _made_inputs(self, configured):
        """One input for all columns, or one for each of them."""
        said = {it["name"]: BY_CONFIG.get(it["data_type"]) for it in configured}
        names = self._names or []
        texts = texts_of(self._estimator, names) if names else set()
        if texts or any(it in said for it in names):
            usual = {it: BYTES if it in texts else _FP64 for it in names}
            return [_Input(it, said.get(it) or usual[it], [None, 1]) for it in names]
        name, kind = next(iter(said.items()), (_INPUT, None))
        if takes_texts(self._estimator):
            return [_Input(name, BYTES, [None, 1])]
        features = len(names) or getattr(self._estimator, "n_features_in_", None)
        return [_Input(name, kind or _FP64, [None, None if features is None else int(features)])]

    def _made_outputs(self, configured):
        """Those of the configuration, else the usual ones."""
        if configured:
            return [self._output(it["name"], BY_CONFIG.get(it["data_type"])) for it in configured]
        if _classes(self._estimator) is None:
            return [self._output(_OUTPUT)]
        has_scores = hasattr(self._estimator, "predict_proba")
        return [self._output(it) for it in ([_LABEL, _PROBABILITIES] if has_scores else [_LABEL])]

    def _output(self, name, said=None):
        """The output of that name, of the type that is said."""
        method = self._method(name)
        if not hasattr(self._estimator, method):
            has = [it for it in _METHODS if hasattr(self._estimator, it)]
            raise ValueError(
                f"output '{name}': {type(self._estimator).__name__} has no {method}; outputs may be called "
                f"{', '.join(has)}"
            )
        classes = _classes(self._estimator)
        if classes is not None and method == "predict":
            kind, dims = _kind_of_classes(classes), []
        elif classes is not None and method in ("predict_proba", "predict_log_proba"):
            kind, dims = _FP64, [len(classes)]
        else:
            kind, dims = self._tried(method)
        return _Output(name, method, said or kind, dims)

    def _method(self, name):
        """The method that gives the output of that name."""
        if name in _METHODS:
            return name
        if name == _LABEL:
            return "predict"
        if name == _PROBABILITIES:
            return "predict_proba"
        # The usual one, whatever a configuration calls it.
        return next((it for it in ("predict", "transform") if hasattr(self._estimator, it)), "predict")

    def _tried(self, method):
        """The type and the sizes of what a method gives, by one row of zeros. Any sizes, if it does not take that."""
        try:
            given = np.asarray(getattr(self._estimator, method)(self._rows(self._sample())))
        except Exception as error:
            faults.say("DEBUG", f"{method} does not say what it gives: {faults.describe(error)}")
            return _FP64, None
        kind = BYTES if given.dtype.kind in "OU" else kind_of(given) or _FP64
        return kind, [int(it) for it in given.shape[1:]]

    def _sample(self):
        """One row, of zeros and of texts that are known."""
        texts = first_texts(self._estimator, self._names or [])
        row = {}
        for it in self._inputs:
            array = np.zeros([1, *(size or 1 for size in it.dims[1:])], it.kind.numpy)
            if it.kind is BYTES:
                array[:] = texts.get(it.name, "").encode()
            row[it.name] = array
        return row


def _port(name, kind, dims, any_rank=False):
    return {"name": name, "dtype": kind.wire, "dims": dims, "any_rank": any_rank, "optional": False}


def _classes(estimator):
    """The classes of a classifier of one output. `None` for all else."""
    classes = getattr(estimator, "classes_", None)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or not hasattr(estimator, "predict"):
        return None
    return classes


def _kind_of_classes(classes):
    if classes.dtype.kind == "b":
        return _BOOL
    if classes.dtype.kind in "iu" or all(isinstance(it, int) for it in classes.tolist()):
        return _INT64
    return _FP64 if classes.dtype.kind == "f" else BYTES


def _texts(array):
    """Elements of BYTES → an array of `str`, one for each row."""
    made = np.empty(array.size, object)
    for at, it in enumerate(array.ravel().tolist()):
        try:
            made[at] = it.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"row {at}: expected text of UTF-8: {error}") from error
    return made


def _cast(output, values):
    """What a method gave, as the type of the output."""
    if output.kind is BYTES:
        return values.astype(object)
    if values.dtype == object:
        values = np.asarray(values.tolist())
    return np.ascontiguousarray(values.astype(output.kind.numpy, copy=False))


@functools.lru_cache(maxsize=None)
def _frame_maker():
    """The class of tables. `None` without pandas."""
    try:
        import pandas
    except ImportError:
        return None
    return pandas.DataFrame
