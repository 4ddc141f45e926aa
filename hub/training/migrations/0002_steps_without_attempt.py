from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0001_initial'),
    ]

    operations = [
        migrations.AlterField('step', 'attempt', models.PositiveIntegerField(null=True)),  # so that it is reversible
        migrations.AlterField('step', 'run_id', models.UUIDField(null=True)),
        migrations.RemoveField('step', 'attempt'),
        migrations.RemoveField('step', 'run_id'),
    ]
