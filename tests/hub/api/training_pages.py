"""Who may open the pages of training runs, as tests.hub.api.rights has it for all others."""

from __future__ import annotations

from tests.hub.api.access import Access

_PAGE = "training/<id:training_id>"
_ROLLOUT = f"{_PAGE}/rollouts/<int:step>/<int:index>"

RIGHTS: dict[str, dict[str, Access]] = {
    "training": {"get": Access.OPEN},
    "training/compare": {"get": Access.OPEN},
    "training/new": {"get": Access.SIGNED_IN, "post": Access.SIGNED_IN},
    _PAGE: {"get": Access.PRIVATE},
    f"{_PAGE}/numbers": {"get": Access.PRIVATE},
    f"{_PAGE}/rollouts": {"get": Access.PRIVATE},
    f"{_PAGE}/rollouts/compare": {"get": Access.PRIVATE},
    _ROLLOUT: {"get": Access.PRIVATE},
    f"{_ROLLOUT}/pictures/<int:number>/<int:picture>": {"get": Access.PRIVATE},
    f"{_ROLLOUT}/label": {"post": Access.PRIVATE},
    f"{_ROLLOUT}/note": {"post": Access.PRIVATE},
    f"{_ROLLOUT}/note/<id:note_id>": {"post": Access.PRIVATE},
    f"{_PAGE}/views": {"post": Access.PRIVATE},
    f"{_PAGE}/views/<id:view_id>/delete": {"post": Access.PRIVATE},
    f"{_PAGE}/weights": {"get": Access.PRIVATE},
    f"{_PAGE}/configuration": {"get": Access.PRIVATE},
    f"{_PAGE}/lineage": {"get": Access.PRIVATE},
    f"{_PAGE}/log": {"get": Access.PRIVATE},
    f"{_PAGE}/stop": {"post": Access.PRIVATE},
    f"{_PAGE}/resume": {"post": Access.PRIVATE},
    f"{_PAGE}/share": {"post": Access.PRIVATE},
    f"{_PAGE}/links": {"get": Access.PRIVATE, "post": Access.PRIVATE},
    f"{_PAGE}/report": {"get": Access.PRIVATE},
}
