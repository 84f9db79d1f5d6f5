"""What a schedule needs and may have: shared memory, registers, tensor memory, parts of K; each rule once."""
