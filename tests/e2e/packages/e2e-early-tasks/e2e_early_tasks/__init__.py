from e2e_early_tasks.taskset import Borrowing

__all__ = ["Borrowing"]
