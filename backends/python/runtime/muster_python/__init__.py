"""Models in Python for the muster server.

A model is a class `Model` with a method `predict`, or a function `predict`. The names and types of its arguments are
the inputs. Its result is the outputs:

    from muster_python import Tensor

    class Model:
        def predict(self, x: Tensor["FP32", -1, 4]) -> Tensor["FP32", -1]:
            return x.sum(axis=1)

A `predict` that yields its results gives any number of them to a request, one by one.
"""


def batched(function):
    """Gives a `predict` the rows of many requests at once: one below the other, in the first dimension."""
    function.batched = True
    return function


class Tensor:
    """An array's type and shape, to annotate with: `Tensor["FP32", -1, 4]`. -1 is any size.

    Without sizes any shape will do. In a batched `predict` the first size is -1, the rows of all requests; without
    sizes each row has one dimension.
    """

    def __class_getitem__(cls, items):
        import typing

        import numpy as np

        kind, *dims = items if isinstance(items, tuple) else (items,)
        # A tuple: older Pythons need hashes of annotations.
        return typing.Annotated[np.ndarray, kind, tuple(dims) or None]


class InvalidInput(ValueError):
    """What a client has sent is wrong: it gets the text, as its own fault."""
