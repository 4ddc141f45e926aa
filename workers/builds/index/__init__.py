"""The package index as one build sees it."""
