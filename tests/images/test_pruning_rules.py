"""Prune gives up only what no rule keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.distribution import Image, Inventory, KeepRules, parse_reference, plan_prune

HOST = "registry.example.com"
NOW = 1_700_000_000
DAY = 86_400


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def an_image(number: int, *tags: str, age_days: int = 100, pinned: bool = False) -> Image:
    names = tuple(parse_reference(f"{HOST}/{tag}") for tag in tags)
    return Image(id=digest(number), tags=names, size=10, created=NOW - age_days * DAY, is_pinned=pinned)


def rules(**changes: object) -> KeepRules:
    return KeepRules(**{"prefixes": (HOST,), "newest": 1, **changes})  # type: ignore[arg-type]


def gone(images: list[Image], keep: KeepRules, **options: bool) -> list[str]:
    plan = plan_prune(Inventory(node="n1", images=tuple(images)), keep, now=NOW, **options)
    return [f"{name.path.split('/')[-1]}:{name.tag}" for removal in plan.removals for name in removal.names]


OLD = [an_image(1, "app:1", age_days=90), an_image(2, "app:2", age_days=80), an_image(3, "app:3", age_days=70)]

CASES = {
    "the newest k of a repository stay": (rules(newest=2), ["app:1"]),
    "an image in use by a container stays": (rules(in_use=frozenset({digest(1)})), ["app:2"]),
    "a name a queued job needs stays": (
        rules(protected={parse_reference(f"{HOST}/app:2"): "queued job 7"}),
        ["app:1"],
    ),
    "a digest a rollback needs stays": (
        rules(protected={parse_reference(f"{HOST}/app@{digest(1)}"): "rollback"}),
        ["app:2"],
    ),
    "a young image stays": (rules(newest=0, younger_than_seconds=75 * DAY), ["app:1", "app:2"]),
    "what is out of scope stays": (rules(prefixes=("other.example.com",)), []),
}


@pytest.mark.parametrize("case", CASES)
def test_keep_rules(case: str) -> None:
    keep, expected = CASES[case]
    assert gone(OLD, keep) == expected


def test_every_kept_name_says_why() -> None:
    keep = rules(in_use=frozenset({digest(1)}), protected={parse_reference(f"{HOST}/app:2"): "queued job 7"})
    plan = plan_prune(Inventory(node="n1", images=tuple(OLD)), keep, now=NOW)
    assert {str(kept.name).removeprefix(f"{HOST}/"): kept.reason for kept in plan.kept} == {
        "app:1": "in use by a container",
        "app:2": "protected: queued job 7",
        "app:3": "among the newest 1 of its repository",
    }


def test_a_pinned_image_stays() -> None:
    assert gone([an_image(1, "pause:1", pinned=True)], rules(newest=0)) == []


def test_one_of_two_names_goes_unless_the_runtime_would_take_both() -> None:
    both = [an_image(1, "app:1", "web:1"), an_image(2, "app:2", age_days=50)]
    assert gone(both, rules()) == ["app:1"]
    assert gone(both, rules(), takes_all_names=True) == []


def test_where_an_age_is_unknown_the_newest_rule_keeps_all() -> None:
    unknown = [*OLD, Image(id=digest(4), tags=(parse_reference(f"{HOST}/app:4"),))]
    assert gone(unknown, rules()) == []
    assert gone(unknown, rules(newest=0)) == ["app:1", "app:2", "app:3", "app:4"]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), min_size=1, max_size=12),
    st.integers(1, 4),
    st.sets(st.integers(0, 12)),
)
def test_never_in_use_and_never_fewer_than_k_of_a_repository(
    shape: list[tuple[int, int]], newest: int, used: set[int]
) -> None:
    images = [an_image(i, f"r{repository}:t{i}", age_days=age) for i, (repository, age) in enumerate(shape)]
    keep = rules(newest=newest, in_use=frozenset(map(digest, used)), younger_than_seconds=0)
    plan = plan_prune(Inventory(node="n1", images=tuple(images)), keep, now=NOW)
    removed = {removal.image.id for removal in plan.removals}
    assert not removed & keep.in_use
    for repository in {repository for repository, _ in shape}:
        ids = {digest(i) for i, (r, _) in enumerate(shape) if r == repository}
        assert len(ids - removed) >= min(newest, len(ids))


def test_a_tag_stays_before_what_moved_tags_left_behind() -> None:
    """However young the leftovers are: the tag was rolled back to an older build."""
    left = [
        Image(id=digest(n), digests=(parse_reference(f"{HOST}/app@{digest(n + 50)}"),), size=10, created=NOW - n * DAY)
        for n in (1, 2, 3)
    ]
    live = an_image(9, "app:1", age_days=300)
    assert "app:1" not in gone([*left, live], rules(newest=1))
