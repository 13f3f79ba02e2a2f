"""Which metrics and labels a PromQL expression names. Not a parser: Prometheus says whether it is valid."""

import re

TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<comment>\#[^\n]*)
    |(?P<number>\d[\w.]*(?:[eE][+-]?\d+)?)
    |(?P<name>[a-zA-Z_:][\w:]*)
    |(?P<sign>=~|!~|!=|==|<=|>=|.))""",
    re.VERBOSE | re.DOTALL,
)
# Behind these stands a list of labels.
LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = LISTS | {"and", "or", "unless", "bool", "offset", "inf", "nan"}


class Selector:
    """`metric{label="value"}`; `matchers` are triples of label, operator, value."""

    def __init__(self, metric):
        self.metric, self.matchers = metric, []


def names(expression):
    """The selectors, and the labels of `by (..)` and its like."""
    tokens = [it for it in TOKEN.finditer(expression) if it.lastgroup not in ("comment", None)]
    tokens = [(it.lastgroup, it.group(it.lastgroup)) for it in tokens]
    selectors, grouped, at = [], set(), 0
    while at < len(tokens):
        kind, text = tokens[at]
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if text in LISTS and following == "(":
            end = at + [it[1] for it in tokens[at:]].index(")")
            grouped |= {it[1] for it in tokens[at:end] if it[0] == "name"} - LISTS
            at = end
        elif kind == "name" and text not in WORDS and following != "(":
            # An aggregation whose labels stand first, as in `sum by (model) (..)`, is no metric.
            if following not in LISTS:
                selectors.append(Selector(text))
        elif text == "{":
            end = at + [it[1] for it in tokens[at:]].index("}")
            inside = [it for it in tokens[at + 1 : end] if it[1] != ","]
            for label, operator, value in zip(inside[::3], inside[1::3], inside[2::3], strict=True):
                selectors[-1].matchers.append((label[1], operator[1], value[1][1:-1]))
            at = end
        at += 1
    return selectors, grouped


class Page:
    """What a /metrics text holds: the labels of each series, and the values that they have."""

    LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$")

    def __init__(self, text):
        self.values = {}
        for line in text.splitlines():
            if found := self.LINE.match(line):
                labels = self.values.setdefault(found[1], {})
                for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or ""):
                    labels.setdefault(label, set()).add(value)

    def problems(self, expression, known):
        """What the expression names and the page has not. `known` are series of others, as the page has its own: a
        dictionary from name to labels; under "" are the labels that every series gets when it is scraped."""
        selectors, grouped = names(expression)
        everywhere, found = known[""], set(known[""])
        for selector in selectors:
            labels = self.values.get(selector.metric, known.get(selector.metric))
            if labels is None:
                yield f"there is no metric {selector.metric}"
                continue
            found |= set(labels)
            for label, operator, value in selector.matchers:
                if label in everywhere:
                    continue
                if label not in labels:
                    yield f"{selector.metric} has no label {label}; it has {', '.join(sorted(labels)) or 'none'}"
                elif operator in ("=", "=~") and "$" not in value and labels[label]:
                    pattern = re.escape(value) if operator == "=" else value
                    if not any(re.fullmatch(pattern, it) for it in labels[label]):
                        yield f"{selector.metric}: no {label} is {value}; there are {', '.join(sorted(labels[label]))}"
        for label in sorted(grouped - found):
            yield f"no metric of it has the label {label}"
