"""A run as one page of HTML: GX's renderer and GX's template, closed to everything but itself.

GX's page loads styles and scripts from six hosts of others, beside values of rows. Its policy here lets a browser load
and run nothing at all; what the page needs of a look comes with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakeward.quality.results.data_docs.results import validation

STYLES = Path(__file__).with_name("styles")
POLICY = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
)


class Pages:
    """Renders runs; for one thread."""

    def __init__(self) -> None:
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import: it would ask the network
        from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
        from great_expectations.render.view.view import DefaultJinjaPageView

        self._renderer = ValidationResultsPageRenderer()
        self._view: Any = DefaultJinjaPageView(custom_styles_directory=str(STYLES))

    def page(self, run: Mapping[str, Any]) -> str:
        """The page of a run, as `records.recorded` shows it."""
        document = self._renderer.render(validation(run))
        html: str = self._view.render(document, show_how_to_buttons=False)
        return closed(html)


def closed(html: str) -> str:
    """The page with a policy before anything it could load.

    Raises:
        ValueError: it has no head to put the policy in.
    """
    before, head, after = html.partition("<head>")
    if not head:
        raise ValueError("a page without a head cannot be closed")
    return f"{before}{head}\n    {POLICY}{after}"
