"""Which columns of a table hold texts, as far as the parts of a fitted estimator of scikit-learn tell: encoders know
their categories, imputers what they put in, and vectorizers take nothing else. No part of scikit-learn is imported."""

# Attributes by which an estimator has others that are given the same columns.
_INNER = (
    "best_estimator_",
    "estimator_",
    "regressor_",
    "classifier_",
    "estimators_",
    "calibrated_classifiers_",
    "_preprocessor",
)


def texts_of(estimator, columns):
    """The names of those of these columns that hold texts."""
    return set(first_texts(estimator, columns))


def first_texts(estimator, columns):
    """A text that is known for each column of texts, by its name; empty where none is."""
    found = {}
    _look(estimator, list(columns), found)
    return found


def takes_texts(estimator):
    """Is a row one text, which a vectorizer takes apart?"""
    while True:
        if _is_vectorizer(estimator):
            return True
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
            continue
        parts = getattr(estimator, "transformer_list", None)
        if parts:
            return any(takes_texts(part) for _, part in parts)
        steps = getattr(estimator, "steps", None)
        if not steps:
            return False
        real = [it for _, it in steps if it is not None and it != "passthrough"]
        if not real:
            return False
        estimator = real[0]


def _is_vectorizer(part):
    """Does it take texts apart, as `TfidfVectorizer` does?"""
    return hasattr(part, "analyzer") and hasattr(part, "decode_error")


def _look(part, columns, found):
    """Notes the columns of texts among these, which the part is given in this order."""
    if _is_vectorizer(part):
        for it in columns:
            found.setdefault(it, "")
        return
    if hasattr(part, "transformers_"):
        for name, inner, chosen in part.transformers_:
            if not isinstance(inner, str):
                _look(inner, _chosen(part, name, chosen, columns), found)
        return
    steps = getattr(part, "steps", None)
    if steps is not None:
        for _, inner in steps:
            if inner is None or inner == "passthrough":
                continue
            _look(inner, columns, found)
            # Behind any other step columns are no longer those of the table.
            if not hasattr(inner, "statistics_") or getattr(inner, "add_indicator", False):
                return
        return
    for _, inner in getattr(part, "transformer_list", ()):
        if not isinstance(inner, str):
            _look(inner, columns, found)
    _of_values(columns, getattr(part, "categories_", None), found)
    _of_values(columns, [[it] for it in _listed(getattr(part, "statistics_", None))], found)
    for name in _INNER:
        inner = getattr(part, name, None)
        first = inner[0] if isinstance(inner, list) and inner else inner
        if hasattr(first, "__dict__"):
            _look(first, columns, found)


def _chosen(part, name, chosen, columns):
    """The columns that one of the transformers of a `ColumnTransformer` is given."""
    places = getattr(part, "_transformer_to_input_indices", {}).get(name)
    if places is not None:
        return [columns[it] for it in places if it < len(columns)]
    chosen = [chosen] if isinstance(chosen, str) else chosen
    return [it for it in chosen if it in columns] if isinstance(chosen, list) else []


def _of_values(columns, values, found):
    """Notes the columns whose values are texts."""
    for name, of_column in zip(columns, [] if values is None else values):
        text = next((it for it in _listed(of_column) if isinstance(it, str)), None)
        if text is not None:
            found.setdefault(name, text)


def _listed(values):
    return values.tolist() if hasattr(values, "tolist") else list(values or ())
