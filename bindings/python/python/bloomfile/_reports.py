"""What the functions of bloomfile tell, as objects with the names of the command's JSON."""

from __future__ import annotations

import html
import json
from typing import Any, Dict, List, Optional, Type, TypeVar

_R = TypeVar("_R", bound="Report")


class Report:
    """Values with names; ``to_dict`` gives all of them."""

    def __init__(self, values: Dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, self._nested(name, value))

    @classmethod
    def _from_json(cls: Type[_R], text: str) -> _R:
        return cls(json.loads(text))

    def _nested(self, name: str, value: Any) -> Any:
        return value

    def to_dict(self) -> Dict[str, Any]:
        """All values, in dictionaries and lists."""

        def plain(value: Any) -> Any:
            if isinstance(value, Report):
                return value.to_dict()
            if isinstance(value, list):
                return [plain(item) for item in value]
            return value

        return {name: plain(value) for name, value in vars(self).items()}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class Built(Report):
    """What `build` made."""

    keys: int
    file_bytes: int
    capacity: Optional[int]
    expected_rate: Optional[float]
    maybe_pages: int


class BuiltPart(Report):
    """What `PartBuilder.finish` made."""

    part: int
    taken: int
    keys: int
    pages: int
    maybe_pages: int
    file_bytes: int


class FilterStats(Report):
    """What a writer did since the file was opened; durations are in seconds."""

    syncs: int
    flushes: int
    longest_sync: float
    checkpoints: int
    last_checkpoint: float
    longest_checkpoint: float
    stalls: int
    journal_records: int
    journal_capacity: int
    journal_full: bool
    pages_unverified: int
    recoveries: int
    crowded_blocks: int

    def _nested(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return value["secs"] + value["nanos"] / 1e9
        return value


class ReaderStats(Report):
    """What became of the pages that a reader's answers rested on."""

    pages: int
    pages_checked: int
    pages_unverifiable: int
    pages_kept_unverified: int
    pages_damaged: int


class Derivation(Report):
    """What `merge` and `intersect` made, and of what."""

    operation: str
    uuid: str
    geometry: Dict[str, Any]
    file_bytes: int
    capacity: Optional[int]
    ones: int
    keys: Dict[str, float]
    rate: float
    inputs: List[Dict[str, Any]]


class Comparison(Report):
    """How two files relate."""

    a: Dict[str, Any]
    b: Dict[str, Any]
    parameters: List[Dict[str, str]]
    contents: Dict[str, Any]
    same: bool

    @property
    def relation(self) -> Optional[str]:
        """"equal", "superset", "subset" or "neither"; None where the files cannot be compared."""
        compared = self.contents.get("compared")
        return None if compared is None else compared["relation"]


class Verification(Report):
    """What checking every page of a file gave."""

    health: str
    kind: str
    pages: int
    pages_exact: int
    pages_unverifiable: List[int]
    pages_busy: List[int]
    pages_damaged: List[int]
    pages_kept_unverified: int
    journal_records: int
    journal_missing: int
    sound: bool


class Segment(Report):
    """One geometry of a file, and how full it is."""

    geometry: Dict[str, Any]
    capacity: Optional[int]
    adds: int
    offset: int
    pages: int
    data_bytes: int
    table_bytes: int
    cells: int
    ones: int
    row_ones: List[int]
    fill: float
    keys: Dict[str, float]
    rate_now: float
    rate_at_capacity: Optional[float]


class Inspection(Report):
    """What a file is, and how full. In a notebook it shows itself as the page of `html_report`."""

    path: str
    format_version: int
    uuid: str
    file_bytes: int
    health: str
    health_meaning: str
    kind: str
    when_full: str
    hash: str
    key_fingerprint: Optional[str]
    seed: int
    target_rate: Optional[float]
    capacity: Optional[int]
    generations: Optional[int]
    rotate_after: Optional[int]
    journal_bytes: int
    journal_records: int
    journal_full: bool
    slot_damaged: bool
    sequence: int
    epoch: int
    mark: int
    recoveries: int
    unverifiable_pages: int
    repaired_pages: int
    segments: List[Segment]
    metadata: Dict[str, str]
    keys: float
    rate_now: float
    rate_at_capacity: Optional[float]

    def _nested(self, name: str, value: Any) -> Any:
        if name == "segments":
            return [Segment(segment) for segment in value]
        return value

    def _repr_html_(self) -> str:
        from ._bloomfile import html_report
        from ._errors import Error

        try:
            page = html_report(self.path)
        except Error as error:
            # The file may be gone or changed by now: then what was found is shown as text.
            return f"<p>{html.escape(str(error))}</p><pre>{html.escape(repr(self))}</pre>"
        # In a frame of its own: the style of the page is for all of a document.
        return (
            f'<iframe srcdoc="{html.escape(page)}" sandbox title="{html.escape(self.path)}" '
            'style="width:100%;height:40em;border:0"></iframe>'
        )
