"""A tool server of each rollout's own: a program that the library starts."""

import verifiers.v1 as vf


class Shelf(vf.Toolset[vf.ToolsetConfig, vf.State]):
    TOOL_PREFIX = "shelf"

    @vf.tool
    async def borrow(self, title: str) -> str:
        """Take a book from the shelf."""
        return f"you have {title}"


if __name__ == "__main__":
    Shelf.run()
