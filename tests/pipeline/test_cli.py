"""The command line reports user errors in one line, before Spark starts."""

import fcntl
import json
import os
from pathlib import Path

import pytest
from click.exceptions import Exit

pytest.importorskip("pyspark", reason="needs the extra `pipeline`")

from coordinator_pipeline import cli
from coordinator_pipeline.errors import PipelineError
from coordinator_pipeline.run import RunSummary
from coordinator_pipeline.store import begin_run, check_readable, save_run
from coordinator_protocol.batch import build_batch
from tests.support.coordinator_log import commits, segment


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A data directory with a small log."""
    directory = tmp_path / "data" / "__consumer_offsets-7"
    directory.mkdir(parents=True)
    segment(directory).write_bytes(build_batch(commits("g", 3), 0))
    return directory.parent


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """The one line of an error."""
    monkeypatch.setattr("sys.argv", ["coordinator-pipeline", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_a_directory_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "--log", str(tmp_path / "no"), "--out", str(tmp_path / "out"))

    assert "there is no such directory" in said(capsys, monkeypatch, *words)
    assert not (tmp_path / "out").exists()


def test_an_empty_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    words = ("run", "--log", str(tmp_path / "data"), "--out", str(tmp_path / "out"))

    assert "no directories __consumer_offsets-N in it" in said(capsys, monkeypatch, *words)


def test_a_directory_of_other_topics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    words = ("run", "--log", str(tmp_path / "data"), "--out", str(tmp_path / "out"))

    assert "of other topics such as orders-0" in said(capsys, monkeypatch, *words)


def test_a_directory_that_may_not_be_read(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    words = ("run", "--log", str(log), "--out", str(tmp_path / "out"))

    assert "no permission to read it" in said(capsys, monkeypatch, *words)


def test_neither_a_directory_nor_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "expected one of --log DIR and --bootstrap" in said(
        capsys, monkeypatch, "run", "--out", str(tmp_path / "out")
    )


def test_a_server_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*where: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refused)
    words = ("run", "--bootstrap", "127.0.0.1:1", "--out", str(tmp_path / "out"))

    assert "--bootstrap: " in said(capsys, monkeypatch, *words)
    assert "no answer from 127.0.0.1:1" in said(capsys, monkeypatch, *words)
    assert not (tmp_path / "out").exists()


def test_an_output_directory_that_is_a_file(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_text("mine")
    words = ("run", "--log", str(log), "--out", str(tmp_path / "out"))

    assert "Not a directory" in said(capsys, monkeypatch, *words)
    assert (tmp_path / "out").read_text() == "mine"


def test_an_output_directory_with_other_files_is_not_touched(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")

    text = said(capsys, monkeypatch, "run", "--log", str(log), "--out", str(out))

    assert "not empty and no run" in text
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_the_output_of_another_log_is_not_touched(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    begin_run(out, {"log": "/srv/other", "topic": "t"}, follow=False, overwrite=False)
    before = (out / "run.json").read_text()

    words = ("run", "--log", str(log), "--out", str(out), "--overwrite")
    text = said(capsys, monkeypatch, *words)

    assert "holds the run of another source, --log /srv/other" in text
    assert (out / "run.json").read_text() == before


def test_a_finished_run_is_replaced_only_when_asked(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    source = {"log": str(log.resolve()), "topic": "__consumer_offsets"}
    begin_run(out, source, follow=False, overwrite=False)
    save_run(out, json.loads((out / "run.json").read_text()) | {"state": "complete"})

    words = ("run", "--log", str(log), "--out", str(out))

    assert "--overwrite replaces it" in said(capsys, monkeypatch, *words)
    follow = said(capsys, monkeypatch, *words, "--follow")
    assert "holds a batch run, expected a new directory" in follow


def test_report_refuses_a_directory_without_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = said(capsys, monkeypatch, "report", "--out", str(tmp_path))

    assert "no run.json in it, expected the output of a run" in text


def test_a_report_of_a_run_that_was_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_run(tmp_path, {"log": "/srv", "topic": "t"}, follow=False, overwrite=False)

    text = said(capsys, monkeypatch, "report", "--out", str(tmp_path))

    assert "its run has not finished: run it again" in text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            (
                'Failed: Traceback (most recent call last):\n  File "a"\n    raise Error(\n\n'
                "coordinator_pipeline.errors.PipelineError: --out x: it is gone\n\n\tat java.lang\n"
            ),
            "--out x: it is gone",
        ),
        (
            'Traceback (most recent call last):\n  File "a"\npyarrow.lib.ArrowInvalid: no Parquet',
            "ArrowInvalid: no Parquet",
        ),
        ("[PARSE_SYNTAX_ERROR] Syntax error.\n\tat java", "[PARSE_SYNTAX_ERROR] Syntax error."),
        ("", "RuntimeError"),
    ],
)
def test_an_error_of_python_within_spark_is_printed_in_one_line(text: str, line: str) -> None:
    assert cli._error_line(RuntimeError(text)) == line


def test_tables_of_which_the_first_batch_is_not_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_run(tmp_path, {"log": "/srv", "topic": "t"}, follow=True, overwrite=False)
    (tmp_path / "records" / "batch=0").mkdir(parents=True)

    text = said(capsys, monkeypatch, "query", "--out", str(tmp_path), "SELECT 1")

    assert "its first batch is not finished yet" in text


@pytest.mark.parametrize("words", ["{}", "[]", "{", '{"format": 1}'])
def test_a_run_file_that_says_something_else(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
) -> None:
    (tmp_path / "run.json").write_text(words)

    text = said(capsys, monkeypatch, "report", "--out", str(tmp_path))

    assert str(tmp_path / "run.json") in text


def test_an_output_directory_in_which_another_process_writes(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    other = os.open(out, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)

    text = said(capsys, monkeypatch, "run", "--log", str(log), "--out", str(out))

    os.close(other)
    assert "another run is writing to it" in text
    assert list(out.iterdir()) == []


def test_a_run_that_is_killed_while_it_removes_an_older_one_leaves_none_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"log": "/srv", "topic": "t"}
    begin_run(tmp_path, source, follow=False, overwrite=False)
    save_run(tmp_path, json.loads((tmp_path / "run.json").read_text()) | {"state": "complete"})
    (tmp_path / "report.html").write_text("of the older run")

    def killed(*where: object, **how: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            begin_run(tmp_path, source, follow=False, overwrite=True)

    with pytest.raises(PipelineError, match="its run has not finished"):
        check_readable(tmp_path)
    begin_run(tmp_path, source, follow=False, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_log_without_records_of_groups_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exit) as ended:
        cli._print_summary(RunSummary(records=5), tmp_path)

    assert ended.value.exit_code == 3
    assert "expected the log of a group coordinator" in capsys.readouterr().err


def test_an_export_in_a_form_that_does_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_run(tmp_path / "out", {"log": "/srv", "topic": "t"}, follow=False, overwrite=False)
    words = ("export", "--out", str(tmp_path / "out"), "--to", str(tmp_path / "to"))

    assert "'xml': expected csv or parquet" in said(capsys, monkeypatch, *words, "--format", "xml")
