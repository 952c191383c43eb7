from __future__ import annotations

from demo_site import copied, landed, migrated, site

__all__ = ["copied", "landed", "migrated", "site"]  # fixtures
