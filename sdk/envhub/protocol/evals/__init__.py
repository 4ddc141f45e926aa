"""Evaluations: what is asked, their rollouts and figures, and what people say of them."""
