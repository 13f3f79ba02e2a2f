"""The flavour of plain models: a class `Model` with a method `predict`, or a function `predict`. See the package."""

import inspect
import json
import pathlib

from muster_python import InvalidInput, faults
from muster_python.coroutines import Waiter
from muster_python.lane import Answer, Refusal, RunFailed
from muster_python.signature import Signature
from muster_python.source import import_model
from muster_python.triton_config import ModelConfig, given_config, is_decoupled

# Most rows of a run where the configuration does not say.
_ROWS = 64


def load(load):
    """Imports the model and reads its signature."""
    module = import_model(load)
    return of(getattr(module, "Model", None) or getattr(module, "predict", None), load)


def of(user, load):
    """The model of a class or of a function."""
    if user is None:
        raise AttributeError(f"'{load['file']}' defines no class Model and no function predict")
    predict = user
    if inspect.isclass(user):
        predict = getattr(user, "predict", None)
        if not callable(predict):
            raise AttributeError(f"class {user.__name__} of '{load['file']}' has no method predict")
    is_batched = bool(getattr(predict, "batched", getattr(user, "batched", False)))
    signature = Signature(_bound(user, predict), is_batched)
    return Model(user, signature, is_batched, load)


def _bound(user, predict):
    """The function without its first argument, which is the object."""
    if not inspect.isclass(user) or isinstance(
        inspect.getattr_static(user, "predict"), (staticmethod, classmethod)
    ):
        return predict
    return predict.__get__(object())


class Model:
    """A class or a function of the user's, and what it says of itself."""

    def __init__(self, user, signature, is_batched, load):
        self._user, self._signature, self._is_batched, self._load = user, signature, is_batched, load
        ports = [*signature.inputs, *signature.outputs]
        # A row of a batch has to have a number of dimensions.
        self._has_any_rank = not is_batched and any(it.dims is None for it in ports)
        completed = self._completed() if load["auto_complete"] else None
        streams = bool(is_decoupled(json.loads(completed or load["config"] or "{}")))
        if signature.streams and not streams:
            raise ValueError(
                "predict yields its results, and the configuration says that a request has one: add "
                "model_transaction_policy { decoupled: true }"
            )
        self.loaded = {"completed": completed, "streams": streams}
        if self._has_any_rank:
            inputs, outputs = ([it.spec() for it in some] for some in (signature.inputs, signature.outputs))
            self.loaded["spec"] = {"inputs": inputs, "outputs": outputs}

    def instance(self, info):
        """One more object of it."""
        return Instance(self._predict(info), self._signature, self._is_batched)

    def _completed(self):
        """The configuration with what the signature says, as JSON."""
        config = ModelConfig(json.dumps(given_config(self._load)))
        if self._has_any_rank:
            # The server completes it by the specification, which can say that any shape will do.
            for place in ("input", "output"):
                if not config.as_dict()[place]:
                    del config.as_dict()[place]
        else:
            for port in self._signature.inputs:
                config.add_input(port.config())
            for port in self._signature.outputs:
                config.add_output(port.config())
        if self._signature.streams:
            config.set_model_transaction_policy({"decoupled": True})
        configured = config.as_dict()["max_batch_size"]
        if self._is_batched:
            config.set_max_batch_size(configured or _ROWS)
            if "sequence_batching" not in config.as_dict():
                config.set_dynamic_batching()
        elif configured:
            raise ValueError(
                f"max_batch_size is {configured}, and predict takes one request at a time: leave it out, or decorate "
                "predict with @muster_python.batched to have the rows of many requests at once"
            )
        return json.dumps(config.as_dict())

    def _predict(self, info):
        """What is called for a run: a method of a new object, or the function."""
        if not inspect.isclass(self._user):
            return self._user
        device = info["device"]
        offered = {
            "directory": pathlib.Path(self._load["version_directory"]),
            "options": self._load["options"],
            "device": f"cuda:{device['Gpu']}" if isinstance(device, dict) else "cpu",
        }
        wanted = inspect.signature(self._user).parameters
        return self._user(**{name: it for name, it in offered.items() if name in wanted}).predict


class Instance:
    """One object of the user's class, or the function."""

    def __init__(self, predict, signature, is_batched):
        self._predict, self._signature, self._is_batched = predict, signature, is_batched
        self._waiter = Waiter()

    def execute(self, run):
        """An answer or a refusal for each of the calls."""
        if self._is_batched:
            return self._execute_rows(run)
        return [self._execute_call(it) for it in run.calls()]

    def finalize(self):
        """Lets the model clean up: `close`, if it has that."""
        owner = getattr(self._predict, "__self__", None)
        try:
            if hasattr(owner, "close"):
                owner.close()
        finally:
            self._waiter.close()

    def _arrays(self, inputs):
        """What the function gives for these inputs, by name."""
        return self._signature.arrays(self._result(inputs))

    def _result(self, inputs):
        """What the function returns for these inputs."""
        arguments = self._signature.arguments({it.name: it.array() for it in inputs})
        return self._waiter.value(self._predict(**arguments))

    def _answers(self, inputs):
        """What a function that yields its results gives, one by one."""
        results = self._result(inputs)
        for result in self._waiter.each(results) if hasattr(results, "__anext__") else results:
            yield self._answer(self._signature.arrays(result))

    def _execute_call(self, call):
        """One request by itself: its failure is nobody else's."""
        try:
            if not self._signature.streams:
                return self._answer(self._arrays(call.inputs))
            if call.streams:
                call.send_each(self._answers(call.inputs))
                call.end()
            return None
        except InvalidInput as error:
            return Refusal("InvalidArg", str(error))
        except BaseException as error:
            faults.log(error, "predict")
            if faults.is_out_of_memory(error):
                raise RunFailed(faults.describe(error)) from error
            return Refusal("Internal", faults.describe(error))

    def _execute_rows(self, run):
        """All requests at once."""
        try:
            arrays = self._arrays(run.inputs)
        except InvalidInput as error:
            # One of the requests is wrong. The others are asked again, without it.
            if len(run.rows()) == 1:
                return [Refusal("InvalidArg", str(error))]
            return [self._execute_call(it) for it in run.calls()]
        rows = run.rows()
        for name, array in arrays.items():
            if array.ndim == 0 or len(array) != sum(rows):
                raise TypeError(
                    f"output '{name}' has shape {list(array.shape)}, expected {sum(rows)} rows: predict is batched, "
                    "and gives a row for each row of its inputs"
                )
        answers, start = [], 0
        for many in rows:
            part = {name: it[start : start + many] for name, it in arrays.items()}
            answers.append(self._answer(part))
            start += many
        return answers

    def _answer(self, arrays):
        return Answer([(port.name, port.kind, arrays[port.name]) for port in self._signature.outputs])
