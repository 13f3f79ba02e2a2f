"""Rows of findings as Markdown."""

import math
from dataclasses import dataclass

from bench import cpu_per_request, failed

HEADER = (
    ("model", "server", "settings", "protocol"),
    ("connections", "requests/s", "p50 ms", "p99 ms", "server CPU µs", "RSS MiB", "start s"),
    ("muster/peer: requests/s", "p50", "CPU"),
)

# The share of requests that may fail without a word in the table.
TOLERATED = 0.001


@dataclass
class Row:
    """One server under one load. Ratios are those of muster over the peer, each with the ends of its
    interval; muster's own rows have none, nor have those where muster left requests unanswered."""

    model: str
    server: str
    settings: str
    protocol: str
    connections: int
    throughput: float = 0.0
    p50_us: float = 0.0
    p99_us: float = 0.0
    cpu_us: float = 0.0
    rss_mib: float = 0.0
    pss_mib: float = 0.0
    start_s: float = 0.0
    throughput_ratio: dict = None
    p50_ratio: dict = None
    cpu_ratio: float = None
    failed: float = 0.0
    # muster's processor time of a request and its share of failures, in the same blocks.
    muster_cpu_us: float = 0.0
    muster_failed: float = 0.0
    # The load generator's processor time of a request, on the same processors.
    client_us: float = 0.0

    def with_numbers(self, throughput, p50_us, p99_us, cpu_us):
        """The same row with what the load found."""
        self.throughput, self.p50_us, self.p99_us, self.cpu_us = throughput, p50_us, p99_us, cpu_us
        return self

    def with_report(self, report):
        """The same row with what `muster bench` found of one server."""
        latency, cpu = report["latency"], report["server"]["cpu_per_request_us"]
        self.failed = failed([report])
        self.client_us = 1e6 * report["generator"]["cpu_s"] / max(report["requests"], 1)
        return self.with_numbers(report["throughput"], latency["p50_us"], latency["p99_us"], cpu)

    def with_comparison(self, found):
        """The same row with what `muster bench --vs` found of the peer, its A, and of muster, its B."""
        typical, blocks = found["typical_a"], found["blocks_a"]
        cpu, self.muster_cpu_us = cpu_per_request(blocks), cpu_per_request(found["blocks_b"])
        self.failed, self.muster_failed = failed(blocks), failed(found["blocks_b"])
        self.client_us = typical["generator_cpu_per_request_us"]
        self.throughput_ratio, self.p50_ratio = found["throughput"], found["p50"]
        self.cpu_ratio = self.muster_cpu_us / cpu if cpu else 0.0
        return self.with_numbers(typical["throughput"], typical["p50_us"], typical["p99_us"], cpu)

    def with_process(self, memory, start_s):
        """The same row with what its process took; `memory` is resident and proportional."""
        (self.rss_mib, self.pss_mib), self.start_s = memory, start_s
        return self

    def cells(self):
        """The texts of the row."""
        server = self.server
        if self.failed > TOLERATED:
            server += f" ({100 * self.failed:.1f} % failed)"
        numbers = [
            f"{self.connections or '–'}",
            *(
                f"{value:.{digits}f}" if value else "–"
                for value, digits in (
                    (self.throughput, 0),
                    (self.p50_us / 1e3, 2),
                    (self.p99_us / 1e3, 2),
                    (self.cpu_us, 0),
                    (self.rss_mib, 0),
                    (self.start_s, 2),
                )
            ),
        ]
        ratios = ["–", "–", short(self.cpu_ratio) if self.cpu_ratio else "–"]
        if self.muster_failed > TOLERATED:
            # A refusal costs next to nothing: what it does to the ratios says nothing of answers.
            ratios = [f"{100 * self.muster_failed:.1f} % of muster's failed", "–", "–"]
        elif self.throughput_ratio:
            median, low, high = (
                short(self.throughput_ratio[it]) for it in ("median", "low", "high")
            )
            ratios[:2] = [f"{median} ({low}–{high})", short(self.p50_ratio["median"])]
        return [self.model, server, self.settings, self.protocol, *numbers, *ratios]


def short(value):
    """A ratio with two digits that count."""
    digits = 1 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{max(digits, 0)}f}"


def generator(rows):
    """What sending and reading takes, as a note; rows without a load have none."""
    taken = [it.client_us for it in rows if it.client_us]
    if not taken:
        return "no load was sent"
    return f"the load generator took {min(taken):.0f} to {max(taken):.0f} µs of processor time a request"


def markdown(rows, notes):
    """The table, and behind it what could not be measured and by which versions."""
    texts, numbers, ratios = HEADER
    names = [*texts, *numbers, *ratios]
    alignment = ["---"] * len(texts) + ["--:"] * (len(numbers) + len(ratios))
    lines = [names, alignment, *(row.cells() for row in rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return table + "\n\n" + "\n".join(f"- {note}" for note in notes) + "\n"
