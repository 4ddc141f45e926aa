"""Who was admin of a team, or of the own namespace, is its owner."""

from django.db import migrations


def _renamed(before, after):
    def run(apps, schema_editor):
        for name in ('Membership', 'TeamInvitation'):
            apps.get_model('accounts', name).objects.filter(role__in=before).update(role=after)

    return run


class Migration(migrations.Migration):

    atomic = False

    dependencies = [('accounts', '0006_team_roles')]

    operations = [
        migrations.RunPython(_renamed(['admin'], 'owner'), _renamed(['owner', 'maintainer'], 'admin'), elidable=True)
    ]
