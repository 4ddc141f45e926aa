"""The hosts of a Ray cluster: a worker's own head, a host that joins one, and what a cluster has.

Ray itself is imported only by `lookout`, in a process of its own. What a run does on a cluster is in workers.training.
"""
