"""The schema of /api/v1 and its documentation page; both work offline and under the strict CSP."""

from __future__ import annotations

from django.views.generic import TemplateView
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.views import SpectacularAPIView

from hub.api import schema

SCHEMES = (schema.ApiTokenScheme, schema.BasicTokenScheme, schema.WorkerScheme)  # imported, and so registered


class SchemaView(SpectacularAPIView):
    """OpenAPI 3; JSON unless YAML is asked for."""

    renderer_classes = [OpenApiJsonRenderer2, OpenApiJsonRenderer, OpenApiYamlRenderer, OpenApiYamlRenderer2]


class DocsView(TemplateView):
    """Swagger UI from our own static files; nothing is inline."""

    template_name = "api/docs.html"
