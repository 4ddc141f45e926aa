"""One visitor's basket: a server for each rollout, with the rollout's state and task."""

import verifiers.v1 as vf


class BasketState(vf.State):
    books: list[str] = []


class BasketConfig(vf.ToolsetConfig):
    limit: int = 3


class Basket(vf.Toolset[BasketConfig, BasketState]):
    async def setup_task(self, task) -> None:
        self.visitor = task.visitor

    @vf.tool
    async def borrow(self, title: str) -> str:
        """Put a book into the basket."""
        if len(self.state.books) >= self.config.limit:
            raise ValueError("the basket is full")
        self.state.books.append(title)
        return f"{self.visitor} has {len(self.state.books)}"


if __name__ == "__main__":
    Basket.run()
