"""A queue of texts that run together: a free thread takes the oldest and those nearest to it in length."""

import asyncio
import os
import threading


class Batches:
    """Threads around `encode`, one for each processor that a run of another leaves idle.

    A text waits for no company: what has come meanwhile runs with it, up to `rows`. Lengths are in characters, since
    texts have no tokens before they run.
    """

    def __init__(self, encode, rows):
        self.encode, self.rows = encode, rows
        self.waiting = []
        # Guards `waiting`; told of each text that comes.
        self.changed = threading.Condition()
        threads = int(os.environ["PEER_THREADS"]) or os.cpu_count()
        for _ in range(max(os.cpu_count() // (threads * int(os.environ["PEER_WORKERS"])), 1)):
            threading.Thread(target=self.run, daemon=True).start()

    async def vectors(self, texts):
        """The vectors of the texts of a request."""
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in texts]
        with self.changed:
            self.waiting += zip(texts, answers)
            self.changed.notify()
        return await asyncio.gather(*answers)

    def run(self):
        """Runs what waits, for ever."""
        while True:
            texts, answers = zip(*self.take())
            try:
                results = self.encode(list(texts))
            except Exception as error:  # The next ones may run.
                results = [error] * len(texts)
            loop = answers[0].get_loop()
            loop.call_soon_threadsafe(answer, answers, results)

    def take(self):
        """The oldest text and those nearest to it in length."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting)
            oldest = len(self.waiting[0][0])
            order = sorted(self.waiting, key=lambda it: abs(len(it[0]) - oldest))
            taken = order[: self.rows]
            left = set(map(id, order[self.rows :]))
            self.waiting = [it for it in self.waiting if id(it) in left]
            return taken


def answer(answers, results):
    """Tells those who still wait."""
    for waiter, result in zip(answers, results):
        if waiter.done():
            continue
        if isinstance(result, Exception):
            waiter.set_exception(result)
        else:
            waiter.set_result(result)
