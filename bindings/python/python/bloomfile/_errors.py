"""The exceptions of bloomfile. Each says what is wrong, with which file, and what to do."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """What every exception of this package is. ``path`` is the file that it is about, if any."""

    path: Optional[str] = None


class IoError(Error, OSError):
    """The operating system refused or failed something; ``errno`` is its number for that."""


class NotFoundError(IoError, FileNotFoundError):
    """There is no such file."""


class AccessError(IoError, PermissionError):
    """The file may not be opened in this way."""


class ExistsError(Error, FileExistsError):
    """A file of that name is there already."""


class ParameterError(Error, ValueError):
    """A parameter that makes no sense or cannot be reached."""


class BadFileError(Error):
    """The contents of the file are at fault: it is no bloomfile, or of another version, or damaged."""


class DamagedError(BadFileError):
    """Bytes of the file were changed or lost."""


class LockedError(Error):
    """Another process has the file open for writing."""


class BusyError(Error):
    """A writer changed the file each time it was read."""


class PoisonedError(Error):
    """An earlier write through this handle failed: open the file again."""


class ForkedError(Error):
    """The handle belongs to the process that this one was forked from."""


class ClosedError(Error, ValueError):
    """The handle was closed."""


class FullError(Error):
    """The filter holds as many keys as it was made for, and was made to refuse more."""


class SealedError(Error):
    """A sealed filter, asked for what only a filter of cells can do."""


class SecretError(Error):
    """A keyed file and no secret, a wrong one, or a secret and no keyed file."""


class NotPresentError(Error, LookupError):
    """A key to be taken out is certainly not in."""


class AmbiguousError(Error, LookupError):
    """More than one segment seems to hold a key that is to be taken out."""


class DifferentError(Error, ValueError):
    """A file is not the one, or not what, was asked for."""


class IncompatibleError(Error, ValueError):
    """Files that were not made alike cannot be combined."""
