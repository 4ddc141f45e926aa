"""The Celery app of a worker, for `celery -A workers worker`: the one task, and what is hung on Celery's worker.

A worker is three kinds of process: Celery's own (it consumes this worker's queues of the broker and keeps the pool),
the pool's children (one run at a time each: workers.tasks.child), and the host process (workers.tasks.host).
"""

from __future__ import annotations

from celery import Celery, Task, signals
from envhub.protocol.runs import RUN_TASK

from workers.tasks.child import RunFailedHere, become_child, leave_child, run_here
from workers.tasks.start_up import give_forwarded_queues, keep_own_logging, prepare
from workers.tasks.steps import ForwardRuns, HostStep, TellWhatIsConsumed

app = Celery("workers", set_as_current=False, fixups=())  # no fixups: else it loads a Django that it sees
app.conf.update(
    accept_content=["json"],
    broker_connection_max_retries=None,
    broker_connection_retry_on_startup=True,
    event_queue_expires=60,
    task_acks_late=True,
    task_create_missing_queues=False,
    task_ignore_result=True,
    task_reject_on_worker_lost=True,
    task_serializer="json",
    task_track_started=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_consumer="workers.tasks.steps:Consumer",
    worker_hijack_root_logger=False,
    worker_prefetch_multiplier=1,
    worker_proc_alive_timeout=60.0,
    worker_redirect_stdouts=False,
)
app.steps["worker"].add(HostStep)
app.steps["consumer"].update({TellWhatIsConsumed, ForwardRuns})
signals.setup_logging.connect(keep_own_logging)
signals.celeryd_init.connect(prepare)
signals.worker_init.connect(give_forwarded_queues)
signals.worker_process_init.connect(become_child)
signals.worker_process_shutdown.connect(leave_child)


@app.task(name=RUN_TASK, bind=True, throws=(RunFailedHere,))  # type: ignore[untyped-decorator]
def run(self: Task[[str], str], run_id: str) -> str:
    """Execute one run, if the hub still gives it to this worker; gives the state in which that left it."""
    return run_here(run_id, self.request)
