"""GGUF files: reading them, planning their types, writing them."""
