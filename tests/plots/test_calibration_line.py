import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from attrib_ds import plots
from attrib_ds.errors import InvalidRequest


def compared(expected, observed, *, model="markov", unit="path"):
    observed = np.array(observed)
    return pd.DataFrame(
        {
            "model": pd.Series(model, index=range(len(observed)), dtype="str"),
            "unit": "path" if unit is None else unit,
            "trials": 100.0,
            "expected": expected,
            "observed": observed,
            "observed_low": np.maximum(observed - 0.02, 0.0),
            "observed_high": np.minimum(observed + 0.02, 1.0),
        }
    )


def lines(ax):
    return [line for line in ax.get_lines() if line.get_marker() != "None"]


def test_a_point_per_part_and_a_diagonal_where_chances_are_right():
    ax = plots.calibration(compared([0.1, 0.2, 0.4], [0.08, 0.25, 0.3]))
    (line,) = lines(ax)
    assert line.get_xdata().tolist() == [0.1, 0.2, 0.4]
    assert line.get_ydata().tolist() == [0.08, 0.25, 0.3]
    (diagonal,) = (each for each in ax.get_lines() if each.get_marker() == "None")
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == list(ax.get_xlim())
    assert ax.get_xlim() == ax.get_ylim()
    assert ax.get_xlabel() == "chance of a path to convert, by the model (%)"
    (bars,) = ax.collections
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    assert ends == [pytest.approx([0.06, 0.1]), pytest.approx([0.23, 0.27]), pytest.approx([0.28, 0.32])]


def test_chances_far_apart_have_logarithmic_axes_and_nothing_falls_off_them():
    ax = plots.calibration(compared([0.001, 0.01, 0.2], [0.0, 0.02, 0.15], unit="period"))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    low, high = ax.get_xlim()
    assert low < 0.001
    assert high >= 0.2
    (line,) = lines(ax)
    assert (line.get_ydata() >= low).all()
    assert "period" in ax.get_xlabel()


def test_models_look_different_and_stand_beside_each_other():
    frame = pd.concat([compared([0.1, 0.3], [0.1, 0.3], model=name) for name in ("a", "b", "c")])
    ax = plots.calibration(frame)
    assert len({(line.get_marker(), to_hex(line.get_color())) for line in lines(ax)}) == 3
    assert len({line.get_xdata()[0] for line in lines(ax)}) == 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c"]


def test_nobody_converted():
    ax = plots.calibration(compared([0.1, 0.2], [0.0, 0.0]))
    assert ax.get_ylim()[0] == 0.0


def test_nothing_to_show_says_so():
    ax = plots.calibration(compared([], []))
    assert [text.get_text() for text in ax.texts] == ["nothing to compare"]


def test_bad_input_is_refused():
    with pytest.raises(InvalidRequest, match="compared: no column 'expected'"):
        plots.calibration(compared([0.1], [0.1]).drop(columns="expected"))
