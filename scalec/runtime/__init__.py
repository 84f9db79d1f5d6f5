"""The runtime: a cubin and tensors in, a result out. See README.md."""
