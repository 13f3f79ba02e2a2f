"""Metrics of a model's own, as Prometheus reads them from the server.

Changes are sent at once and not waited for; at the end of a run, the server has seen those of the run.
"""

import collections
import contextlib
import math
from enum import Enum

from muster_python import talk
from muster_python.triton_tensor import TritonModelException

# What nobody has any more: talks and what is to be said. Whoever drops an object may hold any lock, so it is said later.
_dropped = collections.deque()

# The last change that was not waited for, if there is one.
_last = collections.deque(maxlen=1)


class MetricKind(Enum):
    """Kinds of metrics."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


_WIRE = {MetricKind.COUNTER: "Counter", MetricKind.GAUGE: "Gauge", MetricKind.HISTOGRAM: "Histogram"}


class MetricFamily:
    """Metrics of one name. The same name, description and kind is the same family, in whichever model."""

    COUNTER, GAUGE, HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM

    def __init__(self, name, description, kind):
        self._talk = None
        for what, value in (("name", name), ("description", description)):
            if not isinstance(value, str):
                raise TypeError(f"{what} of a MetricFamily: expected str, found type {type(value)}")
        if not isinstance(kind, MetricKind):
            raise TypeError(f"kind of MetricFamily '{name}': expected MetricFamily.COUNTER, GAUGE or HISTOGRAM")
        self._kind = kind
        self._said = {"family": name, "description": description, "kind": _WIRE[kind]}
        running = talk.running()
        if running is None:
            raise TritonModelException(
                f"MetricFamily '{name}': a model has metrics from initialize to the end of its last run, and neither "
                "in auto_complete_config nor in finalize"
            )
        _ask(running[0], self._said, "MakeFamily")
        self._talk = running[0]

    def Metric(self, labels=None, buckets=None):  # noqa: N802 (Triton's name)
        """The metric of these labels. `buckets`: of a histogram, upper bounds, ascending."""
        return Metric(self, labels, buckets)

    def __del__(self):
        if self._talk is not None:
            _dropped.append((self._talk, {**self._said, "verb": "DropFamily"}))


class Metric:
    """One metric of a family. It is shown as long as there is such an object."""

    def __init__(self, family, labels, buckets):
        self._talk = None
        labels = {} if labels is None else labels
        if not isinstance(labels, dict) or not all(isinstance(it, str) for pair in labels.items() for it in pair):
            raise TritonModelException("labels of a metric: expected a dictionary of str by str")
        self._family = family
        self._said = {**family._said, "labels": dict(labels)}
        if family._kind is MetricKind.HISTOGRAM and buckets is None:
            raise TritonModelException(f"a histogram ('{self._said['family']}') needs buckets, ascending")
        if buckets is not None:
            self._said["buckets"] = [_number(it) for it in buckets]
        _ask(family._talk, self._said, "Make")
        self._talk = family._talk

    def increment(self, value):
        """Adds to a counter, or to a gauge."""
        value = _number(value)
        if self._family._kind is MetricKind.HISTOGRAM:
            self._refuse("increment")
        if self._family._kind is MetricKind.COUNTER and value < 0:
            raise TritonModelException(
                f"counter '{self._said['family']}' cannot be incremented by {value}: expected 0 or more"
            )
        self._tell({"Increment": value})

    def set(self, value):
        """Sets a gauge."""
        value = _number(value)
        if self._family._kind is not MetricKind.GAUGE:
            self._refuse("set")
        self._tell({"Set": value})

    def observe(self, value):
        """One more observation of a histogram."""
        value = _number(value)
        if self._family._kind is not MetricKind.HISTOGRAM:
            self._refuse("observe")
        self._tell({"Observe": value})

    def value(self):
        """The value of a counter, or of a gauge. Asks the server."""
        if self._family._kind is MetricKind.HISTOGRAM:
            self._refuse("value")
        return _ask(self._talk, self._said, "Value")

    def _refuse(self, verb):
        kind = self._family._kind.name.lower()
        raise TritonModelException(f"metric '{self._said['family']}' is a {kind}, which does not support {verb}")

    def _tell(self, verb):
        body = {**self._said, "verb": verb}
        _say_dropped()
        self._talk.tell("Metric", {"ask": None, **body})
        _last.append((self._talk, body))

    def __del__(self):
        if self._talk is not None:
            _dropped.append((self._talk, {**self._said, "verb": "Drop"}))


def settle():
    """Returns when the server has seen all changes. To be called at the end of a run."""
    _say_dropped()
    if not _last:
        return
    # Another thread may have been faster.
    with contextlib.suppress(IndexError):
        to, body = _last.pop()
        # What is said in order is done in order: an answer to the last word says that all of them were heard.
        with contextlib.suppress(talk.Failed):
            to.ask("Metric", {**body, "verb": "Value"}).value()


def _say_dropped():
    while _dropped:
        try:
            to, body = _dropped.popleft()
        except IndexError:
            return
        to.tell("Metric", {"ask": None, **body})
        _last.append((to, body))


def _ask(to, body, verb):
    _say_dropped()
    try:
        return to.ask("Metric", {**body, "verb": verb}).value()
    except talk.Failed as error:
        raise TritonModelException(str(error)) from error


def _number(value):
    """As JSON can say it."""
    value = float(value)
    if not math.isfinite(value):
        raise TritonModelException(f"the value of a metric is {value}, expected a finite number")
    return value
