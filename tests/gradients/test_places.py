"""Gradients of inputs that are read at indices of several dimensions, or by several indices of one: the texts."""

from __future__ import annotations

import pytest

import scalec
from scalec.errors import ScalecError
from tests.gradients.test_texts import lines

COMBINE = "Z[t,n] = sum[j](w[t,j] * Y[row[t,j],n])"


def test_a_weighted_sum_of_rows_is_one_over_the_places_of_each_row():
    """The weight is taken there, too."""
    g = scalec.grad(COMBINE, wrt="Y")
    (step,) = g.steps
    assert step.text == "dY[t_,n] = sum[j_](dZ[t_of_Y[t_,j_],n]*w[t_of_Y[t_,j_],j_of_Y[t_,j_]])"
    assert not step.zeroed
    assert {n: (x.kind, x.of, x.tensors) for n, x in g.indices.items()} == {
        "t_of_Y": ("points", "Y", ("row",)),
        "j_of_Y": ("points", "Y", ("row",)),
    }
    assert "# j_of_Y: the j where row[t,j] is each element of Y, and -1 behind the last\n" in str(g)
    (once,) = scalec.grad(COMBINE, wrt="Y", once="row").steps
    assert once.text == "dY[row[t,j],n] = dZ[t,n]*w[t,j]"


def test_what_a_product_gives_rows_is_put_back_by_two_indices():
    assert lines("C[b,m,n] = A[idx[b,m],k] @ B[n,k]", wrt="A") == [
        "dA_rows[b,m,k]:f32 = dC[b,m,n] @ B[n,k]",
        "dA[t,k] = sum[j](dA_rows[b_of_A[t,j],m_of_A[t,j],k]:f32)",
    ]


def test_a_picked_element_is_where_its_number_is():
    assert lines("Y[m] = X[m,t[m]] * w[m]", wrt="X") == ["dX[m,c] = dY[m]*w[m] * (1 - sign(abs(at[c]:i32 - t[m]:i32)))"]
    every = scalec.grad("Y[m,n] = X[m,n] + r[m] * X[m,t[m]]", wrt="X")
    assert [s.text for s in every.steps] == [  # all of X is read too
        "dX_part[m,c]:f32 = r[m] * (1 - sign(abs(at[c]:i32 - t[m]:i32))) * sum[n](dY[m,n])",
        "dX[m,n] = dY[m,n] + dX_part[m,n]:f32",
    ]
    assert "# at: 0, 1, 2 and so on, for each element of X along index 1\n" in str(every)


@pytest.mark.parametrize(
    ("at", "times", "period"),
    [
        ("2*n+1", 1, 0),
        ("n/4*6+n%4", 1, 0),
        ("(n+1)/4", 4, 0),
        ("n/4*2+n%4", 2, 0),
        ("n%6/2+n%2", 4, 12),
        ("n+2*size(n)", 1, 0),
    ],
)
def test_points_that_a_computed_index_has_in_common_are_counted(at: str, times: int, period: int):
    g = scalec.grad(f"C[m,n] = U[m,n] * x[{at}]", wrt="x")
    (index,) = g.indices.values()
    assert index.points is not None
    assert (index.points.times, index.points.period) == (times, period)


def test_several_indices_of_one_dimension_are_put_back_together():
    assert lines("C[m,n] = U[m,n] * x[n/8,n%8]", wrt="x") == [
        "dx_rows[n]:f32 = sum[m](dC[m,n]*U[m,n])",
        "dx[a,b] = sum[j](dx_rows[n_of_x[a,b,j]]:f32)",
    ]


REFUSED = {
    "Y[m,n] = X[m,n] * x[n+m*4]": "nothing says at how many points one element is",
    "C[m,n] = A[idx[m/2],k] @ B[n,k]": "nothing says at how many points one element is",
    "Y[m,n] = X[m,n]*w[0] + w[1]": "w is read at two indices, one of which is a part of it",
    "Y[m,n] = X[m,n] * X[m+1,n]": "X is read at two indices, one of which is a part of it",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_no_index_tensor_says_is_refused_with_the_fix(source: str):
    with pytest.raises(ScalecError, match=REFUSED[source]) as refusal:
        scalec.grad(source)
    assert "pass" in refusal.value.fix
