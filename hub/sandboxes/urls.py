"""Routes of the sandboxes app. Addresses of ports and siblings are hub.sandboxes.direct's alone."""

from django.urls import URLPattern, URLResolver, path

from hub.sandboxes import api, inside_api, pages

_ONE = "sandboxes/<id:sandbox_id>"
_PROCESS = f"{_ONE}/processes/<int:pid>"
api_urls: list[URLPattern | URLResolver] = [
    path("runs/<id:run_id>/sandbox", api.sandbox_report),
    path("sandboxes", api.sandboxes),
    path(_ONE, api.sandbox),
    path(f"{_ONE}/ports", api.sandbox_ports),
    path(f"{_ONE}/ports/<id:port_id>", api.sandbox_port),
    path(f"{_ONE}/siblings", api.sandbox_siblings),
    path(f"{_ONE}/exec", inside_api.sandbox_exec),
    path(f"{_ONE}/processes", inside_api.sandbox_processes),
    path(_PROCESS, inside_api.sandbox_process),
    path(f"{_PROCESS}/output", inside_api.sandbox_output),
    path(f"{_PROCESS}/input", inside_api.sandbox_input),
    path(f"{_PROCESS}/signal", inside_api.sandbox_signal),
    path(f"{_PROCESS}/resize", inside_api.sandbox_resize),
    path(f"{_ONE}/files", inside_api.sandbox_files),
    path(f"{_ONE}/log", inside_api.sandbox_log),
    path(f"{_ONE}/stats", inside_api.sandbox_stats),
    path(f"{_ONE}/commands", inside_api.sandbox_commands),
]
page_urls: list[URLPattern | URLResolver] = [
    path("sandboxes", pages.sandbox_list, name="sandboxes"),
    path("sandboxes/<id:sandbox_id>", pages.sandbox_detail, name="sandbox"),
    path("sandboxes/<id:sandbox_id>/end", pages.sandbox_end, name="sandbox-end"),
    path("sandboxes/<id:sandbox_id>/ports", pages.sandbox_open_port, name="sandbox-open-port"),
    path("sandboxes/<id:sandbox_id>/ports/<id:port_id>/close", pages.sandbox_close_port, name="sandbox-close-port"),
]
