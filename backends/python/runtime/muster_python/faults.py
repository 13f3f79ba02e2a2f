"""Exceptions of a model → what its user and its operator read."""

import sys

# A longer text is cut: it is for a person to read.
_LONGEST_TEXT = 4 << 10

# So many places of the code, at most, stand below the text of an error of a load.
_PLACES = 4


def readable(text):
    """The text as UTF-8 can say it, and not longer than a person reads."""
    text = text[:_LONGEST_TEXT].encode("utf-8", "replace")[:_LONGEST_TEXT]
    return text.decode("utf-8", "ignore")


def describe(error):
    """`<Type>: <text>` of an exception, whatever its class does."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be read: __str__ fails)"
    return readable(f"{name}: {text}" if text else name)


def is_out_of_memory(error):
    """Is memory what the model lacked?"""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "out of memory" in describe(error)


def load_fault(error):
    """The answer to a load, or to the making of an instance, that failed: the text, and where it was in the code."""
    lines = [describe(error), *_places(error)]
    return {"Err": {"kind": "Load", "text": readable("\n".join(lines))}}


def run_fault(error, text=None):
    """The answer to a run that has failed as a whole."""
    kind = "OutOfMemory" if is_out_of_memory(error) else "Execute"
    return {"Err": {"kind": kind, "text": readable(text or describe(error))}}


def _places(error):
    """The last places of the user's code that the exception came through, the innermost last."""
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith("<"):
            places.append(f'File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        places.append(f'File "{error.filename}", line {error.lineno}')
    return places[-_PLACES:]


def say(level, text):
    """Writes lines to standard error, which the server writes to its log with that level. Never fails."""
    try:
        lines = text.rstrip().splitlines() or [""]
        sys.stderr.write("".join(f"{level} {line}\n" for line in lines))
        sys.stderr.flush()
    except Exception:
        # The model may have closed it. It has nobody else to tell.
        pass


def log(error, doing):
    """Writes an exception and its traceback to the log."""
    try:
        text = _traceback(error)
    except BaseException:
        text = ""
    say("ERROR", f"{doing}: {describe(error)}\n{text[-16_384:]}")


def _traceback(error):
    """The traceback without the places of this runtime, and without the lines that underline code. Empty, if no place
    is the user's."""
    import traceback

    told = traceback.TracebackException(type(error), error, error.__traceback__)
    part, seen, has_places = told, set(), False
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        part.stack[:] = [it for it in part.stack if not it.filename.startswith("<muster>")]
        has_places = has_places or bool(part.stack)
        part = part.__cause__ or part.__context__
    lines = "".join(told.format()).splitlines() if has_places else []
    return "\n".join(it for it in lines if it.strip(" ^~"))
