"""WriteTxnMarkers (key 27), versions 1-2, flexible."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class WritableTxnMarkerTopic:
    """An element of `WritableTxnMarker.topics`."""

    name: str = field(STRING)
    partition_indexes: list[int] = field([INT32])


@dataclass(slots=True)
class WritableTxnMarker:
    """An element of `WriteTxnMarkersRequest.markers`."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    transaction_result: bool = field(BOOL)
    topics: list[WritableTxnMarkerTopic] = field([WritableTxnMarkerTopic])
    coordinator_epoch: int = field(INT32)
    transaction_version: int = field(INT8, since=2)


@dataclass(slots=True)
class WriteTxnMarkersRequest:
    """The body of a request."""

    markers: list[WritableTxnMarker] = field([WritableTxnMarker])


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult:
    """An element of `WritableTxnMarkerTopicResult.partitions`."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@dataclass(slots=True)
class WritableTxnMarkerTopicResult:
    """An element of `WritableTxnMarkerResult.topics`."""

    name: str = field(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = field([WritableTxnMarkerPartitionResult])


@dataclass(slots=True)
class WritableTxnMarkerResult:
    """An element of `WriteTxnMarkersResponse.markers`."""

    producer_id: int = field(INT64)
    topics: list[WritableTxnMarkerTopicResult] = field([WritableTxnMarkerTopicResult])


@dataclass(slots=True)
class WriteTxnMarkersResponse:
    """The body of a response."""

    markers: list[WritableTxnMarkerResult] = field([WritableTxnMarkerResult])


API = Api(
    key=27,
    first=1,
    last=2,
    flexible=1,
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
)
