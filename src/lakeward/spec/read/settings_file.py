"""The settings of `conf/lakeward.yaml` alone, for tasks: no other file is read, and nothing is reported.

`loader.load_project` reads the same values with every problem of the project. A supervision pass needs one value of
them, and reading all streams, their SQL and their checks for it costs seconds of CPU.
"""

from __future__ import annotations

from pydantic import ValidationError

from lakeward.platform.runtime import Project
from lakeward.spec.model.settings import Settings


def usable_settings(project: Project) -> Settings:
    """The settings without their invalid parts, as `load_project(project).settings` has them.

    An invalid value has its default, and so has everything in a file that cannot be read.
    """
    if not project.settings_file.is_file():
        return Settings()
    from lakeward.spec.read.document import read_document  # with ruamel, which a project without settings does not need

    try:
        text = project.settings_file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return Settings()
    data = read_document(text).data if "\x00" not in text else None
    if not isinstance(data, dict):
        return Settings()
    try:
        return Settings.model_validate(data, by_name=False)
    except ValidationError as error:
        from lakeward.spec.read.messages import findings
        from lakeward.spec.read.repair import repaired

        return repaired(Settings, data, findings(error, Settings, data)).spec or Settings()
