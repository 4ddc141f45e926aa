"""Four roles in teams, and where an invitation was sent."""

from django.db import migrations, models

ROLES = [('reader', 'Reader'), ('member', 'Member'), ('maintainer', 'Maintainer'), ('owner', 'Owner')]


class Migration(migrations.Migration):

    dependencies = [('accounts', '0005_sessions')]

    operations = [
        migrations.AlterField(
            model_name=name,
            name='role',
            field=models.CharField(choices=ROLES, default='member', max_length=10),
        )
        for name in ('membership', 'teaminvitation')
    ] + [
        migrations.AddField(
            model_name='teaminvitation',
            name='mail',
            field=models.EmailField(blank=True, db_default='', default='', max_length=254),
        ),
        migrations.AddField(
            model_name='teaminvitation',
            name='sent_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
