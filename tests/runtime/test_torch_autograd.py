"""Calls with torch's tensors that autograd follows: which are refused, though they were known, and which are not."""

from __future__ import annotations

import pytest
import torch

from scalec.errors import ArgumentError
from scalec.runtime.kernel import Kernel
from tests.runtime.fake import simple_spec
from tests.runtime.test_torch_calls import operands


@pytest.mark.usefixtures("ways")
def test_what_requires_grad_is_refused(device):
    kernel, given, out = Kernel(simple_spec(), b"", device=device), operands(), torch.zeros(64, 96)
    weight = torch.nn.Parameter(given[1])
    for named in ({}, {"out": out}):
        for _ in range(2):  # known, and not
            with pytest.raises(ArgumentError) as caught:
                kernel(1, given[0], weight, given[2], **named)
            assert str(caught.value) == (
                "B requires grad, and a kernel has no backward\n"
                "  expected: a call that nothing is differentiated through\n"
                "  fix: call it under torch.no_grad() or torch.inference_mode(), or give B.detach()"
            )
            for mode in (torch.no_grad, torch.inference_mode):
                with mode():
                    assert not kernel(1, given[0], weight, given[2], **named).requires_grad
            kernel(1, given[0], weight.detach(), given[2], **named)
    kernel(1, *given)
    given[0].requires_grad_()
    with pytest.raises(ArgumentError, match="A requires grad"):
        kernel(1, *given)


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("place", ["operand", "result"])
def test_what_requires_grad_is_refused_though_it_was_known_without_grad_mode(device, place):
    """A weight that requires grad is the same tensor within torch.no_grad() and out of it."""
    kernel, given, out = Kernel(simple_spec(), b"", device=device), operands(), torch.zeros(64, 96)
    (given[1] if place == "operand" else out).requires_grad_()
    with torch.no_grad():
        bound = kernel.bind(1, *given, out=out)
        for _ in range(3):
            kernel(1, *given), kernel(1, *given, out=out), bound()
    before, message = len(device.launches), f"{'B' if place == 'operand' else 'C'} requires grad"
    for call in (lambda: kernel(1, *given, out=out), bound):
        with pytest.raises(ArgumentError, match=message):
            call()
    if place == "operand":
        with pytest.raises(ArgumentError, match=message):
            kernel(1, *given)
    assert len(device.launches) == before
    with torch.no_grad():
        bound()


@pytest.mark.usefixtures("ways")
def test_dual_tensors_are_refused_though_they_were_known(device):
    """torch's guards take a tensor with a tangent for one without."""
    forward_ad = torch.autograd.forward_ad
    kernel, given, out = Kernel(simple_spec(), b"", device=device), operands(), torch.zeros(64, 96)
    first = given[0]
    bound = kernel.bind(1, *given, out=out)
    for _ in range(3):
        kernel(1, *given), kernel(1, *given, out=out), bound()
    before = len(device.launches)
    with forward_ad.dual_level():
        dual = [forward_ad.make_dual(first, torch.ones_like(first)), *given[1:]]
        for call in (lambda: kernel(1, *dual), lambda: kernel(1, *dual, out=out), kernel.bind(1, *dual, out=out)):
            with pytest.raises(ArgumentError, match="A has a tangent"):
                call()
    assert len(device.launches) == before


@pytest.mark.usefixtures("ways")
def test_inference_tensors(device):
    kernel = Kernel(simple_spec(), b"", device=device)
    with torch.inference_mode():
        given = operands()
        for _ in range(3):
            made = kernel(1, *given)
            assert made.is_inference()
            kernel(1, *given, out=made)
    assert not kernel(1, *operands()).is_inference()
