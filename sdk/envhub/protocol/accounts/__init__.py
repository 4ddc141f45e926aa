"""Users and teams: tokens, secrets, links, notices, webhooks, what was done and used."""
