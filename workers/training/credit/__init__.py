"""Advantages: who of a group did better than the rest, per rollout or per turn. numpy only."""
