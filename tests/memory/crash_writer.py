"""Adds attempts to a store and reports each one, in processes that the test kills at arbitrary moments.

    python crash_writer.py STORE RUN

Reads `FIRST_TURN MODE` from stdin, forks a writer, prints `pid N`, and `dead` when the writer is gone; then waits for
the next line. The writer prints the key of each attempt that the store has acknowledged with its grading. In mode
`single` it adds one attempt at a time; in mode `group` it uses a GroupWriter and prints each key when its future
resolves.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import sys

from tests.memory import samples

from triton_agent.memory.records import Attempt
from triton_agent.memory.sql.commits import GroupWriter
from triton_agent.memory.store import Store


def attempt(run: str, turn: int) -> Attempt:
    """Return an attempt that is large enough for its writing to take a while."""
    text = "\n".join(samples.source(turn * 10 + part) for part in range(3))
    return samples.attempt(turn, run=run, parent=None, source=text, completion=samples.sampled(text, tokens=400))


def main(place: str, run: str) -> None:
    attempt(run, 0)
    for line in sys.stdin:
        first, mode = line.split()
        pid = os.fork()  # cheaper than importing everything for each one that is killed
        if pid == 0:
            write(place, run, int(first), mode)
        say(f"pid {pid}")
        os.waitpid(pid, 0)
        say("dead")


def write(place: str, run: str, first: int, mode: str) -> None:
    """Add attempts until the process is killed."""
    with Store.open(place) as store:
        if mode == "group":
            with GroupWriter(store) as writer:
                for turn in itertools.count(first):
                    one = attempt(run, turn)
                    writer.add(one, samples.passed(one, 1.5)).add_done_callback(Saying(one.key))
        for turn in itertools.count(first):
            one = attempt(run, turn)
            store.add_attempt(one, samples.passed(one, 1.5))
            say(one.key)


class Saying:
    """Prints a key when its future has resolved without an error."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, done: concurrent.futures.Future[None]) -> None:
        done.result()
        say(self._key)


def say(line: str) -> None:
    """Print in one system call, so that everything printed before a kill is complete."""
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
