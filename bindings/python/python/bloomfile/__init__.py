"""A persistent Bloom filter in one versioned, checksummed, memory-mapped file.

>>> bloomfile.build("words.bloom", ["sheep", "goat"], fpr=0.01).keys
2
>>> with bloomfile.open("words.bloom") as words:
...     "sheep" in words, "wolf" in words
(True, False)

A key is ``bytes``, something like bytes, or ``str``, which stands for its UTF-8. Whole numbers are
keys where a file was made with an ``encoding``. Everything else is a TypeError: Python's ``hash()``
differs between processes, and is never used.
"""

from ._bloomfile import (
    ArrowColumn,
    Filter,
    Hasher,
    Reader,
    build,
    compare,
    create,
    digest,
    inspect,
    intersect,
    merge,
    open,
    verify,
)
from ._errors import (
    AccessError,
    AmbiguousError,
    BadFileError,
    ClosedError,
    DamagedError,
    DifferentError,
    Error,
    ExistsError,
    ForkedError,
    FullError,
    IncompatibleError,
    IoError,
    LockedError,
    NotFoundError,
    NotPresentError,
    ParameterError,
    PoisonedError,
    SealedError,
    SecretError,
    UnsettledError,
)
from ._reports import (
    Built,
    Comparison,
    Derivation,
    FilterStats,
    Inspection,
    ReaderStats,
    Report,
    Segment,
    Verification,
)

__all__ = [
    "AccessError",
    "AmbiguousError",
    "ArrowColumn",
    "BadFileError",
    "Built",
    "ClosedError",
    "Comparison",
    "DamagedError",
    "Derivation",
    "DifferentError",
    "Error",
    "ExistsError",
    "Filter",
    "FilterStats",
    "ForkedError",
    "FullError",
    "Hasher",
    "IncompatibleError",
    "Inspection",
    "IoError",
    "LockedError",
    "NotFoundError",
    "NotPresentError",
    "ParameterError",
    "PoisonedError",
    "Reader",
    "ReaderStats",
    "Report",
    "SealedError",
    "SecretError",
    "Segment",
    "UnsettledError",
    "Verification",
    "build",
    "compare",
    "create",
    "digest",
    "inspect",
    "intersect",
    "merge",
    "open",
    "verify",
]
