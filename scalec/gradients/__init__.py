"""The programs of a program's gradients, as text: `scalec.grad("C[m,n] = A[m,k] @ B[n,k]")`. See docs/gradients.md."""

from scalec.gradients.grad import grad
from scalec.gradients.recipes import RECIPES, Recipe
from scalec.gradients.steps import Gradients, LeftOut, MadeIndex, Part, Step

__all__ = ["RECIPES", "Gradients", "LeftOut", "MadeIndex", "Part", "Recipe", "Step", "grad"]
