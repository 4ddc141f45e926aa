"""The picture of a public page for chats that show previews of links."""

from __future__ import annotations

from urllib.parse import urljoin

from django import template
from django.conf import settings
from django.urls import reverse
from django.utils.html import format_html
from envhub.protocol.visibility import Visibility

from hub.web.preview_pictures import HEIGHT, WIDTH

register = template.Library()


@register.simple_tag
def preview_picture(visibility: str, page: str, *arguments: object) -> str:
    """The tags that name the picture, with the hub's own address; "" for what is private."""
    if visibility != Visibility.PUBLIC.value:
        return ""
    url = urljoin(str(settings.HUB.base_url), reverse(page, args=arguments))
    return format_html(
        '<meta property="og:image" content="{}"><meta property="og:image:width" content="{}">'
        '<meta property="og:image:height" content="{}">',
        url, WIDTH, HEIGHT,
    )  # fmt: skip
