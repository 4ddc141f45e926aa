"""Users, owners, API tokens, device login, web sessions."""
