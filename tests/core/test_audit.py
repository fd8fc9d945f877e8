"""The audit of decisions: who asked is part of what was decided, stored with it and taken back with it."""

from msgspec import json

from windlass.control.committer import _writes
from windlass.core.model.audit import Act, Author, Deed
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.tenant import new_tenant
from windlass.core.model.token import IssuedToken
from windlass.core.world import requests
from windlass.core.world.audit import note, sign
from windlass.core.world.records import Deeds, Table, decode, store_key
from windlass.core.world.submit import submit
from windlass.core.world.tenants import create_tenant, delete_tenant
from windlass.core.world.tokens import note_token, revoke_token
from windlass.core.world.world import World
from windlass.ports.store import Put
from windlass.testing.builders import a_job_id, a_submission, a_world

NOW = Millis(2_000_000)
LOCAL = TenantId("local")
ADA = Act(Author("ada", "local", "t1"), "10.0.0.7", "r1", "submit")


def signed(world: World, since: int) -> Deed:
    sign(world, ADA, since=since, now=NOW)
    deed = world.journal.tail(len(world.journal) - 1)[0].deed
    assert deed is not None
    return deed


def test_what_was_changed_is_read_from_the_decision_itself() -> None:
    world, job = a_world(), a_job_id()
    since = len(world.journal)
    submit(world, LOCAL, a_submission(name="train", suspended=True), job=job, now=NOW)
    deed = signed(world, since)
    assert (deed.kind, deed.name, deed.uid, deed.tenant, deed.others) == ("Job", "train", job, "local", ())
    assert (deed.number, deed.at, deed.act) == (world.number, NOW, ADA)
    since = len(world.journal)
    requests.delete(world, LOCAL, job, with_volume=True, now=NOW)
    deed = signed(world, since)
    assert (deed.kind, deed.name, deed.uid) == ("Job", "train", job)


def test_a_batch_names_all_it_made() -> None:
    world, jobs = a_world(), [a_job_id() for _ in range(3)]
    since = len(world.journal)
    with world.decision(NOW):
        for job in jobs:
            submit(world, LOCAL, a_submission(), job=job, now=NOW)
    deed = signed(world, since)
    assert (deed.uid, deed.others) == (jobs[0], tuple(jobs[1:]))


def test_tenants_and_tokens_are_named_with_whose_they_are() -> None:
    world, acme = a_world(), TenantId("acme")
    since = len(world.journal)
    create_tenant(world, new_tenant(acme), now=NOW)
    assert (signed(world, since).kind, signed(world, since).name, signed(world, since).tenant) == (
        "Tenant", "acme", "acme",
    )  # fmt: skip
    since = len(world.journal)
    token = IssuedToken(id="j9", tenant=acme, expires_at=9, subject="bob", role="member")
    note_token(world, token, now=NOW)
    deed = signed(world, since)
    assert (deed.kind, deed.name, deed.uid, deed.tenant) == ("Token", "bob", "j9", "acme")
    since = len(world.journal)
    revoke_token(world, token, now=NOW)
    assert signed(world, since).uid == "j9"
    since = len(world.journal)
    delete_tenant(world, acme, now=NOW)
    assert signed(world, since).kind == "Tenant"


def test_the_record_is_taken_back_with_its_decision() -> None:
    world = a_world()
    world.journal.take(100)
    world.journal.settle()
    submit(world, LOCAL, a_submission(), job=a_job_id(), now=NOW)
    signed(world, 0)
    world.undo_uncommitted()
    assert not len(world.journal)
    assert not world.tables.jobs


def test_a_commit_carries_the_audit_of_all_its_decisions_in_one_write() -> None:
    world = a_world()
    world.journal.take(100)
    world.journal.settle()
    for _ in range(3):
        since = len(world.journal)
        submit(world, LOCAL, a_submission(), job=a_job_id(), now=NOW)
        sign(world, ADA, since=since, now=NOW)
    note(world, ADA, now=NOW, refused="read-only", name="x")
    writes = _writes(world.journal.take(1000))
    audits = [one for one in writes if isinstance(one, Put) and one.key.startswith(store_key(Table.OUTBOX, "audit-"))]
    records = [deed for one in audits for deed in decode(Table.OUTBOX, one.value).records]
    assert len(audits) == 2
    assert sorted(deed.refused for deed in records) == ["", "", "", "read-only"]
    assert len({deed.number for deed in records}) == 4


def test_an_audit_record_survives_its_way_through_the_store() -> None:
    deed = Deed(number=7, at=NOW, act=ADA, kind="Job", name="x", uid="u", tenant="local", others=("v",))
    assert json.decode(json.encode(Deeds(records=(deed,))), type=Deeds).records == (deed,)
