"""Programs that the command-line tests compile."""

FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
