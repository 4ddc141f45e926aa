"""Locked, frozen virtual environments: interpreters, wheels, and the directories that boxes bind read-only.

No process outside a box ever starts an environment's own interpreter: a `.pth` file in a wheel would run.
"""
