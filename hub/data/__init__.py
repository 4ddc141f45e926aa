"""Data sets and models of a Hugging Face endpoint, kept: pinned revisions, read through or added by hand."""
