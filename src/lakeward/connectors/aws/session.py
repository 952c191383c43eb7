"""Sessions of boto3 whose keys are those of a connection's file, now: a rotated key needs no new client."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.aws import account
from lakeward.connectors.aws.account import KEY, SECRET, TOKEN, Account

if TYPE_CHECKING:
    from botocore.session import Session


def session_of(account_: Account) -> Session:
    """A session of botocore with the keys of an account; for the machine's identity with AWS's own order of places."""
    import botocore.session

    session: Any = botocore.session.Session()
    if account_.file is not None and account_.keys():
        for name in ("config_file", "credentials_file"):
            session.set_config_variable(name, str(account_.file))
        session.set_config_variable("profile", account.PROFILE)
        session._credentials = _file_keys(account_, account_.file)
    return session


def _file_keys(account_: Account, file: Path) -> Any:
    """Credentials of botocore that read the file again when it changes. Each request takes them frozen."""
    from botocore.credentials import Credentials, ReadOnlyCredentials
    from botocore.exceptions import NoCredentialsError

    class FileKeys(Credentials):  # type: ignore[misc]  # botocore has no types
        """The keys of a profile file."""

        def __init__(self) -> None:
            super().__init__("", "", method="lakeward")
            self._lock = threading.Lock()
            self._read_as: tuple[int, int, int] | None = None

        def get_frozen_credentials(self) -> ReadOnlyCredentials:
            with self._lock:
                status = file.stat() if file.exists() else None
                now = None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
                if now is None or now != self._read_as or account_.role:  # a role's are renewed without a change
                    keys = account_.keys()  # says what is wrong with a file that is not there
                    if KEY not in keys:
                        raise NoCredentialsError
                    self.access_key, self.secret_key, self.token = keys[KEY], keys[SECRET], keys.get(TOKEN)
                    self._read_as = now
                return ReadOnlyCredentials(self.access_key, self.secret_key, self.token)

    return FileKeys()
