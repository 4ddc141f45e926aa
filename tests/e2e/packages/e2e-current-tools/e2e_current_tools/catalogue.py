"""The catalogue: one server for all rollouts."""

import verifiers.v1 as vf


class CatalogueConfig(vf.SharedToolsetConfig):
    titles: tuple[str, ...] = ("Emma", "Dune")


class Catalogue(vf.Toolset[CatalogueConfig]):
    @vf.tool
    async def search(self, word: str) -> str:
        """Titles that contain a word."""
        return ", ".join(title for title in self.config.titles if word.lower() in title.lower()) or "nothing"


if __name__ == "__main__":
    Catalogue.run()
