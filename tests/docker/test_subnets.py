"""Which subnet a tenant's network gets: in the range, of the size, and nobody's."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.runtime.docker import Addresses
from windlass.adapters.runtime.docker.subnets import routes
from windlass.boot.settings import Settings

TABLE = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
tun0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0
br0\t0004D00A\t00000000\t0001\t0\t0\t0\t00FCFFFF\t0\t0\t0
"""

CASES = {
    "nothing is taken": ([], "10.208.0.0/22"),
    "the first is": (["10.208.0.0/22"], "10.208.4.0/22"),
    "a smaller one lies in the first": (["10.208.1.0/24"], "10.208.4.0/22"),
    "a larger one begins before the range": (["10.200.0.0/13", "10.208.0.0/20"], "10.208.16.0/22"),
    "there is a gap": (["10.208.8.0/22", "10.208.0.0/22"], "10.208.4.0/22"),
    "what is taken lies elsewhere": (["172.17.0.0/16", "192.168.0.0/16"], "10.208.0.0/22"),
    "all is taken": (["10.0.0.0/8"], None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_that_is_free(case: str) -> None:
    taken, expected = CASES[case]
    found = Addresses().first_free([IPv4Network(one) for one in taken])
    assert (found and str(found)) == expected


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(20, 32)), max_size=12))
def test_what_is_found_overlaps_nothing_and_only_a_full_range_has_none(wanted: list[tuple[int, int]]) -> None:
    addresses = Addresses("10.208.0.0/22", 26)
    taken = [IPv4Network((0x0AD00000 + 16 * at, prefix), strict=False) for at, prefix in wanted]
    found = addresses.first_free(taken)
    free = [one for one in IPv4Network("10.208.0.0/22").subnets(new_prefix=26) if not any(map(one.overlaps, taken))]
    assert found == (free[0] if free else None)


def test_routes_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    (tmp_path / "route").write_text(TABLE)
    found = routes(tmp_path / "route")
    assert [str(one) for one in found] == ["0.0.0.0/0", "192.0.2.0/24", "10.0.0.0/8", "10.208.4.0/22"]
    assert routes(tmp_path / "absent") == []


def test_a_route_to_the_whole_range_is_a_way_out_and_not_a_network(tmp_path: Path) -> None:
    (tmp_path / "route").write_text(TABLE)
    assert [str(one) for one in Addresses().routed(routes(tmp_path / "route"))] == ["10.208.4.0/22"]


def test_the_settings_and_the_runtime_mean_the_same_by_nothing(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert Addresses(settings.network_range, settings.network_size) == Addresses()
