"""Say of the evaluations that are there which are ranked together. Piece by piece: the hub answers meanwhile."""

from django.db import migrations

from hub.evals.boards import board_key

PIECE = 1000


def fill(apps, schema_editor):
    """Begun again it goes on with what has none. The newest, which lists show, come first."""
    evaluations = apps.get_model('evals', 'Evaluation').objects
    rows = evaluations.filter(aggregate__reward__n__gt=0, board='').order_by('-pk')
    rows = rows.only('version_id', 'config', 'planned', 'aggregate')
    piece = list(rows[:PIECE])
    while piece:
        for row in piece:
            row.board = board_key(row)
        evaluations.bulk_update(piece, ['board'])
        piece = list(rows.filter(pk__lt=piece[-1].pk)[:PIECE])


class Migration(migrations.Migration):

    atomic = False

    dependencies = [('evals', '0003_board')]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop, elidable=True)]
