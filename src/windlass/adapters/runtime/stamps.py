"""Times as engines write them."""

import re
from datetime import UTC, datetime
from typing import Final

_NANOS: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


def seconds(text: str) -> float | None:
    """An engine's timestamp; None for Go's zero time."""
    found = _NANOS.fullmatch(text)
    if found is None or text.startswith("0001-"):
        return None
    whole, fraction, zone = found.groups()
    moment = datetime.fromisoformat(whole + zone.replace("Z", "+00:00"))
    return moment.timestamp() + int((fraction or "").ljust(9, "0")) / 1e9


def normal_timestamp(text: str) -> str:
    """RFC 3339 in UTC with nine digits, so that times compare as text; whatever zone and digits an engine writes."""
    if len(text) == 30 and text[-1] == "Z":
        return text
    found = _NANOS.fullmatch(text)
    if found is None:
        return text
    whole, fraction, zone = found.groups()
    moment = datetime.fromisoformat(whole + zone.replace("Z", "+00:00")).astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{(fraction or '').ljust(9, '0')}Z"
