"""What lacks what, by digest and platform."""

from windlass.core.distribution import (
    CellState,
    Image,
    Inventory,
    Platform,
    compare,
    held_layers,
    in_scope,
    parse_reference,
    unmatched,
    wanted_pulls,
)

HOST = "registry.example.com"
AMD, ARM = Platform("linux", "amd64"), Platform("linux", "arm64")


def digest(letter: str) -> str:
    return "sha256:" + letter * 64


def an_image(letter: str, *tags: str, pulled_as: str | None = None, **fields: object) -> Image:
    names = tuple(parse_reference(f"{HOST}/{tag}") for tag in tags)
    repositories = dict.fromkeys(name.repository for name in names)
    digests = tuple(parse_reference(f"{repository}@{digest(pulled_as)}") for repository in repositories if pulled_as)
    return Image(id=digest(letter), tags=names, digests=digests, **fields)  # type: ignore[arg-type]


def states(*inventories: Inventory, **options: str) -> dict[str, dict[str, str]]:
    comparison = compare(inventories, (f"{HOST}/",), **options)  # type: ignore[arg-type]
    return {
        row.name.path + (f":{row.name.tag}" if row.name.tag else "@"): {n: str(c.state) for n, c in row.cells.items()}
        for row in comparison.rows
    }


def test_a_name_on_one_node_is_missing_on_the_others() -> None:
    one = Inventory(node="n1", images=(an_image("a", "app:1"),))
    two = Inventory(node="n2", images=(an_image("b", "web:1"),))
    assert states(one, two) == {
        "app:1": {"n1": "present", "n2": "missing"},
        "web:1": {"n1": "missing", "n2": "present"},
    }


def test_an_image_pulled_and_one_loaded_from_a_file_are_the_same_by_their_config() -> None:
    pulled = Inventory(node="n1", images=(an_image("a", "app:1", pulled_as="d"),))
    loaded = Inventory(node="n2", images=(an_image("a", "app:1"),))
    assert states(pulled, loaded) == {"app:1": {"n1": "present", "n2": "present"}}


def test_nodes_of_two_platforms_agree_when_they_pulled_the_same_index() -> None:
    amd = Inventory(node="n1", images=(an_image("a", "app:1", pulled_as="d", platform=AMD),), platform=AMD)
    arm = Inventory(node="n2", images=(an_image("b", "app:1", pulled_as="d", platform=ARM),), platform=ARM)
    assert compare((amd, arm), (HOST,)).is_even
    moved = Inventory(node="n2", images=(an_image("b", "app:1", pulled_as="e", platform=ARM),), platform=ARM)
    assert [str(row.name) for row in compare((amd, moved), (HOST,)).moved()] == [f"{HOST}/app:1"]


def test_a_moved_tag_is_seen_and_asked_for_again_everywhere() -> None:
    old = [Inventory(node=f"n{i}", images=(an_image("a", "app:1", pulled_as="d"),)) for i in (1, 2)]
    new = Inventory(node="n3", images=(an_image("b", "app:1", pulled_as="e"),))
    bare = Inventory(node="n4")
    comparison = compare((*old, new, bare), (HOST,))
    (row,) = comparison.moved()
    assert row.versions == ((digest("a"), ("n1", "n2")), (digest("b"), ("n3",)))
    assert [cell.state for cell in row.cells.values()] == [
        CellState.PRESENT,
        CellState.PRESENT,
        CellState.DIFFERENT,
        CellState.MISSING,
    ]
    assert [want.node for want in wanted_pulls(comparison)] == ["n1", "n2", "n3", "n4"]


def test_a_source_settles_which_version_of_a_moved_tag_counts() -> None:
    old = [Inventory(node=f"n{i}", images=(an_image("a", "app:1"),)) for i in (1, 2)]
    new = Inventory(node="n3", images=(an_image("b", "app:1"),))
    comparison = compare((*old, new), (HOST,), source="n3")
    assert comparison.rows[0].content().id == digest("b")
    assert [want.node for want in wanted_pulls(comparison, source="n3")] == ["n1", "n2"]


def test_an_image_with_several_tags_is_wanted_under_each_of_them() -> None:
    one = Inventory(node="n1", images=(an_image("a", "app:1", "app:latest", "web:1"),))
    two = Inventory(node="n2", images=(an_image("a", "app:1"),))
    wants = wanted_pulls(compare((one, two), (HOST,)))
    assert [(want.node, str(want.name)) for want in wants] == [
        ("n2", f"{HOST}/app:latest"),
        ("n2", f"{HOST}/web:1"),
    ]
    assert {want.image_id for want in wants} == {digest("a")}


def test_an_untagged_image_is_wanted_by_its_digest_and_found_under_any_name() -> None:
    bare = Image(id=digest("a"), digests=(parse_reference(f"{HOST}/app@{digest('d')}"),))
    one = Inventory(node="n1", images=(bare,))
    assert states(one, Inventory(node="n2")) == {"app@": {"n1": "present", "n2": "missing"}}
    tagged_elsewhere = Inventory(node="n2", images=(an_image("a", "other:1"),))
    assert states(one, tagged_elsewhere)["app@"] == {"n1": "present", "n2": "present"}


def test_what_a_moved_tag_left_behind_is_not_spread_to_the_others() -> None:
    leftover = Image(id=digest("a"), digests=(parse_reference(f"{HOST}/app@{digest('d')}"),))
    one = Inventory(node="n1", images=(leftover, an_image("b", "app:1", pulled_as="e")))
    two = Inventory(node="n2", images=(an_image("b", "app:1", pulled_as="e"),))
    assert states(one, two) == {"app:1": {"n1": "present", "n2": "present"}}


def test_an_image_without_any_name_is_nobodys_business() -> None:
    assert states(Inventory(node="n1", images=(Image(id=digest("a")),)), Inventory(node="n2")) == {}


def test_prefixes_are_literal_and_know_both_spellings() -> None:
    nginx = parse_reference("nginx:1")
    assert in_scope(nginx, ("ngin",))
    assert in_scope(nginx, ("docker.io/library/",))
    assert not in_scope(nginx, ("n.inx", ".*", "library/"))


def test_a_prefix_that_begins_no_name_is_named() -> None:
    prefixes = ("nginx", "ngnix", "docker.io/library/n")
    image = Image(id=digest("a"), tags=(parse_reference("nginx:1"),))
    held = compare((Inventory(node="n1", images=(image,)),), prefixes)
    assert unmatched(held, prefixes) == ("ngnix",)


def test_layers_count_as_held_only_from_the_bottom_up() -> None:
    there = [Image(id=digest("a"), layers=("l1", "l2", "x3")), Image(id=digest("b"), layers=("l2", "l3"))]
    assert held_layers(("l1", "l2", "l3"), there) == 2
    assert held_layers(("l2", "l3"), there) == 2
    assert held_layers(("l3",), there) == 0
