"""The emulator: PTX of sm_90a, sm_100a and sm_120a, run and judged on a CPU. It imports nothing of the compiler."""
