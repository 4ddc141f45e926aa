"""The rows of a database in a form that belongs to none: what Postgres' COPY writes, in frames, table by table."""
