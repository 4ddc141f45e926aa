"""`python -m workers.sandbox doctor`: proves a host by attacks, and the suite by switching protections off."""
