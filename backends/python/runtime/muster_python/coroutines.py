"""What a model returns may be a coroutine. It is waited for."""

from types import CoroutineType


class Waiter:
    """One loop for all runs of an instance: what a model keeps belongs to its loop. Made when it is needed."""

    def __init__(self):
        self._loop = None

    def value(self, returned):
        """The value itself, or the result of a coroutine. Blocking."""
        if type(returned) is not CoroutineType:
            return returned
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(returned)

    def close(self):
        """Ends the loop."""
        if self._loop is not None:
            self._loop.close()
