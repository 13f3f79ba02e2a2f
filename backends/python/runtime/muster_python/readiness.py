"""Does the model say that it can serve?"""

import contextlib
import threading

from muster_python import faults, frames

# So many wait for one answer at most: the server has given up the oldest by then.
_MOST_WAITING = 16


class Readiness:
    """Asks an instance, on a thread. Whoever asks meanwhile hears the same."""

    def __init__(self):
        # Guards what follows.
        self._lock = threading.Lock()
        self._waiting = []
        self._is_asked = False

    def ask(self, instance, stream):
        """The answer goes to that socket. Returns at once."""
        with self._lock:
            self._waiting.append(stream)
            if _MOST_WAITING < len(self._waiting):
                self._waiting.pop(0).close()
            was_asked, self._is_asked = self._is_asked, True
        if not was_asked:
            threading.Thread(target=self._run, args=(instance,), name="is_ready", daemon=True).start()

    def _run(self, instance):
        try:
            answer = {"Ok": instance.is_ready()}
        except BaseException as error:
            faults.log(error, "is_ready")
            answer = faults.run_fault(error)
        with self._lock:
            streams, self._waiting = self._waiting, []
            self._is_asked = False
        for stream in streams:
            # Nobody may wait any more.
            with stream, contextlib.suppress(OSError):
                frames.send(stream, answer)
