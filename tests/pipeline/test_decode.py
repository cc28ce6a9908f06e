"""The vectorised decoder gives the same rows as coordinator_protocol record by record."""

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `pipeline`")
pytest.importorskip("numpy", reason="needs the extra `pipeline`")

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_pipeline.decode import record_columns
from coordinator_pipeline.decode.batches import walk_batches
from coordinator_pipeline.decode.decoder import Decoder, Selection
from coordinator_pipeline.decode.row_decoder import record_row, rows_to_arrow
from coordinator_pipeline.records_schema import RECORDS
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.errors import Malformed
from coordinator_protocol.subscription import Assignment, encode_assignment
from tests.support.coordinator_log import logs


def reference(raw: bytes, wanted: Selection) -> pa.RecordBatch:
    """Decode record by record with coordinator_protocol."""
    rows = []
    for position, header in walk_batches(raw).spans:
        try:
            rows += [record_row(record) for record in read_records(header, raw, position)]
        except Malformed as error:
            missing = max(header.base_offset, min(wanted.start, header.last_offset))
            rows.append({"log_offset": missing, "problem": str(error)})
    kept = [
        row | {"log_partition": 3, "incarnation": 1}
        for row in rows
        if wanted.start <= row["log_offset"]
        and (wanted.end is None or row["log_offset"] < wanted.end)
        and wanted.includes_kind(row.get("kind"))
    ]
    return rows_to_arrow(kept, wanted.schema)


def decoded(raw: bytes, wanted: Selection) -> pa.Table:
    """Decode with the vectorised decoder."""
    found = list(Decoder(wanted, 3, 1).decode(raw, walk_batches(raw).spans))
    for batch in found:
        batch.validate(full=True)
    return pa.Table.from_batches(found, wanted.schema)


def assert_equal(raw: bytes, wanted: Selection) -> None:
    ours, theirs = decoded(raw, wanted), reference(raw, wanted)
    assert ours.num_rows == theirs.num_rows
    for name in wanted.schema.names:
        assert ours.column(name).to_pylist() == theirs.column(name).to_pylist(), name


def test_the_cache_of_assignments_is_bounded_in_bytes_too() -> None:
    cache = record_columns._cached_assigned
    cache.cache_clear()
    for count in (1, 1_000):
        raw = encode_assignment(Assignment({"orders": range(count)}))
        assert record_columns._assigned(raw) == [{"topic": "orders", "partitions": [*range(count)]}]

    assert cache.cache_info().currsize == 1
    assert cache.cache_info().maxsize == record_columns._CACHE_ENTRIES


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(raw=logs(), data=st.data())
def test_every_record_of_any_log_is_decoded_as_protocol_does(
    raw: bytes, data: st.DataObject
) -> None:
    assert not walk_batches(raw).fault
    view = data.draw(st.sampled_from(["all", "commits", "groups"]))
    offsets = [header.base_offset for _, header in walk_batches(raw).spans]
    start = data.draw(st.sampled_from([0, 0, *offsets]))
    end = data.draw(st.sampled_from([None, None, offsets[-1] + 2]))
    assert_equal(raw, Selection(RECORDS, view, start, end))
