from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0004_said_of_rollouts'),
    ]

    operations = [
        migrations.AddField(
            model_name='trainingrollout',
            name='answered',
            field=models.CharField(blank=True, db_default='', default='', max_length=160),
        ),
        migrations.AddField(
            model_name='trainingrollout',
            name='asked',
            field=models.CharField(blank=True, db_default='', default='', max_length=160),
        ),
        migrations.AddField(
            model_name='trainingrollout',
            name='duration_s',
            field=models.FloatField(db_default=0.0, default=0.0),
        ),
        migrations.AddField(
            model_name='trainingrollout',
            name='target',
            field=models.CharField(blank=True, db_default='', default='', max_length=160),
        ),
    ]
