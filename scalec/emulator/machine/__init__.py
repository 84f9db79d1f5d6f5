"""The state of the machine that runs PTX: memories, warps, CTAs, what is in flight, and the judge of their order."""
