"""Renders a check run as one HTML page: GX's renderer and template, with a Content-Security-Policy that blocks loading.

GX's page loads styles and scripts from six foreign hosts, beside values of rows. The policy lets a browser load and run
nothing; the needed styles are inline.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lakeward.quality.results.data_docs.results import validation
from lakeward.quality.results.records import RunDocument

STYLES = Path(__file__).with_name("styles")
POLICY = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
)


class Pages:
    """Renders runs; not thread-safe."""

    def __init__(self) -> None:
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import, which would send a network request
        from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
        from great_expectations.render.view.view import DefaultJinjaPageView

        self._renderer = ValidationResultsPageRenderer()
        self._view: Any = DefaultJinjaPageView(custom_styles_directory=str(STYLES))

    def page(self, run: RunDocument) -> str:
        """The page of a run in the form of `records.recorded`."""
        document = self._renderer.render(validation(run))
        html: str = self._view.render(document, show_how_to_buttons=False)
        return closed(html)


def closed(html: str) -> str:
    """The page with the policy as the first element of its head.

    Raises:
        ValueError: the page has no head.
    """
    before, head, after = html.partition("<head>")
    if not head:
        raise ValueError("the page has no head for the security policy")
    return f"{before}{head}\n    {POLICY}{after}"
