"""The sub-commands of `livelog`, one module each: `add_parser` declares it, `run` does it."""
