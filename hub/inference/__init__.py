"""The OpenAI-compatible gateway /inference/v1."""
