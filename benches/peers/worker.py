"""Our side: a process that holds one problem and runs operations on it. main.rs has the requests."""

import json
import pathlib
import subprocess
import tempfile

import numpy


class WorkerError(Exception):
    """What our side said instead of an answer."""


class Worker:
    def __init__(self, program, simd=None):
        self._folder = tempfile.TemporaryDirectory(prefix="hunkwise-peers-")
        self.folder = pathlib.Path(self._folder.name)
        self._process = subprocess.Popen(
            [program, "--serve", *(["--simd", simd] if simd else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, op, **fields):
        self._process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"our side ended during `{op}` with code {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{op}: {answer['error']}")
        return answer

    def array(self, name, dtype="<u4"):
        return numpy.fromfile(self.folder / name, dtype)

    def write(self, name, numbers, dtype="<u4"):
        numpy.asarray(numbers).astype(dtype).tofile(self.folder / name)

    def write_text(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


class Ragged:
    """A list of lists of numbers, flat."""

    def __init__(self, flat, offsets):
        self.flat, self.offsets = flat.astype(numpy.int64), offsets.astype(numpy.int64)

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, i):
        return self.flat[self.offsets[i] : self.offsets[i + 1]]

    def sizes(self):
        return numpy.diff(self.offsets)


class Problem:
    """The windows of a task, as our side numbers them; equal ones are one."""

    def __init__(self, worker, op, **fields):
        self.worker = worker
        self.shape = worker(op, out=str(worker.folder), **fields)
        self.windows = Ragged(worker.array("tokens.u32"), worker.array("offsets.u32"))
        self.lines = Ragged(worker.array("lines.u32"), worker.array("line_ends.u32"))
        self.types = worker.array("types.u32")
        self.places = worker.array("places.u32").reshape(-1, 4).astype(numpy.int64)
        self.place_ends = worker.array("place_ends.u32").astype(numpy.int64)

    def by_type(self):
        """Indices of the windows of each edit type; types never match each other."""
        return [numpy.flatnonzero(self.types == t) for t in numpy.unique(self.types)]

    def texts(self):
        """Each window as a string of one character a token, the most frequent tokens first in the code table: rapidfuzz
        compares strings faster than lists, and characters below 256 faster than others."""
        counts = numpy.bincount(self.windows.flat)
        rank = numpy.empty(len(counts), dtype=numpy.int64)
        rank[numpy.argsort(-counts, kind="stable")] = numpy.arange(1, len(counts) + 1)
        rank[rank >= 0xD800] += 0x800
        return as_strings(rank[self.windows.flat], self.windows.offsets)

    def token_lists(self):
        """Each window as a list of token strings, the natural form in Python."""
        names = [f"t{token}" for token in range(int(self.windows.flat.max(initial=-1)) + 1)]
        return [[names[token] for token in window] for window in (self.windows[i].tolist() for i in range(len(self.windows)))]


def as_strings(numbers, offsets):
    everything = "".join(map(chr, numbers.tolist()))
    return [everything[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist())]
