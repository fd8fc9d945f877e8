"""The audit's checker: what clients asked for has one record, in the commit of its change, and no record is without one."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Line = Mapping[str, Any]

_WISHES: Final = {"is_cancelled": ("cancel", "delete"), "is_deleted": ("delete",)}
"""Fields of a job that only a client sets, and the verbs that set them."""


def check_audit(lines: Sequence[Line]) -> list[str]:
    store = [line for line in lines if line["kind"] == "store"]
    return [f"audited: {wrong}" for wrong in audited(store)]


def audited(store: Sequence[Line]) -> Iterator[str]:
    deeds = [(line["revision"], deed) for line in store if _type(line) == "deeds" for deed in line["value"]["records"]]
    yield from _once(deeds)
    yield from _changed(deeds, store)
    by_verb: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for revision, deed in deeds:
        by_verb[deed["act"]["verb"], deed.get("uid", "")].add(revision)
    yield from _submitted(by_verb, store)
    yield from _wished(by_verb, store)


def _once(deeds: Sequence[tuple[int, Line]]) -> Iterator[str]:
    numbers = Counter(deed["number"] for _, deed in deeds)
    yield from (f"decision {number} has {count} records" for number, count in numbers.items() if count > 1)


def _changed(deeds: Sequence[tuple[int, Line]], store: Sequence[Line]) -> Iterator[str]:
    """A record stands beside the change that it tells of."""
    changed = {(line["revision"], line["key"]) for line in store}
    for revision, deed in deeds:
        if (revision, deed.get("uid")) not in changed:
            yield f"{deed['act']['verb']} of {deed.get('uid')} is on record at revision {revision}, where nothing of it changed"


def _submitted(by_verb: Mapping[tuple[str, str], set[int]], store: Sequence[Line]) -> Iterator[str]:
    first: dict[str, int] = {}
    for line in store:
        if (line["table"] == "jobs" and line["value"]) or _type(line) == "job-over":
            first.setdefault(line["key"], line["revision"])
    for job, revision in first.items():
        recorded = by_verb.get(("submit", job), set())
        if recorded != {revision}:
            yield f"job {job} was stored at revision {revision}, its submit is on record at {sorted(recorded)}"


def _wished(by_verb: Mapping[tuple[str, str], set[int]], store: Sequence[Line]) -> Iterator[str]:
    """What a job carries because somebody asked for it; what is asked for within its first commit is not seen here."""
    before: dict[str, Line] = {}
    for line in store:
        if line["table"] != "jobs" or not line["value"]:
            continue
        job, record, last = line["key"], line["value"], before.get(line["key"])
        before[job] = record
        for field, verbs in _WISHES.items():
            is_new = last is not None and record.get(field) and not last.get(field)
            if is_new and not any(line["revision"] in by_verb.get((verb, job), ()) for verb in verbs):
                yield f"job {job} became {field} at revision {line['revision']} and nobody is on record for it"


def _type(line: Line) -> str:
    value = line["value"]
    return value.get("type", "") if line["table"] == "outbox" and value else ""
