from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0001_initial'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['owner_id', 'actor', '-id'], name='audit_by_owner_actor'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['owner_id', 'action', '-id'], name='audit_by_owner_action'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['owner_id', 'token_prefix', '-id'], name='audit_by_owner_token'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['actor', '-id'], name='audit_by_actor'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['action', '-id'], name='audit_by_action'),
        ),
        migrations.AddIndex(
            model_name='auditentry',
            index=models.Index(fields=['token_prefix', '-id'], name='audit_by_token'),
        ),
    ]
