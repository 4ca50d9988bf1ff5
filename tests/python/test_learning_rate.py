"""Learning rates by the tokens of a step."""

import pytest

import sab


def test_rules():
    assert sab.scale_learning_rate(0.5, 100, reference=400) == 0.125
    assert sab.scale_learning_rate(0.5, 100, reference=400, rule="sqrt") == 0.25
    assert sab.scale_learning_rate(0.5, 400, reference=400, rule="sqrt") == 0.5


def test_columns_are_added_up():
    tokens = {"source": 300, "target": 100}
    assert sab.scale_learning_rate(0.5, tokens, reference=200) == 1.0


@pytest.mark.parametrize("tokens", [0, -1, float("inf"), {}, {"source": 3, "target": -1}])
def test_tokens_out_of_range_are_refused(tokens):
    with pytest.raises(ValueError, match=r"^tokens(\['target'\])? = .*must be finite and above 0"):
        sab.scale_learning_rate(0.5, tokens, reference=200)


def test_unknown_totals_are_named():
    with pytest.raises(ValueError, match=r"tokens = -1 \(-1: not known\)"):
        sab.scale_learning_rate(0.5, -1, reference=200)
