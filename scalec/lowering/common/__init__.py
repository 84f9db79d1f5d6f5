"""What is lowered alike on every target: the kernel, its roles, loops and rings, copies, promotion, the epilogue."""
