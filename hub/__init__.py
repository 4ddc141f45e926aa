"""The Django hub: registry, runs, evaluations, models, web pages and API. The only process with the database."""
