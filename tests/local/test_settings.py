"""Settings: flags over variables over the file over the defaults; what does not hold is said with its field."""

from pathlib import Path

import pytest

from windlass.boot.settings import load
from windlass.core.errors import Invalid


def test_the_defaults_need_nothing(tmp_path: Path) -> None:
    settings = load({"HOME": str(tmp_path)}, {})
    assert (settings.host, settings.port, settings.runtime) == ("127.0.0.1", 8080, "auto")
    assert settings.data_dir == tmp_path / ".local/share/windlass"


def test_flags_win_over_variables_and_these_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "windlass.toml").write_text('port = 1001\nhost = "::1"\nretention_days = 3\n')
    environ = {
        "WINDLASS_DATA_DIR": str(tmp_path),
        "WINDLASS_PORT": "1002",
        "WINDLASS_FETCH_NETWORKS": "10.0.0.0/8, ::1/128",
    }
    settings = load(environ, {"port": 1003})
    assert (settings.port, settings.host, settings.retention_days) == (1003, "::1", 3)
    assert settings.fetch_networks == ("10.0.0.0/8", "::1/128")
    assert load(environ, {}).port == 1002


def test_quota_and_prices_are_tables_in_the_file_and_json_in_the_environment(tmp_path: Path) -> None:
    content = '[quota]\ncpu = "500m"\n[prices.every]\ncoreHour = 3\n[prices.tiers]\npremium = 50\n'
    (tmp_path / "windlass.toml").write_text(content)
    settings = load({}, {"data_dir": tmp_path})
    assert settings.quota is not None
    assert settings.prices is not None
    assert (settings.quota.cpu, settings.quota.jobs, settings.prices.thousandths()) == (500, 10, {"premium": 500})
    book = settings.prices.book()
    assert book is not None
    assert (book.core_hour, book.gigabyte_hour) == (3, 10_000)
    settings = load({"WINDLASS_QUOTA": '{"jobs": 3}'}, {"data_dir": tmp_path})
    assert settings.quota is not None
    assert (settings.quota.cpu, settings.quota.jobs) == (4000, 3)
    with pytest.raises(Invalid) as refusal:
        load({"WINDLASS_QUOTA": '{"cpu": "many"}', "WINDLASS_PRICES": '{"every": {"coreHour": -1}}'}, {})
    assert [fault.field for fault in refusal.value.faults] == ["quota.cpu", "prices.every.coreHour"]


@pytest.mark.parametrize(
    ("content", "code"), [("port = 99999", "settings"), ("colour = 1", "settings"), ("port =", "settings-syntax")]
)
def test_a_file_that_does_not_hold_is_refused(tmp_path: Path, content: str, code: str) -> None:
    (tmp_path / "windlass.toml").write_text(content)
    with pytest.raises(Invalid) as refusal:
        load({}, {"data_dir": tmp_path})
    assert refusal.value.code == code


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        load({}, {"data_dir": tmp_path}, tmp_path / "none.toml")
