"""ECE and MCE of 15 bins by the figures of temperature_scaling, torchmetrics and netcal.

The three disagree where a confidence lies on the edge of a bin; ours are temperature_scaling's bins, (l, u].
"""

import pytest
from vector_problem import vectors

from motet.metrics.calibration import ece, mce

SINGLE = 1e-7  # temperature_scaling takes its means in float32
pytestmark = pytest.mark.usefixtures("exact")


def errors(case: str) -> tuple[float, float]:
    v = vectors("calibration")
    confidence, guess = v[case + "_p"].max(1)
    found = ece(confidence, guess == v[case + "_y"]), mce(confidence, guess == v[case + "_y"])
    assert found[0] is not None and found[1] is not None
    return found


@pytest.mark.parametrize("case", ["random", "edges"])
def test_temperature_scalings_bins(case: str) -> None:
    v, (ours, largest) = vectors("calibration"), errors(case)
    assert ours == pytest.approx(v[f"{case}_gpleiss_ece"], abs=SINGLE)
    assert ours == pytest.approx(v[f"{case}_gpleiss_ece_from_logits"], abs=SINGLE)
    assert ours == pytest.approx(v[f"ours_{case}_right_closed_ece"], abs=1e-10)
    assert largest == pytest.approx(v[f"ours_{case}_right_closed_mce"], abs=1e-10)


@pytest.mark.parametrize("library", ["torchmetrics", "netcal"])
def test_the_other_libraries_agree_away_from_the_edges(library: str) -> None:
    v, (ours, largest) = vectors("calibration"), errors("random")
    assert ours == pytest.approx(v[f"random_{library}_ece"], abs=1e-10)
    assert largest == pytest.approx(v[f"random_{library}_mce"], abs=1e-10)
    assert abs(errors("edges")[0] - v[f"edges_{library}_ece"]) > 0.01
