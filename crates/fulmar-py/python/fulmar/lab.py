"""The laboratory: flows over a path in virtual time. A run is a function of its settings and the seed.

>>> from fulmar import lab
>>> run = lab.sim(profile="auto", rate="20M", rtt="40ms", loss="5%", duration=5)
>>> run.goodput_mbps > 10
True
>>> run == lab.sim(profile="auto", rate="20M", rtt="40ms", loss="5%", duration=5)
True

Values over time are arrays with a buffer, so that ``numpy.asarray(flow.t)`` copies nothing:

>>> run = lab.sim(["auto", "auto:cc=bbr"], rate="20M", duration=2, interval=0.1)
>>> len(run.flows), len(run.flows[0].series["t"]) > 10
(2, True)

A picture in three lines::

    import matplotlib.pyplot as plt
    for flow in run.flows:
        plt.plot(flow.series["t"], flow.series["rtt_ms"], label=flow.name)

Paths drawn at random, and what share of them a profile used (docs/lab.md):

>>> runs = lab.random("auto", paths=3, quick=True)
>>> all(0 < run.fraction_of_limit < 1.2 for run in runs), runs[0].command.split()[:2]
(True, ['fulmar-lab', 'sim'])

An experiment, with every cell of its sweep:

>>> runs = lab.run('''
... title = "Loss"
... duration = "2s"
... [link]
... rate = "10M"
... [[flow]]
... sender = "auto"
... [sweep]
... loss = ["0%", "5%"]
... sender = ["auto", "cubic"]
... ''')
>>> [run.goodput_mbps > 5 for run in runs if run.cell == {"loss": "5%", "sender": "auto"}]
[True]
"""

from __future__ import annotations

import array
import json
import os
import pathlib
import tempfile

from . import _fulmar

__all__ = ["Flow", "Run", "random", "run", "sim"]


def _words(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def sim(profile="auto", *, traffic="bulk", duration=10.0, seed=1, interval=None, start=0.0, **link):
    """Runs flows over one link.

    ``profile``: a line as in docs/profiles, or a list of them, one flow each. ``traffic``: "bulk", "fixed:10MB",
    "messages:1200/5ms", ...; ``start``: seconds. Both may be lists. ``interval``: seconds between values over time.
    What the link does has the names and words of docs/lab.md: ``rate="100M"``, ``rtt="20ms"``, ``loss="5%"``,
    ``queue_bdp=1``, ``jitter="2ms"``, ``back_loss="1%"``, ... A number is taken for ``loss`` and other shares of one
    too: ``loss=0.05``.
    """
    profiles = [profile] if isinstance(profile, str) else list(profile)

    def each(value):
        return list(value) if isinstance(value, (list, tuple)) else [value] * len(profiles)

    traffics, starts = each(traffic), each(start)
    if not len(profiles) == len(traffics) == len(starts):
        raise ValueError("profile, traffic and start are lists of one length")
    flows = [(p, t, float(s)) for p, t, s in zip(profiles, traffics, starts)]
    shares = ("loss", "mark", "duplicate", "corrupt", "back_loss", "back_mark")
    words = []
    for key, value in link.items():
        is_share = key in shares and isinstance(value, (int, float))
        words.append((key, f"{100 * value:g}%" if is_share else _words(value)))
    if interval is None:
        return Run(json.loads(_fulmar.simulate(words, flows, float(duration), seed)), None)
    text, series = _fulmar.simulate_series(words, flows, float(duration), seed, float(interval))
    return Run(json.loads(text), series)


def random(profile="auto", *, paths=100, seed=1, quick=False):
    """Runs a bulk flow over each of so many paths of a seed, on all cores, as ``fulmar-lab random`` does.

    A list of ``Run``; ``fraction_of_limit`` is the flow's share of what its path could carry, and ``command`` repeats
    the run. ``quick``: slow and short paths only.
    """
    found = _fulmar.simulate_random(profile, paths, seed, quick)
    return [Run(json.loads(text), None, command=command) for command, text in found]


def run(experiment, *, quick=False):
    """Runs every cell of an experiment in virtual time, on all cores, as ``fulmar-lab run`` does.

    ``experiment``: the path of a file as docs/lab.md describes it (``experiments/`` has many), or its text, of more than
    one line. A list of ``Run``; ``cell`` has a run's settings of the sweep, and ``seed`` its seed. Cells that come to
    the same are run once. ``quick``: a quarter of the time, one repetition. A sender that needs real time (the kernel's
    TCP, other programs) raises ``ValueError``, before anything is run.
    """
    name, text = "experiment.toml", os.fspath(experiment)
    if "\n" not in text:
        name, text = text, pathlib.Path(text).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder, "results")
        _fulmar.run_experiment(name, text, str(results), quick)
        found = [json.loads(line) for path in results.glob("*.jsonl") for line in path.read_text().splitlines()]
    runs = [Run(one["outcome"], None, cell=one["cell"]) for one in found]
    return sorted(runs, key=lambda run: (sorted(run.cell.items()), run.seed))


class Flow:
    """One flow: what a run found, by the names that ``fulmar-lab sim --json`` has (docs/lab.md), and ``series``."""

    def __init__(self, found, series):
        self.found = found
        self.series = {name: array.array("d", values) for name, values in series or ()}

    def __getattr__(self, name):
        try:
            return self.__dict__["found"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def t(self):
        return self.series["t"]

    def __repr__(self):
        return f"<Flow {self.name} {self.goodput_mbps:.3f} Mbit/s>"


class Run:
    """What a run found: attributes by the names of ``fulmar-lab sim --json``, ``flows``, and all of it in ``found``."""

    def __init__(self, found, series, command=None, cell=None):
        self.found, self.command, self.cell = found, command, cell
        flows = self.found["flows"]
        self.flows = [Flow(found, of) for found, of in zip(flows, series or [None] * len(flows))]

    def __getattr__(self, name):
        try:
            return self.__dict__["found"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __eq__(self, other):
        return isinstance(other, Run) and self.found == other.found

    __hash__ = None

    def __repr__(self):
        return f"<Run {self.goodput_mbps:.3f} Mbit/s, {len(self.flows)} flows>"
