from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0022_engine_gpus'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['-finished_at'], name='run_failed'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['owner', '-finished_at'], name='run_failed_by_owner'),
        ),
    ]
