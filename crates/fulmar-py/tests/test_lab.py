"""The laboratory from Python."""

import json
import pathlib
import sys
import unittest.mock

import pytest
from fulmar import lab


def test_a_run_is_a_function_of_its_seed():
    settings = dict(profile="auto", rate="20M", rtt="40ms", loss=0.05, duration=3)
    assert lab.sim(**settings, seed=3) == lab.sim(**settings, seed=3)
    assert lab.sim(**settings, seed=3) != lab.sim(**settings, seed=4)


def test_arrays_have_buffers():
    run = lab.sim(["auto", "auto"], rate="20M", duration=2, interval=0.1, start=[0, 0.5])
    times = memoryview(run.flows[0].t)
    assert times.format == "d" and len(times) == len(run.flows[0].series["rtt_ms"]) > 10
    assert list(times) == sorted(times)
    numpy = pytest.importorskip("numpy")
    assert numpy.asarray(run.flows[0].t).base is not None
    assert 0 < run.jain <= 1


def test_random_paths_are_those_of_the_seed():
    first, again = (lab.random("auto", paths=2, seed=7, quick=True) for _ in range(2))
    assert first == again and first != lab.random("auto", paths=2, seed=8, quick=True)
    assert all(0 < run.fraction_of_limit < 1.2 and "--profile auto" in run.command for run in first)
    with pytest.raises(ValueError):
        lab.random("nonsense", paths=1)


EXPERIMENT = """
title = "Loss"
duration = "2s"
repetitions = 2
[link]
rate = "10M"
[[flow]]
sender = "SENDER"
[sweep]
loss = ["0%", "5%"]
"""


def test_an_experiment_runs_every_cell_as_often_as_it_says(tmp_path):
    text = EXPERIMENT.replace("SENDER", "cubic")
    runs = lab.run(text)
    assert [(run.cell["loss"], run.seed) for run in runs] == [("0%", 1), ("0%", 2), ("5%", 1), ("5%", 2)]
    assert runs[0].goodput_mbps > 3 * runs[2].goodput_mbps > 0
    file = tmp_path / "loss.toml"
    file.write_text(text)
    assert lab.run(file) == runs and len(lab.run(str(file), quick=True)) == 2
    with pytest.raises(ValueError, match="needs real time"):
        lab.run(EXPERIMENT.replace("SENDER", "tcp-cubic"))
    with pytest.raises(ValueError, match="loss.toml:2"):
        file.write_text("title = 'Loss'\nnonsense = 3\n")
        lab.run(file)
    with pytest.raises(FileNotFoundError):
        lab.run(tmp_path / "none.toml")


def test_what_no_link_has_is_said():
    with pytest.raises(ValueError, match="a link has no 'colour'"):
        lab.sim(colour="blue")
    with pytest.raises(ValueError):
        lab.sim(profile="nonsense")
    with pytest.raises(ValueError, match="lists of one length"):
        lab.sim(["auto"], traffic=["bulk", "bulk"])


NOTEBOOK = pathlib.Path(__file__).parent.parent / "examples/goodput-against-loss.ipynb"


@pytest.mark.skipif(not NOTEBOOK.exists(), reason="the notebook is beside the sources")
def test_the_notebook_draws_three_lines_and_the_limit(monkeypatch):
    pyplot = unittest.mock.MagicMock()
    axes = unittest.mock.MagicMock()
    pyplot.subplots.return_value = None, axes
    monkeypatch.setitem(sys.modules, "matplotlib", unittest.mock.MagicMock(pyplot=pyplot))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    # Not to draw the same picture, but to see that it can be drawn.
    short = code.replace("seconds = 15", "seconds = 1").replace('rate="100M"', 'rate="10M"')
    assert short != code
    exec(compile(short, NOTEBOOK.name, "exec"), {})
    fulmar, bbr, cubic, limit = (call.args[1] for call in axes.plot.call_args_list)
    assert limit[0] == 100 and len(fulmar) == len(bbr) == len(cubic) == 7
    assert all(3 < goodput < 10 for goodput in fulmar) and bbr[1] > 10 * cubic[1]
