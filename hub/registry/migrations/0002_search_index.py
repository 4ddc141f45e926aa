"""A trigram index for environment search on Postgres; SQLite scans, which is enough for one machine."""

from django.db import migrations

CREATE = "CREATE INDEX environment_search ON registry_environment USING gin (search_text gin_trgm_ops)"


def create(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        schema_editor.execute(CREATE)


def drop(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX environment_search")


class Migration(migrations.Migration):
    dependencies = [("registry", "0001_initial")]
    operations = [migrations.RunPython(create, drop)]
