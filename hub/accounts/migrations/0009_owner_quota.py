import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0008_link_mail'),
    ]

    operations = [
        migrations.CreateModel(
            name='OwnerQuota',
            fields=[
                ('owner', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='quota', serialize=False, to='accounts.owner')),
                ('running', models.PositiveIntegerField(blank=True, null=True)),
                ('gpu_hours', models.FloatField(blank=True, null=True)),
                ('tokens', models.PositiveBigIntegerField(blank=True, null=True)),
                ('storage_gb', models.FloatField(blank=True, null=True)),
                ('changed_at', models.DateTimeField(auto_now=True)),
            ],
        ),
    ]
