"""The parts of bench_load: an installation behind nginx, and who calls it."""
