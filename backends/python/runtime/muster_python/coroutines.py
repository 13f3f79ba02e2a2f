"""What a model returns may be a coroutine. It is waited for."""

import threading
from types import CoroutineType


class Waiter:
    """One loop for all runs of an instance: what a model keeps belongs to its loop. Made when it is needed."""

    def __init__(self):
        self._loop = self._thread = None

    def value(self, returned):
        """The value itself, or the result of a coroutine. Blocking."""
        if type(returned) is not CoroutineType:
            return returned
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(returned)

    def begin(self, coroutine, ended):
        """Runs a coroutine beside what follows. `ended` is called with its exception, or with `None`."""
        import asyncio

        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="coroutines", daemon=True)
            self._thread.start()

        async def run():
            try:
                await coroutine
            except BaseException as error:
                ended(error)
            else:
                ended(None)

        asyncio.run_coroutine_threadsafe(run(), self._loop)

    def each(self, parts):
        """The parts of an asynchronous generator, one by one."""
        while True:
            try:
                part = self.value(_next(parts))
            except StopAsyncIteration:
                return
            yield part

    def close(self):
        """Ends the loop."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        if self._loop is not None:
            self._loop.close()


async def _next(parts):
    return await parts.__anext__()
