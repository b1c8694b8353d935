"""The table of all pages."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.serving.http.library import BaseRoute
from loopkit.serving.http.site import Site
from loopkit.serving.http.table import Endpoint, routes
from loopkit.serving.pages.answering import ANSWERING
from loopkit.serving.pages.assets import ASSETS
from loopkit.serving.pages.ending import ENDING
from loopkit.serving.pages.lists import LISTS
from loopkit.serving.pages.run import RUN
from loopkit.serving.pages.starting import STARTING

PAGES: Sequence[Endpoint] = (*LISTS, *ASSETS, *STARTING, *ANSWERING, *ENDING, *RUN)


def page_routes(site: Site) -> Sequence[BaseRoute]:
    """The routes of all pages of a site."""
    return routes(site, PAGES)
