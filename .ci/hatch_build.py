"""The addresses of the package, made of one value that is empty until there is a repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Addresses(MetadataHookInterface):
    """Adds the description, and the addresses if `repository` of pyproject.toml is not empty.

    The links of the README lead into its folder; on the page of an index they need the address.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["urls"] = {}
        if repository := self.config["repository"]:
            files = f"{repository}/blob/v{metadata['version']}"
            text = re.sub(r"\]\((?!\w+:|#)", f"]({files}/", text)
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{files}/docs",
                "Changelog": f"{files}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
