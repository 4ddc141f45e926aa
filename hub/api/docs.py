"""The schema of /api/v1 and its documentation page; both work offline and under the strict CSP."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.views.generic import TemplateView
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.views import SpectacularAPIView
from envhub import __version__

from hub.api import schema

SCHEMES = (schema.ApiTokenScheme, schema.BasicTokenScheme, schema.WorkerScheme)  # imported, and so registered


@cache
def _schema() -> Any:
    return SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]


class Generator(SchemaGenerator):
    """Makes the schema once a process: it is the same for all, and takes more than a second of CPU."""

    def get_schema(self, *_: object, **__: object) -> Any:
        """As the base class has it."""
        return _schema()


class SchemaView(SpectacularAPIView):
    """OpenAPI 3; JSON unless YAML is asked for."""

    generator_class = Generator
    api_version = __version__  # in the file's name; unless set here, whatever `?version=` says
    renderer_classes = [OpenApiJsonRenderer2, OpenApiJsonRenderer, OpenApiYamlRenderer, OpenApiYamlRenderer2]


class DocsView(TemplateView):
    """Swagger UI from our own static files; nothing is inline."""

    template_name = "api/docs.html"
