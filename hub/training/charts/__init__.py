"""Charts of training runs as geometry for inline SVG. Pure, but for what reads the steps."""
