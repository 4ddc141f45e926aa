from uuid import UUID

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0001_initial'),
    ]

    operations = [
        migrations.AlterField('step', 'attempt', models.PositiveIntegerField(default=1)),  # so that it is reversible
        migrations.AlterField('step', 'run_id', models.UUIDField(default=UUID(int=0))),
        migrations.RemoveField('step', 'attempt'),
        migrations.RemoveField('step', 'run_id'),
    ]
