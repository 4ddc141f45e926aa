"""The documentation at /docs: Markdown files of this project, rendered once a process, and a search over them."""
