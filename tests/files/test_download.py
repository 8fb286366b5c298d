"""A download survives what the network does to it, and is whole when it returns; all of it on this machine's loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from web import Server, serving

from bgbias import seeds
from bgbias.files import download as downloading
from bgbias.files.download import NotHad, download

CONTENT = seeds.generator("archive").bytes(3_000_000)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloading, "PAUSES", (0.0, 0.0, 0.0))
    with serving(CONTENT) as server:
        yield server


def test_broken_connection_goes_on_where_it_ended(server: Server, tmp_path: Path) -> None:
    server.breaks = [1_000_000, 500_000]
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-", "bytes=1500000-"]


def test_file_that_was_replaced_meanwhile_comes_whole(server: Server, tmp_path: Path) -> None:
    other = seeds.generator("another archive").bytes(len(CONTENT))
    server.breaks = [1_000_000, 0, 0, 0, 0]
    with pytest.raises(NotHad, match=r"1\.0 MB are kept"):
        download(server.url, tmp_path / "part", "birds")
    server.breaks, server.content, server.version = [], other, '"2"'
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == other
    assert [p.name for p in tmp_path.iterdir()] == ["part"]


def test_answer_that_goes_on_at_another_place_is_thrown_away(server: Server, tmp_path: Path) -> None:
    server.breaks, server.misplaced = [1_000_000], True
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT


def test_stalled_connection_times_out_and_loses_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(downloading, "TIMEOUT_SECONDS", 0.3)
    server.stalls = [700_001]
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=700001-"]
    assert "birds: nothing came for 0.3 s; trying again" in capsys.readouterr().err


def test_connection_that_stays_silent_is_given_up_and_the_next_command_goes_on(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloading, "TIMEOUT_SECONDS", 0.2)
    server.stalls = [2_000_000, 0, 0, 0]
    with pytest.raises(
        NotHad, match=r"nothing came for 0\.2 s; 2\.0 MB are kept, the same command goes on there"
    ):
        download(server.url, tmp_path / "part", "birds")
    assert server.asked == [None, *["bytes=2000000-"] * 3]
    server.stalls = []
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT


def test_every_bit_of_progress_gives_new_tries(server: Server, tmp_path: Path) -> None:
    server.breaks = [100_000] * 20
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_server_in_trouble_is_asked_again(server: Server, tmp_path: Path, status: int) -> None:
    server.failures = [status, status]
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert len(server.asked) == 3


def test_server_that_stays_in_trouble_is_given_up(server: Server, tmp_path: Path) -> None:
    server.failures = [500] * 10
    with pytest.raises(NotHad, match="HTTP Error 500"):
        download(server.url, tmp_path / "part", "birds")
    assert len(server.asked) == 4  # three pauses


@pytest.mark.parametrize("status", [404, 403, 410])
def test_missing_file_is_not_asked_for_again(server: Server, tmp_path: Path, status: int) -> None:
    server.failures = [status]
    with pytest.raises(NotHad, match=f"HTTP Error {status}"):
        download(server.url, tmp_path / "part", "birds")
    assert len(server.asked) == 1


def test_closed_port_is_given_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(NotHad, match="refused"):
        download("http://127.0.0.1:9/archive", tmp_path / "part", "birds")


def test_redirects_are_followed_and_resumed(server: Server, tmp_path: Path) -> None:
    server.breaks = [1_000_000]
    download(f"{server.root}/moved", tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-"]


def test_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.breaks, server.ranges = [1_000_000], False
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT


def test_download_that_was_complete_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(CONTENT)
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert server.asked == ["bytes=3000000-"]


def test_beginning_of_a_longer_file_is_dropped(server: Server, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(CONTENT + b"more")
    download(server.url, tmp_path / "part", "birds")
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert server.asked == ["bytes=3000004-", None]


def test_file_of_another_size_is_not_fetched(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NotHad, match="a file of 3000000 bytes is there, not one of 2999999"):
        download(server.url, tmp_path / "part", "birds", 2_999_999)
    assert not (tmp_path / "part").exists()
    download(server.url, tmp_path / "part", "birds", 3_000_000)


def test_web_page_in_place_of_the_file_is_not_taken(server: Server, tmp_path: Path) -> None:
    server.kind = "text/html; charset=utf-8"
    with pytest.raises(NotHad, match="a web page came, not the file"):
        download(server.url, tmp_path / "part", "birds")
    assert not (tmp_path / "part").exists()
