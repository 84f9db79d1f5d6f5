"""`scale` to `tile`: one decision a file. See scalec.passes.pipeline for their order."""
